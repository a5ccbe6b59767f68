import Model

/// The limits of messages that are settings.
public struct MessageLimits: Sendable {
    /// Bytes of keys and values of data and notification.
    public var payloadBytesMax = 4096
    /// The same for messages to topics and conditions; FCM's error page says 2,048, its topic page nothing.
    public var topicPayloadBytesMax = 4096
    public init() {}
    public static let ttlSecondsMax: UInt64 = 2_419_200
}

/// A send as it was read: checked, with its target as it was named.
struct ReadMessage {
    enum Target {
        case fid([UInt8])
        case token([UInt8])
        case topic(TopicName)
        case condition(Condition)
    }
    var target: Target
    var envelope: Envelope
    var validateOnly: Bool
}

/// Reads a send's body: validates it by FCM's schema and writes the JSON that devices will get.
struct MessageReader {
    let limits: MessageLimits
    /// The project as devices see it in `from`.
    let project: String
    let id: MessageID
    let now: WallTime

    private enum Place {
        static let data = 1, notification = 2, android = 3, androidV2 = 4, webpush = 5, apns = 6,
            fcmOptions = 7
        static let fid = 8, token = 9, topic = 10, condition = 11
    }

    func read(_ body: JSONValue) throws(APIError) -> ReadMessage {
        guard body.kind == .object else { throw .badJSON("The body must be an object.") }
        let request = try SchemaReader.fields(body, .request, "")
        guard let message = request[0] else {
            throw .invalid("message", "The message is not set.")
        }
        var validateOnly = false
        if let flag = request[1] {
            guard let bool = flag.bool else { throw .type("validate_only", "TYPE_BOOL", flag) }
            validateOnly = bool
        }
        let values = try SchemaReader.fields(message, .message, "message")
        let target = try target(values)
        var out = JSONWriter(capacity: 512)
        out.beginObject()
        out.key("messageId")
        out.plain { id.append(to: &$0) }
        out.key("from")
        if case .topic(let name) = target {
            out.plain {
                $0.append(contentsOf: "/topics/".utf8)
                $0.append(contentsOf: name.utf8)
            }
        } else {
            out.string(project)
        }
        out.key("sentTime")
        out.number(now.milliseconds)
        let payload = try writeContent(values, to: &out)
        let isTopic =
            if case .topic = target { true } else if case .condition = target { true } else { false }
        let bytesMax = isTopic ? limits.topicPayloadBytesMax : limits.payloadBytesMax
        guard payload <= bytesMax else {
            throw APIError(
                status: .invalidArgument,
                message: "Message too big: \(payload) bytes, where \(bytesMax) are allowed.",
                fcmCode: "INVALID_ARGUMENT")
        }
        let delivery = try delivery(values)
        if !delivery.collapseKey.isEmpty { out.field("collapseKey", delivery.collapseKey) }
        try writePlatforms(values, to: &out)
        out.endObject()
        return ReadMessage(
            target: target,
            envelope: Envelope(
                id: self.id, event: out.bytes, collapseKey: delivery.collapseKey, sent: now,
                ttlSeconds: delivery.ttlSeconds),
            validateOnly: validateOnly)
    }

    // MARK: Target

    private func target(_ values: [JSONValue?]) throws(APIError) -> ReadMessage.Target {
        var found: Int?
        for place in Place.fid...Place.condition where values[place] != nil {
            guard found == nil else {
                throw .invalid("message", "Exactly one of fid, token, topic and condition must be set.")
            }
            found = place
        }
        guard let place = found, let value = values[place] else {
            var error = APIError.invalid("message", "Recipient of the message is not set.")
            error.message = "Recipient of the message is not set."
            throw error
        }
        var field: String { "message.\(Schema.message.camel[place])" }
        guard let text = value.string else { throw .type(field, "TYPE_STRING", value) }
        switch place {
        case Place.fid: return .fid(Array(text))
        case Place.token: return .token(Array(text))
        case Place.topic:
            guard let name = TopicName(text) else { throw .invalid(field, "Invalid topic name.") }
            return .topic(name)
        default:
            do {
                return .condition(try Condition.parse(text))
            } catch {
                throw .invalid(field, "Invalid condition expression provided: \(error).")
            }
        }
    }

    // MARK: Content

    /// Writes data and notification; returns the bytes that count against the limit.
    private func writeContent(_ values: [JSONValue?], to out: inout JSONWriter) throws(APIError) -> Int {
        var payload = 0
        if let data = values[Place.data] {
            out.key("data")
            out.beginObject()
            for (key, value) in try SchemaReader.pairs(data, "message.data") {
                try checkKey(key, "message.data")
                payload += key.count + value.count
                out.key(key)
                out.string(value)
            }
            out.endObject()
        }
        if let notification = values[Place.notification] {
            let path = "message.notification"
            out.key("notification")
            try SchemaReader.write(notification, .object(.notification), path, to: &out)
            try notification.forEachField { (name, value) throws(APIError) in
                payload += name.count + (value.string?.count ?? 0)
            }
        }
        return payload
    }

    /// Names that a client library keeps for itself.
    private func checkKey(_ key: UnsafeBufferPointer<UInt8>, _ path: String) throws(APIError) {
        if Schema.equal(key, "from") || Schema.equal(key, "message_type") || key.starts(with: "google.".utf8)
            || key.starts(with: "gcm.notification.".utf8)
        {
            throw .invalid(path, "Invalid data payload key: \(String(decoding: key, as: UTF8.self))")
        }
    }

