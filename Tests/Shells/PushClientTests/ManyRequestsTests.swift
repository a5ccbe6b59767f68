import PushClient
import PushStandIn
import Testing

@Suite("Many pushes", .timeLimit(.minutes(5)))
struct ManyRequestsTests {
    @Test("go over one connection of HTTP/2")
    func multiplexed() async throws {
        let server = try await StandIn.start(.http2) { _ in .answer(201) }
        let sender = try Sender()
        sender.client.submit((1...600).map { server.request($0, path: "/\($0)", body: [UInt8($0 & 255)]) })
        let answers = await sender.answers(600)
        #expect(answers.allSatisfy { $0.result.status == 201 })
        #expect(Set(answers.map(\.number)) == Set(1...600))
        #expect(Set(server.seen.requests.map(\.path)) == Set((1...600).map { "/\($0)" }))
        #expect(server.seen.requests.count == 600)
        #expect(server.seen.connections == 1)
    }

    @Test("go over a bounded number of connections of HTTP/1.1")
    func overHTTP1() async throws {
        let server = try await StandIn.start(.http1) { _ in .answer(201) }
        let sender = try Sender { $0.connectionsPerOriginMax = 5 }
        sender.client.submit((1...400).map { server.request($0) })
        let answers = await sender.answers(400)
        #expect(answers.allSatisfy { $0.result.status == 201 })
        #expect(Set(answers.map(\.number)) == Set(1...400))
        #expect(server.seen.requests.count == 400)
        #expect(1...5 ~= server.seen.connections)
    }

    @Test("wait for a service that takes one stream at once")
    func oneStream() async throws {
        let server = try await StandIn.start(.http2, streamsMax: 1) { _ in .answer(200) }
        let sender = try Sender { $0.connectionsPerOriginMax = 1 }
        sender.client.submit((1...60).map { server.request($0) })
        let answers = await sender.answers(60)
        #expect(answers.allSatisfy { $0.result.status == 200 })
        #expect(server.seen.requests.count == 60)
        #expect(server.seen.connections == 1)
    }

    @Test("to an origin that does not answer leave room for another origin")
    func deadOrigin() async throws {
        let dead = try await StandIn.start(.http2) { _ in .silence }
        let living = try await StandIn.start(.http2) { _ in .answer(201) }
        let sender = try Sender { $0.transfersMax = 6 }
        sender.client.submit((1...500).map { dead.request($0) })
        sender.client.submit((501...600).map { living.request($0) })
        let answers = await sender.answers(100)
        #expect(Set(answers.map(\.number)) == Set(501...600))
        #expect(answers.allSatisfy { $0.result.status == 201 })
        sender.client.stop()
        #expect(dead.seen.requests.count <= 1)
    }

    @Test("to more origins than there may be connections are all answered")
    func manyOrigins() async throws {
        let sender = try Sender { $0.connectionsMax = 3 }
        var servers: [StandIn] = []
        for number in 0..<8 {
            servers.append(try await StandIn.start(number % 2 == 0 ? .http1 : .http2) { _ in .answer(201) })
        }
        sender.client.submit((0..<160).map { servers[Int($0 % 8)].request($0) })
        let answers = await sender.answers(160)
        #expect(answers.allSatisfy { $0.result.status == 201 })
        #expect(servers.allSatisfy { $0.seen.requests.count == 20 })
    }

    @Test("past the bound of those that wait are not tried")
    func full() async throws {
        let server = try await StandIn.start(.http2) { _ in .silence }
        let sender = try Sender { $0.waitingMax = 10 }
        sender.client.submit((1...30).map { server.request($0) })
        let answers = await sender.answers(20)
        #expect(Set(answers.map(\.number)) == Set(11...30))
        #expect(answers.allSatisfy { $0.result.isUntried })
    }

    @Test("that are not answered when the client stops fail once each")
    func stop() async throws {
        let server = try await StandIn.start(.http2) { $0.path == "/first" ? .answer(201) : .silence }
        let sender = try Sender { $0.transfersPerOriginMax = 10 }
        sender.client.submit([server.request(0, path: "/first")] + (1...50).map { server.request($0) })
        // These leave only after the first answer, because the origin has requests all the time.
        _ = await sender.answers(1)
        sender.client.stop()
        sender.client.stop()
        let answers = sender.all
        #expect(answers.count == 51)
        #expect(Set(answers.map(\.number)) == Set(0...50))
        let failures = answers.compactMap { $0.result.failure }
        #expect(failures.count + answers.filter(\.result.isUntried).count == 50)
        #expect(failures.allSatisfy { $0.reason == "the client has stopped" })
        #expect(failures.count <= 10)
        sender.client.submit([server.request(51)])
        #expect(sender.all.last?.number == 51)
        #expect(sender.all.last?.result.isUntried == true)
        #expect(sender.all.count == 52)
    }

    @Test("end with the connection closed, when the client has been idle")
    func idle() async throws {
        let server = try await StandIn.start(.http2) { _ in .answer(201) }
        let sender = try Sender { $0.idleSeconds = 1 }
        #expect(try await sender.answer(server.request()).status == 201)
        while server.seen.closed == 0 { try await Task.sleep(for: .milliseconds(10)) }
        #expect(try await sender.answer(server.request()).status == 201)
        #expect(server.seen.connections == 2)
    }

    @Test("leave no thread that waits for a client that nobody holds")
    func dropped() async throws {
        let server = try await StandIn.start(.http2) { _ in .answer(201) }
        do {
            let sender = try Sender()
            #expect(try await sender.answer(server.request()).status == 201)
        }
        while server.seen.closed == 0 { try await Task.sleep(for: .milliseconds(10)) }
    }
}
