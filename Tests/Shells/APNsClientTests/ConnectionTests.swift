import APNsClient
import PushStandIn
import Testing

@Suite("A connection to Apple's service", .timeLimit(.minutes(5)))
struct ConnectionTests {
    /// RFC 9113 §7.
    private let refusedStream: UInt32 = 7

    @Test("carries one request until the service takes the token, then as many as the service allows")
    func streams() async throws {
        let server = try await StandIn.start(options: { $0.raised = 50 })
        let sender = Sender()
        sender.client.submit(server.requests(1..<601))
        let answers = await sender.answers(600)
        #expect(answers.allSatisfy { $0.status == 200 })
        #expect(Set(answers.map(\.number)) == Set(1...600))
        #expect(Set(server.devices) == Set((1...600).map { String($0) }) && server.devices.count == 600)
        #expect(server.seen.requests.prefix(1).allSatisfy { $0.open == 1 })
        #expect(server.seen.requests.allSatisfy { $0.open <= 50 })
        #expect(server.seen.connections == 1)
    }

    @Test("carries one request at once where the service refuses the token")
    func unproven() async throws {
        let server = try await StandIn.start(reply: { _ in .answer(403) }, options: { $0.streams = 100 })
        let sender = Sender()
        sender.client.submit(server.requests(1..<21))
        #expect(await sender.answers(20).allSatisfy { $0.status == 403 })
        #expect(server.seen.requests.allSatisfy { $0.open == 1 })
    }

    @Test("obeys a bound that the service lowers")
    func lowered() async throws {
        let server = try await StandIn.start { $0.device == "0" ? .answer(200) : .silence }
        let sender = Sender()
        #expect(try await sender.answer(server.request(device: "0")).status == 200)
        sender.client.submit(server.requests(1..<21))
        try await wait { server.seen.requests.count == 21 }
        // The client knows of the bound before the answers behind it.
        server.each {
            $0.allow(1)
            $0.answerAll(200)
        }
        await sender.answers(21)
        sender.client.submit(server.requests(21..<24))
        for count in 22...24 {
            try await wait { server.seen.requests.count == count }
            server.each { $0.answerAll(200) }
            await sender.answers(count)
        }
        #expect(server.seen.requests.suffix(3).allSatisfy { $0.open == 1 })
    }

    @Test("that the service ends in order loses nothing and sends nothing twice", arguments: [true, false])
    func goAway(isProcessed: Bool) async throws {
        let server = try await StandIn.start { request in
            request.connection == 1 && request.device == "7"
                ? .goAway(reason: "Shutdown", isProcessed: isProcessed) : .answer(200)
        }
        let sender = Sender()
        sender.client.submit(server.requests(1..<101))
        let answers = await sender.answers(100)
        #expect(answers.allSatisfy { $0.status == 200 })
        #expect(Set(answers.map(\.number)) == Set(1...100))
        #expect(server.seen.connections == 2)
        #expect(sender.news == [.connected, .goAway(reason: "Shutdown"), .connected])
        // What the service took, and did not disown.
        let counted = server.seen.requests.filter { $0.connection == 2 || $0.stream < 15 }
        let second = Set(server.seen.requests.filter { $0.connection == 2 }.map(\.device))
        let first = Set(counted.filter { $0.connection == 1 }.map(\.device))
        #expect(second.isDisjoint(with: first.subtracting(["7"])))
        #expect(second.contains("7") == !isProcessed)
        try await wait { server.seen.closed == 1 }
    }

    @Test("whose service refuses a stream sends the request again")
    func refused() async throws {
        let server = try await StandIn.start { request in
            request.device == "1" && request.stream < 5 ? .resetStream(refusedStream) : .answer(200)
        }
        let sender = Sender()
        #expect(try await sender.answer(server.request(device: "0")).status == 200)
        #expect(try await sender.answer(server.request(device: "1")).status == 200)
        #expect(server.devices == ["0", "1", "1"])
        #expect(server.seen.connections == 1)
    }

    @Test("whose service refuses a stream each time gives the request up: it was not sent")
    func refusedForEver() async throws {
        let server = try await StandIn.start { _ in .resetStream(refusedStream) }
        let sender = Sender {
            $0.triesMax = 3
            $0.refusedPauseMin = .milliseconds(1)
        }
        #expect(try await sender.answer(server.request()).notSent == "the service refused the stream")
        #expect(server.devices.count == 3)
    }

