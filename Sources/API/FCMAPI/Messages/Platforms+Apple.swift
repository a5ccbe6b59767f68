import Model
import PushMessages

// What Apple's push service would refuse, refused at the send: Apple's answer comes too late for the sender.

extension Platforms {
    /// The server sends fields of Apple's only, and fields that Apple takes.
    static func check(appleHeaders headers: JSONValue, _ path: String) throws(APIError) {
        for (name, value) in headers.uniqueFields() {
            guard let bytes = value.string else { continue }
            if isHeader(name, "apns-collapse-id") {
                let limit = APNsMessage.collapseIDBytesMax
                try check(length: bytes.count, limit, "\(path).apns-collapse-id")
            } else if isHeader(name, "apns-topic") {
                try check(length: bytes.count, APNsMessage.topicBytesMax, "\(path).apns-topic")
            } else if !isHeader(Bytes(rebasing: name.prefix(5)), "apns-") {
                let shown = String(decoding: name.prefix(80), as: UTF8.self)
                throw .invalid(path, "Invalid header \"\(shown)\": names begin with \"apns-\".")
            }
        }
    }

    static func check(liveActivityToken token: Bytes, _ path: String) throws(APIError) {
        try check(length: token.count, 2 * APNsAddress.tokenBytesMax, path)
        guard token.isEmpty || Hex.bytes(String(decoding: token, as: UTF8.self)) != nil else {
            throw .invalid(path, "A token of Apple's has hexadecimal digits, two for each byte.")
        }
    }

    private static func check(length: Int, _ limit: Int, _ path: String) throws(APIError) {
        guard length > limit else { return }
        throw .invalid(path, "The value has \(length) bytes, at most \(limit) are allowed.")
    }
}
