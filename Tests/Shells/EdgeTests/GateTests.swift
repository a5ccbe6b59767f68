import Listener
import Synchronization
import Testing

@Suite("A server whose places for connections are taken")
struct GateTests {
    private let request = "GET / HTTP/1.1\r\nhost: x\r\n\r\n"

    private func isAnswered(_ client: RawClient) -> Bool {
        client.read { $0.text.contains("ok\n") }
    }

    @Test("goes on for who is in, and takes the next one when somebody leaves")
    func pause() throws {
        let gate = ListenerGate(.init(connectionsMax: 2))
        let server = try RawServer(gate: gate)
        defer { server.end() }
        let first = try RawClient(port: server.port)
        var second: RawClient? = try RawClient(port: server.port)
        first.send(request)
        second?.send(request)
        #expect(isAnswered(first))
        #expect(try isAnswered(#require(second)))
        // The kernel accepts the third connection, the server does not.
        let third = try RawClient(port: server.port)
        third.send(request)
        #expect(!third.read(within: 0.3) { !$0.received.isEmpty || $0.isClosed })
        first.send(request)
        #expect(first.read { $0.count(of: "ok\n") == 2 })
        #expect(gate.counters.pauses.load(ordering: .relaxed) == 1)
        second = nil
        #expect(isAnswered(third))
    }

    @Test("closes what one address has too many of, and tells of it")
    func perAddress() throws {
        let told = Mutex<[ListenerNotice]>([])
        let gate = ListenerGate(.init(perAddressMax: 1, countsLoopback: true)) { notice in
            told.withLock { $0.append(notice) }
        }
        let server = try RawServer(gate: gate)
        defer { server.end() }
        var first: RawClient? = try RawClient(port: server.port)
        first?.send(request)
        #expect(try isAnswered(#require(first)))
        let second = try RawClient(port: server.port)
        #expect(second.read { $0.isClosed })
        #expect(second.received.isEmpty)
        #expect(told.withLock { $0 } == [.tooManyOfAddress("127.0.0.1")])
        first = nil
        // The server notices the closed connection in its own time.
        var isServed = false
        for _ in 0..<200 where !isServed {
            let next = try RawClient(port: server.port)
            next.send(request)
            isServed = next.read { $0.isClosed || $0.text.contains("ok\n") } && !next.isClosed
        }
        #expect(isServed)
    }
}