    private func writePlatforms(_ values: [JSONValue?], to out: inout JSONWriter) throws(APIError) {
        guard values[Place.android] == nil || values[Place.androidV2] == nil else {
            throw .invalid("message.android_v2", "Only one of android and android_v2 may be set.")
        }
        for place in Place.android...Place.fcmOptions {
            guard let value = values[place] else { continue }
            let name = Schema.message.camel[place]
            out.key(name)
            try SchemaReader.write(value, Schema.message.types[place], "message.\(name)", to: &out)
        }
        try PlatformRules.check(
            android: values[Place.android], webpush: values[Place.webpush], options: values[Place.fcmOptions])
    }

    // MARK: Delivery

    /// How long it waits and what it replaces, from whichever platform says so first.
    private func delivery(_ values: [JSONValue?]) throws(APIError) -> (
        ttlSeconds: UInt32, collapseKey: [UInt8]
    ) {
        var ttl: UInt64?
        var key: [UInt8] = []
        if let android = values[Place.android] ?? values[Place.androidV2], android.kind == .object {
            try android.forEachField { (name, value) throws(APIError) in
                if Schema.equal(name, "ttl"), value.kind != .null {
                    ttl = try ttlSeconds(value, "message.android.ttl")
                } else if Schema.equal(name, "collapseKey") || Schema.equal(name, "collapse_key") {
                    key = value.string.map { Array($0) } ?? []
                }
            }
        }
        if let apns = values[Place.apns] {
            try headers(apns) { (name, value) throws(APIError) in
                if name == "apns-collapse-id", key.isEmpty { key = Array(value) }
                if name == "apns-expiration", ttl == nil,
                    let until = Int64(String(decoding: value, as: UTF8.self))
                {
                    let rest = until - now.milliseconds / 1000
                    ttl = UInt64(max(0, min(rest, Int64(MessageLimits.ttlSecondsMax))))
                }
            }
        }
        if let webpush = values[Place.webpush] {
            try headers(webpush) { (name, value) throws(APIError) in
                if name == "topic", key.isEmpty { key = Array(value) }
                if name == "ttl", ttl == nil, let seconds = UInt64(String(decoding: value, as: UTF8.self)) {
                    ttl = min(seconds, MessageLimits.ttlSecondsMax)
                }
            }
        }
        guard key.count <= 1024 else {
            throw .invalid("message.android.collapse_key", "The collapse key is too long.")
        }
        return (UInt32(ttl ?? MessageLimits.ttlSecondsMax), key)
    }

    private func ttlSeconds(_ value: JSONValue, _ path: String) throws(APIError) -> UInt64 {
        guard let text = value.string, let nanoseconds = Duration.nanoseconds(text) else {
            throw .invalid(path, "Invalid TTL: a duration such as \"3.5s\" is wanted.")
        }
        guard nanoseconds <= MessageLimits.ttlSecondsMax * 1_000_000_000 else {
            throw .invalid(path, "Invalid TTL: at most \(MessageLimits.ttlSecondsMax) seconds (four weeks).")
        }
        return nanoseconds / 1_000_000_000
    }

    private func headers(
        _ platform: JSONValue, _ body: (String, UnsafeBufferPointer<UInt8>) throws(APIError) -> Void
    ) throws(APIError) {
        guard platform.kind == .object else { return }
        try platform.forEachField { (name, value) throws(APIError) in
            guard Schema.equal(name, "headers") else { return }
            try value.forEachField { (header, content) throws(APIError) in
                if let content = content.string {
                    try body(String(decoding: header, as: UTF8.self).lowercased(), content)
                }
            }
        }
    }
}

/// Rules between fields of a platform's block.
enum PlatformRules {
    static func check(android: JSONValue?, webpush: JSONValue?, options: JSONValue?) throws(APIError) {
        if let android { try check(android: android) }
        if let webpush { try checkLink(webpush) }
        if let options { try checkLabel(options, "message.fcm_options") }
    }

    private static func check(android: JSONValue) throws(APIError) {
        try android.forEachField { (name, value) throws(APIError) in
            if Schema.equal(name, "notification") {
                var has: Set<String> = []
                try value.forEachField { (inner, _) throws(APIError) in
                    has.insert(String(decoding: inner, as: UTF8.self).replacing("_", with: "").lowercased())
                }
                for part in ["title", "body"]
                where has.contains("\(part)locargs") && !has.contains("\(part)lockey") {
                    throw .invalid(
                        "message.android.notification.\(part)_loc_args",
                        "\(part)_loc_key is required with \(part)_loc_args.")
                }
            } else if Schema.equal(name, "fcmOptions") || Schema.equal(name, "fcm_options") {
                try checkLabel(value, "message.android.fcm_options")
            }
        }
    }

    private static func checkLink(_ webpush: JSONValue) throws(APIError) {
        try webpush.forEachField { (name, value) throws(APIError) in
            guard Schema.equal(name, "fcmOptions") || Schema.equal(name, "fcm_options") else { return }
            try value.forEachField { (inner, link) throws(APIError) in
                guard Schema.equal(inner, "link"), let text = link.string else { return }
                guard text.starts(with: "https://".utf8) else {
                    throw .invalid("message.webpush.fcm_options.link", "The link must be an https URL.")
                }
            }
        }
    }

    /// `^[a-zA-Z0-9-_.~%]{1,50}$`
    private static func checkLabel(_ options: JSONValue, _ path: String) throws(APIError) {
        try options.forEachField { (name, value) throws(APIError) in
            guard Schema.equal(name, "analyticsLabel") || Schema.equal(name, "analytics_label"),
                let text = value.string
            else { return }
            guard !text.isEmpty, text.count <= 50, text.allSatisfy(TopicName.allows) else {
                throw .invalid("\(path).analytics_label", "Invalid analytics label.")
            }
        }
    }
}
