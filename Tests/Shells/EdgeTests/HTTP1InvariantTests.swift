import HTTPMessages
import NIOEmbedded
import Testing

@testable import Edge

@Suite("The invariants of a connection of HTTP/1.1") struct HTTP1InvariantTests {
    private final class Handler: RequestHandler {
        func share(of request: HTTPRequest) -> UInt64 { 0 }
        func handle(_ request: HTTPRequest, _ responder: Responder) {}
        func admit(_ request: HTTPRequest, from peer: () -> Peer) -> BodyAdmission { .upTo(0) }
        func contentBytesMax(of request: HTTPRequest) -> Int { 0 }
    }

    @Test("say that a request begins alone, and on no connection that becomes a WebSocket")
    func invariants() {
        let configuration = EdgeConfiguration()
        let loop = EdgeLoop(
            eventLoop: EmbeddedEventLoop(), handler: Handler(), configuration: configuration,
            counters: EdgeCounters(), budgets: EdgeBudgets(configuration))
        let connection = HTTP1Connection(loop: loop, opened: 0, isSecure: false, client: nil)
        #expect(connection.brokenInvariant == nil)
        connection.current = Responder(transport: connection, streamID: 0)
        #expect(connection.brokenInvariant == "a request begins while another is open")
        connection.current = nil
        connection.isSwitching = true
        #expect(connection.brokenInvariant == "a request begins on a connection that becomes a WebSocket")
    }
}
