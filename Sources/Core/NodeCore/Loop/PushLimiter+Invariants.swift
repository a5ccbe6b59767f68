import Partitions

extension PushLimiter {
    /// The first invariant that does not hold; `nil` if all do.
    var brokenInvariant: String? {
        var counts: [PushOrigin: Int] = [:]
        for known in underWay.values { counts[known.origin, default: 0] += 1 }
        for (origin, state) in origins {
            if state.underWay != counts[origin] ?? 0 { return "an origin's messages are counted wrong" }
            if state.underWay > bounds.atOnce { return "an origin has more messages than may be" }
            if state.waiting.count > bounds.waitingMax { return "more messages wait than may" }
            if !state.waiting.isEmpty, state.underWay == 0 {
                return "nothing brings waiting messages further"
            }
            if !state.waiting.isEmpty, state.pausedUntil != nil {
                return "messages wait for an origin that is left alone"
            }
        }
        if counts.keys.contains(where: { origins[$0] == nil }) {
            return "an origin with messages is forgotten"
        }
        if underWay.keys.contains(where: { $0 > lastNumber }) { return "a number was never given" }
        let numbers = Set(sent)
        if underWay.keys.contains(where: { !numbers.contains($0) }) { return "a message has no deadline" }
        return nil
    }
}
