import Testing

@testable import Edge

@Suite("A connection of HTTP/2 that ends", .serialized)
struct GoAwayTests {
    private func client(_ server: RawServer) throws -> RawClient {
        let client = try RawClient(port: server.port)
        client.send(Frames.preface)
        return client
    }

    /// The code of the last GOAWAY, and nothing behind it.
    private func goAway(_ client: RawClient) -> Int? {
        guard let last = Frames.read(client.received).last, last.kind == 7, last.payload.count >= 8 else {
            return nil
        }
        return last.payload.dropFirst(4).prefix(4).reduce(0) { $0 << 8 | Int($1) }
    }

    @Test("says GOAWAY first where it was idle")
    func idle() throws {
        let server = try RawServer(.with { $0.idleSeconds = 1 })
        defer { server.end() }
        let silent = try client(server)
        let asking = try client(server)
        asking.send(Frames.headers(1, "GET", "/", isEnd: true))
        for client in [silent, asking] {
            #expect(client.read())
            #expect(goAway(client) == 0)
        }
        #expect(asking.text.contains("ok\n"))
    }

    @Test("says GOAWAY first where a header block does not end, also behind the reset of its stream")
    func block() throws {
        let server = try RawServer(.with { $0.handshakeSeconds = 1 })
        defer { server.end() }
        // The head of a frame of 255 bytes, and a field without a name.
        let head: [UInt8] = [0, 0, 0xFF, 1, 0, 0, 0, 0, 1]
        for block in [[], [0, 0, 0, 0, 0]] as [[UInt8]] {
            let client = try client(server)
            client.send(head + block)
            #expect(client.read())
            #expect(goAway(client) == 0)
        }
    }

    @Test("may be silent behind its SETTINGS for longer than one on which nothing came")
    func greeted() throws {
        let server = try RawServer(.with { $0.handshakeSeconds = 1 })
        defer { server.end() }
        let greeted = try client(server)
        let silent = try RawClient(port: server.port)
        silent.send("PRI * HTTP/2.0")
        #expect(silent.read())
        #expect(!greeted.read(within: 3))
        greeted.send(Frames.headers(1, "GET", "/", isEnd: true))
        #expect(greeted.read { $0.text.contains("ok\n") })
    }

    @Test("says ENHANCE_YOUR_CALM first where its client does too much", arguments: [6, 4, 2, 0x42])
    func calm(kind: UInt8) throws {
        let server = try RawServer()
        defer { server.end() }
        let client = try client(server)
        let stream = kind == 2 ? 1 : 0
        let size = [6: 8, 2: 5][kind] ?? 0
        let frame = Frames.frame(kind, stream: stream, [UInt8](repeating: 0, count: size))
        client.send((0..<1000).flatMap { _ in frame }, patience: 1)
        #expect(client.read())
        #expect(goAway(client) == 11)
    }
}
