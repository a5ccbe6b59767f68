import Journal
import Logging
import Membership
import Model
import NIOCore
import NIOPosix
import NodeCore
import Ownership
import Partitions
import PeerLink
import Routing
import SQLiteEngine
import Synchronization

/// A node's part in its cluster: carries out what `Ownership` decides, and tells the loops where everything
/// is.
///
/// It has a thread for its decisions, and for each database one for the small tables and one for reading
/// partitions, so that a lease is renewed whatever the loops and the journals are busy with.
// Safe: what changes is touched on its event loop only, where `handle` and the engine's answers hop to; the
// rest is constant, locked (`view`) or atomic (`isOver`).
final class Cluster: @unchecked Sendable {
    let name: String
    let shared: NodeShared
    let log: Logger
    let group = MultiThreadedEventLoopGroup(numberOfThreads: 1)
    let eventLoop: any EventLoop
    /// One for each database, the home first.
    let lanes: [DatabaseLane]
    let tables: PartitionTables
    let boxes: [Mailbox]
    var ownership: Ownership
    var gossip: Gossip?
    private let seeds: [String]
    /// When each reason to refuse gossip was logged last.
    var refusalsTold: [String: MonotonicTime] = [:]
    private(set) var members: [Ownership.Member] = []
    private(set) var routes: [Ownership.Route?] = []
    var links = PeerLinks()
    /// Why the node is not ready, whatever it can reach; `nil` where nothing speaks against it.
    private(set) var standing: String? = Cluster.joining
    static let joining = "joining the cluster"
    /// It was ready when that was looked at last.
    var wasAble = false
    var catalogVersion: [UInt8]
    var whenLeft: [@Sendable () -> Void] = []
    /// What `cluster status` shows; written by the event loop, read by whoever asks.
    private let view = Mutex(ClusterView())
    /// The session is ended by this node itself.
    let isOver = Atomic<Bool>(false)
    /// The event loop takes nothing more.
    let hasEnded = Atomic<Bool>(false)

    /// Opens the gossip port.
    init(
        name: String, info: Ownership.NodeInfo, shared: NodeShared, boxes: [Mailbox],
        databases: [DatabaseSettings], catalogVersion: [UInt8], gossip: GossipSettings, log: Logger
    ) throws {
        self.name = name
        self.shared = shared
        self.boxes = boxes
        self.log = log
        self.catalogVersion = catalogVersion
        eventLoop = group.next()
        let onFatal: @Sendable (String) -> Void = { shared.stop($0) }
        lanes = databases.map { DatabaseLane($0, onFatal: onFatal) }
        tables = PartitionTables(
            lanes, histories: shared.histories, session: shared.session, node: name, eventLoop: eventLoop,
            log: log, perform: { shared.cluster?.perform($0) },
            fenced: { shared.cluster?.handle(.fenced) })
        let socket = try GossipSocket(
            eventLoop: eventLoop, host: gossip.address.host, port: gossip.address.port,
            cluster: gossip.cluster, key: gossip.key,
            events: GossipSocket.Events(
                received: { packet, from in shared.cluster?.heard(packet, from) },
                refused: { reason, from in shared.cluster?.refused(reason, from) }))
        var info = info
        info.gossip = PeerConnections.Address(host: gossip.address.host, port: socket.port).text
        ownership = Ownership(
            session: shared.session, name: name, info: info, now: Clock.monotonic())
        let machine = Membership(
            session: shared.session, name: name, address: info.gossip, info: info.encoded,
            seed: gossip.seed, now: Clock.monotonic())
        self.gossip = Gossip(
            machine, socket: socket, eventLoop: eventLoop, counters: shared.counters, log: log,
            tell: { shared.cluster?.carryOut($0) })
        seeds = gossip.seeds
    }

    func begin() {
        handle(.nudged)
        eventLoop.execute {
            self.gossip?.handle(.seeds(self.seeds))
            self.eventLoop.scheduleTask(in: .seconds(10)) { self.gossip?.tellOfSilentSeeds(self.seeds) }
            self.gossip?.handle(.woke)
        }
    }

    /// Runs something on the event loop, from any thread. What comes after the end is dropped.
    func perform(_ body: @escaping @Sendable () -> Void) {
        guard !hasEnded.load(ordering: .acquiring) else { return }
        eventLoop.execute(body)
    }