    @Test(
        "outlives the reset of a stream, whose request may have arrived",
        arguments: [0, 2, 8, 11] as [UInt32])
    func reset(code: UInt32) async throws {
        let server = try await StandIn.start { $0.device == "1" ? .resetStream(code) : .answer(200) }
        let sender = Sender()
        #expect(try await sender.answer(server.request(device: "0")).status == 200)
        #expect(try await sender.answer(server.request(device: "1")).failure != nil)
        #expect(try await sender.answer(server.request(device: "2")).status == 200)
        #expect(server.devices == ["0", "1", "2"])
        #expect(server.seen.connections == 1)
    }

    @Test("reports a request as possibly delivered when the connection breaks, and reconnects")
    func cut() async throws {
        let server = try await StandIn.start { $0.device == "1" ? .reset : .answer(200) }
        let sender = Sender()
        #expect(try await sender.answer(server.request(device: "0")).status == 200)
        #expect(try await sender.answer(server.request(device: "1")).failure != nil)
        #expect(try await sender.answer(server.request(device: "2")).status == 200)
        #expect(server.devices == ["0", "1", "2"])
        #expect(server.seen.connections == 2)
        #expect(sender.news.count == 3)
    }

    @Test("is made again where the caller wants it, once for many answers")
    func renewed() async throws {
        let server = try await StandIn.start()
        let sender = Sender()
        let first = try await sender.answer(server.request())
        for _ in 0..<100 { sender.client.renew(server.pool(), connection: first.connection) }
        let second = try await sender.answer(server.request())
        #expect(second.connection != first.connection)
        for _ in 0..<100 { sender.client.renew(server.pool(), connection: first.connection) }
        #expect(try await sender.answer(server.request()).connection == second.connection)
        sender.client.renew(server.pool())
        #expect(try await sender.answer(server.request()).connection != second.connection)
        #expect(server.seen.connections == 3)
        try await wait { server.seen.closed == 2 }
        #expect(sender.news == [.connected, .connected, .connected])
    }

    @Test("belongs to one team and one key")
    func pools() async throws {
        let server = try await StandIn.start()
        let sender = Sender()
        for key in ["KEY0000001", "KEY0000002", "KEY0000001"] {
            #expect(try await sender.answer(server.request(pool: server.pool(key: key))).status == 200)
        }
        #expect(server.seen.requests.map(\.connection) == [1, 2, 1])
    }

    // MARK: Silence

    @Test("that answers nothing fails its requests in time, and ends")
    func silence() async throws {
        let server = try await StandIn.start { $0.device == "0" ? .answer(200) : .silence }
        let sender = Sender {
            $0.answerMax = .seconds(2)
            $0.busyPing = .zero
        }
        #expect(try await sender.answer(server.request(device: "0")).status == 200)
        sender.client.submit(server.requests(1..<4))
        #expect(await sender.answers(4).suffix(3).allSatisfy { $0.failure == "no answer within 2000 ms" })
        try await wait { server.seen.closed == 1 }
        #expect(sender.news == [.connected, .broke(reason: "the service does not answer")])
    }

    @Test("gives an answer whose end never comes")
    func cutAnswer() async throws {
        let server = try await StandIn.start { _ in .answer(400, body: Array("go".utf8), isCut: true) }
        let response = try await Sender { $0.answerMax = .seconds(2) }.answer(server.request())
        guard case .answered(400, _, let body) = response.result else {
            Issue.record("\(response)")
            return
        }
        #expect(body == Array("go".utf8))
    }

    @Test("asks a silent service whether it is there, and ends where it is not")
    func dead() async throws {
        let server = try await StandIn.start { $0.device == "1" ? .freeze : .answer(200) }
        let sender = Sender {
            $0.busyPing = .seconds(1)
            $0.pingMax = .seconds(2)
        }
        #expect(try await sender.answer(server.request(device: "0")).status == 200)
        #expect(try await sender.answer(server.request(device: "1")).failure == "the service is silent")
        #expect(try await sender.answer(server.request(device: "2")).status == 200)
        #expect(server.seen.connections == 2)
    }

    @Test("stays where the service answers a PING while it is idle")
    func idle() async throws {
        let server = try await StandIn.start()
        let sender = Sender {
            $0.idlePing = .milliseconds(20)
            $0.pingMax = .seconds(60)
        }
        #expect(try await sender.answer(server.request()).status == 200)
        try await wait { server.seen.pings >= 5 }
        #expect(try await sender.answer(server.request()).status == 200)
        #expect(server.seen.connections == 1)
    }
}
