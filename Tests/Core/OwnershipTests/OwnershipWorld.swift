import Journal
import MemoryEngine
import Model
import Ownership
import VirtualTime

/// Several nodes' ownership machines around one engine, in virtual time, by seed: polls and takes that are
/// late or fail, nodes that crash, sleep and come back, leave and join.
final class OwnershipWorld {
    struct Node {
        var name: String
        var machine: Ownership
        /// The partitions that the node serves, as its loops would know them.
        var serving: [PartitionID: Epoch] = [:]
        var isUp = true
        var asleepUntil = MonotonicTime.zero
        var isBlind = false
        /// The node's calls wait until the engine answers again.
        var isUnanswered = false
        var status = Ownership.Status.joining
        var hasLeft = false
        var routes: [Ownership.Route?] = []
    }
    enum Happening {
        case event(node: Int, run: UInt64, Ownership.Event)
        case fenced(node: Int, run: UInt64, SessionID, Bool)
        /// A call reaches the engine.
        case call(node: Int, run: UInt64, Ownership.Effect)
        case script(() -> Void)
    }

    let engine = MemoryEngine()
    var random: SeededGenerator
    var now: MonotonicTime { queue.now }
    var nodes: [Node] = []
    var runs: [UInt64] = []
    private var queue = EventQueue<Happening>(began: MonotonicTime(.seconds(1)))
    /// The broken rules that the run has shown.
    var violations: [String] = []
    /// The longest time for which no node served the partition.
    var longestGap: [PartitionID: TimeSpan] = [:]
    private var unservedSince: [PartitionID: MonotonicTime] = [:]
    let partitionCount: Int
    /// How many heirs had read a partition and said so.
    var followedCount = 0
    private var followed: Set<[UInt64]> = []
    /// Whether the messages between nodes are lost.
    var isSpeechless = false
    /// How long a commit takes beyond its usual time.
    var slowness = TimeSpan.zero
    private var waiting: [(effect: Ownership.Effect, node: Int, run: UInt64)] = []
    /// What nodes do, and what they hear while they are awake.
    var onEffect: (Int, Ownership.Effect) -> Void = { _, _ in }
    var onEvent: (Int, Ownership.Event) -> Void = { _, _ in }

    init(seed: UInt64, partitions: Int = 16) throws {
        random = SeededGenerator(seed: seed)
        partitionCount = partitions
        try engine.createPartitions(
            count: partitions, histories: (0..<partitions).map { History(UInt64($0) + 7) })
    }

    /// A world of nodes that have begun and serve.
    static func settled(_ seed: UInt64, nodes: Int = 3) throws -> OwnershipWorld {
        let world = try OwnershipWorld(seed: seed)
        for number in 0..<nodes { try world.start("node-\(number)") }
        world.run(for: .seconds(8))
        return world
    }

    private func push(_ delay: TimeSpan, _ what: Happening) { queue.push(after: delay, what) }

    /// Sends an event from one node to another.
    private func send(_ event: Ownership.Event, _ to: SessionID, _ delay: TimeSpan) {
        guard !isSpeechless, let index = nodes.firstIndex(where: { $0.machine.session == to }) else { return }
        push(delay, .event(node: index, run: runs[index], event))
    }

    func after(_ delay: TimeSpan, _ body: @escaping () -> Void) { push(delay, .script(body)) }

    @discardableResult
    func start(_ name: String, isShard: Bool = true, weight: UInt8 = 1) throws -> Int {
        let session = try engine.beginSession(node: name)
        let info = Ownership.NodeInfo(
            isShard: isShard, isGateway: true, weight: weight, peer: "\(name):1")
        let machine = Ownership(
            session: session, name: name, info: info, now: now)
        if let index = nodes.firstIndex(where: { $0.name == name }) {
            nodes[index] = Node(name: name, machine: machine)
            runs[index] += 1
            push(.zero, .event(node: index, run: runs[index], .woke))
            return index
        }
        nodes.append(Node(name: name, machine: machine))
        runs.append(0)
        push(.zero, .event(node: nodes.count - 1, run: 0, .woke))
        return nodes.count - 1
    }

    func tell(_ node: Int, _ run: UInt64, _ event: Ownership.Event) {
        push(.zero, .event(node: node, run: run, event))
    }

    func crash(_ node: Int) {
        nodes[node].isUp = false
        nodes[node].serving = [:]
        runs[node] += 1
        for other in nodes.indices where other != node {
            push(
                random.next(upperBound: .milliseconds(3)),
                .event(
                    node: other, run: runs[other], .suspected(nodes[node].machine.session, true)))
        }
    }

    func run(for length: TimeSpan) {
        let end = now + length
        while let what = queue.next(until: end) {
            handle(what)
            watch()
        }
    }

    /// The engine answers all nodes again. The calls that waited reach it now.
    func answerAll() {
        for node in nodes.indices { nodes[node].isUnanswered = false }
        let calls = waiting
        waiting = []
        for (effect, node, run) in calls {
            push(random.next(upperBound: .milliseconds(2)), .call(node: node, run: run, effect))
        }
    }

    private func handle(_ what: Happening) {
        switch what {
        case .script(let body): body()
        case .event(let node, let run, let event):
            deliver(node, run, event, waitsForSleeper: true)
        case .fenced(let node, let run, let session, let isDone):
            deliver(node, run, isDone ? .fenced(session) : .fenceFailed(session), waitsForSleeper: false)
        case .call(let node, let run, let effect):
            guard runs[node] == run else { return }
            call(effect, node, run)
        }
    }

