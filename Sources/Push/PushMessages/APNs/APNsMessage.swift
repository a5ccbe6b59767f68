import Model

/// A message as Apple's push service gets it.
public struct APNsMessage: Hashable, Sendable {
    public enum PushType: String, CaseIterable, Sendable {
        case alert, background, location, voip, complication, fileprovider, mdm, liveactivity, pushtotalk
        case controls, widgets

        /// What follows the bundle id in `apns-topic`.
        var topicSuffix: String {
            switch self {
            case .alert, .background, .mdm: ""
            case .location: ".location-query"
            case .voip: ".voip"
            case .complication: ".complication"
            case .fileprovider: ".pushkit.fileprovider"
            case .liveactivity: ".push-type.liveactivity"
            case .pushtotalk: ".voip-ptt"
            case .controls: ".push-type.controls"
            case .widgets: ".push-type.widgets"
            }
        }
        /// Bytes.
        public var payloadMax: Int { self == .voip ? 5120 : 4096 }
    }
    public static let collapseIDBytesMax = 64
    /// The longest bundle id with any suffix of a push type fits.
    public static let topicBytesMax = 256

    public var payload: [UInt8]
    public var pushType: PushType
    /// 10, 5 or 1.
    public var priority: Int
    /// Seconds since 1970; 0 means best effort.
    public var expiration: Int64
    /// At most 64 bytes.
    public var collapseID: String
    /// `apns-topic` of the message's own headers.
    public var topic: String?
    /// `apns-id` of the message's own headers: a UUID in lower case.
    public var id: String?
    /// The message's id at this server; `apns-id` is made of it.
    public var messageID = ""
    /// The token of a live activity, in hexadecimal, instead of the device's token.
    public var liveActivityToken: String?

    public init(payload: [UInt8], pushType: PushType, priority: Int, expiration: Int64, collapseID: String) {
        self.payload = payload
        self.pushType = pushType
        self.priority = priority
        self.expiration = expiration
        self.collapseID = collapseID
    }

    /// The request's path: `/3/device/` and the token in hexadecimal.
    public func path(to address: APNsAddress) -> String {
        "/3/device/\(liveActivityToken ?? Hex.text(address.token))"
    }

    /// The message's own topic if it is one of the app's, otherwise the bundle id with the push type's
    /// suffix: a sender's mistake must not reach another app.
    public func topic(of address: APNsAddress) -> String {
        if let topic, topic == address.bundleID || topic.hasPrefix(address.bundleID + ".") { return topic }
        return address.bundleID + pushType.topicSuffix
    }

    /// Whether an answer about the token speaks of the device's own token for the app itself: not of a live
    /// activity's token, nor of a topic that the sender of the message has chosen.
    public func isAbout(_ address: APNsAddress) -> Bool {
        liveActivityToken == nil && topic(of: address) == address.bundleID
    }

    /// The request's fields, with names in lower case. `authorization` is `APNsSigner.authorization`.
    ///
    /// The first four may enter the compression table of HTTP/2; the names of the others may, their values
    /// must not (Apple, "Sending notification requests to APNs").
    public func fields(
        to address: APNsAddress, authorization: String, id: String
    ) -> [(name: String, value: String)] {
        [
            (name: "authorization", value: authorization),
            (name: "apns-topic", value: topic(of: address)),
            (name: "apns-push-type", value: pushType.rawValue),
            (name: "apns-priority", value: String(priority)),
            (name: "apns-id", value: self.id ?? id),
            (name: "apns-expiration", value: String(expiration)),
            (name: "apns-collapse-id", value: collapseID),
        ]
    }

    /// The UUID of one message to one device (RFC 9562 §5.8), the same at each try, so that Apple's log and
    /// the server's can be joined.
    public static func id(message: String, token: [UInt8]) -> String {
        var bytes = Array(PushDigest.sha256(Array(message.utf8) + token)[..<16])
        bytes[6] = bytes[6] & 0x0F | 0x80
        bytes[8] = bytes[8] & 0x3F | 0x80
        return uuid(Hex.text(bytes))
    }

    /// The text as a UUID in lower case; `nil` if it is none.
    public static func uuid(reading text: String) -> String? {
        let parts = text.lowercased().split(separator: "-", omittingEmptySubsequences: false)
        guard parts.map(\.utf8.count) == [8, 4, 4, 4, 12], let bytes = Hex.bytes(parts.joined()) else {
            return nil
        }
        return uuid(Hex.text(bytes))
    }

    private static func uuid(_ digits: String) -> String {
        var parts: [Substring] = []
        var rest = digits[...]
        for count in [8, 4, 4, 4, 12] {
            parts.append(rest.prefix(count))
            rest = rest.dropFirst(count)
        }
        return parts.joined(separator: "-")
    }
}
