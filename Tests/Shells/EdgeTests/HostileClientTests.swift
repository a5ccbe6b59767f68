import Glibc
import HTTPMessages
import NIOCore
import NIOPosix
import Synchronization
import Testing

@testable import Edge

private let get = "GET / HTTP/1.1\r\nhost: x\r\n\r\n"

@Suite("A client that means ill, over HTTP/1.1", .serialized)
struct HostileClientTests {
    @Test(
        "is answered once when it would change the protocol, and what it sends then is thrown away",
        arguments: [
            "GET / HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: h2c\r\n\r\n",
            "CONNECT x:80 HTTP/1.1\r\nhost: x\r\n\r\n",
        ])
    func upgrade(request: String) throws {
        let server = try RawServer()
        defer { server.end() }
        let client = try RawClient(port: server.port)
        client.send(request)
        client.send([UInt8](repeating: 0x41, count: 1 << 20), patience: 1)
        #expect(client.read())
        #expect(client.count(of: "HTTP/1.1 ") == 1)
        #expect(client.text.contains("connection: close"))
    }

    @Test("is asked no more than it reads: answers do not pile up behind each other")
    func pipelined() throws {
        let answer = HTTPResponse(status: 200, body: [UInt8](repeating: 0x41, count: 10_000))
        let server = try RawServer { $1.respond(answer) }
        defer { server.end() }
        let client = try RawClient(port: server.port)
        let requests = Array(String(repeating: get, count: 20_000).utf8)
        let sent = client.send(requests, patience: 1)
        // The server shows by nothing that it has stopped, but that no request begins for a second.
        var before = -1
        while server.asked.count > before {
            before = server.asked.count
            // The test keeps its thread: it could get one back after the server has lost patience.
            usleep(1_000_000)
        }
        // The server does as much as both sockets and one connection's share hold, not all 20,000 requests.
        #expect(server.asked.count < 2000)
        // The server answers all requests that went out once the client reads.
        #expect(client.read(within: 300) { $0.received.count >= sent / get.utf8.count * 10_000 })
    }

    @Test("gets each of its answers, in order, when they are given late and early")
    func order() throws {
        let server = try RawServer { request, responder in
            let response = HTTPResponse(status: 200, body: request.target)
            guard request.target.starts(with: "/late".utf8) else { return responder.respond(response) }
            guard let loop = MultiThreadedEventLoopGroup.currentEventLoop else { return }
            let held = NIOLoopBound(responder, eventLoop: loop)
            loop.execute { held.value.respond(response) }
        }
        defer { server.end() }
        let client = try RawClient(port: server.port)
        var expected = ""
        for number in 0..<3000 {
            let path = number % 1000 < 2 ? "/late\(number)" : "/early\(number)"
            client.send("GET \(path) HTTP/1.1\r\nhost: x\r\n\r\n")
            expected += path
        }
        #expect(client.read { $0.text.contains("/early2999") })
        let paths = client.text.split(separator: "\r\n\r\n").dropFirst().map { $0.prefix { $0 != "H" } }
        #expect(paths.joined() == expected)
    }

    @Test("gets each event of a stream in one chunk, however much is written at once")
    func wholeEvents() throws {
        let event = "<" + String(repeating: "x", count: 9_000) + ">"
        let server = try RawServer(.with { $0.pendingBytesMax = 70_000 }) { _, responder in
            responder.openStream(status: 200, fields: [])
            for _ in 0..<20 { _ = responder.write(SharedBytes(Array(event.utf8))) }
        }
        defer { server.end() }
        let client = try RawClient(port: server.port)
        client.send(get)
        #expect(client.read { $0.received.count > 20 * 9_002 })
        #expect(client.count(of: event) == 20)
    }

    @Test("has a later header block's bytes bounded in time")
    func laterHead() throws {
        let server = try RawServer(.with { $0.handshakeSeconds = 4 })
        defer { server.end() }
        let client = try RawClient(port: server.port)
        client.send(get)
        #expect(client.read { $0.text.contains("ok\n") })
        client.send("GET / HTTP/1.1\r\nhost:")
        #expect(client.read())
        // A client that sends nothing is idle, and may be idle for longer.
        let idle = try RawClient(port: server.port)
        idle.send(get)
        #expect(!idle.read(within: 7))
    }

    @Test("does not hold up the end of the server with a connection on which nothing came")
    func silent() async throws {
        let server = try RawServer(.with { $0.handshakeSeconds = 1000 })
        let clients = try (0..<3).map { _ in try RawClient(port: server.port) }
        clients[1].send("PRI")
        clients[2].send(get)
        #expect(clients[2].read { $0.text.contains("ok\n") })
        while server.edge.counters.open.load(ordering: .relaxed) < 3 { await Task.yield() }
        await server.edge.drain(within: .seconds(20))
        #expect(clients.allSatisfy { $0.read(within: 1) })
        try await server.group.shutdownGracefully()
    }
}

