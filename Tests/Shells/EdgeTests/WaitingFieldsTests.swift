import Testing

@testable import Edge

@Suite("A client of HTTP/1.1 whose body does not come", .serialized)
struct WaitingFieldsTests {
    /// A request whose fields are some 10 KB, and whose body has not come.
    private let bodyless = """
        POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\
        \((0..<80).map { "x-\($0): \(String(repeating: "y", count: 90))\r\n" }.joined())\r\n
        """

    @Test("may have only so many bytes of fields of a request that is not whole")
    func fields() throws {
        let server = try RawServer(.with { $0.bodyBytesMax = 8_000 })
        defer { server.end() }
        let client = try RawClient(port: server.port)
        client.send(bodyless)
        #expect(client.read { $0.text.contains("Too many bytes of unfinished bodies.") })
        // Fields that wait for nothing do not count.
        let whole = try RawClient(port: server.port)
        whole.send(bodyless.replacing("content-length: 2", with: "content-length: 0"))
        #expect(whole.read { $0.text.contains("ok\n") })
    }

    @Test("leaves others their share of the bytes of fields that all may have")
    func fieldsOfAll() throws {
        let server = try RawServer(.with { $0.bodyBytesOfAllMax = 64 << 10 })
        defer { server.end() }
        // A connection has 4 KiB of its own, and takes more of what all have in steps of 16 KiB.
        let waiting = try (0..<4).map { _ in try RawClient(port: server.port) }
        for client in waiting {
            client.send(bodyless)
            #expect(!client.read(within: 0.2) { !$0.received.isEmpty })
        }
        let next = try RawClient(port: server.port)
        next.send(bodyless)
        #expect(next.read { $0.text.contains("Too many bytes of unfinished bodies.") })
        let usual = try RawClient(port: server.port)
        usual.send("POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\n{}")
        #expect(usual.read { $0.text.contains("ok\n") })
        // The server finishes what it has taken in, and that makes room.
        waiting[0].send("{}")
        #expect(waiting[0].read { $0.text.contains("ok\n") })
        let last = try RawClient(port: server.port)
        last.send(bodyless + "{}")
        #expect(last.read { $0.text.contains("ok\n") })
    }
}
