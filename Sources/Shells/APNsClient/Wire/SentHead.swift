import HTTP2
import PushScheduling

/// The header block of a request, and what keeps a request from being sent.
struct SentHead {
    /// `:authority`: the host, with the port if it is not 443.
    let authority: String
    let path: String
    let fields: [(name: String, value: String)]

    /// Fields whose values are another one in each message: they would push what repeats out of the service's
    /// small compression table. `:path` holds the device's token.
    private static let passing: Set = [":path", "apns-id", "apns-expiration", "apns-collapse-id"]

    static func authority(of pool: APNsPool) -> String {
        let host = pool.host.contains(":") ? "[\(pool.host)]" : pool.host
        return pool.port == 443 ? host : "\(host):\(pool.port)"
    }

    /// Why the request cannot be sent; `nil` if it can.
    func mistake(bodyBytes: Int, _ settings: APNsClientSettings) -> String? {
        guard (1...settings.sentBodyBytesMax).contains(bodyBytes) else {
            return "the body has \(bodyBytes) bytes, and may have 1 to \(settings.sentBodyBytesMax)"
        }
        guard path.utf8.first == UInt8(ascii: "/"), path.utf8.allSatisfy({ $0 > 32 && $0 < 127 }) else {
            return "the path cannot be sent"
        }
        guard bytes <= settings.sentFieldBytesMax else {
            return "the path and the fields have \(bytes) bytes, and may have \(settings.sentFieldBytesMax)"
        }
        for field in fields {
            if let mistake = SentField.mistake(name: field.name, value: field.value, isHTTP2: true) {
                return mistake
            }
        }
        return nil
    }

    private var bytes: Int { path.utf8.count + HeaderBlock.bytes(of: fields) }

    func withBlock<Result>(_ body: (HeaderBlock) -> Result) -> Result {
        let all =
            [
                (name: ":method", value: "POST"), (name: ":scheme", value: "https"),
                (name: ":authority", value: authority), (name: ":path", value: path),
            ] + fields
        return HeaderBlock.with(all, neverIndexed: SentHead.passing, body)
    }
}
