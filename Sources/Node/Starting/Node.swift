import Catalog
import Edge
import EngineDriver
import FCMAPI
import Glibc
import Journal
import Logging
import Model
import NIOCore
import NIOPosix
import NodeCore
import Partitions
import PeerLink
import Quotas
import RegistrationIDs
import SQLiteEngine
import Synchronization
import TLS

public struct NodeConfiguration: Sendable {
    public struct Address: Sendable {
        public var host: String
        public var port: Int
        public init(host: String, port: Int) {
            self.host = host
            self.port = port
        }
    }
    /// The data folder of the embedded engine. In a cluster the folder holds only the admin socket, and an
    /// empty path means no admin socket.
    public var folder: String
    public var listen: [Address] = []
    /// The listener for scrapers and probes; `nil` for the clients' listeners alone.
    public var listenMetrics: Address?
    /// Listeners with TLS, and their certificates. The first certificate is for clients that ask for no name,
    /// or for a name that no certificate has.
    public var listenTLS: [Address] = []
    public var certificates: [CertificateFiles] = []
    public var isDev = false
    /// Whether the development server listens beyond this machine.
    public var isDevAnywhere = false
    /// Host names of a development server, in addition to this machine's own and Google's.
    public var devHosts: [String] = []
    public var partitionCount = 32
    /// Whether the operator named a number of partitions.
    public var insistsOnCount = false
    public var loopCount = System.coreCount
    public var name = "node"
    public var tokenURI = "http://127.0.0.1:8787/token"
    /// The settings of a node of a cluster; `nil` for a node on the embedded engine.
    public var cluster: ClusterConfiguration?
    /// The bytes that the program's allocator has given out, for the metrics.
    public var allocatedBytes: (@Sendable () -> Int)?
    /// Lines of the log that could not be written, for the metrics.
    public var logLinesLost: (@Sendable () -> Int)?
    /// The most connections of clients; `nil` for as many as the process's descriptors allow.
    public var connectionsMax: Int?
    /// The most connections of one address, 0 for no bound; `nil` for a quarter of all, and no bound for this
    /// machine's own addresses.
    public var connectionsPerAddressMax: Int?
    /// New connections a second of one address, 0 for no bound; `nil` for 500, and no bound for this
    /// machine's own addresses.
    public var connectionsPerAddressSecond: Int?
    public static let connectionsPerSecondMax = ConnectionLimiter.perSecondMax
    /// How long all addresses of a device may be gone before the device ends; `nil`: for ever.
    public var unreachableMax: TimeSpan? = .seconds(7 * 86_400)
    public static let unreachableSecondsMax = 270 * 86_400
    /// See `PartitionOptions.snapshotBytesMin` and `snapshotAge`.
    public var snapshotBytes = 8 << 20
    public var snapshotAge: TimeSpan = .seconds(21_600)
    public static let snapshotBytesRange = 65_536...(1 << 30)
    public static let snapshotSecondsMax = 30 * 86_400
    /// The limits of one client's address, and the proxies that speak for other addresses.
    public var clientLimits = ClientLimits.Settings()
    /// The keys that seal the server's own secrets in the database.
    public var secrets = SecretsKeys.none
    /// Whether the node may read again a key that others on this machine can read. For machines without
    /// other users, such as containers.
    public var mayHaveLooseModes = false
    /// Whether the node carries out one command in a folder without a server, which may be a backup. Such a
    /// node pushes nothing, ends no absent device, and seals no secret under a key that it was given.
    public var isForOneCommand = false
    public init(folder: String) { self.folder = folder }

    /// The listeners without TLS.
    var clear: [Address] { listen + [listenMetrics].compactMap { $0 } }
    var listeners: [Address] { clear + listenTLS }
}

/// One process of Tidecast: the engines, the loops, the listeners, and in a cluster the node's part in it.
public final class Node: Sendable {
    private let group: MultiThreadedEventLoopGroup
    private let shared: NodeShared
    private let edge: Edge
    private let admin: Edge
    private let scraped: Edge
    private let cluster: Cluster?
    private let peerServer: PeerServer?
    private let certificates: CertificateKeeper?
    private let folderLock: FolderLock?
    private let log: Logger
    public let ports: [Int]
    /// The port of `listenMetrics`.
    public let metricsPort: Int?

