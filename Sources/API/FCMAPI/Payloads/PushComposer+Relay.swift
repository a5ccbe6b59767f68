extension PushComposer {
    /// The key of a topic's name in the data of a relayed message. FCM writes its own sender into `from`.
    public static let relayTopicKey = "tidecast_topic"
    /// FCM's bound of keys and values of data and notification.
    private static let relayPayloadMax = 4096

    /// The body of FCM's `messages:send` that passes a message on to `token`, a token of the operator's own
    /// Firebase project.
    ///
    /// The data has the topic's name under `tidecast_topic`, unless the data would be too long with it.
    /// `ttlSeconds`: what is left of the message's time to live on Android.
    public func relay(
        _ event: [UInt8], token: String, ttlSeconds: Int
    ) throws(PushContentError) -> [UInt8] {
        let event = try read(event)
        var out = JSONWriter(capacity: 1024)
        out.beginObject()
        out.key("message")
        out.beginObject()
        out.field("token", token)
        let topic = PushComposer.topicName(event.from)
        writeData(event.data, topic, rest: event.notification, to: &out)
        for name in ["notification", "apns", "fcmOptions"] as [StaticString] {
            guard let value = event.value[name] else { continue }
            out.key(name)
            out.value(value)
        }
        if let web = event.value["webpush"] { writeBlock("webpush", web, topic: topic, ttl: nil, to: &out) }
        // FCM takes one of the two blocks, and the time to live needs one.
        let second = event.value["androidV2"]
        let ttl = "\(max(0, min(ttlSeconds, PushComposer.ttlSecondsDefault)))s"
        writeBlock(
            second == nil ? "android" : "androidV2", second ?? event.value["android"], topic: topic, ttl: ttl,
            to: &out)
        out.endObject()
        out.endObject()
        return out.bytes
    }

    /// Data of a platform replaces the message's data at FCM, so it gets the topic too.
    private func writeBlock(
        _ name: StaticString, _ block: JSONValue?, topic: [UInt8]?, ttl: String?, to out: inout JSONWriter
    ) {
        out.key(name)
        out.beginObject()
        out.write(block?.fields(except: ttl == nil ? ["data"] : ["data", "ttl"]) ?? [])
        if let data = block?["data"] {
            writeData(data, topic, rest: block?["notification"], to: &out)
        }
        if let ttl { out.field("ttl", ttl) }
        out.endObject()
    }

    /// Writes data with the topic, if the topic fits into FCM's bound of `data` and `rest`.
    private func writeData(
        _ data: JSONValue?, _ topic: [UInt8]?, rest: JSONValue?, to out: inout JSONWriter
    ) {
        let key = PushComposer.relayTopicKey
        let weight = (data?.weight ?? 0) + (rest?.weight ?? 0)
        let fits = topic.map { weight + key.utf8.count + $0.count <= PushComposer.relayPayloadMax } ?? false
        guard data != nil || fits else { return }
        out.key("data")
        out.beginObject()
        out.write(data?.fields(except: fits ? ["tidecast_topic"] : []) ?? [])
        if let topic, fits { out.field("tidecast_topic", topic) }
        out.endObject()
    }

    private static func topicName(_ from: JSONValue) -> [UInt8]? {
        let prefix = Array("/topics/".utf8)
        guard let text = from.string, text.starts(with: prefix) else { return nil }
        return Array(text.dropFirst(prefix.count))
    }
}
