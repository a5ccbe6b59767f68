import Model
import PushMessages
import Testing

@testable import FCMAPI

@Suite("The message for Apple's push service")
struct APNsPayloadTests {
    private let composed = Composed()
    private static let id = "00000000000000010000000000000002"

    @Test(
        "has the alert, the data beside aps, and the keys that Firebase's SDK reads",
        arguments: [
            (
                #"{"topic":"news","notification":{"title":"t","body":"b"},"data":{"k":"v"}}"#,
                #"{"aps":{"alert":{"body":"b","title":"t"}},"from":"/topics/news","gcm.message_id":"ID","#
                    + #""google.c.a.e":"1","google.c.sender.id":"5","k":"v"}"#
            ),
            (
                #"{"condition":"'a' in topics","data":{"k":"v"}}"#,
                #"{"aps":{"content-available":1},"from":"5","gcm.message_id":"ID","google.c.sender.id":"5","#
                    + #""k":"v"}"#
            ),
            (
                #"{"topic":"a","notification":{"title":"t"},"apns":{"payload":{"aps":{"alert":"own","#
                    + #""badge":3},"x":{"y":[1,2.5,null]}}}}"#,
                #"{"aps":{"alert":"own","badge":3},"from":"/topics/a","gcm.message_id":"ID","#
                    + #""google.c.a.e":"1","google.c.sender.id":"5","x":{"y":[1,2.5,null]}}"#
            ),
            (
                #"{"topic":"a","notification":{"title":"t","image":"i"},"apns":{"payload":{"aps":"#
                    + #"{"sound":"s"}}}}"#,
                #"{"aps":{"alert":{"title":"t"},"mutable-content":1,"sound":"s"},"#
                    + #""fcm_options":{"image":"i"},"from":"/topics/a","gcm.message_id":"ID","#
                    + #""google.c.a.e":"1","google.c.sender.id":"5"}"#
            ),
            (
                #"{"topic":"a","data":{"k":"data","j":"data"},"apns":{"payload":{"k":"apns","aps":{}},"#
                    + #""fcm_options":{"image":"j","analytics_label":"l"}}}"#,
                #"{"aps":{"content-available":1,"mutable-content":1},"fcm_options":{"image":"j"},"#
                    + #""from":"/topics/a","gcm.message_id":"ID","google.c.a.m_l":"l","#
                    + #""google.c.sender.id":"5","j":"data","k":"apns"}"#
            ),
            (
                #"{"topic":"a","data":{"gcm.message_id":"x","fcm_options":"y"},"#
                    + #""apns":{"payload":{"gcm.message_id":7,"aps":{"content-available":0}}}}"#,
                #"{"aps":{"content-available":0},"from":"/topics/a","gcm.message_id":"ID","#
                    + #""google.c.sender.id":"5"}"#
            ),
            (
                #"{"topic":"a","notification":{}}"#,
                #"{"aps":{"content-available":1},"from":"/topics/a","gcm.message_id":"ID","#
                    + #""google.c.a.e":"1","google.c.sender.id":"5"}"#
            ),
        ])
    func payload(message: String, wanted: String) throws {
        let payload = try composed.apns(message).payload
        #expect(try sorted(object(payload)) == wanted.replacing("ID", with: APNsPayloadTests.id))
    }

