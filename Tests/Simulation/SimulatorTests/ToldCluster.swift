import Journal
import Membership
import Model
import NodeCore
import Ownership
import Partitions
import Quotas
import Routing
import StoryTelling

@testable import Simulator

/// Plays the lines of a story in a simulated cluster in which nothing breaks by itself, and each step takes
/// the middle of its time. A frame takes 1 ms, a commit some 4 ms.
///
/// `quota 20 a second, 4 at once`; `quotas untold` leaves the tokens of quotas out. `gateways 1 shards 2
/// partitions 2` starts gateway-1, shard-1 and shard-2, and waits until the partitions rest. `phone
/// registers`, `phone listens`, `phone subscribes to news`, `phone unsubscribes from news`. `backend sends m1
/// to news`, `backend sends m1 m2 to phone` (both at once). `shard-1 dies`, `shard-1 leaves`, `shard-1 sleeps
/// 9s`. `links of gateway-1 break`. `run 20ms`; `run 5s unseen` tells nothing. `look` says which node owns
/// which partition.
final class ToldCluster: ClusterObserver {
    private(set) var world: ClusterSimulation
    var teller = Teller(began: .zero)
    private(set) var isWithoutQuotas = false
    private var limits = QuotaLimits()
    private(set) var deviceNames: [String] = []
    /// The nodes' names by session, also of processes that have ended.
    private var nodeNames: [SessionID: String] = [:]
    /// The messages' places in the logs, in order.
    private var brokenLinks: [[ProcessID]: MonotonicTime] = [:]
    /// The requests between nodes, in order.
    var requests: [RequestID] = []
    var places: [(partition: PartitionID, position: Position, text: String)] = []

    override init() { world = ClusterSimulation(ClusterSimulation.Options(seed: 1)) }

    var violations: [Violation] { world.violations }

    func end() { world.dissolve() }

    func perform(_ words: [String]) -> [String] {
        switch words[0] {
        case "quota": limits.sends = QuotaRate(count: UInt64(words[1]) ?? 0, burst: UInt64(words[4]) ?? 0)
        case "gateways": begin(words.compactMap { Int($0) })
        case "quotas": isWithoutQuotas = words[1] == "untold"
        case "links":
            for connection in world.network.connections
            where name(connection.from.process.session) == words[2] {
                world.network.reset(connection)
            }
        case "run":
            world.run(until: world.now + (Stories.length(words[1]) ?? .zero))
            let told = teller.drain()
            return words.last == "unseen" ? [] : told
        case "look": return look()
        case "backend": return send(words)
        default:
            if let index = world.slots.firstIndex(where: { $0.name == words[0] }) {
                act(index, words)
                return []
            }
            return act(words)
        }
        return []
    }

    private func begin(_ counts: [Int]) {
        var options = ClusterSimulation.Options(seed: 1)
        (options.isEven, options.hasFaults) = (true, false)
        (options.nodeCount, options.loopCount, options.databaseCount) = (counts[0] + counts[1], 1, 1)
        (options.partitionCount, options.deviceCount) = (counts[2], 0)
        options.partition = PartitionOptions(partitionCount: counts[2])
        options.lostDatagramsPerMille = 0
        options.latencyMax = .microseconds(1900)
        options.limits = limits
        world.dissolve()
        world = ClusterSimulation(options)
        for index in world.slots.indices {
            let isGateway = index < counts[0]
            world.slots[index].name = isGateway ? "gateway-\(index + 1)" : "shard-\(index + 1 - counts[0])"
            (world.slots[index].isGateway, world.slots[index].isShard) = (isGateway, !isGateway)
        }
        world.observer = self
        world.boot()
        // The partitions come to rest where they belong.
        world.run(until: world.now + .seconds(10))
        _ = teller.drain()
        teller = Teller(began: world.now)
    }

    private func look() -> [String] {
        let rows = (try? world.home.engine.partitions()) ?? []
        return rows.map { row in
            let owner = row.owner.map(name) ?? "no node"
            return "\(owner) owns partition \(row.id.rawValue) in epoch \(row.epoch.rawValue)"
        }
    }

    // MARK: Nodes

    func name(_ session: SessionID) -> String { nodeNames[session] ?? "session \(session.rawValue)" }
    func name(_ processID: ProcessID) -> String {
        nodeNames.first { $0.key.processID == processID }?.value ?? "process \(processID.rawValue)"
    }

    func tell(_ process: SimulatedProcess, _ deed: String) {
        nodeNames[process.session] = world.slots[process.index].name
        teller.tell(world.now, name(process.session), deed)
    }

    private func act(_ index: Int, _ words: [String]) {
        guard let process = world.slots[index].process else { return }
        switch words[1] {
        case "dies":
            world.end(process, fences: false)
            world.slots[index].startsAt = nil
        case "leaves": process.leave()
        case "sleeps": world.freeze(process, for: Stories.length(words[2]) ?? .zero)
        default: break
        }
    }

    // MARK: Clients

    private func device(named name: String) -> Int? { deviceNames.firstIndex(of: name) }

    private func act(_ words: [String]) -> [String] {
        if words[1] == "registers" {
            register(words[0])
            return []
        }
        guard let device = device(named: words[0]), let registration = world.clients[device].registration
        else { return ["what is \(words[0])?"] }
        switch words[1] {
        case "listens": world.listen(device)
        case "subscribes", "unsubscribes":
            let change = SubscriptionChange(
                project: registration.project, kind: words[1] == "subscribes" ? .subscribe : .unsubscribe,
                topic: TopicName(checked: Array(words[3].utf8)), devices: [registration])
            call(words[0], .changeSubscriptions(change))
        default: return ["what is \(words[1])?"]
        }
        return []
    }

