import HTTPMessages
import Testing

@testable import Edge

@Suite("A client of HTTP/2 whose window is 0", .serialized)
struct OpenStreamTests {
    private static let resetKind: UInt8 = 3
    private static let headersKind: UInt8 = 1

    /// A server with room for 32 streams beyond the 8 of each connection.
    private func server(answer: @escaping RawServer.Answer) throws -> RawServer {
        var configuration = EdgeConfiguration()
        configuration.answerBytesOfAllMax = 32 * EdgeConfiguration.openStreamBytes
        return try RawServer(configuration, answer: answer)
    }

    private func client(of server: RawServer, window: Int) throws -> RawClient {
        let client = try RawClient(port: server.port)
        client.send(Frames.preface + Frames.setting(4, window))
        return client
    }

    private func open(_ count: Int, on client: RawClient) {
        for number in 0..<count { client.send(Frames.headers(2 * number + 1, "GET", "/", isEnd: true)) }
    }

    private func count(_ kind: UInt8, _ client: RawClient) -> Int {
        Frames.read(client.received).count { $0.kind == kind }
    }

    @Test("keeps so many small answers open with all other connections; further streams are refused")
    func small() throws {
        let server = try server { $1.respond(HTTPResponse(status: 200, body: Array("ok".utf8))) }
        defer { server.end() }
        let holder = try client(of: server, window: 0)
        open(100, on: holder)
        #expect(holder.read { count(OpenStreamTests.resetKind, $0) == 60 })
        #expect(count(OpenStreamTests.headersKind, holder) == 40)
        for frame in Frames.read(holder.received) where frame.kind == OpenStreamTests.resetKind {
            #expect(frame.payload.elementsEqual([0, 0, 0, 7]), "REFUSED_STREAM")
        }
        #expect(server.asked.count == 40, "a refused request was not begun, so its client may repeat it")
        // The first streams of a connection ask nobody.
        let usual = try client(of: server, window: 65_535)
        open(8, on: usual)
        #expect(usual.read { count(OpenStreamTests.headersKind, $0) == 8 })
        #expect(count(OpenStreamTests.resetKind, usual) == 0)
        // The holder reads, and that makes room.
        holder.send(Frames.setting(4, 65_535))
        #expect(holder.read { Frames.read($0.received).count { $0.kind == 0 } == 40 })
        let next = try client(of: server, window: 0)
        open(40, on: next)
        #expect(next.read { count(OpenStreamTests.headersKind, $0) == 40 })
    }

    @Test("has event streams beyond that number")
    func events() throws {
        let server = try server { $1.openStream(status: 200, fields: []) }
        defer { server.end() }
        let client = try client(of: server, window: 0)
        open(200, on: client)
        #expect(client.read { count(OpenStreamTests.headersKind, $0) == 200 })
        #expect(count(OpenStreamTests.resetKind, client) == 0)
    }
}
