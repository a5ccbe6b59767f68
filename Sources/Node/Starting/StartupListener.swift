import Edge
import FCMAPI
import HTTPMessages
import Logging
import NIOCore
import NIOPosix
import Synchronization
import TLS

/// Answers for a node that cannot begin yet, because its database is not there or an operator keeps the node
/// out. The node is alive and not ready, and says why. All other requests get `UNAVAILABLE`, which clients
/// repeat.
final class StartupListener: Sendable {
    private let group = MultiThreadedEventLoopGroup(numberOfThreads: 1)
    private let reason: Mutex<String>
    /// Whether the only port is that of `--listen-metrics`.
    private let isForProbes: Bool

    /// Opens the node's ports with fixed numbers; port 0 would be another port after the wait. In a cluster
    /// only the port for probes opens, if there is one: a balancer that does not know yet that the node is
    /// not ready cannot connect, and chooses another node.
    init(_ configuration: NodeConfiguration, reason: String, _ log: Logger) throws {
        self.reason = Mutex(reason)
        let probes = configuration.cluster == nil ? nil : configuration.listenMetrics
        isForProbes = probes != nil && probes?.port != 0
        let gate = Gates(configuration, log).clients
        do {
            let edge = try Edge(group: group, gate: gate) { _ in Answerer(self) }
            var (clear, secured) = (configuration.clear, configuration.listenTLS)
            if isForProbes, let probes { (clear, secured) = ([probes], []) }
            for address in clear where address.port != 0 {
                _ = try edge.listen(host: address.host, port: address.port)
            }
            for address in secured where address.port != 0 {
                let tls = try ServerTLS(configuration.certificates, tickets: nil)
                _ = try edge.listen(host: address.host, port: address.port, tls: tls)
            }
        } catch {
            close()
            throw error
        }
    }

    func say(_ next: String) { reason.withLock { $0 = next } }
    fileprivate var current: String { reason.withLock { $0 } }

    /// Closes the ports and every connection.
    func close() { try? group.syncShutdownGracefully() }

    private final class Answerer: RequestHandler {
        private let listener: StartupListener
        init(_ listener: StartupListener) { self.listener = listener }

        func share(of request: HTTPRequest) -> UInt64 { 0 }

        func handle(_ request: HTTPRequest, _ responder: Responder) {
            let reason = listener.current
            switch API.routeProbe(request) {
            case .node(.health): responder.respond(text(200, "ok"))
            case .node(.ready(let unready, _)): responder.respond(text(unready, reason))
            case .node(.metrics) where listener.isForProbes:
                responder.respond(
                    HTTPResponse(
                        status: 200, fields: [("content-type", MetricText.contentType)],
                        body: Array(Metric.beforeStart.utf8)))
            default:
                responder.respond(request.wantsOnlyEvents ? EventStream.refusal() : Answerer.unavailable)
            }
        }

        func admit(_ request: HTTPRequest, from peer: () -> Peer) -> BodyAdmission {
            .refused(Answerer.unavailable)
        }

        /// No path here reads a body.
        func contentBytesMax(of request: HTTPRequest) -> Int { 0 }

        /// Clients do not learn the reason, which may name the database's address.
        private static var unavailable: HTTPResponse { APIFailure.unavailable("the node has not begun yet") }

        private func text(_ status: Int, _ line: String) -> HTTPResponse {
            HTTPResponse(status: status, fields: RequestFrontend.text, body: Array("\(line)\n".utf8))
        }
    }
}
