import Model
import NIOCore
import NIOPosix
import Synchronization
import TLS

/// What stands around a packet of gossip: cluster 8 · version 1 · tag 16 · packet. The tag covers all.
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
    /// What fits through all usual networks in one piece.
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

/// The UDP port on which a node hears and speaks gossip. Whatever comes that is not sealed by this cluster is
/// counted, dropped, and the next is read.
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
    /// Names are asked for again after a while: where a name points changes.
    private var resolving: Set<String> = []
    static let addressesMax = 16_384
    static let resolvedFor = TimeAmount.seconds(30)

    /// Opens the port. Not on `eventLoop`, for which it waits.
    public init(
        eventLoop: any EventLoop, host: String, port: Int, cluster: [UInt8], key: [UInt8], events: Events
    ) throws {
        let envelope = GossipEnvelope(cluster: cluster, key: key)
        self.envelope = envelope
        channel = try DatagramBootstrap(group: eventLoop)
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
            .bind(host: host, port: port).wait()
    }

    /// The port that it has, where 0 was asked for.
    public var port: Int { channel.localAddress?.port ?? 0 }

    @discardableResult
    public func close() -> EventLoopFuture<Void> { channel.close() }

    /// Sends the packet to `HOST:PORT`; what cannot be sent is lost, as datagrams are.
    public func send(_ packet: [UInt8], to address: String) {
        guard let known = addresses[address] else { return resolve(address) }
        let datagram = envelope.wrap(packet)
        let buffer = channel.allocator.buffer(bytes: datagram)
        channel.writeAndFlush(AddressedEnvelope(remoteAddress: known, data: buffer), promise: nil)
    }

    /// Asks the resolver on a thread where waiting harms nobody.
    private func resolve(_ text: String) {
        guard let address = PeerConnections.Address(text) else { return }
        // Those that are still needed are asked for again.
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
            // Not before a while, also where it was not found.
            socket.channel.eventLoop.assumeIsolated().scheduleTask(in: GossipSocket.resolvedFor) {
                box.value.resolving.remove(text)
                box.value.addresses[text] = nil
            }
        }
    }
}

/// Opens envelopes.
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

    /// A port at the other end that is closed is told here; the socket stays.
    func errorCaught(context: ChannelHandlerContext, error: any Error) {}
}
