import Foundation
import Testing

@testable import TidecastMessaging

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif

@Suite("The requests and answers of the server") struct WireTests {
    static let device = MachineWorld.device

    static func wire(_ server: String = "https://push.example.com") throws -> Wire {
        let options = try MessagingOptions(server: server, project: "demo", apiKey: "key")
        return Wire(server: options.server, project: options.project, apiKey: options.apiKey)
    }

    @Test("a topic's percent sign is escaped, and a server may have a path")
    func paths() throws {
        let wire = try WireTests.wire("https://push.example.com:8443/base/")
        let request = wire.request(for: .change(WireTests.device, topic: "a%2F.~", isSubscribe: true))
        let device = "https://push.example.com:8443/base/v1/projects/demo/registrations/fid1"
        #expect(request.url?.absoluteString == "\(device)/topicSubscriptions/a%252F.~:subscribe")
        #expect(request.httpMethod == "POST")
        #expect(request.value(forHTTPHeaderField: "Authorization") == "Bearer secret1")
        let stream = wire.stream(of: WireTests.device, resume: "e1")
        #expect(stream.url?.absoluteString == "\(device):listen")
        #expect(stream.value(forHTTPHeaderField: "Last-Event-ID") == "e1")
    }

    @Test("a stream's connection is made by a request without secrets")
    func opener() throws {
        let stream = try WireTests.wire().stream(of: WireTests.device, resume: "e1")
        let opener = SessionTransport.opener(for: stream)
        #expect(opener.url?.absoluteString == "https://push.example.com/healthz")
        #expect(opener.allHTTPHeaderFields ?? [:] == [:])
    }

    @Test("only a registration shows the app's key, and never the credential")
    func secrets() throws {
        let wire = try WireTests.wire()
        let register = wire.request(for: .register)
        #expect(register.value(forHTTPHeaderField: "x-goog-api-key") == "key")
        #expect(register.value(forHTTPHeaderField: "Authorization") == nil)
        let list = wire.request(for: .list(WireTests.device, page: "p"))
        #expect(list.value(forHTTPHeaderField: "x-goog-api-key") == nil)
        #expect(list.url?.query == "pageToken=p")
        let tell = wire.request(
            for: .tell(
                WireTests.device,
                .init(token: "0a", isSandbox: true, bundleID: "b", keepsMessages: true), authToken: "auth"))
        #expect(tell.value(forHTTPHeaderField: "x-goog-firebase-installations-auth") == "FIS auth")
        let ios = #""ios":{"apns_environment":"SANDBOX","apns_token":"0a","bundle_id":"b"}"#
        #expect(tell.httpBody == Data("{\(ios),\"keepUntilAcknowledged\":true}".utf8))
    }

    @Test(
        "an answer of 200 that is not what the call asked for confirms nothing",
        arguments: ["", "<html>", "[]", "{\"token\": 1}", "{\"token\":\"a\",\"credential\":\"c\"}"])
    func malformed(body: String) {
        for call in [Call.register, .list(WireTests.device, page: ""), .authToken(WireTests.device)] {
            let answer = Wire.answer(to: call, status: 200, retryAfter: nil, body: Data(body.utf8))
            if call == .authToken(WireTests.device), body.hasSuffix("\"c\"}") { continue }
            #expect(answer == .refused(.unexpected), "\(call)")
        }
        let change = Call.change(WireTests.device, topic: "a", isSubscribe: true)
        let answer = Wire.answer(to: change, status: 200, retryAfter: nil, body: Data(body.utf8))
        #expect(answer == (body.hasPrefix("{") ? .done(.nothing) : .refused(.unexpected)))
    }

