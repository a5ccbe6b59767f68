import HTTPMessages
import Routing
import Testing

@testable import FCMAPI

/// Mistakes that people report at other services: the answer must say where the mistake is.
@Suite("A mistake of a backend")
struct MistakeTests {
    private let harness = APIHarness()

    private func violations(_ response: HTTPResponse?) -> [(field: String, text: String)] {
        let error = object(response?.body ?? [])["error"] as? [String: Any]
        let details = error?["details"] as? [[String: Any]] ?? []
        let found = details.compactMap { $0["fieldViolations"] as? [[String: String]] }.first ?? []
        return found.map { ($0["field"] ?? "", $0["description"] ?? "") }
    }

    private func message(_ response: HTTPResponse?) -> String {
        let error = object(response?.body ?? [])["error"] as? [String: Any]
        return error?["message"] as? String ?? ""
    }

    @Test("of unknown names is told with all of them, a line and a violation each, as FCM does")
    func unknownNames() {
        let body = #"""
            {"registration_ids":[],"message":{"topic":"a","to":"x","content_available":true,
            "notification":{"sound":"x","title":5},"android":{"notification":{"badge":1}},
            "apns":{"payload":{"anything":1}},"data":{"anything":"x"}},"priority":"high"}
            """#
        let response = harness.route(.post, "/v1/projects/shop/messages:send", body).response
        let found = violations(response)
        let wanted = [
            ("", "registration_ids"), ("message", "to"), ("message", "content_available"),
            ("message.notification", "sound"), ("message.android.notification", "badge"), ("", "priority"),
        ]
        #expect(found.map(\.field) == wanted.map(\.0))
        for (one, (_, name)) in zip(found, wanted) { #expect(one.text.contains("Unknown name \"\(name)\"")) }
        #expect(message(response) == found.map(\.text).joined(separator: "\n"))
    }

    @Test("of many unknown names is told with the first 20")
    func manyNames() {
        let names = (0..<30).map { "\"n\($0)\":1" }.joined(separator: ",")
        let found = violations(harness.send("{\"topic\":\"a\",\(names)}").response)
        #expect(found.count == UnknownNames.toldMax && found.last?.text.contains("\"n19\"") == true)
    }

    @Test(
        "that cuts an emoji in two is told so",
        arguments: [
            (#"Hi \ud83d"#, #"\ud83d"#), (#"\uDE00 there"#, #"\ude00"#), (#"\ud83d\ud83d\ude00"#, #"\ud83d"#),
            (#"\ud83dx"#, #"\ud83d"#), (#"\\\ud83d\\"#, #"\ud83d"#),
        ])
    func halfEmoji(text: String, half: String) {
        let response = harness.send("{\"topic\":\"a\",\"data\":{\"k\":\"\(text)\"}}").response
        #expect(error(response).http == 400)
        #expect(message(response).contains("has \(half), half of a character"))
    }

    @Test("in a body with whole emojis is not taken for half an emoji")
    func wholeEmoji() {
        for text in [#"\ud83d\ude00\q"#, #"\\ud83d\q"#, #"\u00e9\q"#, #"\u12"#, #"\ud83"#] {
            let response = harness.send("{\"topic\":\"a\",\"data\":{\"k\":\"\(text)\"}}").response
            #expect(error(response).http == 400 && !message(response).contains("half of a character"))
        }
        #expect(harness.send(#"{"topic":"a","data":{"k":"\ud83d\ude00"}}"#).sent != nil)
    }

    @Test("in one token of a list is the error of this token alone")
    func tokens() throws {
        let token = harness.token()
        let body = """
            {"to":"/topics/a","registration_tokens":["\(token)",null,5,{"a":["x"]},[],true,"",1.5,"\(token)"]}
            """
        let headers = [("access_token_auth", "true")]
        let action = harness.route(.post, "/iid/v1:batchAdd", body, headers: headers)
        let change = try #require(action.change)
        #expect(change.devices.count == 2 && change.falseTokens == 7)
        guard case .batch(let errors) = action.form?.kind else {
            Issue.record("not a batch")
            return
        }
        #expect(errors == [nil] + Array(repeating: "INVALID_ARGUMENT", count: 7) + [nil])
        let many =
            "{\"to\":\"/topics/a\",\"registration_tokens\":["
            + Array(repeating: "null", count: 1001).joined(separator: ",") + "]}"
        #expect(harness.route(.post, "/iid/v1:batchAdd", many, headers: headers).response?.status == 400)
    }

    @Test(
        "in a link is told; a page of the developer's own machine is none, and an empty link is no link",
        arguments: [
            ("https://example.com/x", true), ("http://localhost", true), ("http://localhost:3000/x", true),
            ("http://127.0.0.1/", true), ("http://localhost?x", true), ("", true),
            ("http://example.com", false), ("http://localhost.example.com", false),
            ("http://localhost@example.com", false), ("http://127.0.0.10/", false),
            ("ftp://localhost", false),
            ("http://localhost:80@example.com", false), ("http://localhost:80x", false), ("/x", false),
        ])
    func links(link: String, isTaken: Bool) {
        let message = "{\"topic\":\"a\",\"webpush\":{\"fcm_options\":{\"link\":\"\(link)\"}}}"
        let action = harness.send(message)
        #expect((action.sent != nil) == isTaken)
        if !isTaken { #expect(error(action.response).field == "message.webpush.fcm_options.link") }
    }

    @Test("that asks for a head alone is answered as for the whole, but a stream and a socket have none")
    func heads() {
        let registration = "/v1/projects/shop/registrations/\(harness.token())"
        guard case .operation = harness.route(.head, registration) else {
            Issue.record("a registration has no head")
            return
        }
        #expect(harness.route(.head, "/v1/projects/shop/nothing").response?.status == 404)
        #expect(harness.route(.head, "/v1/projects/shop/messages:send").response?.status == 404)
        #expect(harness.route(.head, registration, bearer: nil).response?.status == 401)
        let credential = String(decoding: harness.keys.credential(secret: 99), as: UTF8.self)
        let stream = harness.route(.head, "\(registration):listen?credential=\(credential)", bearer: nil)
        #expect(stream.response?.status == 405)
        #expect(stream.response?.fields.first { $0.name == "allow" }?.value == "GET")
    }
}