    /// From any thread.
    func handle(_ event: Ownership.Event) {
        perform {
            var effects: [Ownership.Effect] = []
            self.ownership.handle(event, now: Clock.monotonic(), into: &effects)
            for effect in effects { self.carryOut(effect) }
        }
    }

    /// The small tables were changed here: others look at once.
    func announce() { perform { self.nudge() } }

    /// A connection to or from a process is gone.
    func linkReset(_ life: UInt32) {
        perform {
            for member in self.members where member.session.life == life {
                self.gossip?.handle(.linkReset(member.session))
            }
        }
    }

    var current: ClusterView { view.withLock { $0 } }

    // MARK: Effects

    private func carryOut(_ effect: Ownership.Effect) {
        switch effect {
        case .poll(let info): poll(info)
        case .fence(let session): fence(session)
        case .take(let row): take(row)
        case .load(let id, let epoch, _):
            publish(.owner, number: UInt32(id.rawValue), version: epoch.rawValue, shared.session.rawValue)
            boxes[shared.loop(of: id)].post(.order(.serve(id, epoch)))
        case .release(let id): boxes[shared.loop(of: id)].post(.order(.release(id)))
        case .offer(let id, let heir): offer(id, to: heir)
        case .follow(let id): follow(id)
        case .tellFollowed(let id, let owner): tellFollowed(id, to: owner)
        case .unfollow(let id): unfollow(id)
        case .drop(let id):
            boxes[shared.loop(of: id)].post(.order(.drop(id)))
        case .routes(let routes):
            self.routes = routes
            publish()
        case .members(let members):
            let gone = Set(self.members.map { $0.session.life })
                .subtracting(members.map { $0.session.life })
            self.members = members
            links.adopt(members.map(\.session).filter { $0 != shared.session })
            tellGossip(members)
            let living = Set(members.map(\.session))
            for box in boxes { box.post(.order(.members(living: living, gone: gone))) }
            log.info("members", metadata: ["names": "\(members.map(\.name).joined(separator: ","))"])
            publish()
        case .nudge: nudge()
        case .stepDown:
            guard !isOver.load(ordering: .relaxed) else { return }
            shared.stop("the session was fenced: others have taken over; the process starts anew")
        case .status(let status): adopt(status)
        case .left:
            gossip?.handle(.leave)
            for tell in whenLeft { tell() }
            whenLeft = []
        case .wake(let at):
            let delay = at.since(Clock.monotonic())
            eventLoop.assumeIsolated().scheduleTask(in: .nanoseconds(Int64(clamping: delay))) {
                self.handle(.woke)
            }
        }
    }

    private func poll(_ info: Ownership.NodeInfo) {
        gossip?.handle(.describe(info.encoded))
        let session = shared.session
        let asked = Clock.monotonic()
        let known = catalogVersion
        tables.ask()
        lanes[0].control.perform({ engine in
            guard let engine = engine as? any ClusterEngine else {
                throw EngineError.refused("the engine is not one of clusters")
            }
            try engine.renewLease(session, info: info.encoded)
            let poll = Ownership.Poll(sessions: try engine.sessions(), partitions: try engine.partitions())
            let version = try engine.get(.setting, key: Catalog.versionKey) ?? []
            return (poll, version, version == known ? nil : try Catalog.load(engine))
        }) { result in
            switch result {
            case .success(let (poll, version, contents)):
                self.shared.renewedAt.store(asked.nanoseconds, ordering: .relaxed)
                if let contents { self.adopt(contents, version) }
                self.perform { self.tables.join(poll, asked: asked) { self.adopt($0, asked: $1) } }
            case .failure(EngineError.fenced): self.handle(.fenced)
            case .failure(let error): self.handle(.pollFailed("\(error)"))
            }
        }
    }

    private func adopt(_ contents: Catalog.Contents, _ version: [UInt8]) {
        perform {
            self.catalogVersion = version
            self.publish(.catalog, version: Catalog.number(of: version), 0)
        }
        shared.administrator.adopt(contents)
    }