    @Test("an error with the status of success confirms nothing")
    func errorOfStranger() {
        let calls = [
            Call.unregister(WireTests.device), .change(WireTests.device, topic: "a", isSubscribe: true),
            .acknowledge(WireTests.device, event: "e"),
        ]
        for call in calls {
            let body = Data("{\"error\":\"log in first\"}".utf8)
            #expect(
                Wire.answer(to: call, status: 200, retryAfter: nil, body: body) == .refused(.unexpected))
        }
    }

    @Test("ids with characters that no id has are refused: they go into paths and fields")
    func ids() {
        for token in ["a/b:c", "a b:c", "a\r\nb:c", ":c", "abc", "a:c%"] {
            let body = try? JSONSerialization.data(withJSONObject: ["token": token, "credential": "c"])
            let answer = Wire.answer(to: .register, status: 200, retryAfter: nil, body: body ?? Data())
            #expect(answer == .refused(.unexpected), "\(token)")
        }
    }

    @Test("an error is read as FCM writes it, and a proxy's page is none of the server's")
    func errors() {
        let body = """
            {"error": {"code": 400, "message": "no", "status": "INVALID_ARGUMENT", "details": [
            {"@type": "x", "fieldViolations": [{"field": "name", "description": "d"}]},
            {"@type": "y", "errorCode": "INVALID_ARGUMENT"}]}}
            """
        let read = Wire.refusal(status: 400, retryAfter: "7", body: Data(body.utf8))
        #expect(read.field == "name" && read.code == "INVALID_ARGUMENT" && read.message == "no")
        #expect(read.retryAfter == .seconds(7) && read.meaning == .registrationUnknown)
        for text in ["<html>403</html>", "", "{\"error\": \"plain\"}", "\u{0}"] {
            let read = Wire.refusal(status: 403, retryAfter: "-1", body: Data(text.utf8))
            #expect(read.isFromServer == false && read.meaning == .retry && read.retryAfter == nil)
        }
    }

    @Test(
        "only the server's word that the device is gone ends a registration",
        arguments: [
            (404, "NOT_FOUND", "UNREGISTERED", Refusal.Meaning.registrationGone),
            (404, "NOT_FOUND", "", .unproven), (410, "NOT_FOUND", "", .retry),
            (200, "NOT_FOUND", "UNREGISTERED", .retry), (401, "UNAUTHENTICATED", "", .unproven),
            (403, "PERMISSION_DENIED", "SENDER_ID_MISMATCH", .unproven),
            (403, "PERMISSION_DENIED", "", .unproven), (400, "INVALID_ARGUMENT", "TOO_MANY_TOPICS", .final),
            (409, "ALREADY_EXISTS", "", .final), (302, "NOT_FOUND", "UNREGISTERED", .retry),
            (503, "UNAVAILABLE", "UNAVAILABLE", .retry),
        ])
    func meanings(status: Int, word: String, code: String, meaning: Refusal.Meaning) {
        let details = code.isEmpty ? "[]" : "[{\"errorCode\":\"\(code)\"}]"
        let body = "{\"error\":{\"code\":\(status),\"status\":\"\(word)\",\"details\":\(details)}}"
        #expect(Wire.refusal(status: status, retryAfter: nil, body: Data(body.utf8)).meaning == meaning)
    }

    @Test("a message keeps what the server wrote")
    func message() throws {
        let json = """
            {"messageId":"m","from":"/topics/news","sentTime":1795220000000,"data":{"k":"v"},
            "notification":{"title":"t"},"collapseKey":"c"}
            """
        let message = try #require(Wire.message(Data(json.utf8)))
        #expect(message.topic == "news" && message.data == ["k": "v"] && message.collapseKey == "c")
        #expect(message.sentTime == Date(timeIntervalSince1970: 1_795_220_000))
        #expect(message.notification == .init(title: "t", body: nil, image: nil))
        #expect(message.userInfo["gcm.message_id"] == "m")
        for text in ["", "[]", "{\"messageId\":1,\"from\":\"a\"}", "{\"messageId\":\"m\"}"] {
            #expect(Wire.message(Data(text.utf8)) == nil, "\(text)")
        }
    }

    @Test("an event that this client does not know is passed over")
    func unknownEvents() {
        #expect(Wire.signal(.init(id: "1", type: "later", data: "{}")) == nil)
        #expect(Wire.signal(.init(type: "replaced", data: "{}")) == .replaced)
        #expect(
            Wire.signal(.init(type: "reconnect", data: "{}", retryMilliseconds: 500))
                == .reconnect(after: .milliseconds(500)))
    }

    @Test(
        "a topic's name may begin with /topics/ and has FCM's characters",
        arguments: [
            ("news", "news"), ("/topics/a-b_c.d~e%f", "a-b_c.d~e%f"), ("", nil), ("/topics/", nil),
            ("a/b", nil), ("a b", nil), ("ä", nil), ("a\n", nil),
            (String(repeating: "a", count: 900), String(repeating: "a", count: 900)),
            (String(repeating: "a", count: 901), nil),
        ] as [(String, String?)])
    func topics(text: String, name: String?) {
        #expect(TopicText.name(of: text) == name)
    }

    @Test(
        "an address that is none, or that has no TLS, is refused with a sentence",
        arguments: [
            "", "push.example.com", "ftp://a", "https://", "https://u@a", "https://a?b", "http://a b",
        ])
    func servers(text: String) {
        #expect(throws: MessagingError.self) { try MessagingOptions(server: text, project: "demo") }
    }

    @Test("a credential travels without TLS only to this host, or where the app allows so")
    func cleartext() throws {
        for server in ["http://127.0.0.1:8080", "http://localhost", "https://push.example.com"] {
            try MessagingOptions(server: server, project: "demo").checkTransport()
        }
        var options = try MessagingOptions(server: "http://push.example.com", project: "demo")
        #expect(throws: MessagingError.self) { try options.checkTransport() }
        options.isCleartextAllowed = true
        try options.checkTransport()
        #expect(throws: MessagingError.self) { try MessagingOptions(server: "https://a", project: "a/b") }
    }
}