@Suite("A client that never ends its request", .serialized) struct UnfinishedRequestTests {
    @Test("does not hold up the end of the server")
    func unfinished() async throws {
        let server = try RawServer(.with { $0.handshakeSeconds = 1000 })
        let (first, second) = (try RawClient(port: server.port), try RawClient(port: server.port))
        first.send("POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 9\r\n\r\n{")
        second.send(Frames.preface + Frames.headers(1, "POST", "/", isEnd: false))
        second.send(Frames.frame(0, stream: 1, [0x7B]))
        // The server has read both requests by then; if not, it closes the connections as idle ones. On a
        // loaded machine the test may go on so late that they are closed already.
        try await Task.sleep(for: .milliseconds(300))
        await server.edge.drain(within: .seconds(20))
        #expect(first.read(within: 1) && second.read(within: 1))
        try await server.group.shutdownGracefully()
    }
}

@Suite("A client that means ill, over HTTP/2", .serialized)
struct HostileHTTP2ClientTests {
    private func client(_ server: RawServer) throws -> RawClient {
        let client = try RawClient(port: server.port)
        client.send(Frames.preface)
        return client
    }

    @Test("may have only so many bytes of unfinished bodies; what is more is answered 503")
    func bodies() throws {
        let server = try RawServer(.with { $0.bodyBytesMax = 200_000 })
        defer { server.end() }
        let client = try client(server)
        for stream in 0..<20 {
            client.send(Frames.headers(1 + 2 * stream, "POST", "/", isEnd: false))
            for _ in 0..<2 {
                client.send(Frames.frame(0, stream: 1 + 2 * stream, [UInt8](repeating: 0, count: 16_000)))
            }
        }
        // Six of the 20 bodies fit.
        #expect(client.read { client in Frames.read(client.received).count { $0.kind == 3 } >= 14 })
        #expect(client.count(of: "Too many bytes of unfinished bodies.") == 14)
        // The server finishes the requests that it has taken in, and they make room.
        for stream in 0..<6 { client.send(Frames.frame(0, flags: 1, stream: 1 + 2 * stream, [0])) }
        #expect(client.read { $0.count(of: "ok\n") == 6 })
        client.send(Frames.headers(101, "POST", "/", isEnd: false))
        client.send(Frames.frame(0, flags: 1, stream: 101, [UInt8](repeating: 0, count: 16_000)))
        #expect(client.read { $0.count(of: "ok\n") == 7 })
    }

    @Test("may have only so many bytes of fields of requests that are not whole")
    func fields() throws {
        let server = try RawServer(.with { $0.bodyBytesMax = 20_000 })
        defer { server.end() }
        let client = try client(server)
        // The fields of each request are 2,027 bytes, as RFC 9113 counts them.
        let fields = Array(repeating: ("x-y", String(repeating: "y", count: 120)), count: 12)
        for stream in 0..<20 {
            client.send(Frames.headers(1 + 2 * stream, "POST", "/", isEnd: false, fields))
        }
        #expect(client.read { $0.count(of: "Too many bytes of unfinished bodies.") == 11 })
        // The server finishes the requests that it has taken in, and they make room.
        for stream in 0..<9 { client.send(Frames.frame(0, flags: 1, stream: 1 + 2 * stream, [0])) }
        #expect(client.read { $0.count(of: "ok\n") == 9 })
        client.send(Frames.headers(101, "POST", "/", isEnd: false, fields))
        client.send(Frames.frame(0, flags: 1, stream: 101, [0]))
        #expect(client.read { $0.count(of: "ok\n") == 10 })
    }

    @Test("leaves others their share of what all may have")
    func all() throws {
        let server = try RawServer(.with { $0.bodyBytesOfAllMax = 128 << 10 })
        defer { server.end() }
        let greedy = try client(server)
        for stream in 0..<20 {
            greedy.send(Frames.headers(1 + 2 * stream, "POST", "/", isEnd: false))
            greedy.send(Frames.frame(0, stream: 1 + 2 * stream, [UInt8](repeating: 0, count: 16_000)))
        }
        #expect(greedy.read { $0.count(of: "Too many bytes of unfinished bodies.") == 11 })
        let usual = try client(server)
        usual.send(Frames.headers(1, "POST", "/", isEnd: false))
        usual.send(Frames.frame(0, flags: 1, stream: 1, [UInt8](repeating: 0, count: 10_000)))
        #expect(usual.read { $0.text.contains("ok\n") })
    }

