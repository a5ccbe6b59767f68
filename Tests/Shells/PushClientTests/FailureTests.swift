import PushClient
import PushStandIn
import Synchronization
import Testing

@Suite("A push that gets no answer", .timeLimit(.minutes(5)))
struct FailureTests {
    @Test("ends with its time, and may have arrived", arguments: StandIn.Version.allCases)
    func silence(version: StandIn.Version) async throws {
        let server = try await StandIn.start(version) { $0.path == "/push" ? .answer(201) : .silence }
        let sender = try Sender { $0.totalMilliseconds = 1_000 }
        // A machine with much else to do may need all of a request's time for a new connection.
        while try await sender.answer(server.request()).status != 201 {}
        let failure = try #require(try await sender.answer(server.request(path: "/silence")).failure)
        #expect(failure.mayHaveArrived)
        #expect(server.seen.requests.filter { $0.path == "/silence" }.count == 1)
    }

    @Test("because of a reset may have arrived, and is not sent twice", arguments: StandIn.Version.allCases)
    func reset(version: StandIn.Version) async throws {
        let server = try await StandIn.start(version) { $0.path == "/push" ? .answer(201) : .reset }
        let sender = try Sender()
        // On a new connection, and on one that has served a request: there libcurl would send again.
        for isReused in [false, true] {
            if isReused { #expect(try await sender.answer(server.request()).status == 201) }
            let failure = try #require(try await sender.answer(server.request(path: "/reset")).failure)
            #expect(failure.mayHaveArrived)
        }
        // A repetition would come before this request.
        #expect(try await sender.answer(server.request()).status == 201)
        let requests = server.seen.requests
        try #require(requests.map(\.path) == ["/reset", "/push", "/reset", "/push"])
        #expect(requests[1].connection == requests[2].connection)
    }

    @Test("because of a stream's error leaves the connection to other requests", arguments: [2, 7, 8, 11])
    func streamReset(code: UInt32) async throws {
        let server = try await StandIn.start(.http2) {
            $0.path == "/push" ? .answer(201) : .resetStream(code)
        }
        let sender = try Sender()
        #expect(try await sender.answer(server.request()).status == 201)
        let failure = try #require(try await sender.answer(server.request(path: "/reset")).failure)
        #expect(failure.mayHaveArrived)
        #expect(try await sender.answer(server.request()).status == 201)
        #expect(server.seen.requests.map(\.path) == ["/push", "/reset", "/push"])
    }

    @Test("because its address is refused opens no connection", arguments: StandIn.Version.allCases)
    func refusedAddress(version: StandIn.Version) async throws {
        let server = try await StandIn.start(version) { _ in .answer(201) }
        let asked = Asked()
        let sender = try Sender()
        let failure = try #require(
            try await sender.answer(
                server.request(mayDial: { address in
                    asked.addresses.withLock { $0.append(address) }
                    return false
                })
            ).failure)
        #expect(!failure.mayHaveArrived)
        #expect(failure.reason.hasPrefix("the address ") && failure.reason.hasSuffix(" is refused"))
        let addresses = asked.addresses.withLock { $0 }
        let loopback = [[127, 0, 0, 1], [UInt8](repeating: 0, count: 15) + [1]]
        #expect(!addresses.isEmpty && addresses.allSatisfy { loopback.contains($0) })
        // The stand-in accepts connections in their order: one before this request's would count first.
        #expect(try await sender.answer(server.request()).status == 201)
        #expect(server.seen.connections == 1)
    }