    /// Push type, priority.
    @Test(
        "is an alert where something is to be seen or heard, otherwise a background push with priority 5",
        arguments: [
            (#"{"topic":"a","notification":{"title":"t"}}"#, .alert, 10),
            (#"{"topic":"a","data":{"k":"v"}}"#, .background, 5),
            (#"{"topic":"a","apns":{"payload":{"aps":{"badge":0}}}}"#, .alert, 10),
            (
                #"{"topic":"a","apns":{"payload":{"aps":{"sound":"s"}},"headers":{"APNS-Priority":"5"}}}"#,
                .alert, 5
            ),
            (#"{"topic":"a","apns":{"headers":{"apns-priority":"10"}}}"#, .background, 5),
            (#"{"topic":"a","apns":{"headers":{"apns-priority":"1"}}}"#, .background, 1),
            (#"{"topic":"a","apns":{"headers":{"apns-priority":"7"}}}"#, .background, 5),
            (
                #"{"topic":"a","notification":{"title":"t"},"apns":{"headers":"#
                    + #"{"apns-push-type":"background"}}}"#,
                .background, 5
            ),
            (#"{"topic":"a","apns":{"headers":{"apns-push-type":"voip"}}}"#, .voip, 10),
            (#"{"topic":"a","apns":{"headers":{"apns-push-type":"other"}}}"#, .background, 5),
        ] as [(String, APNsMessage.PushType, Int)])
    func pushType(message: String, type: APNsMessage.PushType, priority: Int) throws {
        let apns = try composed.apns(message)
        #expect(apns.pushType == type && apns.priority == priority)
    }

    @Test(
        "expires when its header says, otherwise after 30 days; Android's time does not count",
        arguments: [
            (#"{"topic":"a"}"#, 1_802_592_000), (#"{"topic":"a","android":{"ttl":"0s"}}"#, 1_802_592_000),
            (#"{"topic":"a","apns":{"headers":{"apns-expiration":"0"}}}"#, 0),
            (#"{"topic":"a","apns":{"headers":{"apns-expiration":"1800000060"}}}"#, 1_800_000_060),
            (#"{"topic":"a","apns":{"headers":{"apns-expiration":"-5"}}}"#, 1_802_592_000),
            (#"{"topic":"a","apns":{"headers":{"apns-expiration":"x"}}}"#, 1_802_592_000),
        ] as [(String, Int64)])
    func expiration(message: String, seconds: Int64) throws {
        #expect(try composed.apns(message).expiration == seconds)
    }

    @Test(
        "that the API would refuse is cut to what Apple takes: a collapse id is hashed, a topic is left out")
    func outOfBounds() throws {
        let (key, topic) = (String(repeating: "k", count: 65), "org.a." + String(repeating: "t", count: 300))
        func event(_ apns: String) -> [UInt8] {
            let id = APNsPayloadTests.id
            return Array(#"{"messageId":"\#(id)","from":"/topics/a","sentTime":1,"apns":{\#(apns)}}"#.utf8)
        }
        let project = composed.harness.project.number
        let made = try composed.composer.apns(
            event(#""headers":{"apns-collapse-id":"\#(key)","apns-topic":"\#(topic)"}"#), project: project)
        #expect(made.collapseID.utf8.count == 43 && made.topic == nil)
        let token = String(repeating: "0", count: 514)
        #expect(throws: PushContentError.tooLarge(bytes: 514, limit: 512)) {
            try composed.composer.apns(event(#""liveActivityToken":"\#(token)""#), project: project)
        }
    }

    @Test("collapses by its own header, or by its id, and never by Android's key")
    func collapse() throws {
        func collapseID(_ key: String) throws -> String {
            try composed.apns(
                "{\"topic\":\"a\",\"apns\":{\"headers\":{\"apns-collapse-id\":\"\(key)\"}}}"
            ).collapseID
        }
        #expect(try collapseID("score") == "score")
        let longest = String(repeating: "k", count: 64)
        #expect(try collapseID(longest) == longest)
        #expect(try collapseID("a b") == "yGh6CKpdbtIEQyj6aml6uOltw0KR6MIDSujDjm_MbWU")
        let android = try composed.apns(#"{"topic":"a","android":{"collapse_key":"c"}}"#)
        #expect(android.collapseID == APNsPayloadTests.id)
    }

    @Test("of a live activity has the payload only, the activity's token, and the push type")
    func liveActivity() throws {
        let apns = try composed.apns(
            #"{"topic":"a","notification":{"title":"t"},"data":{"k":"v"},"apns":"#
                + #"{"live_activity_token":"00FFab","payload":{"aps":{"event":"update"}}}}"#)
        #expect(apns.pushType == .liveactivity && apns.liveActivityToken == "00ffab")
        #expect(String(decoding: apns.payload, as: UTF8.self) == #"{"aps":{"event":"update"}}"#)
        let address = APNsAddress(isSandbox: false, bundleID: "org.a", token: [1, 2])
        #expect(apns.path(to: address) == "/3/device/00ffab")
        #expect(apns.topic(of: address) == "org.a.push-type.liveactivity")
    }

    @Test("leaves out metrics, FID, sender and from in this order before it is too large")
    func dropping() throws {
        let fid = "cdefghijklmnopqrstuvwx"
        func message(_ count: Int) -> String {
            "{\"topic\":\"a\",\"notification\":{\"title\":\"t\"},\"data\":{\"k\":"
                + "\"\(String(repeating: "x", count: count))\"}}"
        }
        let keys = ["google.c.a.e", "google.c.fid", "google.c.sender.id", "from"]
        var kept = keys.count
        // What is left without the text and the four keys.
        let bare = #"{"aps":{"alert":{"title":"t"}},"gcm.message_id":"\#(APNsPayloadTests.id)","k":""}"#.utf8
            .count
        for count in 3800...4096 - bare {
            let apns = try composed.apns(message(count), fid: fid)
            let payload = object(apns.payload)
            #expect(apns.payload.count <= 4096)
            let there = keys.filter { payload[$0] != nil }
            #expect(there == keys.suffix(there.count) && there.count <= kept, "\(count)")
            kept = there.count
        }
        #expect(kept == 0)
        #expect(throws: PushContentError.tooLarge(bytes: 4097, limit: 4096)) {
            try composed.apns(message(4097 - bare), fid: fid)
        }
        #expect(try composed.apns(message(4096 - bare), fid: fid).payload.count == 4096)
    }

    @Test("is refused where the data has the key aps, by the send as by the sender")
    func reserved() throws {
        let harness = composed.harness
        guard case .operation(.refusedSend, let form) = harness.send(#"{"topic":"a","data":{"aps":"x"}}"#),
            case .refusedSend(let refused) = form.kind
        else { Issue.record("the send is taken"); return }
        #expect(refused.response.status == 400)
        let event = #"{"messageId":"a","from":"/topics/a","sentTime":1,"data":{"aps":"x"}}"#
        #expect(throws: PushContentError.reservedKey("aps")) {
            try composed.composer.apns(Array(event.utf8), project: harness.project.number)
        }
    }

    @Test(
        "goes to the topic of its headers only where that is the app's, with a UUID of the headers or its own"
    )
    func fields() throws {
        let address = APNsAddress(isSandbox: true, bundleID: "org.a", token: [0xAB, 0xCD])
        let own = "0A0A0A0A-1b1b-2c2c-3d3d-4E4E4E4E4E4E"
        let message = try composed.apns(
            "{\"topic\":\"a\",\"notification\":{\"title\":\"t\"},\"apns\":{\"headers\":"
                + "{\"apns-topic\":\"org.a.clip\",\"apns-id\":\"\(own)\"}}}")
        #expect(
            message.fields(to: address, authorization: "bearer x", id: "i").map { "\($0.name): \($0.value)" }
                == [
                    "authorization: bearer x", "apns-topic: org.a.clip", "apns-push-type: alert",
                    "apns-priority: 10", "apns-id: \(own.lowercased())", "apns-expiration: 1802592000",
                    "apns-collapse-id: \(APNsPayloadTests.id)",
                ])
        #expect(message.path(to: address) == "/3/device/abcd")
        let foreign = try composed.apns(
            #"{"topic":"a","apns":{"headers":{"apns-topic":"org.abc","apns-id":"7","apns-other":"x"}}}"#)
        let fields = foreign.fields(to: address, authorization: "", id: "i")
        #expect(fields[1].value == "org.a" && fields[4].value == "i" && fields.count == 7)
        let voip = try composed.apns(#"{"topic":"a","apns":{"headers":{"apns-push-type":"voip"}}}"#)
        #expect(voip.topic(of: address) == "org.a.voip")
    }
}

@Suite("The message for the relay")
struct RelayPayloadTests {
    private let composed = Composed()

    @Test("is the sent one, with the token as target and the topic in the data")
    func relayed() throws {
        let message = try composed.relay(
            #"{"topic":"news","data":{"k":"v"},"notification":{"title":"t"},"android":{"priority":"high","#
                + #""ttl":"3600s","data":{"a":"b"}},"webpush":{"headers":{"TTL":"1"}},"#
                + #""apns":{"payload":{"aps":{"badge":1}}},"fcm_options":{"analytics_label":"l"}}"#)
        #expect(
            try sorted(message)
                == #"{"android":{"data":{"a":"b","tidecast_topic":"news"},"priority":"HIGH","ttl":"60s"},"#
                + #""apns":{"payload":{"aps":{"badge":1}}},"data":{"k":"v","tidecast_topic":"news"},"#
                + #""fcmOptions":{"analyticsLabel":"l"},"notification":{"title":"t"},"token":"t","#
                + #""webpush":{"headers":{"TTL":"1"}}}"#)
    }

    @Test("has the topic as its only data, and no topic where there is none")
    func topic() throws {
        #expect(
            try sorted(try composed.relay(#"{"topic":"a"}"#))
                == #"{"android":{"ttl":"60s"},"data":{"tidecast_topic":"a"},"token":"t"}"#)
        #expect(
            try sorted(try composed.relay(#"{"condition":"'a' in topics"}"#))
                == #"{"android":{"ttl":"60s"},"token":"t"}"#)
        #expect(
            try sorted(try composed.relay(#"{"topic":"a","android_v2":{"ttl":"9s"}}"#, ttlSeconds: -1))
                == #"{"androidV2":{"ttl":"0s"},"data":{"tidecast_topic":"a"},"token":"t"}"#)
    }

    @Test("leaves the topic out where FCM's bound would be passed, and is taken by the reader of sends")
    func bound() throws {
        let long = String(repeating: "x", count: 4096 - 1)
        let message = try composed.relay("{\"topic\":\"a\",\"data\":{\"k\":\"\(long)\"}}")
        #expect((message["data"] as? [String: String])?.keys.sorted() == ["k"])
        let fitting = String(repeating: "x", count: 4096 - 1 - 15)
        let second = try composed.relay("{\"topic\":\"a\",\"data\":{\"k\":\"\(fitting)\"}}")
        #expect((second["data"] as? [String: String])?["tidecast_topic"] == "a")
        for var sent in [message, second] {
            sent["token"] = composed.harness.token()
            #expect(composed.harness.send(try sorted(sent)).sent != nil)
        }
    }
}
