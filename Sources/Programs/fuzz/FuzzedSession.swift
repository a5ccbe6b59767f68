import HTTPMessages

@testable import Edge

/// An HTTP/2 session without a transport, for fuzzing. It answers every request with 200.
final class FuzzedSession {
    private final class Connection: ServerSessionDelegate {
        var peer: Peer { .unknown }
        var session: ServerSession?
        func greeted() {}
        func began(_ responder: Responder) {}
        func headed(_ responder: Responder) {}
        func admit(_ request: HTTPRequest) -> BodyAdmission { .upTo(64 << 10) }
        func received(_ responder: Responder) { serve(responder) }
        func serve(_ responder: Responder) { session?.serve(responder) }
        func request(of responder: Responder) -> HTTPRequest? { responder.reading }
        func handle(_ request: HTTPRequest, _ responder: Responder) {
            responder.respond(HTTPResponse(status: 200, body: [1]))
        }
        func closed(_ responder: Responder) { responder.close() }
        func drained(_ responder: Responder) {}
        func answered(_ status: Int) {}
        func respond(_ responder: Responder, _ response: HTTPResponse) {
            session?.respond(responder, response, date: "")
        }
        func openStream(_ responder: Responder, status: Int, fields: [(name: String, value: String)]) {}
        func noteRefused(_ share: UInt64, bodyBytes: Int) {}
        func wake(_ responder: Responder) {}
    }

    /// Feeds the bytes behind a client's preface, and discards the session's output.
    static func run(_ bytes: [UInt8]) {
        let peer = Connection()
        let configuration = EdgeConfiguration()
        let session = ServerSession(
            delegate: peer, configuration: configuration, budgets: EdgeBudgets(configuration))
        peer.session = session
        let preface = Array("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".utf8) + [0, 0, 0, 4, 0, 0, 0, 0, 0]
        (preface + bytes).withUnsafeBytes { _ = session.receive($0) }
        session.produce(limit: 1 << 20) { _ in }
        session.end()
        peer.session = nil
    }
}