    private func fence(_ session: SessionID) {
        log.warning("a session is fenced", metadata: ["session": "\(session.rawValue)"])
        lanes[0].control.perform({ engine in try engine.fence(session) }) { result in
            if case .success = result { self.fenceElsewhere(session) }
            self.perform {
                var effects: [Ownership.Effect] = []
                switch result {
                case .success: self.ownership.fenced(session, now: Clock.monotonic(), into: &effects)
                case .failure: self.ownership.fenceFailed(session)
                }
                for effect in effects { self.carryOut(effect) }
            }
        }
    }

    /// Reads a partition for the loop on which it lives: what came behind the mark, or everything.
    func load(_ id: PartitionID, _ epoch: Epoch, behind mark: StoredPartition.Mark?) {
        let box = boxes[shared.loop(of: id)]
        lane(of: id).loader.perform({ engine in
            (
                try QuotaHandover.take(id, epoch: epoch, from: engine),
                try StoredPartition.read(id, behind: mark, from: engine)
            )
        }) { result in
            switch result {
            case .success(let (quotas, loaded)): box.post(.engine(.loaded(loaded, quotas: quotas)))
            case .failure(let error):
                self.log.error(
                    "a partition could not be read",
                    metadata: ["partition": "\(id.rawValue)", "error": "\(error)"])
                self.handle(.lost(id))
            }
        }
    }

    /// A partition's machine has ended, and nothing of it is in flight any more: its row is given up, and what
    /// is left in the buckets of its projects is kept for its next owner.
    func gaveUp(_ id: PartitionID, _ epoch: Epoch, left quotas: [ProjectNumber: [UInt64]]) {
        let session = shared.session
        lane(of: id).control.perform({ engine in
            try QuotaHandover.put(quotas, of: id, epoch: epoch, to: engine)
            try (engine as? any ClusterEngine)?.release(id, by: session)
        }) { result in
            switch result {
            case .success: self.handle(.released(id))
            case .failure: self.handle(.releaseFailed(id))
            }
        }
    }

    func tellToLeave(_ session: SessionID) {
        let life = session.life
        if life == shared.life { return NodeShared.endInOrder() }
        boxes[0].post(.order(.say(.leave, to: [life])))
    }

    private func nudge() {
        let lives = members.map { $0.session.life }.filter { $0 != shared.life }
        boxes[0].post(.order(.say(.nudge, to: lives)))
    }

    private func adopt(_ status: Ownership.Status) {
        switch status {
        case .joining: standing = Cluster.joining
        case .serving: standing = nil
        case .leaving: standing = "leaving the cluster"
        case .cutOff: standing = "cut off: less than half of the other nodes are heard"
        case .unreachable(let reason): standing = reason
        }
        log.info("status", metadata: ["status": "\(status)"])
        publish()
    }

    /// Tells every loop where partitions and processes are.
    func publish() {
        let own = shared.session
        let places = PartitionPlaces(routes, members: members, own: own)
        var addresses: [UInt32: PeerConnections.Address] = [:]
        for member in members where member.session != own {
            addresses[member.session.life] = PeerConnections.Address(member.info.peer)
        }
        let known = addresses
        let away = tables.away
        for box in boxes {
            // First the addresses: what is asked again of a new owner goes there at once.
            box.run { $0.peers?.adopt(known) }
            box.post(.order(.places(places, away: away)))
        }
        publishView()
        tellReadiness()
    }

    func publishLinks() { view.withLock { $0.linksDown = links.down } }

    func publishView() {
        let next = ClusterView(
            members: members, routes: routes, own: shared.session, gossip: gossip?.members ?? [],
            localHealth: gossip?.localHealth ?? 0, away: tables.awayDatabases,
            linksDown: links.down)
        view.withLock { $0 = next }
    }
}

/// The cluster as one node sees it.
struct ClusterView: Sendable {
    var members: [Ownership.Member] = []
    var routes: [Ownership.Route?] = []
    var own = SessionID(0)
    /// All others that gossip remembers.
    var gossip: [Membership.Member] = []
    var localHealth = 0
    /// Numbers of databases that do not answer, never the home's.
    var away: Set<Int> = []
    /// Connections that do not stand.
    var linksDown: [PeerLinks.Down] = []

    /// How gossip sees the session; of itself a node knows that it is alive.
    func state(of session: SessionID) -> Membership.State {
        session == own ? .alive : gossip.first { $0.session == session }?.state ?? .alive
    }
}
