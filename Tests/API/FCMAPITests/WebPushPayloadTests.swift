import Foundation
import Model
import PushMessages
import Testing

@testable import FCMAPI

/// A message as a backend sends it, read and composed.
struct Composed {
    let composer = PushComposer()
    let harness = APIHarness()

    func event(_ message: String) throws -> [UInt8] {
        try #require(harness.send(message).sent, "\(message)").message.event
    }
    func web(_ message: String) throws -> WebPushMessage {
        try composer.web(try event(message), project: harness.project.number)
    }
    func apns(_ message: String, fid: String? = nil) throws -> APNsMessage {
        try composer.apns(try event(message), project: harness.project.number, fid: fid)
    }
    func relay(_ message: String, ttlSeconds: Int = 60) throws -> [String: Any] {
        let body = try composer.relay(try event(message), token: "t", ttlSeconds: ttlSeconds)
        return try #require(object(body)["message"] as? [String: Any])
    }
}

/// JSON with sorted names, so that two texts can be compared.
func sorted(_ value: Any?) throws -> String {
    let data = try JSONSerialization.data(
        withJSONObject: try #require(value), options: [.sortedKeys, .withoutEscapingSlashes])
    return String(decoding: data, as: UTF8.self)
}

@Suite("The message for browsers")
struct WebPushPayloadTests {
    private let composed = Composed()
    private static let id = "00000000000000010000000000000002"

    @Test(
        "is what the worker of Firebase's web SDK reads",
        arguments: [
            (
                #"{"topic":"news","data":{"k":"v"}}"#,
                #"{"data":{"k":"v"},"fcmMessageId":"ID","from":"/topics/news","priority":"normal"}"#
            ),
            (
                #"{"condition":"'a' in topics","notification":{"title":"t","body":"b","image":"i"}}"#,
                #"{"fcmMessageId":"ID","from":"5","notification":{"body":"b","image":"i","title":"t"},"#
                    + #""priority":"normal"}"#
            ),
            (
                #"{"topic":"a","data":{"k":"v"},"webpush":{"data":{"w":"x"}}}"#,
                #"{"data":{"w":"x"},"fcmMessageId":"ID","from":"/topics/a","priority":"normal"}"#
            ),
            (
                #"{"topic":"a","notification":{"title":"t","body":"b"},"webpush":{"notification":"#
                    + #"{"title":"w","actions":[{"action":"x"}],"badge":"g","timestamp":1,"silent":true}}}"#,
                #"{"fcmMessageId":"ID","from":"/topics/a","notification":{"actions":[{"action":"x"}],"#
                    + #""badge":"g","body":"b","silent":true,"timestamp":1,"title":"w"},"priority":"normal"}"#
            ),
            (
                #"{"topic":"a","notification":{"title":"t"},"webpush":{"fcm_options":"#
                    + #"{"link":"https://a.b/c","analytics_label":"l"}},"#
                    + #""fcm_options":{"analytics_label":"m"}}"#,
                #"{"fcmMessageId":"ID","fcmOptions":{"analytics_label":"l","link":"https://a.b/c"},"#
                    + #""from":"/topics/a","notification":{"click_action":"https://a.b/c","title":"t"},"#
                    + #""priority":"normal"}"#
            ),
            (
                #"{"topic":"a","fcm_options":{"analytics_label":"m"},"android":{"collapse_key":"c d"}}"#,
                #"{"collapse_key":"c d","fcmMessageId":"ID","fcmOptions":{"analytics_label":"m"},"#
                    + #""from":"/topics/a","priority":"normal"}"#
            ),
            (
                #"{"topic":"a","webpush":{"notification":{"click_action":"https://own.a/"},"#
                    + #""fcm_options":{"link":"https://a.b/"}}}"#,
                #"{"fcmMessageId":"ID","fcmOptions":{"link":"https://a.b/"},"from":"/topics/a","#
                    + #""notification":{"click_action":"https://own.a/"},"priority":"normal"}"#
            ),
        ])
    func payload(message: String, wanted: String) throws {
        let payload = try composed.web(message).payload
        #expect(
            try sorted(object(payload)) == wanted.replacing("ID", with: WebPushPayloadTests.id))
    }

    @Test(
        "has the urgency of the web block, or Android's priority",
        arguments: [
            (#"{"topic":"a"}"#, .normal), (#"{"topic":"a","android":{"priority":"high"}}"#, .high),
            (#"{"topic":"a","android":{"priority":"NORMAL"}}"#, .normal),
            (#"{"topic":"a","webpush":{"headers":{"URGENCY":"Very-Low"}}}"#, .veryLow),
            (
                #"{"topic":"a","android":{"priority":"high"},"webpush":{"headers":{"Urgency":"low"}}}"#,
                .low
            ),
            (
                #"{"topic":"a","android":{"priority":"high"},"webpush":{"headers":{"Urgency":"now"}}}"#,
                .high
            ),
        ] as [(String, WebPushMessage.Urgency)])
    func urgency(message: String, wanted: WebPushMessage.Urgency) throws {
        let web = try composed.web(message)
        #expect(web.urgency == wanted)
        #expect(object(web.payload)["priority"] as? String == (wanted == .high ? "high" : "normal"))
    }

    /// What Android and Apple have for themselves does not count for browsers.
    @Test(
        "has its own time to live, at most four weeks",
        arguments: [
            (#"{"topic":"a"}"#, 2_419_200), (#"{"topic":"a","webpush":{"headers":{"TTL":"0"}}}"#, 0),
            (#"{"topic":"a","webpush":{"headers":{"ttl":"60"}}}"#, 60),
            (#"{"topic":"a","webpush":{"headers":{"TTL":"99999999999999999999"}}}"#, 2_419_200),
            (#"{"topic":"a","webpush":{"headers":{"TTL":"-1"}}}"#, 2_419_200),
            (#"{"topic":"a","webpush":{"headers":{"TTL":"soon"}}}"#, 2_419_200),
            (#"{"topic":"a","android":{"ttl":"0s"},"apns":{"headers":{"apns-expiration":"0"}}}"#, 2_419_200),
        ])
    func timeToLive(message: String, seconds: Int) throws {
        #expect(try composed.web(message).ttlSeconds == seconds)
    }

    @Test(
        "has a topic that services take",
        arguments: [
            (#"{"topic":"a"}"#, "00000000000000010000000000000002"),
            (#"{"topic":"a","webpush":{"headers":{"Topic":"upd_-9"}}}"#, "upd_-9"),
            (#"{"topic":"a","android":{"collapse_key":"score"}}"#, "score"),
            // SHA-256 of "a b" in base64url.
            (#"{"topic":"a","android":{"collapse_key":"a b"}}"#, "yGh6CKpdbtIEQyj6aml6uOltw0KR6MID"),
        ])
    func topic(message: String, wanted: String) throws {
        #expect(try composed.web(message).topic == wanted)
    }

    @Test("has at most 3993 bytes, and says how many it would have")
    func bound() throws {
        let frame = try composed.web(#"{"topic":"a","data":{"k":""}}"#).payload.count
        let longest = String(repeating: "x", count: 3993 - frame)
        #expect(try composed.web("{\"topic\":\"a\",\"data\":{\"k\":\"\(longest)\"}}").payload.count == 3993)
        #expect(throws: PushContentError.tooLarge(bytes: 3994, limit: 3993)) {
            try composed.web("{\"topic\":\"a\",\"data\":{\"k\":\"\(longest)x\"}}")
        }
    }

    @Test("has the request's fields that a service needs, and 1 second at least for Microsoft")
    func fields() throws {
        let message = try composed.web(#"{"topic":"a","webpush":{"headers":{"Urgency":"high","TTL":"0"}}}"#)
        let policy = EndpointPolicy(listed: [])
        let mozilla = try PushEndpoint.parse("https://updates.push.services.mozilla.com/a", policy: policy)
        let fields = message.fields(to: mozilla, authorization: "vapid t=a, k=b", ttlSeconds: 0)
        #expect(
            fields.map { "\($0.name): \($0.value)" } == [
                "authorization: vapid t=a, k=b", "content-encoding: aes128gcm",
                "content-type: application/octet-stream", "ttl: 0",
                "topic: 00000000000000010000000000000002", "urgency: high",
            ])
        let microsoft = try PushEndpoint.parse("https://a.notify.windows.com/w/?token=x", policy: policy)
        #expect(
            message.fields(to: microsoft, authorization: "", ttlSeconds: 0).contains {
                $0.name == "ttl" && $0.value == "1"
            })
    }

    @Test("is refused with the reason where the stored event is none")
    func malformed() {
        for event in [
            "", "[]", "{", "{}", #"{"messageId":1,"from":"a","sentTime":1}"#, "null",
            #"{"messageId":"a b","from":"a","sentTime":1}"#,
        ] {
            #expect(throws: PushContentError.self) {
                try composed.composer.web(Array(event.utf8), project: ProjectNumber(1))
            }
            #expect(throws: PushContentError.self) {
                try composed.composer.apns(Array(event.utf8), project: ProjectNumber(1))
            }
            #expect(throws: PushContentError.self) {
                try composed.composer.relay(Array(event.utf8), token: "t", ttlSeconds: 1)
            }
        }
    }
}
