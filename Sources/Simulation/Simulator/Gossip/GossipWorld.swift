import Membership
import Model
import VirtualTime

/// Many nodes' membership in virtual time, by seed, on a network that loses, delays, doubles and cuts.
///
/// Two runs of one seed are the same, packet by packet.
public final class GossipWorld {
    public struct Network: Sendable {
        /// Of 1,000 datagrams, how many are lost, and how many come twice.
        public var lost: UInt64 = 0
        public var doubled: UInt64 = 0
        /// Of 1,000 datagrams, after how many an eavesdropper repeats one of 256 earlier ones.
        public var replayed: UInt64 = 0
        /// How long a datagram is under way, at least and at most.
        public var delayMin: TimeSpan = .microseconds(100)
        public var delayMax: TimeSpan = .milliseconds(2)
    }

    public struct Traffic: Sendable {
        public var datagrams: UInt64 = 0
        public var datagramBytes: UInt64 = 0
        public var streamBytes: UInt64 = 0
    }

    /// One node's view of another changed.
    public struct Change: Sendable {
        public var time: MonotonicTime
        public var observer: Int
        public var subject: String
        public var state: Membership.State
    }

    struct Node {
        var name: String
        var machine: Membership
        var session: UInt64
        var isUp = true
        var asleepUntil = MonotonicTime.zero
        /// The part of each half second in which the node does not run.
        var sleeps = TimeSpan.zero
        var traffic = Traffic()
    }

    enum Happening {
        case wake(node: Int, session: UInt64)
        case datagram(to: Int, from: Int, SentDatagram)
        case stream(to: Int, [UInt8])
    }

    public var network = Network()
    public var now: MonotonicTime { queue.now }
    public private(set) var changes: [Change] = []
    /// Whether `changes` and `isolations` are kept; deaths are counted in any case.
    public var keepsChanges = true
    public private(set) var deaths = 0
    public private(set) var isolations: [(time: MonotonicTime, node: Int, isAlone: Bool)] = []
    /// How often a process believed a datagram for a second time, and how many datagrams processes refused.
    public private(set) var takenTwice = 0
    public private(set) var refused = 0
    private var heard = HeardDatagrams()
    var nodes: [Node] = []
    private var random: SeededGenerator
    private var queue = EventQueue<Happening>(began: MonotonicTime(.seconds(1)))
    private var indices: [String: Int] = [:]
    private var sessions: [SessionID: Int] = [:]
    /// Directions in which nothing passes: from and to.
    private var cuts: Set<[Int]> = []
    private var lastSession: UInt64 = 0
    private let options: Membership.Options

    public init(seed: UInt64, options: Membership.Options = Membership.Options()) {
        random = SeededGenerator(seed: seed)
        self.options = options
    }

    public var count: Int { nodes.count }
    public func isUp(_ node: Int) -> Bool { nodes[node].isUp }
    public func name(_ node: Int) -> String { nodes[node].name }
    public func traffic(_ node: Int) -> Traffic { nodes[node].traffic }
    public func node(named name: String) -> Int? { indices[name] }

    /// Starts a node that knows the addresses of `seeds`; a second start of a name is a new process.
    @discardableResult
    public func start(_ name: String, seeds: [String] = []) -> Int {
        lastSession += 1
        let machine = Membership(
            session: SessionID(lastSession), name: name, address: name, info: [], seed: random.next(),
            options: options, now: now)
        let index: Int
        if let known = indices[name] {
            index = known
            nodes[index] = Node(name: name, machine: machine, session: lastSession)
        } else {
            index = nodes.count
            nodes.append(Node(name: name, machine: machine, session: lastSession))
            indices[name] = index
        }
        sessions[SessionID(lastSession)] = index
        feed(index, .seeds(seeds))
        push(random.next(upperBound: .milliseconds(200)), .wake(node: index, session: lastSession))
        return index
    }

    public func kill(_ node: Int) {
        nodes[node].isUp = false
        for other in nodes.indices where other != node && !isCut(node, other) {
            feed(other, .linkReset(nodes[node].machine.ownSession))
        }
    }

    /// Breaks the stream connections between two nodes; both notice it.
    public func breakLink(_ one: Int, _ other: Int) {
        for (node, peer) in [(one, other), (other, one)] where nodes[node].isUp {
            feed(node, .linkReset(nodes[peer].machine.ownSession))
        }
    }

    public func incarnation(_ node: Int) -> UInt32 { nodes[node].machine.incarnation }

    public func leave(_ node: Int) { feed(node, .leave) }
    public func sleep(_ node: Int, for length: TimeSpan) { nodes[node].asleepUntil = now + length }
    public func slow(_ node: Int, sleeping length: TimeSpan) { nodes[node].sleeps = length }
    public func publish(_ entry: Membership.GossipEntry, at node: Int) { feed(node, .publish(entry)) }
    public func entry(_ key: UInt32, at node: Int) -> Membership.GossipEntry? {
        nodes[node].machine.entry(key)
    }

