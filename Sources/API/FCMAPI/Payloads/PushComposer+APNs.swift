import Model
import PushMessages

extension PushComposer {
    /// FCM's default of `apns-expiration`: 30 days after the send.
    private static let expirationSecondsDefault: Int64 = 30 * 86_400

    /// Keys that the payload has for Firebase's SDK, in the order in which they are left out of a payload
    /// that is too long.
    private enum Extra: Int, CaseIterable {
        case analytics, fid, sender, from
    }

    /// What of a message is for Apple.
    private struct Parts {
        let event: Event
        let project: ProjectNumber
        /// `apns.payload`, and its `aps`.
        let payload: JSONValue?
        let aps: JSONValue?
        let image: JSONValue?
        let label: JSONValue?
        let fid: String?
        /// Whether the message has an alert, or gets one from `notification`.
        let isVisible: Bool
    }

    /// The message for Apple's push service, made by the rules that FCM's documentation gives: `apns.payload`
    /// first, an alert from `notification` if the payload has none, and the data beside `aps`.
    ///
    /// A message that shows nothing gets `content-available`, so that the app is woken; FCM leaves that to
    /// the sender. `fid`: the device's FID for delivery metrics. Throws `.tooLarge` if the payload is longer
    /// than 4096 bytes without all keys that only metrics need.
    public func apns(
        _ event: [UInt8], project: ProjectNumber, fid: String? = nil
    ) throws(PushContentError) -> APNsMessage {
        let event = try read(event)
        let block = event.value["apns"]?.ifObject
        let headers = block?["headers"]
        let token = block?["liveActivityToken"]?.text.flatMap { Hex.bytes($0) }.map { Hex.text($0) }
        let parts = PushComposer.parts(event, block, project: project, fid: fid)
        guard event.data?["aps"] == nil else { throw .reservedKey("aps") }
        if let token, token.utf8.count > 2 * APNsAddress.tokenBytesMax {
            throw .tooLarge(bytes: token.utf8.count, limit: 2 * APNsAddress.tokenBytesMax)
        }
        let pushType = token != nil ? .liveactivity : PushComposer.pushType(headers, parts)
        let payload =
            token != nil
            ? try plainPayload(parts, limit: pushType.payloadMax)
            : try payload(parts, limit: pushType.payloadMax)
        var message = APNsMessage(
            payload: payload, pushType: pushType, priority: PushComposer.priority(headers, pushType),
            expiration: PushComposer.expiration(headers, event),
            collapseID: PushComposer.collapseID(headers, event))
        message.topic = headers?.header("apns-topic").flatMap { topic in
            PushComposer.isPlain(topic) && topic.utf8.count <= APNsMessage.topicBytesMax ? topic : nil
        }
        message.id = headers?.header("apns-id").flatMap { APNsMessage.uuid(reading: $0) }
        message.liveActivityToken = token
        message.messageID = event.id.text ?? ""
        return message
    }

    private static func parts(
        _ event: Event, _ block: JSONValue?, project: ProjectNumber, fid: String?
    ) -> Parts {
        let payload = block?["payload"]?.ifObject
        let aps = payload?["aps"]?.ifObject
        let hasOwn = aps?["alert"] != nil || aps?["badge"] != nil || aps?["sound"] != nil
        let hasText = event.notification?["title"] != nil || event.notification?["body"] != nil
        let image = block?["fcmOptions"]?["image"] ?? event.notification?["image"]
        return Parts(
            event: event, project: project, payload: payload, aps: aps, image: image,
            label: event.label(of: block), fid: fid, isVisible: hasOwn || hasText)
    }

    // MARK: Headers

    private static func pushType(_ headers: JSONValue?, _ parts: Parts) -> APNsMessage.PushType {
        let own = headers?.header("apns-push-type").flatMap { APNsMessage.PushType(rawValue: $0) }
        return own ?? (parts.isVisible ? .alert : .background)
    }

    /// Apple refuses a background push with priority 10.
    private static func priority(_ headers: JSONValue?, _ pushType: APNsMessage.PushType) -> Int {
        let own = headers?.header("apns-priority").flatMap { Int($0) }.flatMap {
            [1, 5, 10].contains($0) ? $0 : nil
        }
        let priority = own ?? 10
        return pushType == .background ? min(priority, 5) : priority
    }

    private static func expiration(_ headers: JSONValue?, _ event: Event) -> Int64 {
        let own = headers?.header("apns-expiration").flatMap { Int64($0) }
        if let own, own >= 0 { return own }
        return event.sent / 1000 + expirationSecondsDefault
    }

