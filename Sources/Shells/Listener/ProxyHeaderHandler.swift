import HTTPMessages
import NIOCore

/// Reads a proxy's header before everything else that comes over a connection, TLS included, and hands the
/// rest on. A header counts only if a trusted proxy has connected; from anybody else, or malformed, it ends
/// the connection. The handler stays only if it knows the client.
///
/// A header that does not come whole has the time of a handshake, which the edge bounds.
public final class ProxyHeaderHandler: ChannelInboundHandler, RemovableChannelHandler {
    public typealias InboundIn = ByteBuffer
    public typealias InboundOut = ByteBuffer

    private let gate: ListenerGate
    private let named: (ClientAddress?) -> Void
    private var seen: ByteBuffer?
    private var isRead = false
    /// `HOST:PORT` of the client, if the proxy has named it.
    public private(set) var source: String?

    /// `named` gets the client that a proxy names; for one without an address, the proxy's own.
    public init(_ gate: ListenerGate, named: @escaping (ClientAddress?) -> Void) {
        self.gate = gate
        self.named = named
    }

    public func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        guard !isRead else { return context.fireChannelRead(data) }
        var incoming = unwrapInboundIn(data)
        if seen == nil { seen = incoming } else { seen?.writeBuffer(&incoming) }
        guard var bytes = seen else { return }
        let header = ProxyHeader(at: bytes.readableBytesView)
        switch gate.judge(header, of: context.channel) {
        case .waits: return
        case .refused:
            isRead = true
            seen = nil
            return context.close(promise: nil)
        case .named(let client, let source):
            self.source = source
            named(client)
        case .unnamed: break
        }
        if case .found(_, let length) = header { bytes.moveReaderIndex(forwardBy: length) }
        isRead = true
        seen = nil
        if bytes.readableBytes > 0 { context.fireChannelRead(wrapInboundOut(bytes)) }
        if source == nil { context.pipeline.syncOperations.removeHandler(self, promise: nil) }
    }
}

extension ProxyHeader {
    /// What a header means for its connection.
    enum Verdict {
        case waits
        case refused
        case named(ClientAddress?, source: String?)
        /// The peer is the client, or a proxy that may name the client in each request.
        case unnamed
    }
}

extension ListenerGate {
    /// Judges the header of a connection, and counts its client from now on.
    func judge(_ header: ProxyHeader, of connection: any Channel) -> ProxyHeader.Verdict {
        switch header {
        case .incomplete: return .waits
        case .absent: return .unnamed
        case .malformed(let fault): return refuse(connection, fault.rawValue)
        case .found(let client, _):
            guard bounds.isProxy(ClientAddress(connection.remoteAddress)) else {
                return refuse(connection, "its sender is no proxy that --proxy names")
            }
            return judge(client, of: connection)
        }
    }

    private func judge(_ client: ProxyHeader.Client, of connection: any Channel) -> ProxyHeader.Verdict {
        switch client {
        case .proxy: return .unnamed
        // All such clients share the bounds of the proxy's own address.
        case .unknown:
            let address = ClientAddress(connection.remoteAddress)?.named
            guard count(address, named: ListenerGate.name(connection), of: connection) else {
                return .refused
            }
            return .named(address, source: nil)
        case .address(let bytes, let port):
            let address = ClientAddress(client)
            let packed = try? SocketAddress(packedIPAddress: ByteBuffer(bytes: bytes), port: Int(port))
            let text = packed?.ipAddress ?? "?"
            guard count(address, named: text, of: connection) else { return .refused }
            return .named(address, source: "\(text):\(port)")
        }
    }

    private func refuse(_ connection: any Channel, _ reason: String) -> ProxyHeader.Verdict {
        counters.proxyHeaders.add(1, ordering: .relaxed)
        tell(.proxyHeader(ListenerGate.name(connection), reason))
        return .refused
    }
}
