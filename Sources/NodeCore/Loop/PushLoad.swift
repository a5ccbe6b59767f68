import Model
import Partitions

/// What a loop's sender has for one push service at a moment.
public struct PushLoad: Hashable, Sendable {
    /// Messages that wait at the sender for their origin.
    public var waiting = 0
    /// Messages on their way to the service, without an answer yet.
    public var underWay = 0
    /// Origins that are left alone now: services as single projects use them.
    public var paused = 0
    public init() {}
}

extension PushSender {
    /// Counts through all origins, so that the loop asks about once a second.
    func loads(now: MonotonicTime) -> [Transport.Kind: PushLoad] {
        var loads: [Transport.Kind: PushLoad] = [:]
        for (origin, state) in origins {
            loads[origin.kind, default: PushLoad()].waiting += state.waiting.count
            loads[origin.kind, default: PushLoad()].underWay += state.underWay
            if let until = state.pausedUntil, now < until { loads[origin.kind]?.paused += 1 }
        }
        return loads
    }
}

extension PushSender {
    /// The services that refuse a project's key, and until when each is left alone.
    var refusedKeys: [PushOrigin: MonotonicTime] { origins.compactMapValues(\.keyRefusedUntil) }
}

extension LoopCore {
    /// What the loop's sender has, by service.
    public func pushLoads() -> [Transport.Kind: PushLoad] { sender.loads(now: now.monotonic) }
}
