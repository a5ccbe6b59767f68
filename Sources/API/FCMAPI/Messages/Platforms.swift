import Model

/// The platforms' blocks of a message: their rules, and their terms for time to live and collapse key.
struct Platforms {
    /// An object, because most messages have at most one, and the values of a block are large to pass on.
    final class Block {
        /// The index of the block's field in the message.
        let index: Int
        let schema: Schema
        /// The block's name in errors, such as `message.android`.
        let path: String
        let values: FieldValues

        init(index: Int, schema: Schema, path: String, values: FieldValues) {
            self.index = index
            self.schema = schema
            self.path = path
            self.values = values
        }
    }
    private(set) var android: Block?
    private(set) var webpush: Block?
    private(set) var apns: Block?
    private(set) var options: Block?

    init(_ message: FieldValues) throws(APIError) {
        guard message[MessageField.android] == nil || message[MessageField.androidV2] == nil else {
            throw .invalid("message.android_v2", "Only one of android and android_v2 may be set.")
        }
        android = try Platforms.block(
            message, MessageField.android, schema: Schema.android, path: "message.android")
        if android == nil {
            android = try Platforms.block(
                message, MessageField.androidV2, schema: Schema.androidV2, path: "message.android_v2")
        }
        webpush = try Platforms.block(
            message, MessageField.webpush, schema: Schema.webpush, path: "message.webpush")
        apns = try Platforms.block(message, MessageField.apns, schema: Schema.apns, path: "message.apns")
        options = try Platforms.block(
            message, MessageField.fcmOptions, schema: Schema.fcmOptions, path: "message.fcm_options")
    }

    private static func block(
        _ message: FieldValues, _ index: Int, schema: @autoclosure () -> Schema, path: StaticString
    ) throws(APIError) -> Block? {
        guard let value = message[index] else { return nil }
        let (schema, path) = (schema(), path.description)
        return Block(
            index: index, schema: schema, path: path,
            values: try SchemaReader.fields(value, schema, path: path))
    }

    /// Writes the blocks in canonical form, in which the type of each field checks it, and then checks the
    /// rules between fields.
    func write(to out: inout JSONWriter) throws(APIError) {
        if let android { try Platforms.write(android, to: &out) }
        if let webpush { try Platforms.write(webpush, to: &out) }
        if let apns { try Platforms.write(apns, to: &out) }
        if let options {
            try Platforms.write(options, to: &out)
            try Platforms.checkLabel(options.values[0], options.path)
        }
        if let android { try check(android: android) }
        if let webpush { try check(webpush: webpush) }
        if let apns { try check(apns: apns) }
    }

    private static func write(_ block: Block, to out: inout JSONWriter) throws(APIError) {
        out.key(Schema.message.camel[block.index])
        out.beginObject()
        try SchemaReader.write(block.values, block.schema, path: block.path, to: &out)
        out.endObject()
    }

    // MARK: Rules

    private func check(android block: Block) throws(APIError) {
        var payload = 0
        if let data = block.values[Android.data] { payload += try Platforms.dataBytes(data, block.path) }
        if let options = block.values[Android.options] {
            let path = "\(block.path).fcm_options"
            try Platforms.checkLabel(try SchemaReader.fields(options, .fcmOptions, path: path)[0], path)
        }
        var notification: (value: JSONValue, schema: Schema, path: String)?
        if block.index == MessageField.android {
            notification = block.values[Android.notification].map {
                ($0, .androidNotification, "\(block.path).notification")
            }
        } else if let remote = block.values[Android.remote] {
            let path = "\(block.path).remote_notification"
            notification = try SchemaReader.fields(remote, .remoteNotification, path: path)[
                Android.remoteNotification
            ].map { ($0, .androidV2Notification, "\(path).notification") }
        }
        if let (value, schema, path) = notification {
            payload += value.weight
            try Platforms.check(notification: value, schema, path)
        }
        try Platforms.check(payload: payload)
    }

