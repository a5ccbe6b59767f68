import Foundation
import HTTPMessages
import Model
import Routing
import Testing

@testable import FCMAPI

@Suite("A development server's emulator") struct EmulatorTests {
    private let harness: APIHarness

    init() {
        var settings = APISettings()
        settings.isDev = true
        settings.emulator = Emulator()
        harness = APIHarness(settings)
    }

    private func json(_ action: APIAction) throws -> NSDictionary {
        guard case .respond(let response) = action else {
            Issue.record("not an answer: \(action)")
            return [:]
        }
        let object = try JSONSerialization.jsonObject(with: Data(response.body))
        return try #require(object as? NSDictionary)
    }

    private func status(_ action: APIAction) -> Int? {
        switch action {
        case .respond(let response): response.status
        case .operation(_, let form):
            if case .refusedSend(let answer) = form.kind { answer.response.status } else { nil }
        default: nil
        }
    }

    private func messages(of project: String = "shop") throws -> [NSDictionary] {
        let answer = try json(harness.route(.get, "/emulator/v1/projects/\(project)/messages", bearer: nil))
        return try #require(answer["messages"] as? [NSDictionary])
    }

    private func isSend(_ action: APIAction) -> Bool {
        if case .operation(.send, _) = action { true } else { false }
    }

    // MARK: Messages

