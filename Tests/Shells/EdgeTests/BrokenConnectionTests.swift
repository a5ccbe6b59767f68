import HTTPMessages
import NIOCore
import NIOPosix
import Synchronization
import Testing

@testable import Edge

/// Connections that break while the edge works on their bytes: the edge must keep nothing of them.
@Suite("A connection that breaks", .serialized)
struct BrokenConnectionTests {
    /// Stands where TLS does, and closes the connection as TLS does when a write fails.
    private final class Breaker: ChannelDuplexHandler {
        typealias InboundIn = ByteBuffer
        typealias OutboundIn = ByteBuffer
        enum Moment { case read, flush }
        let moment: Moment
        init(_ moment: Moment) { self.moment = moment }

        func channelRead(context: ChannelHandlerContext, data: NIOAny) {
            if moment == .read { context.close(promise: nil) }
            context.fireChannelRead(data)
        }

        func flush(context: ChannelHandlerContext) {
            if moment == .flush { context.close(promise: nil) } else { context.flush() }
        }
    }

    private final class Handler: RequestHandler {
        let asked: Atomic<Int>
        let answering: Answering
        /// Whether the handler is answering, and whether the edge called the handler meanwhile.
        var isInside = false
        var wasCalledInside = false
        var responders: [Responder] = []
        enum Answering { case atOnce, later, asStream }
        init(_ answering: Answering) {
            asked = Atomic(0)
            self.answering = answering
        }
        func share(of request: HTTPRequest) -> UInt64 { 0 }
        func handle(_ request: HTTPRequest, _ responder: Responder) {
            if isInside { wasCalledInside = true }
            asked.add(1, ordering: .relaxed)
            responders.append(responder)
            guard answering != .atOnce, let loop = MultiThreadedEventLoopGroup.currentEventLoop else {
                return responder.respond(HTTPResponse(status: 200, body: Array("ok\n".utf8)))
            }
            loop.assumeIsolated().execute {
                self.isInside = true
                if self.answering == .later {
                    responder.respond(HTTPResponse(status: 200, body: Array("ok\n".utf8)))
                } else {
                    responder.openStream(status: 200, fields: [])
                }
                self.isInside = false
            }
        }
        func admit(_ request: HTTPRequest, from peer: () -> Peer) -> BodyAdmission { .upTo(1024) }
        func contentBytesMax(of request: HTTPRequest) -> Int { 1024 }
        func cancelled(_ responder: Responder) { if isInside { wasCalledInside = true } }
    }

    /// Sends `bytes`, and returns what the edge has left when the connection is gone: places in the loop's
    /// set, requests that the handler got, whether a responder is still open, and whether the edge called the
    /// handler while the handler answered.
    private func left(
        of bytes: String, breaking moment: Breaker.Moment, isSecure: Bool,
        answering: Handler.Answering = .atOnce
    ) async throws -> (connections: Int, asked: Int, isOpen: Bool, wasCalledInside: Bool) {
        let group = MultiThreadedEventLoopGroup(numberOfThreads: 1)
        let eventLoop = group.next()
        let bound = try await eventLoop.submit {
            let configuration = EdgeConfiguration()
            let handler = Handler(answering)
            let loop = EdgeLoop(
                eventLoop: eventLoop, handler: handler, configuration: configuration,
                counters: EdgeCounters(), budgets: EdgeBudgets(configuration))
            return NIOLoopBound((loop: loop, handler: handler), eventLoop: eventLoop)
        }.get()
        let isGone = eventLoop.makePromise(of: Void.self)
        let listener = try await ServerBootstrap(group: group)
            .childChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    channel.closeFuture.cascade(to: isGone)
                    try channel.pipeline.syncOperations.addHandler(Breaker(moment))
                    let sniffer = ProtocolSniffer(
                        loop: bound.value.loop, isSecure: isSecure, client: nil)
                    try channel.pipeline.syncOperations.addHandler(sniffer, name: "sniffer")
                }
            }
            .bind(host: "127.0.0.1", port: 0).get()
        let client = try RawClient(port: try #require(listener.localAddress?.port))
        client.send(bytes)
        try await isGone.futureResult.get()
        let left = try await eventLoop.submit {
            let (loop, handler) = bound.value
            return (
                loop.connections.count, handler.asked.load(ordering: .relaxed),
                handler.responders.contains(where: \.isOpen), handler.wasCalledInside
            )
        }.get()
        try await group.shutdownGracefully()
        return left
    }

    @Test(
        "with its first bytes leaves nothing",
        arguments: [
            ("GET / HTTP/1.1\r\nhost: x\r\n\r\n", true), ("GET / HTTP/1.1\r\n", false),
            ("PRI * HTTP/2.0\r\n", false),
        ])
    func firstBytes(bytes: String, isSecure: Bool) async throws {
        let left = try await left(of: bytes, breaking: .read, isSecure: isSecure)
        #expect(left.connections == 0)
        #expect(left.asked == 0)
    }

    @Test("with an answer is not asked for the requests that came together with it")
    func pipelined() async throws {
        let get = "GET / HTTP/1.1\r\nhost: x\r\n\r\n"
        let left = try await left(of: get + get + get, breaking: .flush, isSecure: false)
        #expect(left.connections == 0)
        #expect(!left.isOpen)
    }

    /// A node's core answers in the middle of its own work, so the edge must not call the core then.
    @Test(
        "while it is answered does not call the code that answers",
        arguments: [Handler.Answering.later, .asStream])
    private func inside(answering: Handler.Answering) async throws {
        let get = "GET / HTTP/1.1\r\nhost: x\r\n\r\n"
        let left = try await left(of: get + get, breaking: .flush, isSecure: false, answering: answering)
        #expect(left.asked >= 1)
        #expect(!left.wasCalledInside)
        #expect(!left.isOpen)
    }
}

@Suite("The connections of a loop")
struct ConnectionSetTests {
    private final class Idle: EdgeConnection {
        func drain() {}
        func sweep(_ second: Int) {}
    }

    @Test("take no more room than there are, when a storm of them is over")
    func shrinks() {
        let set = ConnectionSet()
        let all = (0..<20_000).map { _ in Idle() }
        for one in all { set.insert(one) }
        #expect(set.count == 20_000)
        for one in all.dropLast(10) { set.remove(one) }
        #expect(set.count == 10)
        #expect(set.capacity < 2048)
        for one in all { set.remove(one) }
        #expect(set.count == 0)
    }
}
