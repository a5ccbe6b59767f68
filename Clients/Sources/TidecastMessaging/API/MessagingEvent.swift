import Foundation

/// A message as the server's stream gives it to a device.
public struct RemoteMessage: Equatable, Sendable {
    public let messageID: String
    /// `/topics/NAME`, or the project for a message to a condition or to this device.
    public let from: String
    public let sentTime: Date?
    public let collapseKey: String?
    public let data: [String: String]
    public let notification: Notification?
    /// The whole message as the server wrote it, a JSON object, for fields that this type lacks.
    public let json: Data

    public struct Notification: Equatable, Sendable {
        public let title: String?
        public let body: String?
        public let image: String?
    }

    /// The topic's name; `nil` for a message that came to this device by another way.
    public var topic: String? {
        from.hasPrefix("/topics/") ? String(from.dropFirst("/topics/".count)) : nil
    }

    /// The message as a notification of Apple's would carry it: the app's data, and FCM's own keys.
    public var userInfo: [String: String] {
        var info = data
        info["gcm.message_id"] = messageID
        info["from"] = from
        return info
    }
}

/// What a listening app receives.
public enum MessagingEvent: Equatable, Sendable {
    case message(RemoteMessage)
    /// The server dropped messages for this device. The app should ask its own backend for what it missed.
    case deletedMessages
    /// The stream is open.
    case connected
    /// The stream has ended, and the client opens the next one after this pause. `reason` is for people.
    case reconnecting(after: Duration, reason: String)
    /// Another process listens with this registration, so the client does not come back by itself. The
    /// sequence ends.
    case replaced
    /// The registration is gone. The client registers again and repeats all subscriptions.
    case unregistered
}
