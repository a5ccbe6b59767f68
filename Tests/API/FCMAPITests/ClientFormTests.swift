import HTTPMessages
import Model
import Partitions
import Quotas
import Routing
import Testing

@testable import FCMAPI

/// Forms that SDKs and hand-written clients send and read, beyond FCM's documents.
@Suite("Forms of real clients")
struct ClientFormTests {
    let harness = APIHarness()

    /// `error` of an answer in the v1 envelope.
    private func envelope(_ response: HTTPResponse?) -> [String: Any] {
        object(response?.body ?? [])["error"] as? [String: Any] ?? [:]
    }

    // MARK: What users see

    @Test(
        "the message of an error is its first violation's description: SDKs show nothing else",
        arguments: [
            (#"{"token":"a:APA91b"}"#, "The registration token is not a valid FCM registration token"),
            (#"{"topic":"a b"}"#, "Invalid topic name."),
            (#"{"topic":"a","data":{"from":"x"}}"#, "Invalid data payload key: from"),
            (#"{"topic":"a","android":{"ttl":"x"}}"#, "Invalid TTL: a duration such as \"3.5s\" is wanted."),
            ("{}", "Recipient of the message is not set."),
        ])
    func messages(message: String, wanted: String) {
        let error = envelope(harness.send(message).response)
        #expect(error["message"] as? String == wanted)
        let details = error["details"] as? [[String: Any]]
        let violations = details?.first?["fieldViolations"] as? [[String: Any]]
        #expect(violations?.first?["description"] as? String == wanted)
    }

    @Test("a refusal for the quota of sends says it for a minute, as FCM does and as it is set")
    func sendQuota() {
        let form = ResponseForm(kind: .send, project: harness.project)
        let refusal = QuotaRefusal(kind: .sends, limit: 5, retryDelay: .seconds(12))
        let error = envelope(harness.api.render(.refused(.quota(refusal)), form))
        let details = error["details"] as? [[String: Any]] ?? []
        func detail(_ type: String) -> [String: Any] {
            details.first { ($0["@type"] as? String)?.hasSuffix(type) ?? false } ?? [:]
        }
        let violations = detail("QuotaFailure")["violations"] as? [[String: Any]]
        #expect(
            violations?.first?["description"] as? String
                == "Quota exceeded for the project's sends. The limit is 5 (1/min/{project}).")
        let metadata = detail("ErrorInfo")["metadata"] as? [String: String]
        #expect(metadata?["quota_limit"] == "SendsPerMinutePerProject")
        #expect(metadata?["quota_limit_value"] == "5" && metadata?["quota_unit"] == "1/min/{project}")
    }

    @Test("a message that was only validated has FCM's id for such, whatever its target")
    func fakeID() {
        let form = ResponseForm(kind: .send, project: harness.project)
        let name = object(harness.api.render(.done, form).body)["name"] as? String
        #expect(name == "projects/shop/messages/fake_message_id")
    }

    @Test("a send that is refused for what it says costs its project a token, as at FCM")
    func refusedSend() throws {
        let other = harness.token(project: 6)
        for (message, status) in [("{", 400), (#"{"topic":"a b"}"#, 400), ("{\"token\":\"\(other)\"}", 403)] {
            guard case .operation(.refusedSend(let project), let form) = harness.send(message) else {
                Issue.record("\(message)")
                continue
            }
            #expect(project == harness.project.number)
            #expect(harness.api.render(.done, form).status == status)
            let quota = QuotaRefusal(kind: .sends, limit: 5, retryDelay: .seconds(12))
            let refused = error(harness.api.render(.refused(.quota(quota)), form))
            #expect(refused.http == 429 && refused.fcm == "QUOTA_EXCEEDED")
        }
        // A client without a right to a project cannot spend the project's tokens.
        for bearer in [nil, "nonsense"] {
            let action = harness.route(.post, "/v1/projects/shop/messages:send", "{", bearer: bearer)
            if case .respond(let response) = action {
                #expect(response.status == 401)
            } else {
                Issue.record("\(action)")
            }
        }
        let action = harness.route(.post, "/v1/projects/other/messages:send", "{")
        if case .respond(let response) = action {
            #expect(response.status == 403)
        } else {
            Issue.record("\(action)")
        }
    }

    // MARK: What clients send

    /// Protobuf's reader of JSON takes such a comma, and so does FCM: a sample in FCM's document of topic
    /// messages has one.
    @Test(
        "a comma before a closing bracket is taken",
        arguments: [
            """
            {"message":{
              "condition": "'dogs' in topics || 'cats' in topics",
              "notification" : {
                "body" : "This is a Firebase Cloud Messaging Topic Message!",
                "title" : "FCM Message",
              }
            }}
            """,
            #"{"message":{"topic":"a","data":{"k":",}","l":"\",]",},},}"#,
            #"{"message":{"topic":"a","android":{"notification":{"vibrate_timings":["1s","2s" , ]}}}}"#,
        ])
    func trailingCommas(body: String) throws {
        let send = try #require(harness.route(.post, "/v1/projects/shop/messages:send", body).sent)
        let event = object(send.message.event)
        if let data = event["data"] as? [String: String] { #expect(data == ["k": ",}", "l": "\",]"]) }
        if let shown = event["notification"] as? [String: String] {
            #expect(shown["title"] == "FCM Message" && shown.count == 2)
        }
    }

    @Test(
        "any other superfluous comma is refused",
        arguments: [
            #"{,"message":{"topic":"a"}}"#, #"{"message":{"topic":"a",,}}"#, #"{"message":{,}}"#,
            #"{"message":{"topic":"a"}},"#, #"{"message":{"topic":,}}"#, #"{"message":{"topic",}}"#,
            #"{"message":{"topic":"a","android":{"notification":{"vibrate_timings":[,]}}}}"#,
            #"{"message":{"topic":"a",]}"#, #"{"message":{"topic":"a,}}"#, #"{"message":{"topic":"a\"#, ",",
            "",
        ])
    func otherCommas(body: String) {
        let response = harness.route(.post, "/v1/projects/shop/messages:send", body).response
        #expect(error(response).http == 400)
    }

    @Test(
        "numbers and truth values may be strings, as protobuf's JSON has them; devices read them as they are")
    func stringsForNumbers() throws {
        let fields = #"{"notification_count":"5","sticky":"true","local_only":"false"}"#
        let send = try #require(
            harness.send(
                "{\"topic\":\"a\",\"android\":{\"notification\":\(fields)}}",
                extra: ",\"validate_only\":\"true\""
            ).sent)
        #expect(send.validateOnly)
        let event = String(decoding: send.message.event, as: UTF8.self)
        #expect(event.contains(#"{"sticky":true,"localOnly":false,"notificationCount":5}"#), "\(event)")
        for wrong in [
            #""notification_count":"""#, #""notification_count":"5.5""#, #""notification_count":" 5""#,
            #""notification_count":"2147483648""#, #""notification_count":"-1""#, #""sticky":"yes""#,
            #""sticky":"""#, #""sticky":"TRUE""#, #""notification_count":"+5""#, #""notification_count":[5]"#,
        ] {
            let got = harness.send("{\"topic\":\"a\",\"android\":{\"notification\":{\(wrong)}}}").response
            #expect(error(got).http == 400, "\(wrong)")
        }
    }

    @Test("the web SDK's header has FIS before the credential", arguments: ["", "FIS "])
    func installationAuth(prefix: String) {
        let credential = String(decoding: harness.keys.credential(secret: 99), as: UTF8.self)
        let path = "/v1/projects/shop/registrations/\(harness.token())/topicSubscriptions/a:subscribe"
        let action = harness.route(
            .post, path, bearer: nil, headers: [("x-goog-firebase-installations-auth", prefix + credential)])
        guard case .device? = action.change?.caller else {
            Issue.record("\(action)")
            return
        }
    }

    @Test("the colon of a path's verb may be percent-encoded", arguments: ["%3A", "%3a"])
    func encodedColon(colon: String) {
        let body = #"{"message":{"topic":"a"}}"#
        #expect(harness.route(.post, "/v1/projects/shop/messages\(colon)send?alt=json", body).sent != nil)
        let batch = "{\"to\":\"/topics/a\",\"registration_tokens\":[\"\(harness.token())\"]}"
        let sign = [("access_token_auth", "true")]
        #expect(harness.route(.post, "/iid/v1\(colon)batchAdd", batch, headers: sign).change != nil)
        let device = "/v1/projects/shop/registrations/\(harness.token())"
        #expect(harness.route(.post, "\(device)/topicSubscriptions/a\(colon)subscribe").change != nil)
        for path in [
            "/v1/projects/shop/messages\(colon)\(colon)send", "/a\(colon)b", "/v1/projects\(colon)x",
        ] {
            #expect(error(harness.route(.post, path, body).response).http == 404, "\(path)")
        }
        let many = "/iid/" + String(repeating: colon, count: 5000)
        #expect(harness.route(.post, many, body).response?.status == 404)
    }
}