    private func deliver(_ node: Int, _ run: UInt64, _ event: Ownership.Event, waitsForSleeper: Bool) {
        guard runs[node] == run, nodes[node].isUp else { return }
        if nodes[node].asleepUntil > now {
            if waitsForSleeper {
                push(nodes[node].asleepUntil.since(now), .event(node: node, run: run, event))
            }
            return
        }
        onEvent(node, event)
        if case .serving(let id) = event, let epoch = nodes[node].machine.epoch(of: id) {
            nodes[node].serving[id] = epoch
        }
        var effects: [Ownership.Effect] = []
        nodes[node].machine.handle(event, now: now, into: &effects)
        for effect in effects { carryOut(effect, node) }
    }

    private func carryOut(_ effect: Ownership.Effect, _ node: Int) {
        onEffect(node, effect)
        let run = runs[node]
        let soon = TimeSpan.microseconds(300) + random.next(upperBound: .milliseconds(8))
        switch effect {
        case .poll, .fence, .takeOver: push(soon + slowness, .call(node: node, run: run, effect))
        case .load(let id, _, _):
            let hasRead = followed.remove([UInt64(node), run, UInt64(id.rawValue)]) != nil
            push(hasRead ? soon : soon * 4, .event(node: node, run: run, .serving(id)))
        case .release(let id):
            nodes[node].serving[id] = nil
            push(soon + slowness, .call(node: node, run: run, effect))
        case .offer(let id, let heir): send(.offered(id, by: nodes[node].machine.session), heir, soon)
        case .follow(let id): push(soon * 4, .event(node: node, run: run, .followed(id)))
        case .tellFollowed(let id, let owner):
            followedCount += 1
            followed.insert([UInt64(node), run, UInt64(id.rawValue)])
            send(.isFollowed(id, by: nodes[node].machine.session), owner, soon)
        case .unfollow: break
        case .drop(let id): nodes[node].serving[id] = nil
        case .routes(let routes): nodes[node].routes = routes
        case .members, .strangers: break
        case .nudge:
            for other in nodes.indices where other != node {
                push(soon / 4, .event(node: other, run: runs[other], .nudged))
            }
        case .stepDown:
            nodes[node].serving = [:]
            let name = nodes[node].name
            after(soon) { [self] in _ = try? start(name) }
        case .status(let status): nodes[node].status = status
        case .left:
            nodes[node].hasLeft = true
            nodes[node].isUp = false
            try? engine.fence(nodes[node].machine.session)
        case .wake(let at):
            push(at.since(now), .event(node: node, run: run, .woke))
        }
    }

    /// Carries out a call when it reaches the engine. The node hears of the result later.
    private func call(_ effect: Ownership.Effect, _ node: Int, _ run: UInt64) {
        let session = nodes[node].machine.session
        let back = TimeSpan.microseconds(100) + random.next(upperBound: .milliseconds(3))
        // The node asked before the database was slow with it.
        let asked = now.rewound(by: slowness)
        func tell(_ event: Ownership.Event) { push(back, .event(node: node, run: run, event)) }
        if nodes[node].isUnanswered { return waiting.append((effect, node, run)) }
        if nodes[node].isBlind {
            switch effect {
            case .poll: tell(.pollFailed("no way there"))
            case .takeOver(let row): tell(.takeOverFailed(row.id))
            case .release(let id): tell(.releaseFailed(id))
            case .fence(let other, _): push(back, .fenced(node: node, run: run, other, false))
            default: break
            }
            return
        }
        do throws(EngineError) {
            switch effect {
            case .poll(let info):
                tell(.polled(try Ownership.Poll(renewing: session, info: info, of: engine), asked: asked))
            case .fence(let other, let counter):
                let isDone = try engine.fence(other, at: counter)
                push(back, .fenced(node: node, run: run, other, isDone))
            case .takeOver(let row):
                let next = try engine.lastSequence(row.id).next
                let header = RecordHeader(
                    partition: row.id, sequence: next, epoch: Epoch(row.epoch.rawValue + 1),
                    history: row.history)
                guard let payload = try? RecordCodec.encode(header: header, body: []) else { return }
                let barrier = Row(partition: row.id, sequence: next, payload: payload)
                tell(.taken(row.id, try engine.takeOver(row.id, from: row, by: session, barrier: barrier)))
            case .release(let id):
                try engine.release(id, by: session)
                tell(.released(id))
            default: break
            }
        } catch {
            switch (effect, error) {
            case (_, .fenced) where (try? engine.isAlive(session)) == false: tell(.sessionDead)
            case (.takeOver(let row), _): tell(.takeOverFailed(row.id))
            case (.release(let id), _): tell(.releaseFailed(id))
            case (.fence(let other, _), _):
                push(back, .fenced(node: node, run: run, other, false))
            default: tell(.pollFailed("\(error)"))
            }
        }
    }

    // MARK: What must hold

    /// A node that can still write must not serve a partition that the table gives to another node.
    private func watch() {
        guard let rows = try? engine.partitions() else { return }
        for row in rows {
            var servers = 0
            for node in nodes where node.isUp && node.asleepUntil <= now {
                guard let epoch = node.serving[row.id] else { continue }
                let canWrite = (try? engine.isAlive(node.machine.session)) ?? false
                if canWrite, row.owner == node.machine.session, epoch == row.epoch {
                    servers += 1
                } else if canWrite, row.owner != nil, row.owner != node.machine.session {
                    violations.append(
                        "\(node.name) lives and serves \(row.id.rawValue), which belongs to another")
                }
            }
            if servers > 0 {
                if let since = unservedSince.removeValue(forKey: row.id) {
                    longestGap[row.id] = max(longestGap[row.id] ?? .zero, now.since(since))
                }
            } else if unservedSince[row.id] == nil {
                unservedSince[row.id] = now
            }
        }
    }

    var unserved: [PartitionID] { unservedSince.keys.sorted() }
}
