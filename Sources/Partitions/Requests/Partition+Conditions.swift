import Model

/// A condition that is being decided: what the device partitions have answered so far.
struct Resolution {
    var answers: [PartitionID: DeviceSet]
    var askedAt: MonotonicTime
    /// Some partition did not answer within `outboxRetry`.
    var isLate = false
}

// Conditions (rule: conditions-at-the-devices). The coordinator stores the send and asks each partition for
// which of its devices the condition holds. The partition decides by its device table, at one moment. It
// answers when the topics' partitions have heard of the changes on which the answer rests. With all answers
// the coordinator makes outbox entries, and answers the sender.

extension Partition {
    /// The sender is answered when all devices are decided: a change that begins after the answer must not
    /// count.
    func send(
        _ pending: PendingCondition, as id: RequestID, key: RequestKey?, fanoutsMax: Int, _ turn: inout Turn
    ) {
        let message = pending.message
        if let key, case .repeated = verdict(key),
            let open = state.conditions.first(where: { $0.value.message.id == message.id })
        {
            let answer = Answer(
                to: .request(id), reply: .accepted(message.id), isSend: true, isRepeat: true)
            conditionAnswers[open.key, default: []].append(answer)
            return
        }
        let ticket = pipeline.nextTicket
        let answer = acceptSend(
            .acceptCondition(
                key: key, project: pending.project, condition: pending.condition, message: message),
            as: id, key: key, message: message, of: pending.project, fanoutsMax: fanoutsMax, &turn)
        guard let answer else { return }
        pipeline.gated.tickets.append(ticket)
        pipeline.isUrgent = true
        #if DEBUG
            if options.planted.contains(.answerUndecided) { return answerWithOpenRecord(answer) }
        #endif
        conditionAnswers[ticket] = [answer]
    }

    /// Milliseconds within which a message with a time to live of zero must be decided.
    static let nowOrNeverDeadline: Int64 = 10_000

    func beginResolution(_ ticket: ConditionTicket, by proof: Proof, _ turn: inout Turn) {
        guard state.conditions[ticket] != nil else { return }
        resolutions[ticket] = Resolution(answers: [:], askedAt: turn.now.monotonic)
        ask(ticket, by: proof, &turn)
    }

    private func ask(_ ticket: ConditionTicket, by proof: Proof, _ turn: inout Turn) {
        guard let pending = state.conditions[ticket], let resolution = resolutions[ticket] else { return }
        let question = ConditionQuestion(
            asker: id, ticket: ticket, project: pending.project, condition: pending.condition)
        for number in 0..<state.partitionCount {
            let partition = PartitionID(UInt16(number))
            guard resolution.answers[partition] == nil else { continue }
            turn.effects.append(.ask(of: partition, Proven(question, restingOn: ticket.record, by: proof)))
        }
    }

    /// A device partition decides. A question that waits here already keeps the decision that it has.
    func onAsked(_ question: ConditionQuestion) {
        guard questions.insert(question).inserted else { return }
        let topics = question.condition.topics
        let sets = topics.map { state.devices(with: $0, in: question.project) }
        let universe = sets.reduce(DeviceSet()) { $0.union($1) }
        let devices = Partition.evaluate(question.condition.root, sets, within: universe)
        let homes = Set(topics.map { state.home(of: $0, in: question.project) })
        var answer = Answer(to: .question(question), reply: .matching(devices))
        answer.outboxes = homes.sorted().compactMap(newestUnderWay)
        self.answer(answer)
    }

    func onTold(_ told: ConditionAnswer, _ turn: inout Turn) {
        guard resolutions[told.ticket] != nil, Int(told.partition.rawValue) < state.partitionCount else {
            return
        }
        // The journal is behind, so the answer is dropped; `retryResolutions` asks for it again.
        guard !isOverloaded else { return endConditionWait(for: told.partition, &turn) }
        resolutions[told.ticket]?.answers[told.partition] = told.devices
        guard let answers = resolutions[told.ticket]?.answers, answers.count == state.partitionCount else {
            return
        }
        let targets = answers.filter { !$0.value.isEmpty }
            .map { PartitionTargets(partition: $0.key, devices: $0.value) }
        resolve(told.ticket, targets.sorted { $0.partition < $1.partition })
    }

    private func resolve(_ ticket: ConditionTicket, _ targets: [PartitionTargets]) {
        resolutions[ticket] = nil
        propose(.resolve(ticket: ticket, targets: targets))
        pipeline.isUrgent = true
        for answer in conditionAnswers.removeValue(forKey: ticket) ?? [] { answerWithOpenRecord(answer) }
    }

    /// Asks the partitions again that did not answer. A message past its time to live goes to nobody.
    func retryResolutions(_ turn: inout Turn) {
        guard !resolutions.isEmpty || !conditionWaits.isEmpty else { return }
        defer { lookForStalledConditions(&turn) }
        let proof = pipeline.confirmed()
        for (ticket, resolution) in resolutions.sorted(by: { ConditionTicket.isBefore($0.key, $1.key) })
        where turn.now.monotonic.since(resolution.askedAt) >= options.outboxRetry {
            guard let message = state.conditions[ticket]?.message else {
                resolutions[ticket] = nil
                continue
            }
            let deadline =
                message.times.longest == 0
                ? message.sent.milliseconds + Partition.nowOrNeverDeadline
                : message.end(message.times.longest).milliseconds
            if turn.now.wall.milliseconds >= deadline {
                resolve(ticket, [])
            } else {
                resolutions[ticket]?.askedAt = turn.now.monotonic
                resolutions[ticket]?.isLate = true
                ask(ticket, by: proof, &turn)
            }
        }
    }

    /// `universe`: the devices of the condition's topics. A condition does not hold for a device in none of
    /// its topics.
    private static func evaluate(
        _ node: Condition.Node, _ sets: [DeviceSet], within universe: DeviceSet
    ) -> DeviceSet {
        switch node {
        case .topic(let index): sets[index]
        case .not(let inner): universe.subtracting(evaluate(inner, sets, within: universe))
        case .and(let left, let right):
            evaluate(left, sets, within: universe).intersection(evaluate(right, sets, within: universe))
        case .or(let left, let right):
            evaluate(left, sets, within: universe).union(evaluate(right, sets, within: universe))
        }
    }
}

extension ConditionTicket {
    static func isBefore(_ left: ConditionTicket, _ right: ConditionTicket) -> Bool {
        (left.record, left.ordinal) < (right.record, right.ordinal)
    }
}
