import Model

public enum MessageLimits {
    /// Bytes of keys and values of data and notification. The same bound holds for each platform's own part
    /// by itself: its data with its notification, or its payload.
    static let payloadBytesMax = 4096
    /// Bytes of the JSON that devices read, in full. A message within FCM's limits comes near only if it is
    /// all control characters.
    static let eventBytesMax = 65_536
    public static let ttlSecondsMax: UInt64 = 2_419_200
}

/// A send that was read and checked, with its target as the request names it.
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

/// Reads a send's body: validates it by FCM's schema, and writes the JSON that devices will get.
///
/// In that JSON `from` is `/topics/NAME` for a topic, and the project for a condition or one device;
/// `sentTime` is a number, milliseconds since 1970.
struct MessageReader {
    /// The project, as devices see it in `from`.
    let project: String
    let id: MessageID
    let now: WallTime
    /// Whether push services may reach devices of the project.
    let hasPush: Bool

    func read(_ body: JSONValue) throws(APIError) -> ReadMessage {
        guard body.kind == .object else { throw .badJSON("The body must be an object.") }
        do {
            return try readKnown(body)
        } catch {
            guard error.isUnknownName else { throw error }
            throw .unknownNames(UnknownNames(body, .request))
        }
    }

    private func readKnown(_ body: JSONValue) throws(APIError) -> ReadMessage {
        let request = try SchemaReader.fields(body, .request, path: "")
        guard let message = request[RequestField.message] else {
            throw .invalid("message", "The message is not set.")
        }
        var validateOnly = false
        if let flag = request[RequestField.validateOnly] {
            guard let bool = flag.bool ?? flag.boolText else {
                throw .type("validate_only", "TYPE_BOOL", value: flag)
            }
            validateOnly = bool
        }
        let values = try SchemaReader.fields(message, .message, path: "message")
        let target = try target(values)
        let platforms = try Platforms(values)
        let terms = try platforms.terms(now: now)
        var out = JSONWriter(capacity: 512)
        out.beginObject()
        writeHead(target, to: &out)
        try Platforms.check(payload: try writeContent(values, to: &out))
        if !terms.collapseKey.isEmpty { out.field("collapseKey", terms.collapseKey) }
        try platforms.write(to: &out)
        out.endObject()
        try Platforms.check(payload: out.count, MessageLimits.eventBytesMax)
        // Without a push service, one time to live is enough.
        let times = hasPush ? terms.times : TimesToLive(terms.times.stream)
        return ReadMessage(
            target: target,
            envelope: Envelope(
                id: id, event: out.bytes, collapseKey: terms.collapseKey, sent: now,
                times: times),
            validateOnly: validateOnly)
    }

    // MARK: Target

    private func target(_ values: FieldValues) throws(APIError) -> ReadMessage.Target {
        var found: Int?
        for index in MessageField.targets where values[index] != nil {
            guard found == nil else {
                throw .invalid("message", "Exactly one of fid, token, topic and condition must be set.")
            }
            found = index
        }
        guard let index = found, let value = values[index] else {
            throw .invalid("message", "Recipient of the message is not set.")
        }
        var field: String { "message.\(Schema.message.snake[index])" }
        guard let text = value.string else { throw .type(field, "TYPE_STRING", value: value) }
        if index == MessageField.fid { return .fid(Array(text)) }
        if index == MessageField.token { return .token(Array(text)) }
        if index == MessageField.topic {
            guard let name = TopicName(text) else { throw .invalid(field, "Invalid topic name.") }
            return .topic(name)
        }
        do {
            return .condition(try Condition.parse(text))
        } catch {
            throw .invalid(field, "Invalid condition expression provided: \(error).")
        }
    }

    // MARK: Content

    private func writeHead(_ target: ReadMessage.Target, to out: inout JSONWriter) {
        out.key("messageId")
        out.beginString("")
        out.part(id)
        out.endString()
        out.key("from")
        if case .topic(let name) = target {
            out.beginString("/topics/")
            out.part(name.utf8)
            out.endString()
        } else {
            out.string(project)
        }
        out.key("sentTime")
        out.number(now.milliseconds)
    }

    /// Writes data and notification; returns the bytes that count against the limit.
    private func writeContent(_ values: FieldValues, to out: inout JSONWriter) throws(APIError) -> Int {
        var payload = 0
        if let data = values[MessageField.data] {
            out.key("data")
            out.beginObject()
            try SchemaReader.forEachPair(data, "message.data") { (key, value) throws(APIError) in
                try MessageReader.checkKey(key, "message.data")
                // Apple's payload has it beside the data.
                guard !Schema.equal(key, "aps") else { throw MessageReader.keyRefused(key, "message.data") }
                payload += key.count + value.count
                out.key(key)
                out.string(value)
            }
            out.endObject()
        }
        if let notification = values[MessageField.notification] {
            let path = "message.notification"
            out.key("notification")
            try SchemaReader.write(notification, .object(.notification), path: path, to: &out)
            payload += notification.weight
        }
        return payload
    }

    /// Refuses the names that client libraries keep for themselves (FCM v1 discovery document,
    /// `Message.data`).
    static func checkKey(_ key: Bytes, _ path: String) throws(APIError) {
        if Schema.equal(key, "from") || Schema.equal(key, "message_type") || starts(key, "google.")
            || starts(key, "gcm.notification.")
        {
            throw keyRefused(key, path)
        }
    }

    private static func keyRefused(_ key: Bytes, _ path: String) -> APIError {
        .invalid(path, "Invalid data payload key: \(String(decoding: key, as: UTF8.self))")
    }

    private static func starts(_ key: Bytes, _ prefix: StaticString) -> Bool {
        guard key.count >= prefix.utf8CodeUnitCount else { return false }
        return Schema.equal(Bytes(rebasing: key[..<prefix.utf8CodeUnitCount]), prefix)
    }
}
