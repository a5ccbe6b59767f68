import Journal
import Model

// Invariants of the messages for push services, between two turns.

extension Partition {
    var brokenInPushes: String? {
        if let broken = pushes.brokenInvariant ?? pushes.countedEnds.brokenInvariant
            ?? pushes.momentary.brokenInvariant(most: momentaryLoadMax)
        {
            return broken
        }
        for attempts in [pushes.accepted, pushes.failed] {
            if let broken = attempts.brokenInvariant(devicesMax: options.pushAttemptsMax) { return broken }
        }
        if let broken = pushes.tallies.brokenInvariant(messagesMax: options.pushAttemptsMax) { return broken }
        if !pushes.doubts.isInOrder || pushes.doubts.count > Partition.doubtsMax {
            return "devices of which a service doubts are out of order, or too many"
        }
        if max(pushes.underWay, pushes.momentary.attempts.count) > options.pushesAtOnce {
            return "more messages are at the sender than may be"
        }
        if pushes.sendings.keys.contains(where: { $0 > lastToken }) {
            return "a push has a number that was never given"
        }
        return pushes.slots.brokenInvariant(of: options.pushesAtOnce) ?? brokenInWaitingForServices
    }

    /// Nobody is forgotten: each device with an address for which a durable message waits is in the table.
    /// A device that waits for a service waits for the one to which its next message goes.
    private var brokenInWaitingForServices: String? {
        let parked = pushes.closed.mapValues { Set($0.devices) }
        for index in pushes.indices where pipeline.isIdle && pushes.state(index) == .parked {
            guard let stored = pushAddress(index) else { continue }
            if !(parked[origin(of: stored, index)]?.contains(index) ?? false) {
                return "device \(index) waits for a service that its next message does not go to"
            }
        }
        for index in state.transports.indices where pushes.state(index) == nil {
            guard let stored = pushAddress(index), stored.generation <= pipeline.durable.rawValue else {
                continue
            }
            let durable = pipeline.durable
            let now = clock.latest
            let pushed = state.pushedUpTo(index, by: stored.transport)
            let isWaiting = !state.log.waiting(for: index, after: pushed, limit: 1) {
                $0.record <= durable && $0.ends[stored.transport.kind] > now
            }.isEmpty
            if isWaiting { return "a message waits for device \(index), and nobody pushes it" }
        }
        return nil
    }
}
