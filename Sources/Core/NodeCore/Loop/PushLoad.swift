import Model
import Partitions

/// What a loop's limiter has for one push service at a moment.
public struct PushLoad: Hashable, Sendable {
    /// Messages that wait at the limiter for their origin.
    public var waiting = 0
    /// Messages on their way to the service, without an answer yet.
    public var underWay = 0
    /// Open circuits, one per project and origin.
    public var paused = 0
    public init() {}
}

extension PushLimiter {
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

extension PushLimiter {
    /// The services that refuse a project's key, and until when each circuit is open.
    var refusedKeys: [PushOrigin: MonotonicTime] { origins.compactMapValues(\.keyRefusedUntil) }
}

extension LoopCore {
    /// What the loop's limiter has, by service.
    public func pushLoads() -> [Transport.Kind: PushLoad] { limiter.loads(now: now.monotonic) }
}