    /// Whether the server reset the stream with CANCEL.
    private func isCancelled(_ stream: Int, _ client: RawClient) -> Bool {
        Frames.read(client.received).contains {
            $0.kind == 3 && $0.stream == stream && Array($0.payload) == [0, 0, 0, 8]
        }
    }

    @Test("loses the stream whose window holds an answer back for too long, and no other")
    func window() throws {
        let server = try RawServer(.with { $0.stuckSeconds = 1 })
        defer { server.end() }
        let client = try client(server)
        client.send(Frames.setting(4, 0) + Frames.headers(1, "GET", "/", isEnd: true))
        #expect(client.read { isCancelled(1, $0) })
        client.send(Frames.headers(3, "GET", "/", isEnd: true) + Frames.frame(8, stream: 3, [0, 0, 0, 9]))
        #expect(client.read { $0.text.contains("ok\n") })
        #expect(!client.isClosed)
        // The server leaves a client alone that takes its answer and then waits.
        let honest = try self.client(server)
        honest.send(Frames.headers(1, "GET", "/", isEnd: true))
        #expect(honest.read { $0.text.contains("ok\n") })
        #expect(!honest.read(within: 4))
    }

    @Test("loses a stream of whose answer it takes a few bytes now and then")
    func trickle() throws {
        let answer = HTTPResponse(status: 200, body: [UInt8](repeating: 0x41, count: 60_000))
        let server = try RawServer(.with { $0.stuckSeconds = 2 }) { $1.respond(answer) }
        defer { server.end() }
        let client = try client(server)
        client.send(Frames.setting(4, 0) + Frames.headers(1, "GET", "/", isEnd: true))
        for _ in 0..<60 where !isCancelled(1, client) {
            client.send(Frames.frame(8, stream: 1, [0, 0, 0, 100]))
            client.read(within: 0.5)
        }
        #expect(isCancelled(1, client))
    }

    @Test("loses the stream of a request that takes too long, and no other")
    func slowBody() throws {
        let server = try RawServer(.with { $0.bodySeconds = 1 })
        defer { server.end() }
        let client = try client(server)
        client.send(Frames.headers(1, "POST", "/", isEnd: false) + Frames.frame(0, stream: 1, [0]))
        #expect(client.read { isCancelled(1, $0) })
        client.send(Frames.headers(3, "GET", "/", isEnd: true))
        #expect(client.read { $0.text.contains("ok\n") })
        #expect(!client.isClosed)
    }

    @Test(
        "is closed when it and others read too little of what was written to them",
        arguments: [true, false], [64 << 10, 256 << 20])
    func unread(isHTTP2: Bool, bound: Int) throws {
        var configuration = EdgeConfiguration()
        configuration.answerBytesMax = 64 << 20
        configuration.pendingBytesOfAllMax = bound
        // The answer is longer than the sockets of both ends hold.
        let answer = HTTPResponse(status: 200, body: [UInt8](repeating: 0x41, count: 30 << 20))
        let server = try RawServer(configuration) { $1.respond(answer) }
        defer { server.end() }
        let client = try isHTTP2 ? client(server) : RawClient(port: server.port)
        if isHTTP2 {
            client.send(Frames.setting(4, 1 << 30) + Frames.frame(8, [0x40, 0, 0, 0]))
            client.send(Frames.headers(1, "GET", "/", isEnd: true))
        } else {
            client.send(get)
        }
        // Once the server has answered, its write is stuck, because the client has read nothing.
        while server.asked.count == 0 { usleep(10_000) }
        client.read { $0.isClosed || $0.received.count > 30 << 20 }
        #expect((client.received.count > 30 << 20) == (bound > 1 << 20))
    }

    @Test("may hold an event stream's window shut while there is nothing to send, and for a while then")
    func quietStream() throws {
        let streams = Waiting(count: 1)
        let server = try RawServer(.with { $0.stuckSeconds = 6 }) { request, responder in
            if request.target == Array("/listen".utf8) {
                responder.openStream(status: 200, fields: [])
                _ = responder.write(SharedBytes([1, 2, 3]))
                _ = streams.add(responder)
            } else {
                _ = streams.all.first?.value.write(SharedBytes([4, 5, 6]))
                responder.respond(HTTPResponse(status: 204))
            }
        }
        defer { server.end() }
        // The window has room for the first event and no more.
        let client = try client(server)
        client.send(Frames.setting(4, 3) + Frames.headers(1, "GET", "/listen", isEnd: true))
        #expect(!client.read(within: 9))
        client.send(Frames.headers(3, "GET", "/event", isEnd: true))
        #expect(client.read { client in Frames.read(client.received).contains { $0.stream == 3 } })
        client.send(Frames.frame(8, stream: 1, [0, 0, 0, 9]))
        #expect(client.read { Frames.read($0.received).contains { Array($0.payload) == [4, 5, 6] } })
        #expect(!client.isClosed)
    }

