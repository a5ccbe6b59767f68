import APNsClient
import Foundation
import NIOCore
import NIOPosix
import PushScheduling
import Synchronization

@testable import TLS

/// A request as the stand-in for Apple's service received it.
struct ReceivedRequest: Sendable {
    struct Field: Sendable {
        var name: String
        var value: String
        /// Whether the client said that no compression table may have the field.
        var isNeverIndexed: Bool
    }
    /// Connections count from 1, in the order in which the stand-in accepted them.
    var connection: Int
    var stream: Int32
    var fields: [Field] = []
    var body: [UInt8] = []
    /// Streams that were open when this one began, this one included.
    var open: Int

    subscript(name: String) -> String? { fields.first { $0.name == name }?.value }
    /// What stands behind `/3/device/`.
    var device: String { String(self[":path"]?.dropFirst("/3/device/".count) ?? "") }
}

/// What the stand-in does with a request.
enum Reply: Sendable {
    /// `interim`: whether an answer 103 goes before. `isCut`: whether the answer's end never comes.
    case answer(
        Int, fields: [(String, String)] = [], body: [UInt8] = [], interim: Bool = false, isCut: Bool = false)
    case silence
    /// Closes the connection with a reset of TCP.
    case cut
    /// Ends the stream with an error of HTTP/2 (RFC 9113 §7).
    case resetStream(UInt32)
    /// Ends the connection in order; the last stream that counts is the one before this request's, or it.
    case goAway(reason: String?, isProcessed: Bool)
    /// Writes these bytes, which need be no HTTP/2.
    case raw([UInt8])
    /// Reads nothing more.
    case freeze
}

/// A server on loopback with TLS and a certificate that an authority of its own signs. The HTTP/2 is
/// libnghttp2's.
final class StandIn: Sendable {
    struct Seen: Sendable {
        /// Connections accepted, and of these closed again.
        var connections = 0
        var closed = 0
        var requests: [ReceivedRequest] = []
        var pings = 0
        var priorities = 0
        /// Streams that the client reset.
        var resets = 0
    }
    struct Options: Sendable {
        var host = "localhost"
        /// SETTINGS of the first frame.
        var streams: UInt32 = 1
        /// The bound after a connection's first answer 200; `nil` for none of its own.
        var raised: UInt32? = 100
        var window: UInt32 = 65_535
        /// Whether the server chooses `h2`.
        var hasALPN = true
        var answersEarly = false
    }

    /// The authority's certificate.
    let caPEM: String
    let options: Options
    private let listener = Mutex<(any Channel)?>(nil)
    private let state = Mutex(Seen())
    private let handlers = Mutex<[NIOLoopBound<StandInHandler>]>([])
    let reply: @Sendable (ReceivedRequest) -> Reply

    var seen: Seen { state.withLock { $0 } }

    func note(_ change: (inout Seen) -> Void) { state.withLock { change(&$0) } }

    var port: Int { listener.withLock { $0?.localAddress?.port ?? 0 } }

    func pool(key: String = "KEY0000001", host: String = "localhost") -> APNsPool {
        APNsPool(host: host, port: port, caPEM: caPEM, teamID: "TEAM000001", keyID: key)
    }

    static func start(
        reply: @escaping @Sendable (ReceivedRequest) -> Reply = { _ in .answer(200) }
    ) async throws -> StandIn { try await start(options: { _ in }, reply: reply) }

    static func start(options change: (inout Options) -> Void) async throws -> StandIn {
        try await start(options: change, reply: { _ in .answer(200) })
    }

    static func start(
        options change: (inout Options) -> Void, reply: @escaping @Sendable (ReceivedRequest) -> Reply
    ) async throws -> StandIn {
        var options = Options()
        change(&options)
        let authority = try CertificateAuthority(days: 2)
        let signed = try authority.sign(.server(hosts: [options.host]), days: 2)
        let folder = FileManager.default.temporaryDirectory.path + "/tidecast-apns-\(UUID().uuidString)"
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(atPath: folder) }
        let files = CertificateFiles(chain: "\(folder)/chain.pem", key: "\(folder)/key.pem")
        try signed.certificatePEM.write(toFile: files.chain, atomically: false, encoding: .utf8)
        try signed.keyPEM.write(toFile: files.key, atomically: false, encoding: .utf8)
        let tls = try ServerTLS([files], tickets: nil)
        // Without a function for ALPN the server names no protocol.
        let plain = try TLSContext()
        try plain.show(try CertificatePair(files))

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
        let handler: TLSHandler?
        if options.hasALPN {
            handler = TLSHandler(tls) { context, name in
                guard name == "h2" else { throw ChannelError.inappropriateOperationForState }
                let made = try StandInHandler(self, connection: number)
                self.handlers.withLock { $0.append(NIOLoopBound(made, eventLoop: context.eventLoop)) }
                try context.pipeline.syncOperations.addHandler(made)
                return false
            }
        } else {
            handler = TLSHandler(plain)
        }
        guard let handler else { throw ChannelError.ioOnClosedChannel }
        try channel.pipeline.syncOperations.addHandler(handler)
    }

    /// Has each connection do something on its own loop.
    func each(_ body: @escaping @Sendable (StandInHandler) -> Void) {
        for handler in handlers.withLock({ $0 }) { handler.eventLoop.execute { body(handler.value) } }
    }

    /// Closes the listener.
    func stop() async throws { try await listener.withLock { $0 }?.close().get() }
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