    /// Opens the engines and begins to serve. On a lone node that comes after all partitions are taken and
    /// read; a node of a cluster takes partitions later. `onFatal` says that the node cannot go on: the
    /// process must end.
    public init(
        _ configuration: NodeConfiguration, log: Logger, onFatal: @escaping @Sendable (String) -> Void
    ) throws {
        self.log = log
        var begun = Begun()
        let gates = Gates(configuration, log)
        gates.tellCut(log)
        do {
            let peers = try Node.openCertificates(configuration)
            try Node.checkPorts(configuration, log)
            folderLock = try Node.holdFolder(of: configuration)
            let boxes = MailboxTable()
            let (engines, opened) = try Node.openEngines(configuration, boxes, log: log, onFatal: onFatal)
            begun.undo { engines.shutdown() }
            let group = MultiThreadedEventLoopGroup(numberOfThreads: configuration.loopCount)
            self.group = group
            // Closes every connection and listener, and returns when the loops have ended.
            begun.undo { try? group.syncShutdownGracefully() }
            shared = Node.makeShared(configuration, engines, opened: opened, log: log, onFatal: onFatal)
            let settings = Node.apiSettings(configuration, opened)
            certificates = try CertificateKeeper(
                configuration, peers: peers, secret: opened.contents.signingKeys.newest, log)
            let loops = try Node.makeLoops(
                group, shared, settings: settings, contents: opened.contents, boxes: boxes, log: log)
            // A frontend refers to its loop without a reference count, so the loops must outlive all
            // connections.
            begun.undo { withExtendedLifetime(loops) {} }
            shared.administrator.attach(boxes.all, certificates)
            if let settings = configuration.cluster {
                let (cluster, server) = try Node.join(
                    settings, configuration, databases: opened.databases, shared: shared, loops: loops,
                    boxes: boxes.all,
                    catalogVersion: opened.catalogVersion, life: opened.life,
                    gate: gates.peers, tls: peers, log: log)
                (self.cluster, peerServer) = (cluster, server)
                begun.undo { cluster.abandon() }
                begun.undo { _ = try? server.close().wait() }
            } else {
                (cluster, peerServer) = (nil, nil)
                try Node.load(shared, loops)
            }
            let table = LoopTable(loops)
            edge = try Edge(group: group, gate: gates.clients) {
                EdgeHandler(frontend: table.loop(of: $0).frontend, isAdmin: false)
            }
            admin = try Edge(group: group, gate: gates.operators) {
                EdgeHandler(frontend: table.loop(of: $0).frontend, isAdmin: true)
            }
            scraped = try Edge(group: group, gate: gates.scrapers) {
                ProbeHandler(frontend: table.loop(of: $0).frontend)
            }
            let source = MetricSource(
                node: shared, operations: loops.map(\.frontend.latencies), edge: edge.counters,
                clients: settings.clients, gates: gates, certificates: certificates,
                allocatedBytes: configuration.allocatedBytes, logLinesLost: configuration.logLinesLost)
            shared.metrics.withLock { $0 = source }
            ports = try Node.listen(edge, configuration, certificates: certificates)
            metricsPort = try Node.listen(scraped, at: configuration.listenMetrics)
            try Node.listenForOperators(admin, configuration, log: log)
            if let cluster { cluster.start() } else { shared.becomeReady() }
            table.startKeepAlive()
            certificates?.start(on: group.next())
        } catch {
            begun.undoAll()
            throw error
        }
    }

    private static func makeLoops(
        _ group: MultiThreadedEventLoopGroup, _ shared: NodeShared, settings: APISettings,
        contents: Catalog.Contents, boxes: MailboxTable, log: Logger
    ) throws -> [NodeLoop] {
        var loops: [NodeLoop] = []
        for (number, eventLoop) in group.makeIterator().enumerated() {
            let loop = try eventLoop.submit {
                NodeLoop(
                    number: number, eventLoop: eventLoop, shared: shared, settings: settings,
                    keys: RegistrationKeys(contents.registrationKeys, now: Clock.now().wall), log: log)
            }.wait()
            loops.append(loop)
        }
        boxes.fill(loops.map { loop in Mailbox(eventLoop: loop.eventLoop) { loop.turn() } })
        for loop in loops {
            try loop.eventLoop.submit {
                loop.mailboxes = boxes.all
                loop.apply(contents)
            }.wait()
        }
        return loops
    }

    /// Reads every partition on the engine's thread, while the loops fold the partitions that have been read.
    /// A damaged partition delays no other: its loop reads the partition again, and quarantines it.
    private static func load(_ shared: NodeShared, _ loops: [NodeLoop]) throws {
        var folding: [EventLoopFuture<Void>] = []
        for number in 0..<shared.partitionCount {
            let id = PartitionID(UInt16(number))
            let answer: EngineAnswer
            do {
                let loaded = try shared.engines.home.wait { engine in try StoredPartition(id, from: engine) }
                answer = .loaded(loaded, Epoch(0), quotas: [:])
            } catch {
                answer = .loadFailed(id, Epoch(0), of: error)
                guard answer.isOfDamage else { throw error }
                let metadata: Logger.Metadata = ["partition": "\(number)", "error": "\(error)"]
                shared.log.error("a partition could not be read", metadata: metadata)
                shared.unread.add(id, error)
            }
            let loop = loops[shared.loop(of: id)]
            folding.append(loop.eventLoop.submit { loop.deliver(answer) })
        }
        for future in folding { try future.wait() }
        if let reason = shared.fatal { throw NodeError(reason) }
    }

