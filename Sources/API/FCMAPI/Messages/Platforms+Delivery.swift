import Model

/// How long a message waits, and which messages it replaces.
struct DeliveryTerms {
    static let collapseKeyBytesMax = 1024
    /// What each platform's block says, in seconds; `nil` if it says nothing.
    var android: UInt64?
    var apns: UInt64?
    var web: UInt64?
    var collapseKey: [UInt8] = []

    /// Each platform has its own time to live, as at FCM. A stream has the first of them that is set.
    var times: TimesToLive {
        func seconds(_ own: UInt64?) -> UInt32 { UInt32(clamping: own ?? MessageLimits.ttlSecondsMax) }
        return TimesToLive(
            stream: seconds(android ?? apns ?? web), web: seconds(web), apns: seconds(apns),
            fcm: seconds(android))
    }
}

extension Platforms {
    /// The collapse key is that of the first platform that sets one: Android, then Apple, then the web. The
    /// expiry of APNs and the TTL of web push are cut to FCM's four weeks; a longer TTL of Android is an
    /// error.
    func terms(now: WallTime) throws(APIError) -> DeliveryTerms {
        var terms = DeliveryTerms()
        if let android {
            if let value = android.values[Android.ttl] {
                terms.android = try Platforms.ttlSeconds(value, "\(android.path).ttl")
            }
            if let key = android.values[Android.collapseKey]?.string { terms.collapseKey = Array(key) }
        }
        if let headers = apns?.values[Apple.headers] {
            for (name, value) in headers.uniqueFields() {
                guard let value = value.string else { continue }
                if terms.collapseKey.isEmpty, Platforms.isHeader(name, "apns-collapse-id") {
                    terms.collapseKey = Array(value)
                } else if terms.apns == nil, Platforms.isHeader(name, "apns-expiration") {
                    terms.apns = Platforms.seconds(until: value, from: now)
                }
            }
        }
        if let headers = webpush?.values[Web.headers] {
            for (name, value) in headers.uniqueFields() {
                guard let value = value.string else { continue }
                if terms.collapseKey.isEmpty, Platforms.isHeader(name, "topic") {
                    terms.collapseKey = Array(value)
                } else if terms.web == nil, Platforms.isHeader(name, "ttl") {
                    terms.web = UInt64(String(decoding: value, as: UTF8.self))
                        .map { min($0, MessageLimits.ttlSecondsMax) }
                }
            }
        }
        guard terms.collapseKey.count <= DeliveryTerms.collapseKeyBytesMax else {
            throw .invalid("message.android.collapse_key", "The collapse key is too long.")
        }
        return terms
    }

    /// The time of `apns-expiration`, in seconds since 1970, as a TTL. 0 and past times give 0: best effort.
    private static func seconds(until text: Bytes, from now: WallTime) -> UInt64? {
        guard let until = Int64(String(decoding: text, as: UTF8.self)) else { return nil }
        let second = now.milliseconds / 1000
        guard until > second else { return 0 }
        let (rest, isBeyond) = until.subtractingReportingOverflow(second)
        return isBeyond ? MessageLimits.ttlSecondsMax : min(UInt64(rest), MessageLimits.ttlSecondsMax)
    }

    private static func ttlSeconds(_ value: JSONValue, _ path: String) throws(APIError) -> UInt64 {
        guard let text = value.string, let length = Duration.read(text) else {
            throw .invalid(path, "Invalid TTL: a duration such as \"3.5s\" is wanted.")
        }
        guard length <= .seconds(MessageLimits.ttlSecondsMax) else {
            throw .invalid(path, "Invalid TTL: at most \(MessageLimits.ttlSecondsMax) seconds (four weeks).")
        }
        return length.seconds
    }

    /// Names of header fields have no case (RFC 9110 §5.1); `name` is in lower case.
    static func isHeader(_ bytes: Bytes, _ name: StaticString) -> Bool {
        guard bytes.count == name.utf8CodeUnitCount else { return false }
        for index in 0..<bytes.count {
            let byte = bytes[index]
            let isUpper = byte >= UInt8(ascii: "A") && byte <= UInt8(ascii: "Z")
            if (isUpper ? byte | 0x20 : byte) != name.utf8Start[index] { return false }
        }
        return true
    }
}
