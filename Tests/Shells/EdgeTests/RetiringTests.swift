import Testing

@testable import Edge

@Suite("A client over HTTP/1.1")
struct RetiringTests {
    private let get = "GET / HTTP/1.1\r\nhost: localhost\r\n\r\n"

    @Test("is sent elsewhere with its next answer while the server retires")
    func retiring() async throws {
        // Another test may hold this one up for minutes.
        var configuration = EdgeConfiguration()
        (configuration.handshakeSeconds, configuration.idleSeconds) = (100_000, 100_000)
        let server = try RawServer(configuration)
        let client = try RawClient(port: server.port)
        client.send(get)
        #expect(client.read { $0.text.contains("ok\n") })
        #expect(!client.text.contains("connection: close"))
        let edge = server.edge
        await edge.retire()
        // The server waits until the client on the idle connection has its answer.
        let waiting = Task {
            await edge.waitForIdle(quiet: .zero, atMost: .seconds(100_000))
            return edge.counters.answers.count(200)
        }
        try await Task.sleep(for: .milliseconds(100))
        client.send(get)
        #expect(client.read(), "the connection ends")
        #expect(client.text.contains("connection: close"))
        let answered = await waiting.value
        #expect(answered == 2)
        // Who comes now is served.
        let late = try RawClient(port: server.port)
        late.send(get)
        #expect(late.read())
        #expect(late.text.contains("ok\n"))
        try await server.group.shutdownGracefully()
    }
}