    private func register(_ name: String) {
        let device = world.clients.count
        deviceNames.append(name)
        world.clients.append(ClusterClient(number: device, project: world.projects[0]))
        call(name, .register(project: world.projects[0])) { [unowned self] outcome in
            guard case .registered(let new)? = outcome else { return }
            world.clients[device].registration = new.registration
            world.clients[device].credential = DeviceMAC(high: new.secret, low: 2)
        }
    }

    /// `backend sends m1 m2 to news`, or to a device.
    private func send(_ words: [String]) -> [String] {
        guard let target = words.last, words.count > 4 else { return ["which message?"] }
        let registration = device(named: target).flatMap { world.clients[$0].registration }
        for text in words[2..<(words.count - 2)] {
            world.nextMessage += 1
            let message = Envelope(
                id: MessageID(time: world.nextMessage, random: 1), event: Array(text.utf8), sent: world.wall,
                ttlSeconds: 3600)
            let send = Send(
                project: world.projects[0],
                target: registration.map { .device($0) } ?? .topic(TopicName(checked: Array(target.utf8))),
                message: message, validateOnly: false)
            call("the backend", .send(send), about: " for \(text)")
        }
        return []
    }

    private func call(
        _ caller: String, _ operation: Operation, about what: String = "",
        then: @escaping (Outcome?) -> Void = { _ in }
    ) {
        world.call(caller, operation) { [unowned self] outcome in
            then(outcome)
            teller.tell(world.now, caller, "gets the answer\(what): \(text(outcome))")
        }
    }

    // MARK: What is told

    override func arrives(_ chunk: SimulatedLoop.Chunk, at listener: Listener) {
        let name = deviceNames[listener.device]
        switch chunk {
        case .event(let body, _):
            teller.tell(world.now, name, "gets \(String(decoding: body, as: UTF8.self))")
        case .deleted: teller.tell(world.now, name, "is told that messages were dropped")
        }
    }

    override func stores(_ row: Row, in database: SimulatedDatabase) {
        teller.tell(world.now, "the database", "has \(name(of: row))\(isBarrier(row) ? ", a barrier" : "")")
    }

    override func sends(_ frame: [UInt8], from process: SimulatedProcess, to peer: SimulatedProcess) {
        for sentence in sentences(of: frame, to: name(peer.session)) { tell(process, sentence) }
    }

    override func loses(_ frame: [UInt8], from process: SimulatedProcess, to peer: SimulatedProcess) {
        let (from, to) = (name(process.session), name(peer.session))
        for sentence in sentences(of: frame, to: to) {
            teller.tell(world.now, "the network", "loses a frame: \(from) \(sentence)")
        }
    }

    override func breaks(linkTo peer: ProcessID, at process: SimulatedProcess) {
        // Each of the two has a link to the other, and the two links end together.
        let told = brokenLinks.updateValue(world.now, forKey: [process.processID, peer])
        if let told, world.now.since(told) < .milliseconds(10) { return }
        tell(process, "notices that its links with \(name(peer)) broke")
    }

    override func handles(_ event: ControlEvent, at process: SimulatedProcess) {
        nodeNames[process.session] = world.slots[process.index].name
        switch event {
        case .fenced(let session): tell(process, "hears from the database that \(name(session)) is fenced")
        case .ownership(.taken(let id, let epoch?)):
            tell(process, "owns partition \(id.rawValue) in epoch \(epoch.rawValue)")
        case .ownership(.released(let id)):
            tell(process, "hears from the database that partition \(id.rawValue) has no owner now")
        default: break
        }
    }

    override func carriesOut(_ effect: ControlEffect, at process: SimulatedProcess) {
        switch effect {
        case .call(.fence(let session, let counter)):
            tell(process, "fences \(name(session)), whose lease stands at \(counter)")
        case .call(.takeOver(let row, _)):
            let owner = row.owner.map { "whose owner \(name($0)) is dead" } ?? "which has no owner"
            tell(process, "asks the database for partition \(row.id.rawValue), \(owner)")
        case .order(.release, let id): tell(process, "takes no more work for partition \(id.rawValue)")
        case .call(.follow(let id)): tell(process, "reads partition \(id.rawValue) ahead")
        case .stepDown: tell(process, "finds its own session dead, and begins again as a new process")
        case .left: tell(process, "has nothing left, and ends")
        case .noted(.member(let member)):
            guard member.state != .alive else { break }
            let state = member.state == .left ? "has left" : "is \(member.state)"
            tell(process, "hears from gossip that \(member.name) \(state)")
        default: break
        }
    }

    override func carriesOut(_ effect: LoopEffect, at loop: SimulatedLoop) {
        let process = loop.process
        switch effect {
        case .append(let rows): for row in rows { tell(process, sentence(of: row)) }
        case .call(.load(let id, _, _)): tell(process, "reads partition \(id.rawValue) from the journal")
        case .serving(let id): tell(process, "serves partition \(id.rawValue)")
        case .call(.giveUp(let id, _, let left)):
            let tokens = left.values.compactMap(\.first).reduce(0, +)
            let quota = left.isEmpty || isWithoutQuotas ? "" : ", and leaves \(tokens) tokens for sends"
            tell(process, "gives partition \(id.rawValue) up\(quota)")
        default: break
        }
    }
}
