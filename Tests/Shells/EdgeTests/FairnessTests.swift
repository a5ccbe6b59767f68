import Glibc
import HTTPMessages
import NIOCore
import NIOPosix
import Synchronization
import Testing

@testable import Edge

/// Requests that wait for their turn on one loop, over real sockets.
@Suite("A loop that is asked for more than a turn's work")
struct FairnessTests {
    private func configuration(
        _ change: (inout FairQueue<Responder>.Bounds) -> Void
    ) -> EdgeConfiguration {
        var configuration = EdgeConfiguration()
        (configuration.fairness.turn, configuration.fairness.quantum) = (16 << 10, 8 << 10)
        configuration.fairness.wait = .max
        change(&configuration.fairness)
        configuration.fairness.turnAlone = configuration.fairness.turn
        return configuration
    }

    /// Requests over HTTP/2, on streams from 1 on.
    private func requests(_ count: Int, _ path: (Int) -> String) -> [UInt8] {
        (0..<count).reduce(into: Frames.preface) {
            $0 += Frames.headers(2 * $1 + 1, "GET", path($1), isEnd: true)
        }
    }

    /// The number of answers whose header blocks the client has received.
    private func answers(_ client: RawClient) -> Int {
        Frames.read(client.received).count { $0.kind == 1 }
    }

    /// Refuses a request for a quota.
    private func refuse(_ request: HTTPRequest, _ responder: Responder) {
        responder.refuse(HTTPResponse(status: 429), of: RawServer.share(of: request))
    }

    /// Polls a state that other threads change. The test keeps its thread, as `RawClient.read` does: a test
    /// that gives its thread up may get one back minutes later when the whole suite runs.
    private func until(_ isSo: () -> Bool) {
        for _ in 0..<6000 where !isSo() { usleep(10_000) }
    }

