import HTTPMessages
import Model
import Testing

@testable import FCMAPI

/// The rules of the schema of FCM's messages (revision: see `Schema`), each with fields that keep the rule
/// and fields that break the rule.
@Suite("The rules of a message")
struct MessageRuleTests {
    let harness = APIHarness()

    private func send(_ rest: String) -> APIAction { harness.send("{\"topic\":\"a\",\(rest)}") }

    struct Rule: Sendable {
        /// Fields beside the topic that keep the rule.
        var good: [String]
        /// Fields that break the rule, each with the field that the error names.
        var bad: [(String, String)]
    }

    static let rules: [Rule] = [
        Rule(
            good: [
                #""android":{"priority":"normal"}"#, #""android":{"priority":"NORMAL"}"#,
                #""android":{"priority":1}"#, #""android":{"priority":null}"#,
            ],
            bad: [
                (#""android":{"priority":"High"}"#, "message.android.priority"),
                (#""android":{"priority":"urgent"}"#, "message.android.priority"),
                (#""android":{"priority":2}"#, "message.android.priority"),
                (#""android":{"priority":[]}"#, "message.android.priority"),
            ]),
        Rule(
            good: [
                ##""android":{"notification":{"color":"#00FF7f"}}"##,
                #""android":{"notification":{"notification_priority":"PRIORITY_MAX","visibility":"secret"}}"#,
                #""android":{"notification":{"vibrate_timings":["0.1s","2s"],"notificationCount":0}}"#,
                #""android":{"notification":{"event_time":"2024-02-29T23:59:60.123456789-08:00"}}"#,
                #""android":{"notification":{"proxy":"deny","bypass_proxy_notification":true}}"#,
            ],
            bad: [
                (##""android":{"notification":{"color":"#00FF7"}}"##, "message.android.notification.color"),
                (#""android":{"notification":{"color":"00FF7f0"}}"#, "message.android.notification.color"),
                (
                    #""android":{"notification":{"vibrate_timings":["0.1s","2"]}}"#,
                    "message.android.notification.vibrate_timings[1]"
                ),
                (
                    #""android":{"notification":{"notificationCount":-1}}"#,
                    "message.android.notification.notification_count"
                ),
                (
                    #""android":{"notification":{"notificationCount":2147483648}}"#,
                    "message.android.notification.notification_count"
                ),
                (
                    #""android":{"notification":{"eventTime":"2023-02-29T00:00:00Z"}}"#,
                    "message.android.notification.event_time"
                ),
                (#""android":{"notification":{"sticky":"yes"}}"#, "message.android.notification.sticky"),
                (#""android":{"notification":{"id":1}}"#, "message.android.notification"),
            ]),
        Rule(
            good: [
                #""android":{"notification":{"title_loc_key":"k","titleLocArgs":["x"]}}"#,
                #""android":{"notification":{"titleLocArgs":[]}}"#,
                #""androidV2":{"remote_notification":{"notification":"#
                    + #"{"body_loc_key":"k","bodyLocArgs":["x"]}}}"#,
            ],
            bad: [
                (
                    #""android":{"notification":{"titleLocArgs":["x"]}}"#,
                    "message.android.notification.title_loc_args"
                ),
                (
                    #""android":{"notification":{"title_loc_key":null,"titleLocArgs":["x"]}}"#,
                    "message.android.notification.title_loc_args"
                ),
                (
                    #""android_v2":{"remote_notification":{"notification":{"bodyLocArgs":["x"]}}}"#,
                    "message.android_v2.remote_notification.notification.body_loc_args"
                ),
            ]),
        Rule(
            good: [
                #""android":{"notification":{"light_settings":"#
                    + #"{"color":{"red":0,"green":0.5,"blue":1,"alpha":1},"#
                    + #""light_on_duration":"1s","lightOffDuration":"0.5s"}}}"#
            ],
            bad: [
                (
                    #""android":{"notification":{"light_settings":{"light_on_duration":"1s","#
                        + #""lightOffDuration":"0.5s"}}}"#,
                    "message.android.notification.light_settings.color"
                ),
                (
                    #""android":{"notification":{"light_settings":"#
                        + #"{"color":{"red":1},"light_on_duration":"1s"}}}"#,
                    "message.android.notification.light_settings.light_off_duration"
                ),
                (
                    #""android":{"notification":{"light_settings":{"color":{"red":1.01}}}}"#,
                    "message.android.notification.light_settings.color.red"
                ),
            ]),
        Rule(
            good: [
                #""fcm_options":{"analytics_label":"a-Z_0.~%"}"#, #""apns":{"fcmOptions":{"image":"x"}}"#,
            ],
            bad: [
                (#""fcm_options":{"analytics_label":""}"#, "message.fcm_options.analytics_label"),
                (#""fcm_options":{"analytics_label":"a b"}"#, "message.fcm_options.analytics_label"),
                (
                    #""android":{"fcm_options":{"analyticsLabel":"é"}}"#,
                    "message.android.fcm_options.analytics_label"
                ),
                (
                    #""apns":{"fcm_options":{"analyticsLabel":"a/b"}}"#,
                    "message.apns.fcm_options.analytics_label"
                ),
                (
                    "\"webpush\":{\"fcmOptions\":{\"analyticsLabel\":"
                        + "\"\(String(repeating: "a", count: 51))\"}}",
                    "message.webpush.fcm_options.analytics_label"
                ),
            ]),
        Rule(
            good: [
                #""webpush":{"fcm_options":{"link":"https://x"},"notification":{"any":{"thing":[1,null]}}}"#,
                #""webpush":{"headers":{"TTL":"15","Urgency":"high"},"data":{"k":"v"}}"#,
                #""apns":{"headers":{"apns-priority":"10"},"payload":{"aps":{"alert":"x"}},"#
                    + #""liveActivityToken":"00fF"}"#,
                "\"apns\":{\"headers\":{\"APNS-Collapse-ID\":\"\(String(repeating: "k", count: 64))\","
                    + "\"apns-topic\":\"\(String(repeating: "k", count: 256))\"}}",
            ],
            bad: [
                (#""webpush":{"fcm_options":{"link":"//x"}}"#, "message.webpush.fcm_options.link"),
                (#""webpush":{"headers":{"TTL":15}}"#, "message.webpush.headers[0].value"),
                (#""webpush":{"notification":"x"}"#, "message.webpush.notification"),
                (#""apns":{"payload":[]}"#, "message.apns.payload"),
                (#""apns":[]"#, "message.apns"),
                (
                    "\"apns\":{\"headers\":{\"APNS-Collapse-ID\":\"\(String(repeating: "k", count: 65))\"}}",
                    "message.apns.headers.apns-collapse-id"
                ),
                (
                    "\"apns\":{\"headers\":{\"apns-topic\":\"\(String(repeating: "k", count: 257))\"}}",
                    "message.apns.headers.apns-topic"
                ),
                (#""apns":{"headers":{"Urgency":"high"}}"#, "message.apns.headers"),
                (#""apns":{"headers":{"apns":"1"}}"#, "message.apns.headers"),
                (#""apns":{"live_activity_token":"0"}"#, "message.apns.live_activity_token"),
                (
                    "\"apns\":{\"liveActivityToken\":\"\(String(repeating: "0", count: 514))\"}",
                    "message.apns.live_activity_token"
                ),
            ]),
        Rule(
            good: [
                #""data":{"collapse_key":"x","googlex":"x","gcm":"x","From":"x"}"#, #""data":{}"#,
                #""data":null"#, #""android":{"data":{"k":"v"}}"#,
            ],
            bad: [
                (#""data":{"google.":"x"}"#, "message.data"),
                (#""data":{"message_type":"x"}"#, "message.data"),
                (#""android":{"data":{"from":"x"}}"#, "message.android.data"),
                (#""androidV2":{"data":{"google.c":"x"}}"#, "message.android_v2.data"),
                (#""webpush":{"data":{"gcm.notification.x":"x"}}"#, "message.webpush.data"),
                (#""data":{"k":null}"#, "message.data[0].value"), (#""data":[]"#, "message.data"),
                (#""android":{"data":{"k":"v","l":{}}}"#, "message.android.data[1].value"),
            ]),
        Rule(
            good: [#""android_v2":{"background_sync":{}}"#, #""androidV2":{"ttl":"7s"}"#],
            bad: [
                (#""android":{},"android_v2":{}"#, "message.android_v2"),
                (#""androidV2":{"priority":"high"}"#, "message.android_v2"),
                (#""androidV2":{"ttl":"7"}"#, "message.android_v2.ttl"),
                (#""android":{"ttl":7}"#, "message.android.ttl"),
                (#""android":{"ttl":"1.0000000001s"}"#, "message.android.ttl"),
                (#""android":{"ttl":"2419200.000000001s"}"#, "message.android.ttl"),
            ]),
    ]

    @Test("the numbers of fields are their indices in the schemas")
    func indices() {
        let message = Schema.message
        #expect(Schema.request.index(named: "message") == RequestField.message)
        #expect(Schema.request.index(named: "validateOnly") == RequestField.validateOnly)
        #expect(message.index(named: "data") == MessageField.data)
        #expect(message.index(named: "notification") == MessageField.notification)
        #expect(message.index(named: "android") == MessageField.android)
        #expect(message.index(named: "androidV2") == MessageField.androidV2)
        #expect(message.index(named: "webpush") == MessageField.webpush)
        #expect(message.index(named: "apns") == MessageField.apns)
        #expect(message.index(named: "fcmOptions") == MessageField.fcmOptions)
        #expect(message.index(named: "fid") == MessageField.fid)
        #expect(message.index(named: "token") == MessageField.token)
        #expect(message.index(named: "topic") == MessageField.topic)
        #expect(message.index(named: "condition") == MessageField.condition)
        #expect(
            MessageField.targets.map { "\(message.snake[$0])" } == ["fid", "token", "topic", "condition"])
        for android in [Schema.android, Schema.androidV2] {
            #expect(android.index(named: "collapseKey") == Platforms.Android.collapseKey)
            #expect(android.index(named: "ttl") == Platforms.Android.ttl)
            #expect(android.index(named: "data") == Platforms.Android.data)
            #expect(android.index(named: "fcmOptions") == Platforms.Android.options)
        }
        #expect(Schema.android.index(named: "notification") == Platforms.Android.notification)
        #expect(Schema.androidV2.index(named: "remoteNotification") == Platforms.Android.remote)
        #expect(
            Schema.remoteNotification.index(named: "notification") == Platforms.Android.remoteNotification)
        #expect(Schema.webpush.index(named: "headers") == Platforms.Web.headers)
        #expect(Schema.webpush.index(named: "data") == Platforms.Web.data)
        #expect(Schema.webpush.index(named: "notification") == Platforms.Web.notification)
        #expect(Schema.webpush.index(named: "fcmOptions") == Platforms.Web.options)
        #expect(Schema.webpushOptions.index(named: "link") == Platforms.Web.link)
        #expect(Schema.webpushOptions.index(named: "analyticsLabel") == Platforms.Web.label)
        #expect(Schema.apns.index(named: "headers") == Platforms.Apple.headers)
        #expect(Schema.apns.index(named: "liveActivityToken") == Platforms.Apple.liveActivityToken)
        #expect(Schema.apns.index(named: "payload") == Platforms.Apple.payload)
        #expect(Schema.apns.index(named: "fcmOptions") == Platforms.Apple.options)
        #expect(Schema.apnsOptions.index(named: "analyticsLabel") == Platforms.Apple.label)
    }

    @Test("#4 to #11 hold in every platform's block, in either spelling")
    func rules() {
        for good in MessageRuleTests.rules.flatMap(\.good) { #expect(send(good).sent != nil, "\(good)") }
        for (bad, field) in MessageRuleTests.rules.flatMap(\.bad) {
            let got = error(send(bad).response)
            #expect(got.http == 400 && got.status == "INVALID_ARGUMENT", "\(bad)")
            #expect(got.field == field, "\(bad)")
        }
    }

    @Test("#10 holds for what a platform puts in the place of the message's own, each by itself")
    func platformPayloads() {
        func text(_ count: Int) -> String { String(repeating: "x", count: count) }
        for (form, name) in [
            ("\"android\":{\"data\":{\"k\":\"@\"}}", 1), ("\"webpush\":{\"data\":{\"k\":\"@\"}}", 1),
            ("\"apns\":{\"payload\":{\"aps\":{\"k\":\"@\"}}}", 4),
            ("\"android\":{\"notification\":{\"title\":\"@\"}}", 5),
            ("\"notification\":{\"body\":\"@\"}", 4),
        ] {
            #expect(send(form.replacing("@", with: text(4096 - name))).sent != nil, "\(form)")
            let got = error(send(form.replacing("@", with: text(4097 - name))).response)
            #expect(got.http == 400 && got.fcm == "INVALID_ARGUMENT", "\(form)")
        }
        let both = "\"data\":{\"k\":\"\(text(4000))\"},\"android\":{\"data\":{\"k\":\"\(text(4000))\"}}"
        #expect(send(both).sent != nil)
    }

    @Test("#7 exactly one target, and null is none")
    func targets() {
        #expect(harness.send(#"{"topic":"a","token":null}"#).sent != nil)
        for message in [
            #"{"topic":null}"#, #"{"topic":"a","condition":"'a' in topics"}"#, #"{"fid":"a","token":"b"}"#,
            #"{"topic":""}"#, #"{"condition":""}"#, #"{"token":""}"#,
        ] {
            #expect(error(harness.send(message).response).fcm == "INVALID_ARGUMENT", "\(message)")
        }
        for body in [
            "{}", "[]", #"{"message":null}"#, #"{"message":[]}"#, #"{"message":{"topic":"a"},"x":1}"#,
        ] {
            let got = error(harness.route(.post, "/v1/projects/shop/messages:send", body).response)
            #expect(got.http == 400, "\(body)")
        }
    }

    @Test("#12 a topic of 900 characters of FCM's alphabet, and not of 901")
    func topics() {
        for name in [
            "a", "-", "_", ".", "~", "%", "A9-_.~%", "/topics/x", String(repeating: "a", count: 900),
        ] {
            #expect(harness.send("{\"topic\":\"\(name)\"}").sent != nil, "\(name)")
        }
        for name in ["a b", "a/b", "é", "a+b", "/topics/", "topics/x", String(repeating: "a", count: 901)] {
            #expect(
                error(harness.send("{\"topic\":\"\(name)\"}").response).field == "message.topic", "\(name)")
        }
    }

    @Test("#13 a condition is read from left to right; five topics and not six; an error names its field")
    func conditions() throws {
        let send = try #require(
            harness.send("{\"condition\":\"'a' in topics || 'b' in topics && 'c' in topics\"}").sent)
        guard case .condition(let condition) = send.target else { return #expect(Bool(false)) }
        #expect(condition.root == .and(.or(.topic(0), .topic(1)), .topic(2)))
        #expect(object(send.message.event)["from"] as? String == "shop")
        let atoms = (1...6).map { "'t\($0)' in topics" }
        #expect(harness.send("{\"condition\":\"\(atoms.prefix(5).joined(separator: "||"))\"}").sent != nil)
        for text in [
            atoms.joined(separator: "||"), "('a' in topics", "'a' in topics)", "a in topics", "'a' in topic",
            "'a' && 'b'", "!'a' in topics", "'a' in topics 'b' in topics", "\\\"a\\\" in topics",
        ] {
            let got = error(harness.send("{\"condition\":\"\(text)\"}").response)
            #expect(got.fcm == "INVALID_ARGUMENT" && got.field == "message.condition", "\(text)")
        }
    }

    @Test("what a message replaces: Android's key before Apple's before the web's")
    func collapseKeys() {
        let android = #""android":{"collapseKey":"a"}"#
        let apns = #""apns":{"headers":{"Apns-Collapse-Id":"b"}}"#
        let web = #""webpush":{"headers":{"TOPIC":"c"}}"#
        for (rest, key) in [
            ("\(web),\(apns),\(android)", "a"), ("\(web),\(apns)", "b"), (web, "c"), ("\"data\":{}", ""),
            ("\(apns),\"android\":{\"collapse_key\":\"\"}", "b"),
        ] {
            #expect(send(rest).sent?.message.collapseKey == Array(key.utf8), "\(rest)")
        }
        let long = String(repeating: "k", count: 1025)
        #expect(error(send("\"android\":{\"collapseKey\":\"\(long)\"}").response).http == 400)
    }

    @Test("#11 without a time to live of its own a message waits four weeks")
    func ttl() {
        for (rest, seconds) in [
            ("\"data\":{}", 2_419_200), (#""androidV2":{"ttl":"7.9s"}"#, 7),
            (#""webpush":{"headers":{"TTL":"15"}}"#, 15), (#""webpush":{"headers":{"TTL":"x"}}"#, 2_419_200),
            (#""webpush":{"headers":{"ttl":"18446744073709551615"}}"#, 2_419_200),
            (#""android":{"ttl":"9s"},"webpush":{"headers":{"TTL":"15"}}"#, 9),
        ] {
            #expect(send(rest).sent?.message.times.stream == UInt32(seconds), "\(rest)")
        }
    }

    @Test("a device reads the whole message in camelCase, in FCM's words")
    func canonical() {
        let message =
            #"{"topic":"t","data":{"k":"é\n"},"notification":{"title":"T","image":null},"#
            + #""android":{"priority":"high","direct_boot_ok":true,"notification":{"click_action":"c"}},"#
            + #""apns":{"payload":{"aps":{"mutable-content":1}}},"fcm_options":{"analytics_label":"l"}}"#
        let sent = harness.send(message).sent?.message
        let event = sent?.event ?? []
        #expect(sent != nil && MessageID(ofEvent: event) == sent?.id)
        #expect(
            String(decoding: event, as: UTF8.self)
                == #"{"messageId":"00000000000000010000000000000002","from":"/topics/t","#
                + #""sentTime":1800000000000,"data":{"k":"é\n"},"notification":{"title":"T"},"#
                + #""android":{"directBootOk":true,"priority":"HIGH","notification":{"clickAction":"c"}},"#
                + #""apns":{"payload":{"aps":{"mutable-content":1}}},"fcmOptions":{"analyticsLabel":"l"}}"#)
    }
}