    /// The id of the headers. A message without one has its own id, so that a second try replaces the first
    /// on the screen. Android's collapse key does not count: it replaces only what no device has seen. An id
    /// that cannot stand in the field, or is too long, is hashed.
    private static func collapseID(_ headers: JSONValue?, _ event: Event) -> String {
        guard let own = headers?.header("apns-collapse-id"), !own.isEmpty else { return event.id.text ?? "" }
        let fits = own.utf8.count <= APNsMessage.collapseIDBytesMax && isPlain(own)
        return fits ? own : PushDigest.short(own.utf8, count: 43)
    }

    /// Whether a header field may hold the text.
    private static func isPlain(_ text: String) -> Bool {
        !text.isEmpty && text.utf8.allSatisfy { $0 > 0x20 && $0 < 0x7F }
    }

    // MARK: Payload

    /// A live activity reads `apns.payload` only.
    private func plainPayload(_ parts: Parts, limit: Int) throws(PushContentError) -> [UInt8] {
        var out = JSONWriter(capacity: 1024)
        if let payload = parts.payload {
            out.value(payload)
        } else {
            out.beginObject()
            out.endObject()
        }
        guard out.count <= limit else { throw .tooLarge(bytes: out.count, limit: limit) }
        return out.bytes
    }

    /// Leaves keys out, one after another, until the payload fits.
    private func payload(_ parts: Parts, limit: Int) throws(PushContentError) -> [UInt8] {
        var bytes = write(parts, extrasFrom: 0)
        for left in 1...Extra.allCases.count where bytes.count > limit {
            bytes = write(parts, extrasFrom: left)
        }
        guard bytes.count <= limit else { throw .tooLarge(bytes: bytes.count, limit: limit) }
        return bytes
    }

    /// `first`: the first extra that is written; those before are left out.
    private func write(_ parts: Parts, extrasFrom first: Int) -> [UInt8] {
        let event = parts.event
        var out = JSONWriter(capacity: 1024)
        out.beginObject()
        writeAps(parts, to: &out)
        out.key("gcm.message_id")
        out.value(event.id)
        let ours: [StaticString] = [
            "aps", "gcm.message_id", "google.c.a.e", "google.c.a.m_l", "google.c.fid", "google.c.sender.id",
            "from",
        ]
        let own = parts.payload?.fields(except: ours) ?? []
        out.write(own)
        let taken = Set(own.map { BytesKey(bytes: $0.name) })
        let data = event.data?.fields(except: ours + ["fcm_options"]) ?? []
        out.write(data.filter { !taken.contains(BytesKey(bytes: $0.name)) })
        if let image = parts.image, parts.payload?["fcm_options"] == nil {
            out.key("fcm_options")
            out.beginObject()
            out.key("image")
            out.value(image)
            out.endObject()
        }
        writeExtras(parts, from: first, to: &out)
        out.endObject()
        return out.bytes
    }

    private func writeExtras(_ parts: Parts, from first: Int, to out: inout JSONWriter) {
        if first <= Extra.analytics.rawValue {
            if parts.event.notification != nil { out.field("google.c.a.e", "1") }
            if let label = parts.label {
                out.key("google.c.a.m_l")
                out.value(label)
            }
        }
        if first <= Extra.fid.rawValue, let fid = parts.fid { out.field("google.c.fid", fid) }
        if first <= Extra.sender.rawValue {
            out.field("google.c.sender.id", "\(parts.project.rawValue)")
        }
        if first <= Extra.from.rawValue { parts.event.writeFrom(parts.project, to: &out) }
    }

    private func writeAps(_ parts: Parts, to out: inout JSONWriter) {
        out.key("aps")
        out.beginObject()
        out.write(parts.aps?.uniqueFields() ?? [])
        if let notification = parts.event.notification, parts.aps?["alert"] == nil {
            let texts = notification.uniqueFields().filter {
                Schema.equal($0.name, "title") || Schema.equal($0.name, "body")
            }
            if !texts.isEmpty {
                out.key("alert")
                out.beginObject()
                out.write(texts)
                out.endObject()
            }
        }
        // The app's service extension may load the image only then.
        if parts.image != nil, parts.aps?["mutable-content"] == nil {
            out.key("mutable-content")
            out.number(1)
        }
        if !parts.isVisible, parts.aps?["content-available"] == nil {
            out.key("content-available")
            out.number(1)
        }
        out.endObject()
    }
}