    @Test("answers all of it, and begins each client's requests in their order")
    func order() throws {
        let paths = Mutex<[String]>([])
        let server = try RawServer(configuration { _ in }) { request, responder in
            paths.withLock { $0.append(String(decoding: request.target, as: UTF8.self)) }
            responder.respond(HTTPResponse(status: 200))
        }
        defer { server.end() }
        let clients = try [RawClient(port: server.port), RawClient(port: server.port)]
        for (index, client) in clients.enumerated() {
            client.send(requests(200) { "/share\(index)/\(1000 + $0)" })
        }
        for client in clients { #expect(client.read { answers($0) == 200 }) }
        for index in 0...1 {
            let seen = paths.withLock { $0.filter { $0.hasPrefix("/share\(index)") } }
            #expect(seen == (0..<200).map { "/share\(index)/\(1000 + $0)" })
        }
        #expect(server.edge.counters.fairness.turnsCut.load(ordering: .relaxed) > 0)
        #expect(server.edge.counters.fairness.waiting.load(ordering: .relaxed) == 0)
    }

    @Test("answers what comes pipelined over HTTP/1.1 in its order")
    func pipeline() throws {
        let server = try RawServer(configuration { $0.turn = 1 }) { request, responder in
            responder.respond(HTTPResponse(status: 200, body: request.target))
        }
        defer { server.end() }
        let client = try RawClient(port: server.port)
        let paths = (0..<50).map { "/line/\(100 + $0)" }
        client.send(paths.map { "GET \($0) HTTP/1.1\r\nHost: x\r\n\r\n" }.joined())
        #expect(client.read { $0.count(of: "/line/") == 50 })
        let lines = client.text.split(whereSeparator: \.isNewline).map { $0.prefix { $0 != "H" } }
        #expect(lines.filter { $0.hasPrefix("/line/") }.map(String.init) == paths)
    }

    @Test("answers others while a project waits for what it owes, and does not begin what nobody awaits")
    func dropped() throws {
        let server = try RawServer(
            configuration { ($0.refusal, $0.debt) = (.seconds(1), .seconds(4)) }
        ) { request, responder in
            guard request.target.starts(with: "/paced".utf8) else {
                return responder.respond(HTTPResponse(status: 200))
            }
            refuse(request, responder)
        }
        defer { server.end() }
        let fairness = server.edge.counters.fairness
        var flood: RawClient? = try RawClient(port: server.port)
        flood?.send(requests(200) { _ in "/paced" })
        until { fairness.holds.load(ordering: .relaxed) > 0 }
        let other = try RawClient(port: server.port)
        other.send(requests(20) { _ in "/other" })
        #expect(other.read { answers($0) == 20 })
        #expect(fairness.waiting.load(ordering: .relaxed) > 0)
        flood = nil
        until { fairness.waiting.load(ordering: .relaxed) == 0 }
        #expect(fairness.waiting.load(ordering: .relaxed) == 0)
        #expect(server.asked.count < 220)
    }

    @Test("counts a long header block and a long query as a body, over both protocols")
    func longHeads() throws {
        let server = try RawServer { _, responder in
            responder.respond(HTTPResponse(status: 200, body: Array("<\(responder.bodyBytes)>".utf8)))
        }
        defer { server.end() }
        func counted(_ request: [UInt8]) throws -> Int? {
            let client = try RawClient(port: server.port)
            client.send(request)
            #expect(client.read { $0.text.contains(#/<\d+>/#) })
            return client.text.firstMatch(of: #/<(\d+)>/#).flatMap { Int($0.1) }
        }
        func lines(_ target: String, _ field: String) -> [UInt8] {
            Array("GET \(target) HTTP/1.1\r\nhost: x\r\nx: \(field)\r\n\r\n".utf8)
        }
        let long = String(repeating: "a&", count: 5000)
        #expect(try counted(lines("/", "y")) == 0)
        #expect(try counted(lines("/?\(long)", "y")) == 2 + 10_000 + 37 + 34 - 4096)
        #expect(try counted(lines("/", long)) == 1 + 10_000 + 37 + 33 - 4096)
        let extra = (0..<40).map { ("x\($0 % 10)", String(repeating: "y", count: 120)) }
        let frames = Frames.preface + Frames.headers(1, "GET", "/", isEnd: true, extra)
        #expect(try #require(try counted(frames)) > 2000)
    }

    @Test("does not read on from who has too much waiting, and answers all in the end")
    func paused() throws {
        let server = try RawServer(
            configuration {
                ($0.refusal, $0.debt, $0.full) = (.microseconds(500), .milliseconds(2), 80 << 10)
            }
        ) { refuse($0, $1) }
        defer { server.end() }
        let clients = try (0..<4).map { _ in try RawClient(port: server.port) }
        for client in clients { client.send(requests(200) { _ in "/paced" }) }
        for client in clients { #expect(client.read { answers($0) == 200 }) }
        #expect(server.edge.counters.fairness.pauses.load(ordering: .relaxed) > 0)
        #expect(server.asked.count == 800)
    }

    @Test("makes a share pay for what is refused after its turn, too")
    func later() throws {
        let server = try RawServer(
            configuration { ($0.refusal, $0.debt) = (.milliseconds(1), .milliseconds(20)) }
        ) { request, responder in
            guard let loop = MultiThreadedEventLoopGroup.currentEventLoop else { return }
            loop.assumeIsolated().execute { refuse(request, responder) }
        }
        defer { server.end() }
        let client = try RawClient(port: server.port)
        client.send(requests(200) { _ in "/paced" })
        #expect(client.read { answers($0) == 200 })
        #expect(server.edge.counters.fairness.holds.load(ordering: .relaxed) > 0)
    }

    @Test("answers 503 past what may wait, to HTTP/1.1 and HTTP/2")
    func full() throws {
        let server = try RawServer(
            configuration {
                ($0.refusal, $0.debt, $0.lineMax) = (.milliseconds(1), .milliseconds(2), 40 << 10)
            }
        ) { refuse($0, $1) }
        defer { server.end() }
        let client = try RawClient(port: server.port)
        client.send(requests(100) { _ in "/paced" })
        let old = try (0..<20).map { _ in try RawClient(port: server.port) }
        for client in old { client.send("GET /paced HTTP/1.1\r\nHost: x\r\n\r\n") }
        #expect(client.read { answers($0) == 100 })
        for client in old { #expect(client.read { $0.text.contains("\r\n\r\n") }) }
        #expect(server.asked.count < 120)
        let refused = server.edge.counters.fairness.refused.load(ordering: .relaxed)
        #expect(refused == 120 - server.asked.count)
    }

    /// Over both protocols (rule: bounds-before-work).
    @Test("counts a body with a content coding as what it may become, and a plain one as it is")
    func coded() throws {
        // One refusal holds the share for good, and a line takes ten short bodies or no unpacked one.
        let server = try RawServer(
            configuration { ($0.refusal, $0.debt, $0.lineMax) = (.seconds(3600), .nanoseconds(1), 80 << 10) },
            bodyMax: 32 << 10
        ) { refuse($0, $1) }
        defer { server.end() }
        let first = try RawClient(port: server.port)
        first.send(requests(1) { _ in "/paced" })
        #expect(first.read { answers($0) == 1 })
        let fairness = server.edge.counters.fairness
        let plain = ["", "content-encoding: identity\r\n"]
        let waiting = try plain.map { field in
            let client = try RawClient(port: server.port)
            client.send("POST /paced HTTP/1.1\r\nHost: x\r\n\(field)content-length: 4\r\n\r\nabcd")
            return client
        }
        // A coding without a body is no work.
        let empty = try RawClient(port: server.port)
        empty.send("POST /paced HTTP/1.1\r\nHost: x\r\ncontent-encoding: gzip\r\ncontent-length: 0\r\n\r\n")
        let packed = try RawClient(port: server.port)
        packed.send(
            "POST /paced HTTP/1.1\r\nHost: x\r\ncontent-encoding: gzip\r\ncontent-length: 4\r\n\r\nabcd")
        #expect(packed.read { $0.text.hasPrefix("HTTP/1.1 503") })
        let new = try RawClient(port: server.port)
        new.send(
            Frames.preface
                + Frames.headers(1, "POST", "/paced", isEnd: false, [("content-encoding", "gzip")])
                + Frames.frame(0, flags: 1, stream: 1, Array("abcd".utf8)))
        #expect(new.read { answers($0) == 1 })
        // A refused request tells the counters what waits.
        until { fairness.waiting.load(ordering: .relaxed) == 3 }
        #expect(fairness.waiting.load(ordering: .relaxed) == 3)
        #expect(fairness.refused.load(ordering: .relaxed) == 2)
        #expect(server.asked.count == 1)
        withExtendedLifetime((waiting, empty)) {}
    }
}
