import Credentials
import Model
import PushMessages

/// The proof of a sender that a subscription may demand: `Authorization: vapid t=TOKEN, k=KEY` (RFC 8292).
struct SenderToken {
    /// Bytes of the whole field.
    static let fieldBytesMax = 4096
    /// A token may end a day from now, and clocks may differ by a minute.
    static let lifetime: Int64 = 86_400
    static let skew: Int64 = 60

    /// The SHA-256 of the public key.
    let keyHash: [UInt8]

    /// Why a token does not count, for the answer.
    struct Fault: Error {
        var reason: String
    }

    /// Reads and verifies the field. `origin`: what the token's audience must be.
    init(
        _ field: ArraySlice<UInt8>, origin: String, parser: JSONParser, now: WallTime
    ) throws(Fault) {
        guard field.count <= SenderToken.fieldBytesMax else { throw Fault(reason: "the field is too long") }
        let (token, key) = try SenderToken.parameters(field)
        let parts = token.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
        guard parts.count == 3, let header = Base64URL.decode(parts[0]),
            let claims = Base64URL.decode(parts[1]), let signature = Base64URL.decode(parts[2]),
            let publicKey = Base64URL.decode(key)
        else { throw Fault(reason: "t is no signed token, or k no key, in base64url") }
        guard SenderToken.text("alg", in: header, parser) == "ES256" else {
            throw Fault(reason: "the token is not signed by ES256")
        }
        guard SenderToken.text("aud", in: claims, parser) == origin else {
            throw Fault(reason: "the token's audience is not \(origin)")
        }
        let second = now.milliseconds / 1000
        guard let end = SenderToken.second("exp", in: claims, parser), end > second - SenderToken.skew,
            end <= second + SenderToken.lifetime + SenderToken.skew
        else { throw Fault(reason: "the token has ended, or ends more than a day from now") }
        let signed = Array(token.prefix(parts[0].count + 1 + parts[1].count))
        guard ES256.verifies(signature, of: signed, by: publicKey) else {
            throw Fault(reason: "the signature is not that of the key k")
        }
        keyHash = Crypto.sha256(publicKey)
    }

    /// The values of `t` and `k`, in either order.
    private static func parameters(
        _ field: ArraySlice<UInt8>
    ) throws(Fault) -> (token: ArraySlice<UInt8>, key: ArraySlice<UInt8>) {
        let scheme = Array("vapid ".utf8)
        guard field.count > scheme.count, zip(field, scheme).allSatisfy({ $0 | 0x20 == $1 }) else {
            throw Fault(reason: "the scheme is not vapid")
        }
        var token: ArraySlice<UInt8>?
        var key: ArraySlice<UInt8>?
        for part in field.dropFirst(scheme.count).split(separator: UInt8(ascii: ",")) {
            let blank: (UInt8) -> Bool = { $0 == 0x20 || $0 == 0x09 }
            var text = part.drop(while: blank)
            while let last = text.last, blank(last) || last == UInt8(ascii: "=") { text.removeLast() }
            if text.starts(with: "t=".utf8) { token = text.dropFirst(2) }
            if text.starts(with: "k=".utf8) { key = text.dropFirst(2) }
        }
        guard let token, let key else { throw Fault(reason: "t or k is missing") }
        return (token, key)
    }

    /// The last field of this name that is a string.
    private static func text(_ name: StaticString, in json: [UInt8], _ parser: JSONParser) -> String? {
        var found: String?
        find(name, in: json, by: parser) { found = $0.text }
        return found
    }

    /// The last field of this name, in whole seconds (RFC 7519 §2, NumericDate).
    private static func second(_ name: StaticString, in json: [UInt8], _ parser: JSONParser) -> Int64? {
        var found: Int64?
        find(name, in: json, by: parser) { value in
            found = value.integer ?? value.number.flatMap { Int64(exactly: $0.rounded(.down)) }
        }
        return found
    }

    private static func find(
        _ name: StaticString, in json: [UInt8], by parser: JSONParser, _ body: (JSONValue) -> Void
    ) {
        guard let object = try? parser.parse(json), object.kind == .object else { return }
        try? object.forEachField { (key, value) throws(APIError) in
            if Schema.equal(key, name) { body(value) }
        }
    }
}

/// Tokens that were verified a moment ago: a sender shows one for many messages. Confined to one loop.
final class SenderTokens {
    private static let countMax = 256
    private static let milliseconds: Int64 = 60_000
    private struct Entry {
        var keyHash: [UInt8]
        var until: Int64
    }
    private var entries: [[UInt8]: Entry] = [:]

    /// The key of the sender that signed.
    func keyHash(
        of field: ArraySlice<UInt8>, origin: String, parser: JSONParser, now: WallTime
    ) throws(SenderToken.Fault) -> [UInt8] {
        let name = Crypto.sha256(Array(origin.utf8) + [0] + field)
        if let known = entries[name], known.until > now.milliseconds { return known.keyHash }
        let token = try SenderToken(field, origin: origin, parser: parser, now: now)
        if entries.count >= SenderTokens.countMax { entries.removeAll(keepingCapacity: true) }
        entries[name] = Entry(
            keyHash: token.keyHash, until: now.milliseconds + SenderTokens.milliseconds)
        return token.keyHash
    }
}
