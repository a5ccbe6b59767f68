// The end of a machine.

extension Partition {
    /// The machine has lost its journal. Each request that waits is answered: unknown for sends, "try again"
    /// otherwise. `mayHaveAppended`: whether the records in flight may have gone in.
    public func abandon(mayHaveAppended: Bool, reason: String, into replies: inout [(RequestID, Reply)]) {
        var answers = pipeline.gated.answers + confirmations.map(\.answer)
        for record in pipeline.inFlight { answers += record.gated.answers }
        outboxWaiters.forEach { _, waiters in answers += waiters.map(\.answer) }
        for ticket in conditionAnswers.keys.sorted(by: ConditionTicket.isBefore) {
            answers += conditionAnswers[ticket] ?? []
        }
        for answer in answers {
            guard case .request(let id) = answer.to else { continue }
            var unknown = answer.isSend && (mayHaveAppended || answer.isRepeat)
            #if DEBUG
                if options.planted.contains(.unknownAsRefused) { unknown = false }
            #endif
            replies.append((id, .refused(unknown ? .unknown : .unavailable(reason))))
        }
    }
}
