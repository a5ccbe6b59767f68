import Model

/// The messages that the server sends to user agents.
enum PushServiceAnswer {
    static let pong = Array("{}".utf8)

    /// `{"messageType":"hello","uaid":"…","status":200,"use_webpush":true,"broadcasts":{}}`
    static func hello(_ userAgent: [UInt8]) -> [UInt8] {
        object("hello") { out in
            out.field("uaid", userAgent)
            status(200, &out)
            out.key("use_webpush")
            out.bool(true)
            out.key("broadcasts")
            out.beginObject()
            out.endObject()
        }
    }

    /// `{"messageType":"register","channelID":"…","status":200,"pushEndpoint":"https://…"}`. `endpoint` is
    /// empty if the registration fails.
    static func register(_ channel: ChannelID, status code: Int, endpoint: [UInt8] = []) -> [UInt8] {
        object("register") { out in
            out.field("channelID", channel.text)
            status(code, &out)
            out.field("pushEndpoint", endpoint)
        }
    }

    /// `{"messageType":"unregister","channelID":"…","status":200}`
    static func unregister(_ channel: ChannelID, status code: Int) -> [UInt8] {
        object("unregister") { out in
            out.field("channelID", channel.text)
            status(code, &out)
        }
    }

    private static func object(_ kind: String, _ body: (inout JSONWriter) -> Void) -> [UInt8] {
        var out = JSONWriter(capacity: 256)
        out.beginObject()
        out.field("messageType", kind)
        body(&out)
        out.endObject()
        return out.bytes
    }

    private static func status(_ code: Int, _ out: inout JSONWriter) {
        out.key("status")
        out.number(code)
    }
}

/// A message of a sender as the core carries it: the event of an ordinary message, with the channel and the
/// encrypted body in place of FCM's fields.
enum PushServiceEvent {
    /// The bytes before the channel: `{"messageId":"…",`.
    private static let headCount = 16 + MessageID.textCount
    private static let channelKey = Array("\"channelID\":\"".utf8)

    /// `{"messageId":"…","channelID":"…","headers":{…},"data":"…"}`. `body` is encrypted as `coding` says;
    /// empty for a message without a content.
    static func event(
        _ id: MessageID, _ channel: ChannelID, body: [UInt8], by coding: PushContentCoding?
    ) -> [UInt8] {
        var out = JSONWriter(capacity: 192 + body.count * 4 / 3)
        out.beginObject()
        out.key("messageId")
        out.beginString("")
        out.part(id)
        out.endString()
        out.field("channelID", channel.text)
        if let coding {
            out.key("headers")
            coding.write(&out)
            out.field("data", Base64URL.encode(body))
        }
        out.endObject()
        return out.bytes
    }

    /// The notification for a user agent:
    /// `{"messageType":"notification","version":"…","channelID":"…","headers":{…},"data":"…"}`. `nil` if the
    /// event is no message of this kind: a backend of the project has sent it to the device.
    static func notification(_ event: [UInt8], version: EventID) -> [UInt8]? {
        guard event.count > headCount, MessageID(ofEvent: event) != nil,
            event[headCount...].starts(with: channelKey)
        else { return nil }
        var out = Array("{\"messageType\":\"notification\",\"version\":\"".utf8)
        out.reserveCapacity(event.count + 64)
        version.append(to: &out)
        out.append(contentsOf: "\",".utf8)
        out.append(contentsOf: event[headCount...])
        return out
    }
}
