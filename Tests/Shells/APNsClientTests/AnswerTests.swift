import APNsClient
import PushStandIn
import Testing

@Suite("The APNs client", .timeLimit(.minutes(5)))
struct AnswerTests {
    @Test("sends a request as it was prepared, and gives the whole answer")
    func post() async throws {
        let server = try await StandIn.start { _ in
            .answer(410, fields: [("apns-id", "7"), ("X-Y", "z")], body: Array("{\"reason\":\"x\"}".utf8))
        }
        let sender = Sender()
        let fields = [
            (name: "authorization", value: "bearer t"), (name: "apns-topic", value: "com.example.app"),
            (name: "apns-push-type", value: "alert"), (name: "apns-priority", value: "10"),
            (name: "apns-id", value: "a-b"), (name: "apns-expiration", value: "0"),
            (name: "apns-collapse-id", value: "c"),
        ]
        let body = (0..<5_000).map { UInt8(truncatingIfNeeded: $0) }
        let response = try await sender.answer(
            server.request(42, device: "0123456789abcdef", fields: fields, body: body))
        guard case .answered(410, let answered, let text) = response.result else {
            Issue.record("\(response)")
            return
        }
        #expect(response.number == 42)
        #expect(answered.map(\.name) == ["apns-id", "x-y"])
        #expect(answered.map(\.value) == ["7", "z"])
        #expect(text == Array("{\"reason\":\"x\"}".utf8))
        let request = try #require(server.seen.requests.first)
        #expect(request.body == body)
        #expect(
            request.fields.map(\.name) == [":method", ":scheme", ":authority", ":path"] + fields.map(\.name))
        #expect(
            request.fields.map(\.value)
                == ["POST", "https", "localhost:\(server.port)", "/3/device/0123456789abcdef"]
                + fields.map(\.value))
    }

    @Test("keeps what is new in each request out of the service's compression table, and sends no priorities")
    func compression() async throws {
        let server = try await StandIn.start()
        let sender = Sender()
        let fields = [
            (name: "apns-topic", value: "com.example.app"), (name: "apns-id", value: "a"),
            (name: "apns-expiration", value: "0"), (name: "apns-collapse-id", value: "c"),
            (name: "apns-push-type", value: "alert"), (name: "authorization", value: "bearer t"),
        ]
        #expect(try await sender.answer(server.request(fields: fields)).status == 200)
        let hidden = server.seen.requests[0].fields.filter(\.isNeverIndexed).map(\.name)
        // libnghttp2 itself hides `authorization`.
        let own: Set = [":path", "apns-id", "apns-expiration", "apns-collapse-id"]
        #expect(Set(hidden) == own.union(["authorization"]))
        #expect(server.seen.priorities == 0)
    }

    @Test("gives an interim answer no meaning")
    func interim() async throws {
        let server = try await StandIn.start { _ in .answer(400, fields: [("x-final", "yes")], interim: true)
        }
        let response = try await Sender().answer(server.request())
        guard case .answered(400, let fields, []) = response.result else {
            Issue.record("\(response)")
            return
        }
        #expect(fields.map(\.name) == ["x-final"])
    }

    @Test("keeps a bounded beginning of a long answer, and of its fields")
    func longAnswer() async throws {
        let server = try await StandIn.start { request in
            guard request.device == "01" else { return .answer(200) }
            let fields = (0..<60).map { ("x-\($0)", String(repeating: "v", count: 200)) }
            return .answer(400, fields: fields, body: [UInt8](repeating: 7, count: 300_000))
        }
        let sender = Sender()
        let response = try await sender.answer(server.request(device: "01"))
        guard case .answered(400, let fields, let body) = response.result else {
            Issue.record("\(response)")
            return
        }
        #expect(body == [UInt8](repeating: 7, count: 4_096))
        #expect(fields.reduce(0) { $0 + $1.name.utf8.count + $1.value.utf8.count } <= 8 << 10)
        #expect(fields.count > 30)
        #expect(try await sender.answer(server.request()).status == 200)
        #expect(server.seen.connections == 1)
    }

    @Test("gives an answer that is there before the service has the whole request")
    func early() async throws {
        let server = try await StandIn.start(options: {
            $0.answersEarly = true
            $0.window = 10
        })
        let sender = Sender { $0.answerMax = .nanoseconds(.max / 4) }
        #expect(try await sender.answer(server.request()).status == 413)
        try await wait { server.seen.resets == 1 }
    }

    @Test("sends a body through a narrow window")
    func window() async throws {
        let server = try await StandIn.start(options: { $0.window = 10 })
        let body = (0..<4_000).map { UInt8(truncatingIfNeeded: $0) }
        #expect(try await Sender().answer(server.request(body: body)).status == 200)
        #expect(server.seen.requests[0].body == body)
    }

    @Test("sends nothing of a request whose preparation fails, and goes on")
    func notPrepared() async throws {
        struct Mistake: Error, CustomStringConvertible {
            var description: String { "the key is gone" }
        }
        let server = try await StandIn.start()
        let sender = Sender()
        let request = APNsRequest(number: 3, pool: server.pool(), path: "/3/device/00") { throw Mistake() }
        #expect(try await sender.answer(request).notPrepared == "the key is gone")
        #expect(try await sender.answer(server.request()).status == 200)
        #expect(server.seen.requests.count == 1)
    }

    @Test("sends no field that would be read as another", arguments: 0..<14)
    func malformedField(row: Int) async throws {
        let fields = [
            ("x\r\ny", "z"), ("x: y", "z"), ("", "z"), ("x y", "z"), (":path", "/"), ("x\0", "z"),
            ("x", "y\r\nz: 1"), ("x", "y\n"), ("x", "y\0"), ("x", " y"), ("x", "y "), ("X", "y"),
            ("content-length", "1"), ("host", "elsewhere"),
        ]
        let server = try await StandIn.start()
        let sender = Sender()
        let request = server.request(fields: [(name: fields[row].0, value: fields[row].1)])
        #expect(try await sender.answer(request).notPrepared != nil)
        #expect(try await sender.answer(server.request()).status == 200)
        #expect(server.seen.requests.count == 1)
    }

    @Test(
        "sends no path that would be read as another",
        arguments: ["", "3/device/00", "/a b", "/a\r\nb", "/ä"])
    func malformedPath(path: String) async throws {
        let server = try await StandIn.start()
        let request = APNsRequest(number: 1, pool: server.pool(), path: path) { (fields: [], body: [1]) }
        #expect(try await Sender().answer(request).notPrepared == "the path cannot be sent")
    }

    @Test("sends a body of 1 byte to 16 KiB, and fields of up to 8 KiB")
    func bounds() async throws {
        let server = try await StandIn.start()
        let sender = Sender()
        for (count, isSent) in [(0, false), (1, true), (16_384, true), (16_385, false)] {
            let response = try await sender.answer(
                server.request(body: [UInt8](repeating: 1, count: count)))
            #expect((response.status == 200) == isSent && (response.notPrepared != nil) == !isSent)
        }
        for (count, isSent) in [(8_000, true), (8_192, false)] {
            let value = String(repeating: "v", count: count)
            let response = try await sender.answer(
                server.request(fields: [(name: "apns-topic", value: value)]))
            #expect((response.status == 200) == isSent && (response.notPrepared != nil) == !isSent)
        }
    }

    @Test("answers all requests at its end, and each later one")
    func stop() async throws {
        let server = try await StandIn.start { $0.device == "1" ? .answer(200) : .silence }
        let sender = Sender { $0.streamsMax = 2 }
        sender.client.submit(server.requests(1..<7))
        try await wait { server.seen.requests.count == 3 }
        sender.client.stop()
        sender.client.submit([server.request(9)])
        let answers = sender.all
        #expect(Set(answers.map(\.number)) == [1, 2, 3, 4, 5, 6, 9] && answers.count == 7)
        #expect(answers.filter { $0.failure == "the client has stopped" }.count == 2)
        #expect(answers.filter { $0.notSent == "the client has stopped" }.count == 4)
        sender.client.stop()
        try await wait { server.seen.closed == 1 }
    }

    @Test("closes its connections when its last reference goes away")
    func end() async throws {
        let server = try await StandIn.start()
        do {
            let sender = Sender()
            #expect(try await sender.answer(server.request()).status == 200)
        }
        try await wait { server.seen.closed == 1 }
    }
}