    public func cut(from: Int, to: Int) { cuts.insert([from, to]) }
    public func healAll() { cuts = [] }
    private func isCut(_ from: Int, _ to: Int) -> Bool { !cuts.isEmpty && cuts.contains([from, to]) }

    /// The node's view of the other nodes, by name.
    public func view(_ node: Int) -> [(name: String, state: Membership.State)] {
        nodes[node].machine.members.map { ($0.name, $0.state) }.sorted { $0.name < $1.name }
    }

    public func forgetChanges() {
        changes = []
        isolations = []
    }

    // MARK: Running

    private func push(_ delay: TimeSpan, _ what: Happening) { queue.push(after: delay, what) }

    public func run(for length: TimeSpan) {
        let end = now + length
        while let what = queue.next(until: end) { handle(what) }
    }

    private func handle(_ what: Happening) {
        let node: Int
        switch what {
        case .wake(let index, let session):
            guard nodes[index].session == session else { return }
            node = index
        case .datagram(let to, _, _), .stream(let to, _): node = to
        }
        guard nodes[node].isUp else { return }
        let until = wakeTime(node)
        if until > now { return queue.push(at: until, what) }
        switch what {
        case .wake: feed(node, .woke)
        case .datagram(_, let from, let datagram): hand(datagram, from, node: node)
        case .stream(_, let bytes): feed(node, .stream(bytes))
        }
    }

    private func hand(_ datagram: SentDatagram, _ from: Int, node: Int) {
        let before = refused
        feed(node, .datagram(datagram.bytes, from: nodes[from].name))
        guard refused == before else { return }
        if !datagram.taken.insert(nodes[node].session).inserted { takenTwice += 1 }
    }

    /// When the node runs again; now or earlier if it runs.
    private func wakeTime(_ node: Int) -> MonotonicTime {
        let sleep = nodes[node].sleeps
        guard sleep > .zero else { return nodes[node].asleepUntil }
        let phase = now.since(.zero) % .milliseconds(500)
        let awake = phase < sleep ? now.rewound(by: phase) + sleep : now
        return max(nodes[node].asleepUntil, awake)
    }

    private func feed(_ node: Int, _ event: Membership.Event) {
        guard nodes[node].isUp else { return }
        var effects: [Membership.Effect] = []
        nodes[node].machine.handle(event, now: now, into: &effects)
        for effect in effects { carryOut(effect, node) }
    }

    private func carryOut(_ effect: Membership.Effect, _ node: Int) {
        switch effect {
        case .datagram(let bytes, let address):
            nodes[node].traffic.datagrams += 1
            nodes[node].traffic.datagramBytes += UInt64(bytes.count)
            guard let to = indices[address] else { return }
            transmit(bytes, node, to: to)
        case .stream(let bytes, let session):
            guard let to = sessions[session], nodes[to].machine.ownSession == session else { return }
            nodes[node].traffic.streamBytes += UInt64(bytes.count)
            guard !isCut(node, to), !isCut(to, node) else { return }
            push(network.delayMax * 3, .stream(to: to, bytes))
        case .changed(let member):
            if member.state == .dead { deaths += 1 }
            guard keepsChanges else { return }
            changes.append(Change(time: now, observer: node, subject: member.name, state: member.state))
        case .learned: break
        case .isolated(let isAlone): if keepsChanges { isolations.append((now, node, isAlone)) }
        case .refused: refused += 1
        case .malformed(let why): preconditionFailure("a packet of this program makes no sense: \(why)")
        case .wake(let at):
            queue.push(at: at, .wake(node: node, session: nodes[node].session))
        }
    }

    private func transmit(_ bytes: [UInt8], _ from: Int, to: Int) {
        guard !isCut(from, to) else { return }
        if network.lost > 0, random.next(upperBound: UInt64(1000)) < network.lost { return }
        let datagram = SentDatagram(bytes, to: to)
        push(delay(), .datagram(to: to, from: from, datagram))
        if network.doubled > 0, random.next(upperBound: UInt64(1000)) < network.doubled {
            push(delay() * 4, .datagram(to: to, from: from, datagram))
        }
        guard network.replayed > 0 else { return }
        heard.hear(datagram) { random.next(upperBound: $0) }
        // An eavesdropper repeats a datagram that it has recorded, from another address.
        if random.next(upperBound: UInt64(1000)) < network.replayed {
            let old = heard.any { random.next(upperBound: $0) }
            push(delay() * 40, .datagram(to: old.to, from: from, old))
        }
    }

    private func delay() -> TimeSpan {
        network.delayMin + random.next(upperBound: max(.nanoseconds(1), network.delayMax - network.delayMin))
    }
}
