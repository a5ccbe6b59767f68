import Model
import PushMessages
import Synchronization

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