    @Test("tells what was accepted, and only that")
    func tellsMessages() throws {
        let action = harness.send(#"{"topic":"news","data":{"a":"\u00e4"},}"#)
        guard case .operation(_, let form) = action else { throw TestError() }
        #expect(try messages().isEmpty)
        _ = harness.api.render(.refused(.unavailable("not now")), form)
        #expect(try messages().isEmpty)
        _ = harness.api.render(.accepted(MessageID(time: 1, random: 2)), form)
        let sent = try messages()
        #expect(sent.count == 1)
        #expect(sent[0]["message"] as? NSDictionary == ["topic": "news", "data": ["a": "ä"]])
        #expect((sent[0]["name"] as? String)?.hasPrefix("projects/shop/messages/") == true)
        #expect(sent[0]["sentTime"] as? Int64 == harness.now.milliseconds)
        #expect(try messages(of: "other").isEmpty)
        _ = harness.route(.delete, "/emulator/v1/projects/shop/messages", bearer: nil)
        #expect(try messages().isEmpty)
    }

    @Test("keeps the newest messages, and no more than its bound")
    func bounded() throws {
        let emulator = Emulator()
        let count = Emulator.messagesMax + 5
        for number in 0..<count {
            let id = MessageID(time: UInt64(number), random: 7)
            emulator.asked(.init(id: id, time: harness.now, message: []), of: "shop")
            emulator.accepted(id)
        }
        #expect(emulator.messages(of: "shop").map(\.id.time) == (5..<UInt64(count)).map { $0 })
        for number in 0..<(2 * Emulator.projectsMax) {
            _ = emulator.add(try Fault(field: "UNAVAILABLE"), to: "p\(number)")
        }
        #expect(emulator.faults(of: "p0").count == 1)
        #expect(emulator.faults(of: "p\(Emulator.projectsMax)").isEmpty)
        for _ in 1..<Emulator.faultsMax { #expect(emulator.add(try Fault(field: "INTERNAL"), to: "p0")) }
        #expect(!emulator.add(try Fault(field: "INTERNAL"), to: "p0"))
    }

    // MARK: Faults

    @Test("gives every error of FCM's table, as often as it is asked to", arguments: Fault.Answer.allCases)
    func answers(answer: Fault.Answer) throws {
        let body = "{\"error\":\"\(answer.rawValue)\",\"times\":2}"
        #expect(status(harness.route(.post, "/emulator/v1/projects/shop/faults", body, bearer: nil)) == 200)
        for _ in 1...2 { #expect(status(harness.send(#"{"topic":"news"}"#)) == answer.error.code) }
        #expect(isSend(harness.send(#"{"topic":"news"}"#)))
    }

    @Test("keeps a fault for the device that it is meant for, and for ever where it says so")
    func meantFor() throws {
        let token = harness.token()
        let body = "{\"error\":\"UNREGISTERED\",\"times\":0,\"device\":\"\(token)\"}"
        _ = harness.route(.post, "/emulator/v1/projects/shop/faults", body, bearer: nil)
        #expect(isSend(harness.send(#"{"topic":"news"}"#)))
        for _ in 1...3 { #expect(status(harness.send("{\"token\":\"\(token)\"}")) == 404) }
        let kept = try json(harness.route(.get, "/emulator/v1/projects/shop/faults", bearer: nil))
        #expect((kept["faults"] as? [NSDictionary])?.first?["device"] as? String == token)
        _ = harness.route(.delete, "/emulator/v1/projects/shop/faults", bearer: nil)
        #expect(isSend(harness.send("{\"token\":\"\(token)\"}")))
    }

    @Test("makes a send wait, with an answer or without")
    func waits() throws {
        for body in [#"{"delay":"1.5s"}"#, #"{"delay":"1.5s","error":"UNAVAILABLE"}"#] {
            _ = harness.route(.post, "/emulator/v1/projects/shop/faults", body, bearer: nil)
            guard case .later(let delay, let action) = harness.send(#"{"topic":"news"}"#) else {
                Issue.record("nothing waits")
                continue
            }
            #expect(delay == .milliseconds(1500))
            #expect(isSend(action) || status(action) == 503)
        }
    }

    @Test("takes a fault from a field of any request")
    func field() {
        let batch = harness.route(
            .post, "/iid/v1:batchAdd", "{}", headers: [("x-tidecast-fault", "INTERNAL")])
        #expect(status(batch) == 500)
        let send = harness.route(
            .post, "/v1/projects/shop/messages:send", "{}", headers: [("x-tidecast-fault", "delay=0.2s")])
        guard case .later(.milliseconds(200), let action) = send else {
            Issue.record("nothing waits")
            return
        }
        #expect(status(action) == 400)
    }

    @Test(
        "says what is wrong with a fault",
        arguments: [
            "", "[]", "{}", #"{"error":"TEAPOT"}"#, #"{"error":7}"#, #"{"delay":"soon"}"#,
            #"{"delay":"601s"}"#, #"{"error":"INTERNAL","times":-1}"#, #"{"error":"INTERNAL","often":1}"#,
        ])
    func malformed(body: String) {
        #expect(status(harness.route(.post, "/emulator/v1/projects/shop/faults", body, bearer: nil)) == 400)
        #expect(isSend(harness.send(#"{"topic":"news"}"#)))
    }

    @Test("refuses a fault's field that means nothing")
    func fieldOfNothing() {
        for field in ["", "TEAPOT", "delay=", "delay=x", ";;", "INTERNAL; delay=1"] {
            let action = harness.route(
                .post, "/v1/projects/shop/messages:send", #"{"message":{"topic":"news"}}"#,
                headers: [("x-tidecast-fault", field)])
            #expect(status(action) == 400, "\(field)")
        }
    }

    // MARK: Elsewhere

    @Test("is there on a development server only")
    func devOnly() {
        let plain = APIHarness()
        for path in ["messages", "faults"] {
            #expect(status(plain.route(.get, "/emulator/v1/projects/shop/\(path)")) == 404)
        }
        let send = plain.route(
            .post, "/v1/projects/shop/messages:send", #"{"message":{"topic":"news"}}"#,
            headers: [("x-tidecast-fault", "INTERNAL")])
        #expect(isSend(send))
    }

    @Test("forgets a project with all that it has")
    func resets() throws {
        guard case .admin(.deleteProject(let project)) = harness.route(.delete, "/emulator/v1/projects/shop")
        else { throw TestError() }
        #expect(project.id == "shop")
        #expect(status(harness.route(.delete, "/emulator/v1/projects/nobody")) == 200)
        for path in ["shop/what", "shop/messages/1", "No!/messages", "shop/messages?x=%zz"] {
            let found = status(harness.route(.put, "/emulator/v1/projects/\(path)"))
            #expect(found == 404, "\(path)")
        }
    }

    private struct TestError: Error {}
}
