/// The values that a field of a message may have.
indirect enum FieldType: Sendable {
    case string
    case bool
    case int32(min: Int64)
    /// One of these words, also in lower case, as some SDKs send it, or its number, as protobuf's JSON
    /// allows.
    case word(WordList)
    /// `^\d+(\.\d{1,9})?s$`
    case duration
    /// RFC 3339.
    case timestamp
    case stringMap
    case list(FieldType)
    case object(Schema)
    /// Any JSON object, which devices get as it is.
    case free
    /// #RRGGBB
    case color
    /// 0...1
    case fraction
}

/// The words of an enumeration, in the order of their numbers.
final class WordList: Sendable {
    let words: [StaticString]
    init(_ words: StaticString...) { self.words = words }

    func word(_ value: JSONValue) -> StaticString? {
        if let number = value.integer {
            return number >= 0 && number < words.count ? words[Int(number)] : nil
        }
        guard let text = value.string else { return nil }
        return words.first { Schema.equal(text, $0) || WordList.isLowercase(text, $0) }
    }

    private static func isLowercase(_ text: Bytes, _ word: StaticString) -> Bool {
        guard text.count == word.utf8CodeUnitCount else { return false }
        for index in 0..<text.count {
            let byte = word.utf8Start[index]
            let isLetter = byte >= UInt8(ascii: "A") && byte <= UInt8(ascii: "Z")
            if text[index] != (isLetter ? byte | 0x20 : byte) { return false }
        }
        return true
    }
}

struct Field: Sendable {
    let camel: StaticString
    let snake: StaticString
    let type: FieldType
    init(_ camel: StaticString, _ snake: StaticString, type: FieldType) {
        self.camel = camel
        self.snake = snake
        self.type = type
    }
    init(_ name: StaticString, _ type: FieldType) { self.init(name, name, type: type) }
}

/// The fields of one object. A request may write each name in camelCase or snake_case; devices get camelCase.
///
/// Source: FCM v1 discovery document, revision 20261023.
final class Schema: Sendable {
    /// The most fields of one object; the largest is Android's notification.
    static let fieldsMax = 32

    /// Names and types are in separate arrays, so that finding a name touches no reference count.
    let camel: [StaticString]
    let snake: [StaticString]
    let types: [FieldType]

    init(fields: [Field]) {
        camel = fields.map(\.camel)
        snake = fields.map(\.snake)
        types = fields.map(\.type)
        precondition(fields.count <= Schema.fieldsMax, "an object of the schema has too many fields")
    }

    /// The index of a field that the schema must have.
    func index(named name: StaticString) -> Int {
        let bytes = UnsafeBufferPointer(start: name.utf8Start, count: name.utf8CodeUnitCount)
        guard let index = index(of: bytes) else { preconditionFailure("the schema has no \(name)") }
        return index
    }

    func index(of name: Bytes) -> Int? {
        for index in 0..<camel.count
        where Schema.equal(name, camel[index]) || Schema.equal(name, snake[index]) {
            return index
        }
        return nil
    }

    @inline(__always)
    static func equal(_ bytes: Bytes, _ text: StaticString) -> Bool {
        guard bytes.count == text.utf8CodeUnitCount else { return false }
        for index in 0..<bytes.count where bytes[index] != text.utf8Start[index] { return false }
        return true
    }

    static let notification = Schema(fields: [
        Field("title", .string), Field("body", .string), Field("image", .string),
    ])

    static let fcmOptions = Schema(fields: [Field("analyticsLabel", "analytics_label", type: .string)])

    static let light = Schema(fields: [
        Field(
            "color",
            .object(
                Schema(fields: [
                    Field("red", .fraction), Field("green", .fraction), Field("blue", .fraction),
                    Field("alpha", .fraction),
                ]))),
        Field("lightOnDuration", "light_on_duration", type: .duration),
        Field("lightOffDuration", "light_off_duration", type: .duration),
    ])

