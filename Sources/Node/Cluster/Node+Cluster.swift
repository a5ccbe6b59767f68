import Catalog
import Glibc
import Journal
import Listener
import Logging
import Model
import NIOCore
import NodeCore
import Ownership
import PeerLink
import PostgresEngine
import TLS

/// The settings of a node of a cluster.
public struct ClusterConfiguration: Sendable {
    /// The database: a URI or keywords, as libpq reads them.
    public var url: String
    /// Further databases over which the partitions are spread, in the order in which the cluster was created.
    public var further: [String] = []
    /// The life of another home whose further databases this one's cluster takes over.
    public var adopted: [UInt8]?
    /// The address for peers.
    public var peer: NodeConfiguration.Address
    /// The listener for gossip; `nil` for the host and port of `peer`, by UDP.
    public var gossip: NodeConfiguration.Address?
    /// Nodes to gossip with first, `HOST:PORT`, in addition to the nodes in the database.
    public var seeds: [String] = []
    public var isShard = true
    public var isGateway = true
    public var weight: UInt8 = 1
    public var zone = ""
    /// The PEM files of the certificate that this node shows to other nodes, its key, and the authorities
    /// that this node trusts; `nil` for connections without TLS.
    public var peerTLS: PeerFiles?
    /// Whether a node with its own certificate accepts nodes whose certificates name no node.
    public var allowsSharedPeerCert = false
    /// For tests: whether the database may be one that loses what it acknowledged.
    public var allowsVolatile = false

    public init(url: String, peer: NodeConfiguration.Address) {
        self.url = url
        self.peer = peer
    }

    var options: PostgresEngine.Options {
        var options = PostgresEngine.Options()
        options.allowsVolatile = allowsVolatile
        return options
    }

    /// Whether the text of a database's URL is in order, and holds a password. Connects to nothing.
    public static func look(_ url: String) -> ConnectionString.Finding { ConnectionString.look(url) }

    /// A home's identity, as a refusal names it; `nil` if the text is not 32 hexadecimal digits.
    public static func identity(_ text: String) -> [UInt8]? {
        Hex.bytes(text).flatMap { $0.count == DatabaseClaim.lifeBytes ? $0 : nil }
    }

    /// The most databases of a cluster, the home counted.
    public static let databasesMax = EngineShare.countMax

    var databaseCount: Int { 1 + further.count }

    /// One of the cluster's databases, 0 for the home, before the node knows its identity and its past.
    func database(_ number: Int) throws -> DatabaseSettings {
        guard let share = EngineShare(number: number, of: databaseCount) else {
            throw NodeError("a cluster has at most \(EngineShare.countMax) databases")
        }
        var options = options
        options.share = share
        return DatabaseSettings(url: number == 0 ? url : further[number - 1], options: options)
    }

    /// The home's engine, as soon as the home can be reached: a database often starts later than its nodes.
    /// Meanwhile `StartupListener` says why the node is not ready. If the cluster is yet to be created, waits
    /// for the other databases as well.
    func waitForEngine(_ configuration: NodeConfiguration, _ log: Logger) throws -> PostgresEngine {
        var listener: StartupListener?
        defer { listener?.close() }
        var told = LogLimit<String>()
        func wait(_ settings: DatabaseSettings) throws -> PostgresEngine {
            while true {
                do throws(EngineError) {
                    return try PostgresEngine(settings.url, options: settings.options)
                } catch {
                    guard case .refused(let reason) = error, PostgresEngine.isOfConnection(reason) else {
                        throw error
                    }
                    if told.pass(reason, now: Clock.monotonic()) != nil {
                        log.warning(
                            "waiting for the database",
                            metadata: ["database": "\(settings.number + 1)", "reason": "\(reason)"])
                    }
                    if listener == nil { listener = try StartupListener(configuration, reason: reason, log) }
                    listener?.say(reason)
                    sleep(1)
                }
            }
        }
        let home = try wait(try database(0))
        if databaseCount > 1, try DatabaseSpread.read(home)?.isMade != true {
            if let mistake = try DatabaseSpread.mistake(home, named: databaseCount) {
                throw NodeError(mistake)
            }
            for number in 1..<databaseCount { _ = try wait(try database(number)) }
        }
        return home
    }

    /// Waits while an operator keeps the node out of the cluster. Meanwhile `StartupListener` says why it is
    /// not ready.
    func waitWhileCordoned(
        _ engine: any ClusterEngine, _ configuration: NodeConfiguration, log: Logger
    ) throws {
        var listener: StartupListener?
        defer { listener?.close() }
        while true {
            let reason: String
            do {
                guard try Catalog.isCordoned(configuration.name, engine) else { return }
                reason =
                    "\(configuration.name) was drained and stays out of the cluster until"
                    + " `tidecast cluster uncordon \(configuration.name)`"
            } catch EngineError.refused(let why) {
                reason = why
            }
            if listener == nil {
                log.warning(
                    "this node waits before it joins the cluster",
                    metadata: ["node": "\(configuration.name)", "reason": "\(reason)"])
                listener = try StartupListener(configuration, reason: reason, log)
            }
            listener?.say(reason)
            sleep(1)
        }
    }

    /// Engines on the other databases; `nil` for each database that cannot be reached now.
    func reachFurther(_ log: Logger) throws -> [PostgresEngine?] {
        try further.indices.map { index in
            var settings = try database(index + 1)
            settings.options.silenceMilliseconds = 4000
            do throws(EngineError) {
                return try PostgresEngine(settings.url, options: settings.options)
            } catch {
                guard case .refused(let reason) = error, PostgresEngine.isOfConnection(reason) else {
                    throw error
                }
                log.warning(
                    "a database is away: the partitions in it wait",
                    metadata: ["database": "\(index + 2)", "reason": "\(reason)"])
                return nil
            }
        }
    }
}

