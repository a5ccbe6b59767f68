import HTTPMessages
import Model
import Quotas
import Synchronization

import var Glibc.AF_INET
import var Glibc.AF_INET6
import func Glibc.inet_pton

/// Bounds for clients without a credential that the gateway can check, by address. Such a client registers
/// with the app's key, which everybody has who has the app. It changes subscriptions, listens, acknowledges
/// and reads with a device's credential, which only the device partition can check. And it shows assertions
/// that are refused. All loops of a process share one object.
public final class ClientLimits: Sendable {
    /// `nil`: the default, which does not bound this machine's own addresses; 0: no bound.
    public struct Settings: Sendable {
        public var registrationsPerMinute: Int?
        public var registrationsPerDay: Int?
        public var changesPerMinute: Int?
        public var callsPerMinute: Int?
        public var badAssertionsPerMinute: Int?
        /// Trusted proxies, which name their client in `X-Forwarded-For`.
        public var proxies: [AddressRange] = []
        public init() {}

        /// The largest bound.
        public static let countMax = Int(AddressLimiter.Limits.countMax)
    }

    /// One limiter, and whether it bounds this machine's own addresses.
    private struct Bound: ~Copyable {
        let limiter: Mutex<AddressLimiter>
        let countsLoopback: Bool
        let isOff: Bool
        let refused = Atomic<Int>(0)

        /// The settings for a minute and for a day, each with the default for a setting that is `nil`. No
        /// `day`: no bound for a day.
        init(_ minute: (said: Int?, standard: Int), _ day: (said: Int?, standard: Int)?, salt: UInt64) {
            func most(_ bound: (said: Int?, standard: Int)) -> UInt32 {
                bound.said == 0
                    ? AddressLimiter.Limits.countMax : UInt32(clamping: bound.said ?? bound.standard)
            }
            limiter = Mutex(AddressLimiter(.init(perMinute: most(minute), perDay: day.map(most)), salt: salt))
            countsLoopback = minute.said != nil || day?.said != nil
            isOff = minute.said == 0 && (day.map { $0.said == 0 } ?? true)
        }

        /// The key under which the address is counted; `nil` for an address without a bound.
        func key(of client: ClientAddress?) -> UInt64? {
            guard let client, !isOff, countsLoopback || !client.isLoopback else { return nil }
            return client.key
        }

        func ask(
            _ client: ClientAddress?, _ body: (inout AddressLimiter, UInt64) -> QuotaRefusal?
        ) -> QuotaRefusal? {
            guard let key = key(of: client) else { return nil }
            let refusal = limiter.withLock { body(&$0, key) }
            if refusal != nil { refused.add(1, ordering: .relaxed) }
            return refusal
        }
    }

    package static let registrationsPerMinute = 600
    package static let registrationsPerDay = 10_000
    package static let badAssertionsPerMinute = 120
    package static let changesPerMinute = 3000
    /// Devices behind one address come back together when the server restarts.
    package static let callsPerMinute = 12_000

    private let registrations: Bound
    private let changes: Bound
    private let calls: Bound
    private let assertions: Bound
    private let proxies: [AddressRange]

    /// `salt` must be random.
    public init(_ settings: Settings = Settings(), salt: UInt64 = 0) {
        let dayMax = Settings.countMax
        registrations = Bound(
            (settings.registrationsPerMinute, ClientLimits.registrationsPerMinute),
            (settings.registrationsPerDay, ClientLimits.registrationsPerDay), salt: salt)
        // No bound for a minute means no bound for a day.
        changes = Bound(
            (settings.changesPerMinute, ClientLimits.changesPerMinute),
            (settings.changesPerMinute == 0 ? 0 : nil, dayMax), salt: salt)
        // No bound for a day: devices that listen acknowledge each message.
        calls = Bound((settings.callsPerMinute, ClientLimits.callsPerMinute), nil, salt: salt)
        assertions = Bound(
            (settings.badAssertionsPerMinute, ClientLimits.badAssertionsPerMinute),
            (settings.badAssertionsPerMinute == 0 ? 0 : nil, dayMax), salt: salt)
        proxies = settings.proxies
    }

    public var registrationsRefused: Int { registrations.refused.load(ordering: .relaxed) }
    public var changesRefused: Int { changes.refused.load(ordering: .relaxed) }
    public var callsRefused: Int { calls.refused.load(ordering: .relaxed) }
    public var assertionsRefused: Int { assertions.refused.load(ordering: .relaxed) }