    @Test("because its address is refused goes over no open connection", arguments: StandIn.Version.allCases)
    func refusedConnection(version: StandIn.Version) async throws {
        let server = try await StandIn.start(version) { _ in .answer(201) }
        let sender = try Sender()
        #expect(try await sender.answer(server.request(path: "/1")).status == 201)
        let failure = try #require(
            try await sender.answer(server.request(path: "/2", mayDial: { _ in false })).failure)
        #expect(failure.reason == "the address 127.0.0.1 is refused")
        #expect(!failure.mayHaveArrived)
        #expect(try await sender.answer(server.request(path: "/3")).status == 201)
        #expect(server.seen.requests.map(\.path) == ["/1", "/3"])
    }

    private final class Asked: Sendable {
        let addresses = Mutex<[[UInt8]]>([])
    }

    @Test("because of an address in the URL is refused like each other", arguments: ["127.0.0.1", "[::1]"])
    func literalAddress(host: String) async throws {
        let request = PushHTTPRequest(number: 1, url: "https://\(host):9/") {
            $0.count < 4
        } prepare: {
            (fields: [], body: [1])
        }
        let failure = try #require(try await Sender().answer(request).failure)
        #expect(failure.reason == "the address \(host.filter { $0 != "[" && $0 != "]" }) is refused")
        #expect(!failure.mayHaveArrived)
    }

    @Test(
        "because the request must not leave any more was not sent, and the next one is",
        arguments: StandIn.Version.allCases)
    func withheld(version: StandIn.Version) async throws {
        struct TooLate: Error, CustomStringConvertible { let description = "too late" }
        let server = try await StandIn.start(version) { _ in .answer(201) }
        let sender = try Sender()
        var late = server.request(path: "/late")
        late.mayLeave = { throw TooLate() }
        guard case .notPrepared(let error) = try await sender.answer(late) else {
            Issue.record("the request left")
            return
        }
        #expect(error is TooLate)
        #expect(try await sender.answer(server.request(path: "/next")).status == 201)
        // Now a connection stands.
        guard case .notPrepared = try await sender.answer(late) else {
            Issue.record("the request left on a connection that stood")
            return
        }
        #expect(server.seen.requests.map(\.path) == ["/next"])
    }

    @Test("because nobody listens has not arrived")
    func nobody() async throws {
        let request = PushHTTPRequest(number: 1, url: "https://127.0.0.1:1/") { _ in
            true
        } prepare: {
            (fields: [], body: [1])
        }
        let failure = try #require(try await Sender().answer(request).failure)
        #expect(!failure.mayHaveArrived)
    }

    @Test("because its name has no address has not arrived")
    func unknownName() async throws {
        let sender = try Sender { $0.connectMilliseconds = 2_000 }
        let request = PushHTTPRequest(number: 1, url: "https://nobody.invalid/") { _ in
            true
        } prepare: {
            (fields: [], body: [1])
        }
        let failure = try #require(try await sender.answer(request).failure)
        #expect(!failure.mayHaveArrived)
    }

    @Test("because of the service's certificate has not arrived")
    func certificates() async throws {
        let server = try await StandIn.start(.http2) { _ in .answer(201) }
        let other = try await StandIn.start(.http2, host: "elsewhere.example") { _ in .answer(201) }
        let sender = try Sender()
        // An authority that did not sign, a certificate for another name, the authorities of the system, and
        // authorities that cannot be read.
        var wrongAuthority = server.request()
        wrongAuthority.caPEM = other.caPEM
        var systems = server.request()
        systems.caPEM = nil
        var unreadable = server.request()
        unreadable.caPEM = "no certificate"
        for request in [wrongAuthority, other.request(), systems, unreadable] {
            let failure = try #require(try await sender.answer(request).failure)
            #expect(!failure.mayHaveArrived)
        }
        #expect(server.seen.requests.isEmpty && other.seen.requests.isEmpty)
        // A connection under one authority serves no request under another.
        #expect(try await sender.answer(server.request()).status == 201)
        for request in [wrongAuthority, systems] {
            #expect(try await sender.answer(request).failure != nil)
        }
        #expect(server.seen.requests.count == 1)
    }

    @Test("because it waited too long was not tried")
    func waited() async throws {
        let server = try await StandIn.start(.http2) { _ in .silence }
        let sender = try Sender { $0.waitMilliseconds = 100 }
        sender.client.submit((1...20).map { server.request($0) })
        let answers = await sender.answers(19)
        #expect(Set(answers.map(\.number)) == Set(2...20))
        for answer in answers { #expect(answer.result.isUntried) }
        while server.seen.requests.isEmpty { try await Task.sleep(for: .milliseconds(10)) }
        sender.client.stop()
        #expect(sender.all.count == 20)
        #expect(sender.all.last?.result.failure?.mayHaveArrived == true)
    }
}