extension Node {
    /// Opens the peer port, and creates the node's part in the cluster; `Cluster.start` starts that part
    /// later.
    static func join(
        _ settings: ClusterConfiguration, _ configuration: NodeConfiguration,
        databases: [DatabaseSettings], shared: NodeShared,
        loops: [NodeLoop], boxes: [Mailbox], catalogVersion: [UInt8], life: [UInt8],
        gate: ListenerGate, tls: PeerTLS?, log: Logger
    ) throws -> (Cluster, PeerServer) {
        let secrets = try shared.engines.home.wait { engine in
            let engine = try engine.ofCluster
            return try patiently(log) { try ClusterSecrets.made(engine, Vault(configuration.secrets)) }
        }
        guard let (clusterID, gossipKey) = Node.ofLife(life, secrets) else {
            throw NodeError("libcrypto could not derive a key from the cluster's key")
        }
        var own = PeerIdentity(cluster: clusterID, processID: shared.processID, name: configuration.name)
        #if DEBUG
            // `two_builds.sh` starts a node that also speaks the next version of frames.
            if getenv("RAISED_VERSIONS") != nil { own.raiseVersions() }
        #endif
        let identity = own
        let events = PeerEvents(
            now: { Clock.monotonic() },
            received: { processID, bytes, after in
                Node.receive(bytes, from: processID, after, shared: shared, boxes: boxes)
            },
            reset: { processID in
                for box in boxes { box.post(.linkReset(processID)) }
                shared.cluster?.tell(.linkReset(processID))
            },
            renewed: { processID in for box in boxes { box.post(.linkReset(processID)) } },
            refused: { reason in
                shared.counters.peerMessagesBad.add(1, ordering: .relaxed)
                let isNew = shared.refusalsTold.withLock { $0.pass(reason, now: Clock.monotonic()) != nil }
                if isNew { log.warning("a peer was refused", metadata: ["reason": "\(reason)"]) }
            },
            link: { processID, loop, report in
                shared.cluster?.tell(.link(processID, loop: loop, LinkReport(report)))
            })
        guard let key = GreetingKey(gossipKey: gossipKey, cluster: clusterID) else {
            throw NodeError("libcrypto could not derive a key from the cluster's key")
        }
        let isSharingAllowed = settings.allowsSharedPeerCert
        let trust = PeerTrust(
            key: key, wantsNames: { !isSharingAllowed && tls?.isNamed == true },
            refused: shared.administrator.refusedCertificates)
        let server = try PeerServer(
            group: loops[0].eventLoop, host: settings.peer.host, port: settings.peer.port, identity: identity,
            trust: trust, tls: tls, gate: gate, events: events)
        for loop in loops {
            try loop.eventLoop.submit {
                var own = identity
                own.loop = UInt16(loop.number)
                loop.peers = PeerConnections(
                    eventLoop: loop.eventLoop, identity: own, trust: trust, tls: tls,
                    isEager: loop.number == 0, events: events)
            }.wait()
        }
        let info = Ownership.NodeInfo(
            isShard: settings.isShard, isGateway: settings.isGateway, weight: settings.weight,
            peer: PeerConnections.Address(host: settings.peer.host, port: server.port).text,
            zone: settings.zone, build: Release.version, secretsKeys: Vault(configuration.secrets).ids)
        let gossip = GossipSettings(
            address: settings.gossip ?? .init(host: settings.peer.host, port: server.port),
            seeds: settings.seeds, cluster: clusterID, key: gossipKey,
            seed: try Catalog.random(8).reduce(0) { $0 << 8 | UInt64($1) })
        let cluster = try Cluster(
            name: configuration.name, info: info, shared: shared, boxes: boxes, databases: databases,
            catalogVersion: catalogVersion, gossip: gossip, tls: tls, log: log)
        shared.join(cluster)
        return (cluster, server)
    }

    /// The cluster's name and gossip's key in this life (rule: copies-are-strangers).
    private static func ofLife(
        _ life: [UInt8], _ secrets: ClusterSecrets
    ) -> (id: [UInt8], key: [UInt8])? {
        func derive(_ purpose: ClusterSecrets.Purpose, count: Int) -> [UInt8]? {
            let source = secrets.derivation(of: purpose, life: life)
            return HKDF.derive(source.secret, salt: source.salt, info: source.info, count: count)
        }
        guard let id = derive(.name, count: 16), let key = derive(.gossip, count: 32) else { return nil }
        return (id, key)
    }

    /// Passes a peer's messages to the loops that serve them. On the connection's event loop.
    private static func receive(
        _ bytes: [UInt8], from processID: ProcessID, _ after: MonotonicTime, shared: NodeShared,
        boxes: [Mailbox]
    ) {
        let frame = PeerFrame(bytes, from: processID, after: after, shared.map)
        if let mistake = frame.mistake {
            shared.counters.peerMessagesBad.add(1, ordering: .relaxed)
            shared.log.error(
                "a peer's message cannot be read", metadata: ["from": "\(processID)", "error": "\(mistake)"])
        }
        if frame.foreign > 0 { shared.counters.answersRefused.add(frame.foreign, ordering: .relaxed) }
        for word in frame.words { shared.cluster?.tell(.peer(processID, word)) }
        for (box, batch) in zip(boxes, frame.batches) where !box.post(batch, from: processID) {
            shared.counters.leftOut.add(1, ordering: .relaxed)
        }
    }
}

extension LinkReport {
    init(_ report: PeerEvents.Report) {
        switch report {
        case .stands: self = .stands
        case .cutOff(let reason): self = .cutOff(reason)
        case .broke: self = .broke
        case .failed(let reason): self = .failed(reason)
        }
    }
}
