import HTTPMessages
import Model
import Quotas

/// Decides which connections a server's listeners accept, and when the listeners pause. The gate does no I/O
/// and reads no clock: its caller reports each connection and gives the time.
public struct ConnectionGate: Sendable {
    public struct Bounds: Hashable, Sendable {
        /// Connections that may be open. While all places are taken the listeners pause. New clients then
        /// wait in the kernel's queue, and no connection is accepted only to be closed.
        public var connectionsMax: Int
        /// Connections that an address may have; `nil` for no such bound. The server closes any further one.
        public var perAddressMax: Int?
        /// New connections a second that an address may make, ten seconds' worth of them at once; `nil` for
        /// no such bound. The server closes any further one.
        public var perAddressSecond: Int?
        /// Whether the bound for an address also holds for this machine's own addresses: a balancer or a
        /// proxy may connect from them.
        public var countsLoopback: Bool
        /// Addresses without a bound: those of proxies, which connect for many clients.
        public var exempt: [AddressRange]

        public init(
            connectionsMax: Int = .max, perAddressMax: Int? = nil, perAddressSecond: Int? = nil,
            countsLoopback: Bool = false, exempt: [AddressRange] = []
        ) {
            self.exempt = exempt
            self.perAddressSecond = perAddressSecond
            self.connectionsMax = max(1, connectionsMax)
            self.perAddressMax = perAddressMax
            self.countsLoopback = countsLoopback
        }

        /// The key under which the gate counts an address; `nil` for an address without a bound.
        public func key(of client: ClientAddress?) -> UInt64? {
            perAddressMax == nil ? nil : boundKey(of: client)
        }

        private func boundKey(of client: ClientAddress?) -> UInt64? {
            guard let client, countsLoopback || !client.isLoopback || client.isNamed, !isProxy(client)
            else { return nil }
            return client.key
        }

        /// Whether a proxy has connected, which may name its clients.
        public func isProxy(_ peer: ClientAddress?) -> Bool {
            guard let peer, !peer.isNamed else { return false }
            return exempt.contains { $0.contains(peer) }
        }

        /// The same for the connections that an address makes.
        func keyOfNew(_ client: ClientAddress?) -> UInt64? {
            perAddressSecond == nil ? nil : boundKey(of: client)
        }
    }

    public enum Verdict: Hashable, Sendable {
        case admitted
        /// All places were taken while this connection was being accepted.
        case full
        case tooManyOfAddress
        /// The address makes connections too fast.
        case tooFast
    }

    /// How long listeners pause after an accept failed for lack of descriptors. The pause ends earlier if a
    /// connection closes.
    public static let pause: TimeSpan = .seconds(1)

    /// Connections that a listener accepts in one turn of its loop while there are places enough.
    public static let acceptedAtOnce = 16

    public let bounds: Bounds
    public private(set) var open = 0
    /// Open connections by the address's key. An address without one has no entry.
    private(set) var byAddress: [UInt64: Int] = [:]
    private var rates: ConnectionLimiter?
    /// Until when listeners pause after an accept failed; `nil` if they need not.
    private(set) var failedUntil: MonotonicTime?

    /// `salt`: see `ConnectionLimiter`.
    public init(_ bounds: Bounds, salt: UInt64 = 0) {
        self.bounds = bounds
        rates = bounds.perAddressSecond.map { ConnectionLimiter(perSecond: $0, salt: salt) }
    }

    /// Whether listeners may accept now.
    public var isOpen: Bool { open < bounds.connectionsMax && failedUntil == nil }

    /// How many connections each of `listeners` listeners may accept in a turn of its loop: 16 while there
    /// are places for two such turns of all of them, because a listener may learn one turn late that the last
    /// place is taken; else 1.
    public func accepted(by listeners: Int) -> Int {
        let left = bounds.connectionsMax - open
        return left / (2 * ConnectionGate.acceptedAtOnce) >= listeners ? ConnectionGate.acceptedAtOnce : 1
    }

    /// The server has accepted a connection. If the verdict is not `admitted`, the caller must close the
    /// connection, and must not report it to `closed`.
    public mutating func admit(_ client: ClientAddress?, now: MonotonicTime) -> Verdict {
        guard open < bounds.connectionsMax else { return .full }
        let verdict = count(client, now: now)
        if verdict == .admitted { open += 1 }
        return verdict
    }

    /// Counts an open connection for this address, as `admit` does. If the verdict is `admitted`, the caller
    /// must report the end of the connection to `uncount`.
    public mutating func count(_ client: ClientAddress?, now: MonotonicTime) -> Verdict {
        if let key = bounds.keyOfNew(client), rates?.take(key, now: now) == false { return .tooFast }
        if let key = bounds.key(of: client), let most = bounds.perAddressMax {
            let count = byAddress[key] ?? 0
            guard count < most else { return .tooManyOfAddress }
            byAddress[key] = count + 1
        }
        return .admitted
    }

    /// An admitted connection is closed, and its descriptor is free.
    public mutating func closed(_ client: ClientAddress?) {
        open -= 1
        failedUntil = nil
        uncount(client)
    }

    public mutating func uncount(_ client: ClientAddress?) {
        guard let key = bounds.key(of: client), let count = byAddress[key] else { return }
        byAddress[key] = count > 1 ? count - 1 : nil
    }

    /// A connection could not be accepted for lack of descriptors. Returns when to call `look`.
    public mutating func failed(now: MonotonicTime) -> MonotonicTime {
        let until = now.advanced(by: ConnectionGate.pause)
        failedUntil = until
        return until
    }

    /// Ends the pause after a failed accept, if its time has come.
    public mutating func look(now: MonotonicTime) {
        if let until = failedUntil, until <= now { failedUntil = nil }
    }
}
