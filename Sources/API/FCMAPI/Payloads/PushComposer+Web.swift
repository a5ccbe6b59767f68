import Model
import PushMessages

extension PushComposer {
    /// The message for browsers, in the form that the worker of Firebase's web SDK reads: a JSON object with
    /// `from`, `fcmMessageId`, `priority`, `notification`, `data` and `fcmOptions`.
    ///
    /// As at FCM, members of `webpush.notification` replace those of `notification`, and `webpush.data`
    /// replaces `data`. Throws `.tooLarge` above 3993 bytes.
    public func web(
        _ event: [UInt8], project: ProjectNumber
    ) throws(PushContentError) -> WebPushMessage {
        let event = try read(event)
        let block = event.value["webpush"]?.ifObject
        let headers = block?["headers"]
        let isHigh = Schema.isWord(event.value["android"]?["priority"], "HIGH")
        let urgency =
            headers?.header("urgency").flatMap { WebPushMessage.Urgency(rawValue: $0.lowercased()) }
            ?? (isHigh ? .high : .normal)
        let payload = webPayload(event, block, project: project, isHigh: urgency == .high)
        guard payload.count <= WebPushEncryption.plaintextBytesMax else {
            throw .tooLarge(bytes: payload.count, limit: WebPushEncryption.plaintextBytesMax)
        }
        return WebPushMessage(
            payload: payload, ttlSeconds: PushComposer.ttl(headers?.header("ttl")), urgency: urgency,
            topic: PushComposer.topic(headers?.header("topic"), event))
    }

    /// A TTL that is no number counts as none.
    private static func ttl(_ text: String?) -> Int {
        guard let text, !text.isEmpty, text.utf8.allSatisfy({ Duration.digit($0) != nil }) else {
            return ttlSecondsDefault
        }
        // More digits than fit are more than the longest time.
        return min(Int(text) ?? ttlSecondsDefault, ttlSecondsDefault)
    }

    /// The topic of the web block, otherwise the collapse key. A message without one has its id, so that a
    /// second try replaces the first.
    private static func topic(_ own: String?, _ event: Event) -> String {
        let wanted = own ?? event.collapseKey?.text ?? ""
        if wanted.isEmpty { return event.id.text ?? "" }
        if WebPushMessage.isTopic(wanted.utf8) { return wanted }
        return PushDigest.short(wanted.utf8, count: WebPushMessage.topicBytesMax)
    }

    private func webPayload(
        _ event: Event, _ block: JSONValue?, project: ProjectNumber, isHigh: Bool
    ) -> [UInt8] {
        let set = block?["fcmOptions"]?["link"]
        let link = set?.string?.isEmpty == true ? nil : set
        var out = JSONWriter(capacity: 1024)
        out.beginObject()
        event.writeFrom(project, to: &out)
        out.key("fcmMessageId")
        out.value(event.id)
        out.field("priority", isHigh ? "high" : "normal")
        if let key = event.collapseKey {
            out.key("collapse_key")
            out.value(key)
        }
        writeNotification(event.notification, block?["notification"]?.ifObject, link: link, to: &out)
        if let data = block?["data"] ?? event.data {
            out.key("data")
            out.value(data)
        }
        let label = event.label(of: block)
        if link != nil || label != nil {
            out.key("fcmOptions")
            out.beginObject()
            if let link {
                out.key("link")
                out.value(link)
            }
            if let label {
                out.key("analytics_label")
                out.value(label)
            }
            out.endObject()
        }
        out.endObject()
        return out.bytes
    }

    /// The worker shows `notification` with all its members, and takes `click_action` if an older page has no
    /// `fcmOptions`.
    private func writeNotification(
        _ common: JSONValue?, _ own: JSONValue?, link: JSONValue?, to out: inout JSONWriter
    ) {
        guard common != nil || own != nil else { return }
        out.key("notification")
        out.beginObject()
        let members = own?.uniqueFields() ?? []
        let taken = Set(members.map { BytesKey(bytes: $0.name) })
        let others = common?.uniqueFields() ?? []
        out.write(others.filter { !taken.contains(BytesKey(bytes: $0.name)) })
        out.write(members)
        if let link, own?["click_action"] == nil {
            out.key("click_action")
            out.value(link)
        }
        out.endObject()
    }
}

extension Schema {
    static func isWord(_ value: JSONValue?, _ word: StaticString) -> Bool {
        value?.string.map { equal($0, word) } ?? false
    }
}
