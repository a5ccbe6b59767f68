import Glibc
import HTTPMessages
import Model
import Quotas
import Synchronization

/// What one client's address may do without a credential of its own: register with the app's key, which
/// everybody has who has the app; change subscriptions with what it says is a device's credential, which is
/// looked at only where the device lives; and show assertions that are refused. One for all loops of a
/// process.
public final class ClientLimits: Sendable {
    /// `nil`: the default, which does not count this machine's own addresses; 0: no bound.
    public struct Settings: Sendable {
        public var registrationsPerMinute: Int?
        public var registrationsPerDay: Int?
        public var changesPerMinute: Int?
        public var badAssertionsPerMinute: Int?
        /// Who speaks for others and says for whom, in `X-Forwarded-For`.
        public var proxies: [AddressRange] = []
        public init() {}

        /// No bound is larger.
        public static let countMax = Int(AddressLimiter.Limits.countMax)
    }

    /// One limiter, and whether this machine's own addresses are held to it.
    private struct Bound: ~Copyable {
        let limiter: Mutex<AddressLimiter>
        let countsLoopback: Bool
        let isOff: Bool
        let refused = Atomic<Int>(0)

        /// What was said of a minute and of a day, and what holds where nothing was.
        init(_ minute: (said: Int?, standard: Int), _ day: (said: Int?, standard: Int), salt: UInt64) {
            func most(_ bound: (said: Int?, standard: Int)) -> UInt32 {
                bound.said == 0
                    ? AddressLimiter.Limits.countMax : UInt32(clamping: bound.said ?? bound.standard)
            }
            limiter = Mutex(AddressLimiter(.init(perMinute: most(minute), perDay: most(day)), salt: salt))
            countsLoopback = minute.said != nil || day.said != nil
            isOff = minute.said == 0 && day.said == 0
        }

        /// Under which key the address is counted; `nil` for one that is not.
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

    static let registrationsPerMinute = 600
    static let registrationsPerDay = 10_000
    static let badAssertionsPerMinute = 120
    static let changesPerMinute = 3000

    private let registrations: Bound
    private let changes: Bound
    private let assertions: Bound
    private let proxies: [AddressRange]

    /// `salt` is random.
    public init(_ settings: Settings = Settings(), salt: UInt64 = 0) {
        let dayMax = Settings.countMax
        registrations = Bound(
            (settings.registrationsPerMinute, ClientLimits.registrationsPerMinute),
            (settings.registrationsPerDay, ClientLimits.registrationsPerDay), salt: salt)
        // Without a bound a minute there is none a day.
        changes = Bound(
            (settings.changesPerMinute, ClientLimits.changesPerMinute),
            (settings.changesPerMinute == 0 ? 0 : nil, dayMax), salt: salt)
        assertions = Bound(
            (settings.badAssertionsPerMinute, ClientLimits.badAssertionsPerMinute),
            (settings.badAssertionsPerMinute == 0 ? 0 : nil, dayMax), salt: salt)
        proxies = settings.proxies
    }

    public var registrationsRefused: Int { registrations.refused.load(ordering: .relaxed) }
    public var changesRefused: Int { changes.refused.load(ordering: .relaxed) }
    public var assertionsRefused: Int { assertions.refused.load(ordering: .relaxed) }

    /// Who asks: the connection's other side, or for whom it says to speak, where it is believed. A proxy
    /// that does not say is nobody in particular.
    func client(of request: HTTPRequest) -> ClientAddress? {
        guard isOfProxy(request) else { return request.client }
        return ClientLimits.lastAddress(request).flatMap { ClientAddress(text: $0) }
    }

    /// For whom a proxy that is believed says to speak: the address alone, of what it wrote. `nil` where that
    /// is none.
    func forwarded(_ request: HTTPRequest) -> String? {
        guard isOfProxy(request), let address = ClientLimits.lastAddress(request) else { return nil }
        return ClientAddress(text: address) == nil ? nil : address
    }

    private func isOfProxy(_ request: HTTPRequest) -> Bool {
        guard let peer = request.client else { return false }
        return proxies.contains { $0.contains(peer) }
    }

    /// The last address of a list: the proxy has written it itself, and clients those before it.
    private static func lastAddress(_ request: HTTPRequest) -> String? {
        guard let list = request.fields.last("x-forwarded-for") else { return nil }
        let comma = list.lastIndex(of: UInt8(ascii: ",")).map { $0 + 1 }
        return ClientAddress.text(
            ofForwarded: String(decoding: list[(comma ?? list.startIndex)...], as: UTF8.self))
    }

    /// Counts a registration that only the app's key vouches for, or says which limit it would pass.
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

    /// Whether too many assertions of this address were refused lately.
    func mayExchange(_ client: ClientAddress?, now: MonotonicTime) -> QuotaRefusal? {
        assertions.ask(client) { $0.look($1, now: now) }
    }

    /// An assertion was refused.
    func noteRefused(_ client: ClientAddress?, now: MonotonicTime) {
        guard let key = assertions.key(of: client) else { return }
        assertions.limiter.withLock { _ = $0.take(key, now: now) }
    }
}

extension ClientAddress {
    /// An address as it is written, without brackets.
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

    /// An address as a proxy writes it: with blanks around it, perhaps with a port.
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
