import Foundation
import NIOCore
import NIOPosix
import Synchronization

@testable import TLS

/// A request as a stand-in for a push service received it.
struct ReceivedRequest: Sendable {
    /// Connections count from 1, in the order in which the stand-in accepted them.
    var connection: Int
    var path: String
    /// With HTTP/2's pseudo-headers; the names as they were sent.
    var fields: [(name: String, value: String)]
    var body: [UInt8]

    func field(_ name: String) -> String? { fields.first { $0.name.lowercased() == name }?.value }
}

/// What the stand-in does with a request.
enum Reply: Sendable {
    /// `interim`: whether an answer 103 goes before. `isCut`: whether the answer's end never comes.
    case answer(
        Int, fields: [(String, String)] = [], body: [UInt8] = [], interim: Bool = false, isCut: Bool = false)
    case silence
    /// Closes the connection with a reset.
    case reset
    /// Ends the stream with an error of HTTP/2 (RFC 9113 §7).
    case resetStream(UInt32)
}

/// A server on loopback with TLS and a certificate for `localhost` that an authority of its own signs. The
/// HTTP/2 is libnghttp2's.
final class StandIn: Sendable {
    enum Version: Sendable, CaseIterable { case http1, http2 }

    struct Seen: Sendable {
        /// Connections accepted, and of these closed again.
        var connections = 0
        var closed = 0
        var requests: [ReceivedRequest] = []
    }

    /// The authority's certificate.
    let caPEM: String
    private let listener = Mutex<(any Channel)?>(nil)
    private let state = Mutex(Seen())
    let reply: @Sendable (ReceivedRequest) -> Reply

    var seen: Seen { state.withLock { $0 } }

    func note(_ change: (inout Seen) -> Void) { state.withLock { change(&$0) } }

    var port: Int { listener.withLock { $0?.localAddress?.port ?? 0 } }

    func url(_ path: String) -> String { "https://localhost:\(port)\(path)" }

    /// - Parameter streamsMax: streams of a connection at once, which the stand-in's SETTINGS say.
    static func start(
        _ version: Version, host: String = "localhost", streamsMax: UInt32 = 100,
        reply: @escaping @Sendable (ReceivedRequest) -> Reply
    ) async throws -> StandIn {
        let authority = try CertificateAuthority(days: 2)
        let signed = try authority.sign(.server(hosts: [host]), days: 2)
        let folder = FileManager.default.temporaryDirectory.path + "/tidecast-push-\(UUID().uuidString)"
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(atPath: folder) }
        let files = CertificateFiles(chain: "\(folder)/chain.pem", key: "\(folder)/key.pem")
        try signed.certificatePEM.write(toFile: files.chain, atomically: false, encoding: .utf8)
        try signed.keyPEM.write(toFile: files.key, atomically: false, encoding: .utf8)
        let tls = try ServerTLS([files], tickets: nil)
        // Without a function for ALPN the server names no protocol, and its clients take HTTP/1.1.
        let plain = try TLSContext()
        try plain.show(try CertificatePair(files))

        let server = StandIn(caPEM: try authority.certificatePEM(), reply: reply)
        let channel = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .childChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    try server.accept(
                        channel, http2: version == .http2 ? tls : nil, plain: plain, streamsMax: streamsMax)
                }
            }
            .bind(host: "127.0.0.1", port: 0).get()
        server.listener.withLock { $0 = channel }
        return server
    }

    private init(caPEM: String, reply: @escaping @Sendable (ReceivedRequest) -> Reply) {
        self.caPEM = caPEM
        self.reply = reply
    }

    private func accept(
        _ channel: any Channel, http2: ServerTLS?, plain: TLSContext, streamsMax: UInt32
    ) throws {
        let number = state.withLock { seen in
            seen.connections += 1
            return seen.connections
        }
        channel.closeFuture.whenComplete { _ in self.note { $0.closed += 1 } }
        let pipeline = channel.pipeline.syncOperations
        if let http2 {
            let handler = TLSHandler(http2) { context, name in
                guard name == "h2" else { throw ChannelError.inappropriateOperationForState }
                try context.pipeline.syncOperations.addHandler(
                    HTTP2StandInHandler(self, connection: number, streamsMax: streamsMax))
                return false
            }
            guard let handler else { throw ChannelError.ioOnClosedChannel }
            try pipeline.addHandler(handler)
        } else {
            guard let handler = TLSHandler(plain) else { throw ChannelError.ioOnClosedChannel }
            try pipeline.addHandlers([handler, HTTP1StandInHandler(self, connection: number)])
        }
    }
}

extension ChannelHandlerContext {
    /// Closes the connection so that the peer gets a reset of TCP.
    func resetConnection() {
        // On the channel's loop the option is set when the call returns.
        _ = (channel as? any SocketOptionProvider)?.setSoLinger(linger(l_onoff: 1, l_linger: 0))
        // After an error, TLS says no goodbye.
        channel.pipeline.fireErrorCaught(ChannelError.inputClosed)
        channel.close(promise: nil)
    }
}