    private static let androidNotificationFields: [Field] = [
        Field("title", .string), Field("body", .string), Field("icon", .string), Field("color", .color),
        Field("sound", .string), Field("tag", .string), Field("clickAction", "click_action", type: .string),
        Field("bodyLocKey", "body_loc_key", type: .string),
        Field("bodyLocArgs", "body_loc_args", type: .list(.string)),
        Field("titleLocKey", "title_loc_key", type: .string),
        Field("titleLocArgs", "title_loc_args", type: .list(.string)),
        Field("channelId", "channel_id", type: .string), Field("ticker", .string), Field("sticky", .bool),
        Field("eventTime", "event_time", type: .timestamp), Field("localOnly", "local_only", type: .bool),
        Field(
            "notificationPriority", "notification_priority",
            type: .word(
                WordList(
                    "PRIORITY_UNSPECIFIED", "PRIORITY_MIN", "PRIORITY_LOW", "PRIORITY_DEFAULT",
                    "PRIORITY_HIGH", "PRIORITY_MAX"))),
        Field("defaultSound", "default_sound", type: .bool),
        Field("defaultVibrateTimings", "default_vibrate_timings", type: .bool),
        Field("defaultLightSettings", "default_light_settings", type: .bool),
        Field("vibrateTimings", "vibrate_timings", type: .list(.duration)),
        Field("visibility", .word(WordList("VISIBILITY_UNSPECIFIED", "PRIVATE", "PUBLIC", "SECRET"))),
        Field("notificationCount", "notification_count", type: .int32(min: 0)),
        Field("lightSettings", "light_settings", type: .object(light)), Field("image", .string),
    ]

    private static let androidShared: [Field] = [
        Field("collapseKey", "collapse_key", type: .string), Field("ttl", .duration),
        Field("restrictedPackageName", "restricted_package_name", type: .string), Field("data", .stringMap),
        Field("fcmOptions", "fcm_options", type: .object(fcmOptions)),
        Field("directBootOk", "direct_boot_ok", type: .bool),
        Field("bandwidthConstrainedOk", "bandwidth_constrained_ok", type: .bool),
        Field("restrictedSatelliteOk", "restricted_satellite_ok", type: .bool),
    ]

    private static let proxyWords = WordList(
        "PROXY_UNSPECIFIED", "ALLOW", "DENY", "IF_PRIORITY_LOWERED")

    static let androidNotification = Schema(
        fields: androidNotificationFields + [
            Field("bypassProxyNotification", "bypass_proxy_notification", type: .bool),
            Field("proxy", .word(proxyWords)),
        ])

    static let android = Schema(
        fields: androidShared + [
            Field("priority", .word(WordList("NORMAL", "HIGH"))),
            Field("notification", .object(androidNotification)),
        ])

    static let androidV2Notification = Schema(
        fields: androidNotificationFields + [Field("id", .int32(min: Int64(Int32.min)))])

    static let remoteNotification = Schema(fields: [
        Field("notification", .object(androidV2Notification)),
        Field("mutableContent", "mutable_content", type: .bool),
        Field("useAsV1DataMessage", "use_as_v1_data_message", type: .bool),
    ])

    static let androidV2 = Schema(
        fields: androidShared + [
            Field("remoteNotification", "remote_notification", type: .object(remoteNotification)),
            Field("backgroundSync", "background_sync", type: .object(Schema(fields: []))),
        ])

    static let webpushOptions = Schema(fields: [
        Field("link", .string), Field("analyticsLabel", "analytics_label", type: .string),
    ])

    static let webpush = Schema(fields: [
        Field("headers", .stringMap), Field("data", .stringMap), Field("notification", .free),
        Field("fcmOptions", "fcm_options", type: .object(webpushOptions)),
    ])

    static let apnsOptions = Schema(fields: [
        Field("image", .string), Field("analyticsLabel", "analytics_label", type: .string),
    ])

    static let apns = Schema(fields: [
        Field("headers", .stringMap), Field("payload", .free),
        Field("fcmOptions", "fcm_options", type: .object(apnsOptions)),
        Field("liveActivityToken", "live_activity_token", type: .string),
    ])

    static let message = Schema(fields: [
        Field("name", .string), Field("data", .stringMap), Field("notification", .object(notification)),
        Field("android", .object(android)), Field("androidV2", "android_v2", type: .object(androidV2)),
        Field("webpush", .object(webpush)), Field("apns", .object(apns)),
        Field("fcmOptions", "fcm_options", type: .object(fcmOptions)), Field("fid", .string),
        Field("token", .string),
        Field("topic", .string), Field("condition", .string),
    ])
    static let request = Schema(fields: [
        Field("message", .object(message)), Field("validateOnly", "validate_only", type: .bool),
    ])
}
