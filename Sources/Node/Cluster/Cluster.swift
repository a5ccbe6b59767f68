import Catalog
import Logging
import Model
import NIOCore
import NIOPosix
import NodeCore
import Ownership
import PeerLink
import Synchronization
import TLS

/// The settings with which a node gossips.
struct GossipSettings {
    var address: NodeConfiguration.Address
    /// Addresses to try first.
    var seeds: [String]
    var cluster: [UInt8]
    var key: [UInt8]
    var seed: UInt64
}

/// A node's part in its cluster: threads, sockets and timers around the core that decides.
///
/// One thread runs the core. For each database there is a thread for the lease, a thread for takes and
/// releases, and a thread that reads partitions. So nothing else delays the renewal of the lease.
// Safe: mutable state is touched on the event loop only, to which `tell` and the engines' answers hop; the
// rest is constant, locked (`view`) or atomic (`hasEnded`).
final class Cluster: @unchecked Sendable {
    let name: String
    let shared: NodeShared
    let log: Logger
    let group = MultiThreadedEventLoopGroup(numberOfThreads: 1)
    let eventLoop: any EventLoop
    /// One for each database, the home first.
    let databaseConnections: [DatabaseConnections]
    let boxes: [Mailbox]
    private let core: ControlCore
    let socket: GossipSocket
    private let seeds: [String]
    private let tls: PeerTLS?
    /// Whether the other nodes refuse this node's certificate, as far as the core knows.
    private var isRefused = false
    var catalogVersion: [UInt8]
    /// Limits the lines that say why gossip was refused.
    var refusalsTold = LogLimit<String>()
    /// Limits the lines about other nodes to three a minute for each node and kind of line.
    var changesTold = LogLimit<String>(linesMax: 3)
    var whenLeft: [@Sendable () -> Void] = []
    /// What `cluster status` shows. The event loop writes it, and any thread may read it.
    private let view = Mutex(ClusterView())
    /// Whether the event loop takes nothing more.
    let hasEnded = Atomic<Bool>(false)

    /// Opens the gossip port.
    init(
        name: String, info: Ownership.NodeInfo, shared: NodeShared, boxes: [Mailbox],
        databases: [DatabaseSettings], catalogVersion: [UInt8], gossip: GossipSettings, tls: PeerTLS?,
        log: Logger
    ) throws {
        self.name = name
        self.shared = shared
        self.boxes = boxes
        self.log = log
        self.catalogVersion = catalogVersion
        self.tls = tls
        eventLoop = group.next()
        let onFatal: @Sendable (String) -> Void = { shared.stop($0) }
        databaseConnections = databases.map { DatabaseConnections($0, onFatal: onFatal) }
        do {
            socket = try GossipSocket(
                eventLoop: eventLoop, host: gossip.address.host, port: gossip.address.port,
                cluster: gossip.cluster, key: gossip.key,
                events: GossipSocket.Events(
                    received: { packet, from in shared.cluster?.heard(packet, from) },
                    refused: { reason, from in shared.cluster?.refused(reason, from) }))
        } catch {
            for connections in databaseConnections { connections.shutdown() }
            try? group.syncShutdownGracefully()
            throw error
        }
        var info = info
        info.gossip = PeerConnections.Address(host: gossip.address.host, port: socket.port).text
        var options = ControlOptions(
            session: shared.session, name: name, info: info, map: shared.map, histories: shared.histories,
            seed: gossip.seed)
        options.catalogVersion = Catalog.number(of: catalogVersion)
        core = ControlCore(options, now: Clock.monotonic())
        seeds = gossip.seeds
    }

    func start() { tell(.start(seeds: seeds)) }

    /// Runs `body` on the event loop, from any thread. After the end `body` is dropped.
    func perform(_ body: @escaping @Sendable () -> Void) {
        guard !hasEnded.load(ordering: .acquiring) else { return }
        eventLoop.execute(body)
    }

    /// From any thread.
    func tell(_ event: ControlEvent) { perform { self.handle(event) } }
    func tellOwnership(_ event: Ownership.Event) { tell(.ownership(event)) }

    private func handle(_ event: ControlEvent) {
        core.handle(event, now: Clock.monotonic())
        var effects: [ControlEffect] = []
        swap(&effects, &core.effects)
        for effect in effects { carryOut(effect) }
    }

    /// Handles a datagram of this cluster. On the event loop.
    private func heard(_ packet: [UInt8], _ from: String) {
        shared.counters.gossipReceived.add(1, ordering: .relaxed)
        handle(.datagram(packet, from: from))
    }

    /// The certificate that this node shows to new connections, and the other forms of it that nodes take for
    /// it; empty without TLS.
    var ownCertificates: [CertificateFingerprint] {
        tls?.fingerprints.compactMap { CertificateFingerprint($0) } ?? []
    }

    /// Notifies the core when the catalog begins or ceases to refuse this node's certificate. On the event
    /// loop.
    func compareCertificate() {
        let refused = shared.administrator.current.refusedCertificates
        let isNow = ownCertificates.contains(where: refused.contains)
        guard isNow != isRefused else { return }
        isRefused = isNow
        tellOwnership(.certificateRefused(isNow))
    }

    var current: ClusterView { view.withLock { $0 } }

    // MARK: Effects

    private func carryOut(_ effect: ControlEffect) {
        switch effect {
        case .call(let call): self.call(call)
        case .order(let order, let id): boxes[shared.loop(of: id)].post(.order(order))
        case .orderAll(let order): for box in boxes { box.post(.order(order)) }
        case .say(let message, let processIDs): boxes[0].post(.order(.say(message, to: processIDs)))
        case .peers(let addresses):
            let known = addresses.compactMapValues { PeerConnections.Address($0) }
            for box in boxes { box.run { $0.peers?.setAddresses(known) } }
        case .datagram(let packet, let address):
            shared.counters.gossipSent.add(1, ordering: .relaxed)
            socket.send(packet, to: address)
        case .wake(let timer, let at):
            let delay = at.since(Clock.monotonic())
            eventLoop.assumeIsolated().scheduleTask(in: TimeAmount(delay)) {
                self.handle(.timer(timer))
            }
        case .notReady(let reason): shared.become(notReady: reason)
        case .view(let next): view.withLock { $0 = next }
        case .endInOrder: NodeShared.endInOrder()
        case .stepDown:
            shared.stop(
                "another node fenced this node's session: the process ends, and its supervisor starts it"
            )
        case .left:
            for tell in whenLeft { tell() }
            whenLeft = []
        case .noted(let note): tellOperators(note)
        }
    }
}