    /// The client that asks: the connection's peer, or behind a trusted proxy the address that the proxy
    /// names. `nil` if the proxy names none: then no bound for an address holds.
    func client(of request: HTTPRequest) -> ClientAddress? {
        guard isOfProxy(request) else { return request.client }
        return ClientLimits.lastAddress(request).flatMap { ClientAddress(text: $0) }
    }

    /// The address that a trusted proxy names, without the rest of the text; `nil` if there is none.
    func forwarded(_ request: HTTPRequest) -> String? {
        guard isOfProxy(request), let address = ClientLimits.lastAddress(request) else { return nil }
        return ClientAddress(text: address) == nil ? nil : address
    }

    /// Whether the connection is a trusted proxy's.
    func isOfProxy(_ request: HTTPRequest) -> Bool {
        guard let peer = request.client, !peer.isNamed else { return false }
        return proxies.contains { $0.contains(peer) }
    }

    /// The last address of the list: the proxy has written it. The client may have written the addresses
    /// before it.
    private static func lastAddress(_ request: HTTPRequest) -> String? {
        guard let list = request.fields.last("x-forwarded-for") else { return nil }
        let comma = list.lastIndex(of: UInt8(ascii: ",")).map { $0 + 1 }
        return ClientAddress.text(
            ofForwarded: String(decoding: list[(comma ?? list.startIndex)...], as: UTF8.self))
    }

    /// Counts a registration with only the app's key, or says which limit it would pass.
    func register(_ client: ClientAddress?, now: MonotonicTime) -> QuotaRefusal? {
        registrations.ask(client) { $0.take($1, now: now) }
    }

    /// Counts a subscription change of a device, or says which limit it would pass.
    func change(_ client: ClientAddress?, now: MonotonicTime) -> QuotaRefusal? {
        changes.ask(client) { limiter, key in
            guard var refusal = limiter.take(key, now: now) else { return nil }
            refusal.kind = refusal.kind == .addressDay ? .addressChangesDay : .addressChangesMinute
            return refusal
        }
    }

    /// Counts another request of a device, or a sender's message, or says which limit it would pass.
    func call(_ client: ClientAddress?, now: MonotonicTime) -> QuotaRefusal? {
        var refusal = calls.ask(client) { $0.take($1, now: now) }
        refusal?.kind = .addressCallsMinute
        return refusal
    }

    /// Says which limit this address has passed with refused assertions; `nil` if it may try another.
    func mayExchange(_ client: ClientAddress?, now: MonotonicTime) -> QuotaRefusal? {
        assertions.ask(client) { $0.look($1, now: now) }
    }

    /// Counts an assertion that was refused.
    func noteRefused(_ client: ClientAddress?, now: MonotonicTime) {
        guard let key = assertions.key(of: client) else { return }
        assertions.limiter.withLock { _ = $0.take(key, now: now) }
    }
}

extension ClientAddress {
    /// Reads an address in its usual text form, without brackets.
    public init?(text: String) {
        var bytes = [UInt8](repeating: 0, count: 16)
        if inet_pton(AF_INET, text, &bytes) == 1 {
            self.init(bytes: bytes[..<4])
        } else if inet_pton(AF_INET6, text, &bytes) == 1 {
            self.init(bytes: bytes)
        } else {
            return nil
        }
    }

    /// The address in the text of a proxy, which may have blanks around it, brackets, and a port.
    static func text(ofForwarded forwarded: String) -> String {
        var text = forwarded[...]
        while text.first == " " || text.first == "\t" { text.removeFirst() }
        while text.last == " " || text.last == "\t" { text.removeLast() }
        if text.first == "[", let end = text.firstIndex(of: "]") {
            text = text[text.index(after: text.startIndex)..<end]
        } else if let colon = text.firstIndex(of: ":"), text.lastIndex(of: ":") == colon {
            text = text[..<colon]
        }
        return String(text)
    }
}

extension AddressRange {
    /// `ADDRESS` or `ADDRESS/BITS`.
    public init?(text: String) {
        let parts = text.split(separator: "/", omittingEmptySubsequences: false)
        guard let first = parts.first, let address = ClientAddress(text: String(first)) else { return nil }
        let most = address.isIPv4 ? 32 : 128
        switch parts.count {
        case 1: self.init(address, bits: most)
        case 2:
            guard let bits = Int(parts[1]), (0...most).contains(bits) else { return nil }
            self.init(address, bits: bits)
        default: return nil
        }
    }
}
