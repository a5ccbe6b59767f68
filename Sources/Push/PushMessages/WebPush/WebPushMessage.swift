import Model

/// A message as a browser gets it, before encryption: the same for all browsers, so it is made once.
public struct WebPushMessage: Hashable, Sendable {
    /// How long a browser may sleep on (RFC 8030 §5.3).
    public enum Urgency: String, CaseIterable, Sendable {
        case veryLow = "very-low"
        case low, normal, high
    }
    /// RFC 8030 §5.4.
    public static let topicBytesMax = 32
    /// The host names of Microsoft's service end with this.
    private static let microsoft = ".notify.windows.com"

    /// The JSON that Firebase's service worker reads, at most 3993 bytes.
    public var payload: [UInt8]
    /// From the message's own web block: 0 to 2,419,200. Counted from the send.
    public var ttlSeconds: Int
    public var urgency: Urgency
    /// A newer message with the same topic replaces one that the service has not delivered. At most 32
    /// characters of base64url.
    public var topic: String

    public init(payload: [UInt8], ttlSeconds: Int, urgency: Urgency, topic: String) {
        self.payload = payload
        self.ttlSeconds = ttlSeconds
        self.urgency = urgency
        self.topic = topic
    }

    /// The request's fields, with names in lower case, in a fixed order.
    ///
    /// `ttlSeconds`: what is left of the message's time to live. Microsoft refuses 0 without its own field,
    /// so its service gets 1 at least.
    public func fields(
        to endpoint: PushEndpoint, authorization: String, ttlSeconds: Int
    ) -> [(name: String, value: String)] {
        let least = endpoint.host.hasSuffix(WebPushMessage.microsoft) ? 1 : 0
        var fields = [
            (name: "authorization", value: authorization),
            (name: "content-encoding", value: "aes128gcm"),
            (name: "content-type", value: "application/octet-stream"),
            (name: "ttl", value: String(max(ttlSeconds, least))),
            (name: "topic", value: topic),
        ]
        if urgency != .normal { fields.append((name: "urgency", value: urgency.rawValue)) }
        return fields
    }

    /// Whether a push service takes the text as `Topic`.
    public static func isTopic(_ text: some Collection<UInt8>) -> Bool {
        (1...topicBytesMax).contains(text.count) && text.allSatisfy { Base64URL.value($0) != 0xFF }
    }
}
