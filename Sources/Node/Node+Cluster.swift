import Glibc
import Journal
import Logging
import Model
import NIOCore
import Ownership
import PeerLink
import PostgresEngine
import Routing
import TLS

/// What a node needs to know to be one of several.
public struct ClusterConfiguration: Sendable {
    /// The database: a URI or keywords, as libpq reads them.
    public var url: String
    /// Where peers reach this node.
    public var peer: NodeConfiguration.Address
    public var isShard = true
    public var isGateway = true
    public var weight: UInt8 = 1
    public var zone = ""
    /// Whether the number of partitions was asked for in so many words.
    public var insistsOnCount = false
    /// PEM files of the certificate that this node shows to others, its key, and the authority of all; `nil`
    /// for connections without TLS.
    public var peerTLS: (certificateFile: String, keyFile: String, authorityFile: String)?
    /// For tests: a database that may lose what it acknowledged.
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

    /// The engine, when it can be reached: a database that starts later than its nodes is nothing unusual.
    func waitForEngine(_ log: Logger) throws -> PostgresEngine {
        while true {
            do throws(EngineError) {
                return try PostgresEngine(url, options: options)
            } catch {
                guard case .refused(let reason) = error, reason.contains("cannot reach") else { throw error }
                log.warning("waiting for the database", metadata: ["reason": "\(reason)"])
                sleep(1)
            }
        }
    }
}

extension Node {
    /// Opens the peer port and makes the node's part in the cluster, which begins a little later.
    static func join(
        _ settings: ClusterConfiguration, _ configuration: NodeConfiguration, _ shared: NodeShared,
        _ loops: [NodeLoop], _ boxes: [Mailbox], _ catalogVersion: [UInt8], _ log: Logger
    ) throws -> (Cluster, PeerServer) {
        let identity = PeerIdentity(
            cluster: try shared.engine.wait { engine in try Node.clusterID(engine) }, life: shared.life,
            name: configuration.name)
        let events = PeerEvents(
            received: { life, bytes in Node.receive(bytes, from: life, shared, boxes) },
            reset: { life in
                for box in boxes { box.post(.run { $0.linkReset(life) }) }
                shared.cluster?.linkReset(life)
            },
            refused: { reason in
                shared.counters.peerMessagesBad.add(1, ordering: .relaxed)
                log.warning("a peer was refused", metadata: ["reason": "\(reason)"])
            })
        let tls = try settings.peerTLS.map {
            try TLSContext(
                peerCertificateFile: $0.certificateFile, keyFile: $0.keyFile, authorityFile: $0.authorityFile)
        }
        let server = try PeerServer(
            group: loops[0].eventLoop, host: settings.peer.host, port: settings.peer.port, identity: identity,
            tls: tls, events: events)
        for loop in loops {
            try loop.eventLoop.submit {
                loop.peers = PeerConnections(
                    eventLoop: loop.eventLoop, identity: identity, tls: tls, events: events)
            }.wait()
        }
        let info = Ownership.NodeInfo(
            isShard: settings.isShard, isGateway: settings.isGateway, weight: settings.weight,
            peer: "\(settings.peer.host):\(server.port)", zone: settings.zone, build: "1")
        let cluster = Cluster(
            name: configuration.name, info: info, shared: shared, boxes: boxes, url: settings.url,
            options: settings.options, catalogVersion: catalogVersion, log: log)
        shared.join(cluster)
        return (cluster, server)
    }

    /// 16 random bytes, made with the cluster.
    private static func clusterID(_ engine: any Engine) throws -> [UInt8] {
        guard let engine = engine as? any ClusterEngine else {
            throw NodeError("the engine is not one of clusters")
        }
        return try engine.exclusively {
            if let id = try engine.get(.setting, key: "cluster-id") { return id }
            let id = try Catalog.random(16)
            try engine.put(.setting, key: "cluster-id", value: id)
            return id
        }
    }

    /// Hands a peer's messages to the loops that they are for. On the connection's event loop.
    private static func receive(_ bytes: [UInt8], from life: UInt32, _ shared: NodeShared, _ boxes: [Mailbox])
    {
        var reader = ByteReader(bytes)
        var batches: [[LoopMessage]] = Array(repeating: [], count: boxes.count)
        func put(_ message: LoopMessage, _ loop: Int) {
            if loop < batches.count { batches[loop].append(message) }
        }
        do {
            while !reader.isAtEnd {
                switch try PeerMessage.decode(from: &reader) {
                case .partition(let id, let event):
                    guard Int(id.rawValue) < shared.partitionCount else { continue }
                    put(.partition(id, event), shared.loop(of: id))
                case .reply(let id, let reply): put(.reply(id, reply), NodeLoop.address(id.gateway).loop)
                case .stream(let from, let to, let frame):
                    guard Int(from.rawValue) < shared.partitionCount else { continue }
                    put(.peerStream(life: life, from: from, frame), NodeLoop.address(to).loop)
                case .quotaRequest(let request):
                    put(.quotaRequest(request), shared.loop(ofBuckets: request.project))
                case .quotaGrant(let grant): put(.quotaGrant(grant), Int(grant.spender.rawValue & 0xFF))
                case .quotaRefusal(let id, let refusal):
                    put(.quotaRefusal(id, refusal), NodeLoop.address(id.gateway).loop)
                case .nudge: shared.cluster?.handle(.nudged)
                case .leave: NodeShared.endInOrder()
                case .missed: for loop in batches.indices { put(.run { $0.askAgain(of: life) }, loop) }
                }
            }
        } catch {
            // What stood before it is good; what stands behind it cannot be told apart any more.
            shared.counters.peerMessagesBad.add(1, ordering: .relaxed)
            shared.log.error(
                "a peer's message cannot be read", metadata: ["from": "\(life)", "error": "\(error)"])
        }
        for loop in batches.indices where !batches[loop].isEmpty { boxes[loop].post(batches[loop]) }
    }
}
