import HTTPMessages

/// How a sender has encrypted a message. The user agent needs it to decrypt.
enum PushContentCoding: Hashable {
    /// RFC 8188: the body has all that is needed.
    case aes128gcm
    /// draft-ietf-webpush-encryption-04, which many senders still use. The salt and the sender's key are in
    /// the fields `Encryption` and `Crypto-Key`, which the user agent gets as they are.
    case aesgcm(encryption: [UInt8], cryptoKey: [UInt8])

    struct Fault: Error {
        var status: Int
        var reason: String
    }

    /// Bytes of each field. A salt has 22, a key 87.
    static let fieldBytesMax = 512

    init(_ fields: HTTPFields) throws(Fault) {
        let coding = fields.string("content-encoding")?.lowercased() ?? ""
        switch coding {
        case "aes128gcm": self = .aes128gcm
        case "aesgcm":
            self = .aesgcm(
                encryption: try PushContentCoding.field("encryption", with: "salt", fields),
                cryptoKey: try PushContentCoding.field("crypto-key", with: "dh", fields))
        default:
            throw Fault(
                status: 415, reason: "Content-Encoding must be aes128gcm or aesgcm, not \(coding.prefix(40))."
            )
        }
    }

    private static func field(
        _ name: StaticString, with parameter: String, _ fields: HTTPFields
    ) throws(Fault) -> [UInt8] {
        guard let value = fields[name], value.count <= fieldBytesMax,
            value.allSatisfy({ (0x20...0x7E).contains($0) }),
            PushContentCoding.parameter(parameter, of: value) != nil
        else {
            throw Fault(
                status: 400,
                reason:
                    "With aesgcm, \(name) must be one line of at most \(fieldBytesMax) bytes with \(parameter)."
            )
        }
        return Array(value)
    }

    /// The value of `NAME=VALUE` in a list with commas and semicolons; without quotes.
    private static func parameter(_ name: String, of field: ArraySlice<UInt8>) -> ArraySlice<UInt8>? {
        let wanted = Array("\(name)=".utf8)
        let parts = field.split { $0 == UInt8(ascii: ",") || $0 == UInt8(ascii: ";") }
        for part in parts {
            let text = part.drop { $0 == 0x20 || $0 == 0x09 }
            guard text.starts(with: wanted) else { continue }
            var value = text.dropFirst(wanted.count)
            if value.first == UInt8(ascii: "\"") { value.removeFirst() }
            if value.last == UInt8(ascii: "\"") { value.removeLast() }
            return value.isEmpty ? nil : value
        }
        return nil
    }

    /// The sender's proof as RFC 8292 has it. Its draft had the token in `WebPush TOKEN`, and the key as
    /// `p256ecdsa` in `Crypto-Key` (draft-ietf-webpush-vapid-01 §3).
    static func senderToken(_ fields: HTTPFields) -> ArraySlice<UInt8>? {
        guard let field = fields["authorization"] else { return nil }
        let scheme = Array("webpush ".utf8)
        guard field.count > scheme.count, zip(field, scheme).allSatisfy({ $0 | 0x20 == $1 }),
            let keys = fields["crypto-key"], let key = parameter("p256ecdsa", of: keys)
        else { return field }
        return Array("vapid t=".utf8) + field.dropFirst(scheme.count) + Array(",k=".utf8) + key[...]
    }

    /// Writes the notification's `headers`, as Mozilla's push service names them.
    func write(_ out: inout JSONWriter) {
        out.beginObject()
        switch self {
        case .aes128gcm: out.field("encoding", "aes128gcm")
        case .aesgcm(let encryption, let cryptoKey):
            out.field("encoding", "aesgcm")
            out.field("encryption", encryption)
            out.field("crypto_key", cryptoKey)
        }
        out.endObject()
    }
}
