import Foundation
import NIOCore
import NIOPosix
import Synchronization
import TLS

/// A request as a stand-in for a push service received it.
package struct ReceivedRequest: Sendable {
    package struct Field: Sendable {
        package var name: String
        package var value: String
        /// Whether the client said that no compression table may have the field.
        package var isNeverIndexed = false
    }
    /// Connections count from 1, in the order in which the stand-in accepted them.
    package var connection: Int
    package var stream: Int32 = 0
    /// With HTTP/2's pseudo-headers, in both versions; the names as they were sent.
    package var fields: [Field] = []
    package var body: [UInt8] = []
    /// Streams that were open when this one began, this one included.
    package var open = 1

    package subscript(name: String) -> String? { fields.first { $0.name.lowercased() == name }?.value }
    package var path: String { self[":path"] ?? "" }
}

/// What the stand-in does with a request.
package enum Reply: Sendable {
    /// `interim`: whether an answer 103 goes before. `isCut`: whether the answer's end never comes.
    case answer(
        Int, fields: [(String, String)] = [], body: [UInt8] = [], interim: Bool = false, isCut: Bool = false)
    case silence
    /// Closes the connection with a reset of TCP.
    case reset
    /// Ends the stream with an error of HTTP/2 (RFC 9113 §7).
    case resetStream(UInt32)
    /// Ends the connection in order; the last stream that counts is the one before this request's, or it.
    case goAway(reason: String?, isProcessed: Bool)
    /// Writes these bytes, which need be no HTTP/2.
    case raw([UInt8])
    /// Reads nothing more.
    case freeze
}

/// A push service on loopback, with TLS and a certificate that an authority of its own signs.
package final class StandIn: Sendable {
    package enum Version: Sendable, CaseIterable { case http1, http2 }

    package struct Seen: Sendable {
        /// Connections accepted, and of these closed again.
        package var connections = 0
        package var closed = 0
        package var requests: [ReceivedRequest] = []
        package var pings = 0
        package var priorities = 0
        /// Streams that the client reset.
        package var resets = 0
    }
    package struct Options: Sendable {
        package var host = "localhost"
        /// A server of HTTP/1.1 names no protocol (ALPN).
        package var version = Version.http2
        /// SETTINGS of the first frame.
        package var streams: UInt32 = 1
        package var window: UInt32 = 65_535
        /// The bound of streams after a connection's first answer 200; `nil` for none of its own.
        package var raised: UInt32? = 100
        package var answersEarly = false
    }

    /// The authority's certificate.
    package let caPEM: String
    let options: Options
    private let listener = Mutex<(any Channel)?>(nil)
    private let state = Mutex(Seen())
    private let sessions = Mutex<[NIOLoopBound<StandInSession>]>([])
    let reply: @Sendable (ReceivedRequest) -> Reply

    package var seen: Seen { state.withLock { $0 } }

    func note(_ change: (inout Seen) -> Void) { state.withLock { change(&$0) } }

    package var port: Int { listener.withLock { $0?.localAddress?.port ?? 0 } }

    package static func start(
        reply: @escaping @Sendable (ReceivedRequest) -> Reply = { _ in .answer(200) },
        options change: (inout Options) -> Void = { _ in }
    ) async throws -> StandIn {
        var options = Options()
        change(&options)
        let authority = try CertificateAuthority(days: 2)
        let signed = try authority.sign(.server(hosts: [options.host]), days: 2)
        let folder = FileManager.default.temporaryDirectory.path + "/tidecast-push-\(UUID().uuidString)"
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(atPath: folder) }
        let files = CertificateFiles(chain: "\(folder)/chain.pem", key: "\(folder)/key.pem")
        try signed.certificatePEM.write(toFile: files.chain, atomically: false, encoding: .utf8)
        try signed.keyPEM.write(toFile: files.key, atomically: false, encoding: .utf8)
        let tls = try ServerTLS([files], tickets: nil)
        let plain = try ServerCertificate(files).context

        let server = StandIn(caPEM: try authority.certificatePEM(), options, reply: reply)
        let channel = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .childChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture { try server.accept(channel, tls, plain: plain) }
            }
            .bind(host: "127.0.0.1", port: 0).get()
        server.listener.withLock { $0 = channel }
        return server
    }

    private init(
        caPEM: String, _ options: Options, reply: @escaping @Sendable (ReceivedRequest) -> Reply
    ) {
        self.caPEM = caPEM
        self.options = options
        self.reply = reply
    }

    private func accept(_ channel: any Channel, _ tls: ServerTLS, plain: TLSContext) throws {
        let number = state.withLock { seen in
            seen.connections += 1
            return seen.connections
        }
        channel.closeFuture.whenComplete { _ in self.note { $0.closed += 1 } }
        let pipeline = channel.pipeline.syncOperations
        guard options.version == .http2 else {
            guard let handler = TLSHandler(plain) else { throw ChannelError.ioOnClosedChannel }
            return try pipeline.addHandlers([handler, HTTP1StandInHandler(self, connection: number)])
        }
        let handler = TLSHandler(tls) { context, name in
            guard name == "h2" else { throw ChannelError.inappropriateOperationForState }
            let session = StandInSession(self, connection: number)
            self.sessions.withLock { $0.append(NIOLoopBound(session, eventLoop: context.eventLoop)) }
            try context.pipeline.syncOperations.addHandler(session)
            return false
        }
        guard let handler else { throw ChannelError.ioOnClosedChannel }
        try pipeline.addHandler(handler)
    }

    /// Has each connection of HTTP/2 do something on its own loop.
    package func each(_ body: @escaping @Sendable (StandInSession) -> Void) {
        for session in sessions.withLock({ $0 }) { session.eventLoop.execute { body(session.value) } }
    }

    /// Closes the listener.
    package func stop() async throws { try await listener.withLock { $0 }?.close().get() }
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
