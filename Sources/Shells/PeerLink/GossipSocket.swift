import Listener
import NIOCore
import NIOPosix
import Synchronization
import TLS

/// The envelope of a gossip packet: cluster 8 · version 1 · tag 16 · packet. The tag covers the other three.
struct GossipEnvelope: Sendable {
    enum Refusal: Error, Hashable, Sendable, CustomStringConvertible {
        case length(Int)
        case otherCluster
        case version(UInt8)
        case tag

        var description: String {
            switch self {
            case .length: "a datagram of a length that gossip never has"
            case .otherCluster: "gossip of another cluster, or no gossip at all"
            case .version(let version): "gossip of version \(version), and this is \(GossipEnvelope.version)"
            case .tag: "gossip that is not sealed with this cluster's key"
            }
        }
    }

    static let version: UInt8 = 1
    /// Short enough for one piece on all usual networks.
    static let datagramBytesMax = 1400
    static let headBytes = 8 + 1 + MessageSeal.tagBytes

    private let cluster: [UInt8]
    private let seal: MessageSeal

    init(cluster: [UInt8], key: [UInt8]) {
        self.cluster = Array(cluster.prefix(8))
        seal = MessageSeal(key: key)
    }

    func wrap(_ packet: [UInt8]) -> [UInt8] {
        let tag = seal.tag(cluster + [GossipEnvelope.version] + packet)
        return cluster + [GossipEnvelope.version] + tag + packet
    }

    func unwrap(_ datagram: [UInt8]) throws(Refusal) -> [UInt8] {
        guard datagram.count > GossipEnvelope.headBytes, datagram.count <= GossipEnvelope.datagramBytesMax
        else { throw .length(datagram.count) }
        guard Array(datagram[..<8]) == cluster else { throw .otherCluster }
        guard datagram[8] == GossipEnvelope.version else { throw .version(datagram[8]) }
        let packet = Array(datagram[GossipEnvelope.headBytes...])
        let message = cluster + [GossipEnvelope.version] + packet
        guard seal.isGood(Array(datagram[9..<GossipEnvelope.headBytes]), of: message) else { throw .tag }
        return packet
    }
}

/// The UDP port on which a node sends and receives gossip. The socket reports a datagram without this
/// cluster's seal as refused, so that the node counts it, drops the datagram, and reads on.
///
/// Confined to its event loop.
public final class GossipSocket {
    public struct Events: Sendable {
        var received: @Sendable (_ packet: [UInt8], _ from: String) -> Void
        var refused: @Sendable (_ reason: String, _ from: String) -> Void
        public init(
            received: @escaping @Sendable ([UInt8], String) -> Void,
            refused: @escaping @Sendable (String, String) -> Void
        ) {
            self.received = received
            self.refused = refused
        }
    }

    private let channel: any Channel
    private let envelope: GossipEnvelope
    private var addresses: [String: SocketAddress] = [:]
    /// Names whose lookup is under way or younger than `resolvedFor`. The socket looks each name up again
    /// after that, because a name may point elsewhere later.
    private var resolving: Set<String> = []
    static let addressesMax = 16_384
    static let resolvedFor = TimeAmount.seconds(30)

    /// Opens the port. Must not be called on `eventLoop`, because the caller waits for that loop.
    public init(
        eventLoop: any EventLoop, host: String, port: Int, cluster: [UInt8], key: [UInt8], events: Events
    ) throws {
        let envelope = GossipEnvelope(cluster: cluster, key: key)
        self.envelope = envelope
        let bootstrap = DatagramBootstrap(group: eventLoop)
            .channelOption(.socketOption(.so_reuseaddr), value: 1)
            .channelOption(.datagramVectorReadMessageCount, value: 16)
            .channelOption(
                .recvAllocator, value: FixedSizeRecvByteBufferAllocator(capacity: 16 * 2048)
            )
            .channelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    try channel.pipeline.syncOperations.addHandler(GossipReader(envelope, events))
                }
            }
        channel = try ListenError.naming("\(host):\(port)") {
            try bootstrap.bind(host: host, port: port).wait()
        }
    }

    /// The port that is open, also if the caller asked for port 0.
    public var port: Int { channel.localAddress?.port ?? 0 }

    @discardableResult
    public func close() -> EventLoopFuture<Void> { channel.close() }

    /// Sends the packet to `HOST:PORT`. A packet that cannot be sent is lost, as datagrams are.
    public func send(_ packet: [UInt8], to address: String) {
        guard let known = addresses[address] else { return resolve(address) }
        let datagram = envelope.wrap(packet)
        let buffer = channel.allocator.buffer(bytes: datagram)
        channel.writeAndFlush(AddressedEnvelope(remoteAddress: known, data: buffer), promise: nil)
    }

    /// Looks the name up on a thread of NIO's pool, because a lookup blocks its thread.
    private func resolve(_ text: String) {
        guard let address = PeerConnections.Address(text) else { return }
        // The socket looks up again the addresses that are still needed.
        if addresses.count >= GossipSocket.addressesMax { addresses = [:] }
        if let numeric = try? SocketAddress(ipAddress: address.host, port: address.port) {
            addresses[text] = numeric
            return
        }
        guard resolving.insert(text).inserted else { return }
        let box = NIOLoopBound(self, eventLoop: channel.eventLoop)
        NIOThreadPool.singleton.runIfActive(eventLoop: channel.eventLoop) {
            try SocketAddress.makeAddressResolvingHost(address.host, port: address.port)
        }.whenComplete { result in
            let socket = box.value
            if case .success(let found) = result { socket.addresses[text] = found }
            // The next lookup waits, also if this one found nothing.
            socket.channel.eventLoop.assumeIsolated().scheduleTask(in: GossipSocket.resolvedFor) {
                box.value.resolving.remove(text)
                box.value.addresses[text] = nil
            }
        }
    }
}

/// Opens the envelope of each datagram.
private final class GossipReader: ChannelInboundHandler {
    typealias InboundIn = AddressedEnvelope<ByteBuffer>

    private let envelope: GossipEnvelope
    private let events: GossipSocket.Events

    init(_ envelope: GossipEnvelope, _ events: GossipSocket.Events) {
        self.envelope = envelope
        self.events = events
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        let datagram = unwrapInboundIn(data)
        guard let host = datagram.remoteAddress.ipAddress, let port = datagram.remoteAddress.port else {
            return
        }
        let from = PeerConnections.Address(host: host, port: port).text
        do throws(GossipEnvelope.Refusal) {
            events.received(try envelope.unwrap(Array(datagram.data.readableBytesView)), from)
        } catch {
            events.refused("\(error)", from)
        }
    }

    /// The kernel reports a closed port at the other end as an error here. The socket stays open.
    func errorCaught(context: ChannelHandlerContext, error: any Error) {}
}
