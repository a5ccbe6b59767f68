import Credentials
import FCMAPI
import Model
import PushMessages
import Synchronization

/// Everything that the node needs to push for one project's key.
struct WebPushSender: Sendable {
    /// The key for which the subscription was made, and the subject.
    var vapid: VAPID
    /// The push services that may be called.
    var policy: EndpointPolicy
    /// Certificate authorities of these services, PEM; `nil` for the system's.
    var authority: [UInt8]?
}

/// The tokens by which push services know this server (RFC 8292), for all loops: a service gets the same
/// token for hours, since some count new tokens.
final class VAPIDTokens: Sendable {
    private struct Name: Hashable {
        var publicKey: [UInt8]
        var subject: String
        var origin: String
    }
    private typealias Token = (text: String, expires: Int64)
    private static let tokensMax = 4096
    private let tokens = Mutex<[Name: Token]>([:])

    func token(of vapid: VAPID, origin: String, now: WallTime) throws(PushCryptoError) -> String {
        let name = Name(publicKey: vapid.key.publicBytes, subject: vapid.subject, origin: origin)
        let expires = VAPID.expiry(now)
        if let known = tokens.withLock({ $0[name] }), known.expires == expires { return known.text }
        let text = try vapid.authorization(origin: origin, now: now)
        return tokens.withLock { tokens in
            // Another loop was faster.
            if let known = tokens[name], known.expires == expires { return known.text }
            if tokens.count >= VAPIDTokens.tokensMax { VAPIDTokens.forget(&tokens) }
            tokens[name] = (text, expires)
            return text
        }
    }

    /// Clients choose some of the origins. Only the services that every project may use keep their tokens
    /// then.
    private static func forget(_ tokens: inout [Name: Token]) {
        let isVendor = { (origin: String) in
            EndpointPolicy.vendorDomains.contains { origin.hasSuffix($0) }
        }
        tokens = tokens.filter { isVendor($0.key.origin) }
        if tokens.count >= tokensMax { tokens.removeAll() }
    }
}

/// The senders of all projects, for any thread.
///
/// A reader takes a lock for one look-up. The administrator writes with each new catalog, and computes only
/// what has changed, because a key costs a multiplication on the curve.
final class WebPushSenders: Sendable {
    private struct Entry {
        var settings: WebPushSettings
        /// By the id of the key.
        var senders: [UInt64: WebPushSender]
    }
    private let entries: Mutex<[ProjectNumber: Entry]>
    let tokens = VAPIDTokens()

    init(_ settings: [ProjectNumber: WebPushSettings]) {
        entries = Mutex(WebPushSenders.next(settings, after: [:]))
    }

    /// The sender for a subscription's key, `WebAddress.keyID`. `nil` where the project has no such key, or
    /// Web Push is off.
    func sender(_ project: ProjectNumber, key: UInt64) -> WebPushSender? {
        entries.withLock { $0[project]?.senders[key] }
    }

    /// Whether the project has a key with which the server may push.
    func hasSender(_ project: ProjectNumber) -> Bool {
        entries.withLock { $0[project].map { !$0.senders.isEmpty } ?? false }
    }

    /// Whether the project has settings for Web Push, and Web Push is on.
    func isOn(_ project: ProjectNumber) -> Bool { entries.withLock { $0[project]?.settings.isOn ?? false } }

    /// Returns the projects whose settings have changed.
    @discardableResult
    func update(_ settings: [ProjectNumber: WebPushSettings]) -> Set<ProjectNumber> {
        let former = entries.withLock { $0 }
        let changed = Set(settings.keys).union(former.keys).filter {
            settings[$0] != former[$0]?.settings
        }
        guard !changed.isEmpty else { return [] }
        let next = WebPushSenders.next(settings, after: former)
        entries.withLock { $0 = next }
        return changed
    }

    private static func next(
        _ settings: [ProjectNumber: WebPushSettings], after former: [ProjectNumber: Entry]
    ) -> [ProjectNumber: Entry] {
        var entries: [ProjectNumber: Entry] = [:]
        for (project, settings) in settings {
            if let known = former[project], known.settings == settings {
                entries[project] = known
                continue
            }
            let policy = EndpointPolicy(listed: settings.hosts)
            var senders: [UInt64: WebPushSender] = [:]
            for key in settings.isOn ? settings.keys : [] {
                // A damaged key cannot sign, and the project's other keys can.
                guard let pair = try? P256Key(privateBytes: key.privateBytes),
                    pair.publicBytes == key.publicBytes
                else { continue }
                senders[WebPushProject.keyID(key.publicBytes)] = WebPushSender(
                    vapid: VAPID(key: pair, subject: settings.subject), policy: policy,
                    authority: settings.authority)
            }
            entries[project] = Entry(settings: settings, senders: senders)
        }
        return entries
    }
}