    private static func check(
        notification: JSONValue, _ schema: Schema, _ path: String
    ) throws(APIError) {
        let values = try SchemaReader.fields(notification, schema, path: path)
        for part in ["title", "body"] {
            let arguments: StaticString = part == "title" ? "titleLocArgs" : "bodyLocArgs"
            let key: StaticString = part == "title" ? "titleLocKey" : "bodyLocKey"
            guard let list = values[schema.index(named: arguments)], !list.elements.isEmpty else { continue }
            guard values[schema.index(named: key)] != nil else {
                throw .invalid(
                    "\(path).\(part)_loc_args", "\(part)_loc_key is required with \(part)_loc_args.")
            }
        }
        guard let light = values[schema.index(named: "lightSettings")] else { return }
        let settings = try SchemaReader.fields(light, .light, path: "\(path).light_settings")
        for index in 0..<Schema.light.types.count where settings[index] == nil {
            let name = Schema.light.snake[index]
            throw .invalid("\(path).light_settings.\(name)", "\(name) is required in light_settings.")
        }
    }

    private func check(webpush block: Block) throws(APIError) {
        var payload = block.values[Web.notification]?.weight ?? 0
        if let data = block.values[Web.data] { payload += try Platforms.dataBytes(data, block.path) }
        try Platforms.check(payload: payload)
        guard let value = block.values[Web.options] else { return }
        let path = "\(block.path).fcm_options"
        let options = try SchemaReader.fields(value, .webpushOptions, path: path)
        try Platforms.checkLabel(options[Web.label], path)
        if let link = options[Web.link]?.string, !link.isEmpty, !Platforms.isLink(link) {
            throw .invalid("\(path).link", "The link must be an https URL, or one of localhost.")
        }
    }

    /// Browsers trust pages of their own machine as they trust https, so developers link to them.
    private static func isLink(_ link: Bytes) -> Bool {
        if link.starts(with: "https://".utf8) { return true }
        for host in ["http://localhost", "http://127.0.0.1"] where link.starts(with: host.utf8) {
            let port = link.dropFirst(host.utf8.count)
            let rest = port.first == UInt8(ascii: ":") ? port.dropFirst().drop { 0x30...0x39 ~= $0 } : port
            return rest.first.map { "/?#".utf8.contains($0) } ?? true
        }
        return false
    }

    private func check(apns block: Block) throws(APIError) {
        try Platforms.check(payload: block.values[Apple.payload]?.weight ?? 0)
        if let headers = block.values[Apple.headers] {
            try Platforms.check(appleHeaders: headers, "\(block.path).headers")
        }
        if let token = block.values[Apple.liveActivityToken]?.string {
            try Platforms.check(liveActivityToken: token, "\(block.path).live_activity_token")
        }
        guard let value = block.values[Apple.options] else { return }
        let path = "\(block.path).fcm_options"
        try Platforms.checkLabel(try SchemaReader.fields(value, .apnsOptions, path: path)[Apple.label], path)
    }

    /// A platform's data replaces the message's data, so it must keep the same rules.
    private static func dataBytes(_ data: JSONValue, _ path: String) throws(APIError) -> Int {
        var bytes = 0
        let path = "\(path).data"
        try SchemaReader.forEachPair(data, path) { (key, value) throws(APIError) in
            try MessageReader.checkKey(key, path)
            bytes += key.count + value.count
        }
        return bytes
    }

    static func check(
        payload: Int, _ bytesMax: Int = MessageLimits.payloadBytesMax
    ) throws(APIError) {
        guard payload > bytesMax else { return }
        throw APIError(
            status: .invalidArgument,
            message: "Message too big: \(payload) bytes, where \(bytesMax) are allowed.",
            fcmCode: "INVALID_ARGUMENT")
    }

    /// `^[a-zA-Z0-9-_.~%]{1,50}$`
    private static func checkLabel(_ label: JSONValue?, _ path: String) throws(APIError) {
        guard let text = label?.string else { return }
        guard !text.isEmpty, text.count <= 50, text.allSatisfy(TopicName.allows) else {
            throw .invalid("\(path).analytics_label", "Invalid analytics label.")
        }
    }
}