    /// Ends in order: the node is not ready, asks streams to come back, finishes requests, then closes.
    public func stop(within limit: TimeAmount = .seconds(10)) async {
        // Partitions go to their heirs while this node still answers and passes requests on.
        await cluster?.leave(within: .seconds(8))
        certificates?.end()
        shared.beginDraining()
        // A balancer that asks /readyz now chooses other nodes. Until then this node answers requests as
        // before.
        let end = NIODeadline.now() + limit + .milliseconds(1500)
        await edge.retire()
        if cluster != nil, edge.wasInUse {
            await edge.waitForIdle(quiet: .milliseconds(1500), atMost: .seconds(6))
        }
        for box in shared.administrator.boxes { box.run { $0.frontend.endStreams() } }
        await edge.drain(within: end - .now())
        await admin.drain(within: .seconds(1))
        await scraped.drain(within: .seconds(1))
        if cluster == nil { await keepQuotas() }
        // Each part ends before the parts to which it may still speak.
        let away = cluster?.current.away ?? []
        shared.pushes.stop()
        await endPeers()
        await cluster?.end()
        shared.engines.shutdown(except: away)
        for box in shared.administrator.boxes { box.close() }
        try? await group.shutdownGracefully()
        await cluster?.endLoop()
    }

    /// Accepts no more connections of peers, and closes all connections that this node has made.
    private func endPeers() async {
        guard let peerServer else { return }
        try? await peerServer.close().get()
        for box in shared.administrator.boxes {
            await withCheckedContinuation { (done: CheckedContinuation<Void, Never>) in
                box.run { loop in
                    guard let peers = loop.peers else { return done.resume() }
                    peers.end().whenComplete { _ in done.resume() }
                }
            }
        }
    }
}

extension Node {
    /// Reads all certificates again, of listeners and between nodes; open connections keep the old ones.
    public func readCertificates() {
        guard let certificates else { return log.info("there are no certificates to read again") }
        certificates.look(isAsked: true)
    }

    /// Ends in order and immediately, for a caller that knows that the node serves nobody.
    public func end() async {
        shared.beginDraining()
        await keepQuotas()
        shared.pushes.stop()
        shared.engines.shutdown()
    }

    /// Writes what is left in the buckets, so that an orderly restart neither fills nor empties them.
    private func keepQuotas() async {
        var remainders: [ProjectNumber: [UInt64]] = [:]
        for box in shared.administrator.boxes {
            let part = await withCheckedContinuation { done in
                box.run { done.resume(returning: $0.core.remainders(now: Clock.now())) }
            }
            remainders.merge(part) { $1 }
        }
        let kept = remainders
        do {
            try shared.engines.home.wait { engine in
                try FormerQuotas.put(kept, to: engine, now: Clock.now().wall)
            }
        } catch {
            shared.log.warning(
                "the buckets of quotas could not be stored", metadata: ["error": "\(error)"])
        }
    }
}

/// The path of the admin socket in a data folder.
public enum AdminSocket {
    public static func path(in folder: String) -> String { "\(folder)/admin.sock" }

    /// The bytes of a local socket's path, at most (unix(7): `sun_path` with its final 0).
    private static let bytesMax = 107

    /// Why no admin socket can be in the folder; `nil` if one can.
    public static func mistake(in folder: String) -> String? {
        let bytes = path(in: folder).utf8.count
        guard bytes > bytesMax else { return nil }
        return "the path of the admin socket, \(path(in: folder)), has \(bytes) bytes, and a socket's has"
            + " at most \(bytesMax): use a shorter --data"
    }
}

/// The loops by their event loops. Each loop must be used on its own event loop only.
private final class LoopTable: Sendable {
    private let loops: [ObjectIdentifier: NodeLoop]
    init(_ loops: [NodeLoop]) {
        self.loops = Dictionary(uniqueKeysWithValues: loops.map { (ObjectIdentifier($0.eventLoop), $0) })
    }
    func loop(of eventLoop: any EventLoop) -> NodeLoop {
        guard let loop = loops[ObjectIdentifier(eventLoop)] else {
            preconditionFailure("a loop of another node")
        }
        return loop
    }
    /// Starts what each loop does every 25 s.
    func startKeepAlive() {
        for loop in loops.values { loop.eventLoop.execute { loop.beginKeepAlive() } }
    }
}

/// The loops' mailboxes. The engine's thread starts before they are created.
final class MailboxTable: Sendable {
    private let boxes = Mutex<[Mailbox]>([])
    func fill(_ boxes: [Mailbox]) { self.boxes.withLock { $0 = boxes } }
    var all: [Mailbox] { boxes.withLock { $0 } }

    /// Posts the outcomes of a loop's rows.
    func post(_ resolved: [Resolved], to owner: Int) {
        boxes.withLock { $0[owner] }.post(resolved.map { .resolved($0) })
    }
}
