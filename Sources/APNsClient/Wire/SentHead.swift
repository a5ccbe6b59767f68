import CNghttp2
import PushScheduling

/// The header block of a request, and what keeps a request from being sent.
struct SentHead {
    /// `:authority`: the host, with the port where it is not 443.
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

    /// Why the request cannot be sent; `nil` where it can.
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

    private var bytes: Int {
        fields.reduce(path.utf8.count) { $0 + $1.name.utf8.count + $1.value.utf8.count }
    }

    /// Calls `body` with the block as libnghttp2 wants it, which copies it.
    func withVector<Result>(_ body: (UnsafeMutablePointer<nghttp2_nv>?, Int) -> Result) -> Result {
        let all =
            [
                (name: ":method", value: "POST"), (name: ":scheme", value: "https"),
                (name: ":authority", value: authority), (name: ":path", value: path),
            ] + fields
        let bytes = all.reduce(0) { $0 + $1.name.utf8.count + $1.value.utf8.count }
        return withUnsafeTemporaryAllocation(of: UInt8.self, capacity: bytes + 1) { text in
            withUnsafeTemporaryAllocation(of: nghttp2_nv.self, capacity: all.count) { vector in
                guard var cursor = text.baseAddress else { return body(nil, 0) }
                for (index, field) in all.enumerated() {
                    let isPassing = SentHead.passing.contains(field.name)
                    let flag = isPassing ? NGHTTP2_NV_FLAG_NO_INDEX : NGHTTP2_NV_FLAG_NONE
                    let name = SentHead.copy(field.name, to: &cursor)
                    let value = SentHead.copy(field.value, to: &cursor)
                    vector.initializeElement(
                        at: index,
                        to: nghttp2_nv(
                            name: name.start, value: value.start, namelen: name.count, valuelen: value.count,
                            flags: UInt8(flag.rawValue)))
                }
                return body(vector.baseAddress, all.count)
            }
        }
    }

    private static func copy(
        _ text: String, to cursor: inout UnsafeMutablePointer<UInt8>
    ) -> (start: UnsafeMutablePointer<UInt8>, count: Int) {
        var text = text
        let (start, count) = (cursor, text.utf8.count)
        text.withUTF8 { bytes in
            if let base = bytes.baseAddress { start.update(from: base, count: count) }
        }
        cursor += count
        return (start, count)
    }
}
