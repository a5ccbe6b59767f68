import Glibc
import HTTPMessages
import Listener
import NIOCore

/// The peer of a connection, as the kernel or a trusted proxy knows it.
public enum Peer: Hashable, Sendable {
    /// `HOST:PORT`.
    case address(String)
    /// A process on this machine, over a local socket.
    case user(uid: UInt32, process: Int32)
    case unknown

    /// The address without the port.
    public var host: String {
        guard case .address(let address) = self, let colon = address.lastIndex(of: ":") else {
            return "unknown"
        }
        return String(address[..<colon])
    }

    /// Looks the peer up at each call, so that a connection keeps no memory for it. If the peer is a proxy
    /// that names its client, the client counts as the peer.
    static func of(_ context: ChannelHandlerContext?, _ client: ClientAddress?) -> Peer {
        if let context, client?.isNamed == true,
            let proxy = try? context.pipeline.syncOperations.handler(type: ProxyHeaderHandler.self),
            let source = proxy.source
        {
            return .address(source)
        }
        guard let context, let address = context.remoteAddress else { return .unknown }
        guard case .unixDomainSocket = address else {
            return .address("\(address.ipAddress ?? "?"):\(address.port ?? 0)")
        }
        var found = Peer.unknown
        let asked: EventLoopFuture<UserOfSocket>? = (context.channel as? any SocketOptionProvider)?
            .unsafeGetSocketOption(level: .socket, name: .init(rawValue: SO_PEERCRED))
        // On the channel's own loop the answer comes immediately.
        asked?.assumeIsolated().whenSuccess { found = .user(uid: $0.uid, process: $0.pid) }
        return found
    }

    /// The kernel's `struct ucred`, which the C library declares only with GNU's extensions.
    private struct UserOfSocket: Sendable {
        var pid: Int32
        var uid: UInt32
        var gid: UInt32
    }
}
