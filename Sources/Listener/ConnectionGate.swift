import HTTPMessages
import Model

/// Which connections a server's listeners take, and when they take none for a while. Decides; what is open
/// and what the clock says it is told.
public struct ConnectionGate: Sendable {
    public struct Bounds: Hashable, Sendable {
        /// Connections that may be open. While all places are taken, listeners pause: who comes waits in the
        /// kernel's queue, and nothing is accepted to be closed.
        public var connectionsMax: Int
        /// Connections that one address may have; `nil` for no such bound. What is beyond it is closed.
        public var perAddressMax: Int?
        /// Whether this machine's own addresses are held to it: a balancer or a proxy may speak from them.
        public var countsLoopback: Bool
        /// Addresses that are not held to it: of proxies, which speak for many.
        public var exempt: [AddressRange]

        public init(
            connectionsMax: Int = .max, perAddressMax: Int? = nil, countsLoopback: Bool = false,
            exempt: [AddressRange] = []
        ) {
            self.exempt = exempt
            self.connectionsMax = max(1, connectionsMax)
            self.perAddressMax = perAddressMax
            self.countsLoopback = countsLoopback
        }

        /// Under which key an address is counted; `nil` for one that is not.
        public func key(of client: ClientAddress?) -> UInt64? {
            guard perAddressMax != nil, let client, countsLoopback || !client.isLoopback,
                !exempt.contains(where: { $0.contains(client) })
            else { return nil }
            return client.key
        }
    }

    public enum Verdict: Hashable, Sendable {
        case admitted
        /// All places were taken while this one was being accepted.
        case full
        case tooManyOfAddress
    }

    /// After a connection could not be accepted for want of descriptors, unless one closes before.
    public static let pause: UInt64 = .seconds(1)

    /// Connections that a listener accepts in one turn of its loop, where there are places enough.
    public static let acceptedAtOnce = 16

    public let bounds: Bounds
    public private(set) var open = 0
    /// By the address's key; who has none open is not in it.
    private var byAddress: [UInt64: Int] = [:]
    /// Until when nothing is accepted since it failed.
    private(set) var failedUntil: MonotonicTime?

    public init(_ bounds: Bounds) { self.bounds = bounds }

    /// Whether a listener may accept now.
    public var isOpen: Bool { open < bounds.connectionsMax && failedUntil == nil }

    /// How many connections each of so many listeners may accept in a turn, so that none is accepted beyond
    /// the last place, also where each of them hears of it one turn later.
    public func accepted(by listeners: Int) -> Int {
        let left = bounds.connectionsMax - open
        return left / (2 * ConnectionGate.acceptedAtOnce) >= listeners ? ConnectionGate.acceptedAtOnce : 1
    }

    /// A connection was accepted. One that is not admitted is to be closed, and is not told as closed.
    public mutating func admit(_ client: ClientAddress?) -> Verdict {
        guard open < bounds.connectionsMax else { return .full }
        if let key = bounds.key(of: client), let most = bounds.perAddressMax {
            let count = byAddress[key] ?? 0
            guard count < most else { return .tooManyOfAddress }
            byAddress[key] = count + 1
        }
        open += 1
        return .admitted
    }

    /// A connection that was admitted is closed, and its descriptor is free.
    public mutating func closed(_ client: ClientAddress?) {
        open -= 1
        failedUntil = nil
        guard let key = bounds.key(of: client), let count = byAddress[key] else { return }
        byAddress[key] = count > 1 ? count - 1 : nil
    }

    /// A connection could not be accepted for want of descriptors. Says when to look again.
    public mutating func failed(now: MonotonicTime) -> MonotonicTime {
        let until = now.advanced(by: ConnectionGate.pause)
        failedUntil = until
        return until
    }

    /// The time may have come that `failed` said.
    public mutating func look(now: MonotonicTime) {
        if let until = failedUntil, until <= now { failedUntil = nil }
    }

    /// Addresses that are counted, for tests.
    var addressCount: Int { byAddress.count }
}