    @Test("is refused new streams while it reads none of its answers")
    func answers() throws {
        let answer = HTTPResponse(status: 200, body: [UInt8](repeating: 0x41, count: 60_000))
        let server = try RawServer(.with { $0.answerBytesMax = 200_000 }) { $1.respond(answer) }
        defer { server.end() }
        let client = try client(server)
        client.send(Frames.setting(4, 0))
        for stream in 0..<10 { client.send(Frames.headers(1 + 2 * stream, "GET", "/", isEnd: true)) }
        // Two answers, 120,000 bytes, are more than half of the bound: the server refuses the other eight
        // streams.
        #expect(client.read { client in Frames.read(client.received).count { $0.kind == 3 } == 8 })
        let resets = Frames.read(client.received).filter { $0.kind == 3 }
        #expect(resets.allSatisfy { Array($0.payload) == [0, 0, 0, 7] })
        #expect(server.asked.count == 2)
    }

    /// A balancer has the requests of many clients on one connection.
    @Test("may have hundreds of its streams refused for that, and its connection goes on")
    func refusals() throws {
        let answer = HTTPResponse(status: 200, body: [UInt8](repeating: 0x41, count: 60_000))
        let server = try RawServer(.with { $0.answerBytesMax = 200_000 }) { $1.respond(answer) }
        defer { server.end() }
        let client = try client(server)
        client.send(Frames.setting(4, 0))
        for stream in 0..<402 { client.send(Frames.headers(1 + 2 * stream, "GET", "/", isEnd: true)) }
        #expect(client.read { client in Frames.read(client.received).count { $0.kind == 3 } == 400 })
        client.send(Frames.setting(4, 65_535))
        #expect(client.read { Frames.read($0.received).contains { $0.stream == 1 && $0.kind == 0 } })
        #expect(!client.isClosed)
    }

    @Test("is closed where 5,000 of its streams are refused for that in half a minute")
    func refusalFlood() throws {
        let answer = HTTPResponse(status: 200, body: [UInt8](repeating: 0x41, count: 60_000))
        let server = try RawServer(.with { $0.answerBytesMax = 200_000 }) { $1.respond(answer) }
        defer { server.end() }
        let client = try client(server)
        client.send(Frames.setting(4, 0))
        // In batches, so that libnghttp2 has none to refuse for too many open streams.
        var sent = 2
        for stream in 0..<2 { client.send(Frames.headers(1 + 2 * stream, "GET", "/", isEnd: true)) }
        for _ in 0..<50 {
            client.send((sent..<sent + 100).flatMap { Frames.headers(1 + 2 * $0, "GET", "/", isEnd: true) })
            sent += 100
            let refused = sent - 2
            #expect(client.read { client in Frames.read(client.received).count { $0.kind == 3 } == refused })
        }
        #expect(!client.isClosed)
        client.send(Frames.headers(1 + 2 * sent, "GET", "/", isEnd: true))
        #expect(client.read { $0.isClosed })
    }

    @Test("is answered 503 where its requests came before their answers were too many")
    func latePages() throws {
        let answer = HTTPResponse(status: 200, body: [UInt8](repeating: 0x41, count: 60_000))
        let waiting = Waiting(count: 10)
        let server = try RawServer(.with { $0.answerBytesMax = 200_000 }) { _, responder in
            // The server answers all requests when the last one has come.
            waiting.add(responder).forEach { $0.value.respond(answer) }
        }
        defer { server.end() }
        let client = try client(server)
        client.send(
            Frames.setting(4, 100) + (0..<10).flatMap { Frames.headers(1 + 2 * $0, "GET", "/", isEnd: true) })
        #expect(client.read { $0.count(of: "Too many bytes of answers that are not read.") == 7 })
    }

    private final class Waiting: Sendable {
        private let responders = Mutex<[NIOLoopBound<Responder>]>([])
        private let count: Int
        init(count: Int) { self.count = count }

        var all: [NIOLoopBound<Responder>] { responders.withLock { $0 } }

        /// Returns all responders once `count` of them are there, and none before.
        func add(_ responder: Responder) -> [NIOLoopBound<Responder>] {
            guard let loop = MultiThreadedEventLoopGroup.currentEventLoop else { return [] }
            let bound = NIOLoopBound(responder, eventLoop: loop)
            return responders.withLock {
                $0.append(bound)
                return $0.count == count ? $0 : []
            }
        }
    }
}
