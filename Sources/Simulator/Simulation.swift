import Journal
import Model
import Partitions
import Placement
import Routing
import VirtualTime

/// One node's partitions in virtual time, by seed. Commits take a while; messages between partitions are
/// late, doubled, lost and out of order. Streams cannot take everything, and the whole node crashes at any
/// effect.
///
/// Two runs of one seed are the same, event by event.
public final class Simulation {
    public struct Options: Sendable {
        public var seed: UInt64
        public var partitionCount = 5
        public var deviceCount = 12
        public var topicCount = 5
        public var operations = 400
        public var crashes = 4
        /// Of 100 messages between partitions, how many are lost, and how many come twice.
        public var lossPercent: UInt64 = 3
        public var duplicatePercent: UInt64 = 3
        /// Of 100 appends, how many are refused, lose their reply, and stall.
        public var refusedPercent: UInt64 = 1
        public var unknownPercent: UInt64 = 1
        public var stallPercent: UInt64 = 2
        /// Of 100 answers to sends, how many never reach the gateway, which then repeats its request.
        public var lostAnswerPercent: UInt64 = 3
        /// Of 100 starts of a partition, at how many its newest snapshot cannot be read.
        public var unreadablePercent: UInt64 = 10
        /// Bytes of a message, at most; 0: only the message's number.
        public var bodyBytesMax: UInt64 = 0
        /// The longest body of a record that the engine takes.
        public var recordBytesLimit = RecordCodec.bodyBytesMax
        /// Unfinished fan-outs that a partition may have.
        public var fanoutsMax = 1000
        public var partition: PartitionOptions
        public init(seed: UInt64) {
            self.seed = seed
            partition = PartitionOptions(partitionCount: partitionCount)
            partition.snapshotBytesMin = 2000
            partition.snapshotSliceBytes = 50 + Int(seed % 7) * 150
            partition.bodiesAtOnce = 1 + Int(seed % 4)
            partition.bodyBytesAtOnce = 1 + Int(seed % 3) * 100
            partition.snapshotPartBytes = 200 + Int(seed % 5) * 400
        }
    }

    enum Event {
        case partition(PartitionID, PartitionEvent)
        case frame(from: PartitionID, StreamFrame)
        case operate(client: Int)
        case appended(PartitionID, incarnation: UInt64, Sequence, [UInt8], Fate)
        case recovered(PartitionID, incarnation: UInt64)
        case snapshot(PartitionID, covering: Sequence, SnapshotPart, token: UInt64)
        case crash
        case listen(device: Int)
    }

    let options: Options
    var random: SeededGenerator
    var now: MonotonicTime { queue.now }
    var history = History()
    /// A digest of everything that happened, for comparing two runs.
    public private(set) var digest: UInt64 = 0

    // What survives a crash.
    var journal: [[(sequence: Sequence, body: [UInt8])]]
    /// At most two snapshots of each partition, the newest first.
    var snapshots: [[(covering: Sequence, bytes: [UInt8])]]
    /// Parts of snapshots that are not finished, of all partitions.
    var uploads: [[UInt8]] = []
    /// Every record that was ever in, trimmed or not: for the check at the end.
    var past: [[(sequence: Sequence, body: [UInt8])]]

    // What does not survive a crash.
    /// `nil` while a partition is read again from its journal.
    var partitions: [Partition?] = []
    /// The number of each partition's machine, over crashes and losses. An append of a former machine has no
    /// effect.
    var machineNumbers: [UInt64]
    /// When each partition's last append is answered: the next one must not be answered earlier.
    var appendTimes: [MonotonicTime]
    var streams: GatewayStreams
    var waiting: [UInt64: (Reply, MonotonicTime) -> Void] = [:]
    /// What to call for an operation when the node crashes before it is answered.
    var lost: [UInt64: () -> Void] = [:]
    var incarnation: UInt64 = 0
    var frameTimes: [PartitionID: MonotonicTime] = [:]
    /// The gateway's numbers of sends to each partition, in this run.
    var sendNumbers: [PartitionID: UInt64] = [:]
    var fingerprintDifferences = 0
    var marksMended = 0
    /// How many bodies a device waited for and no journal had.
    var bodiesGone = 0
    /// The most unfinished fan-outs that a partition ever had.
    var unfinishedMost = 0

    var queue = EventQueue<(born: UInt64, Event)>(began: MonotonicTime(.seconds(1)))
    var clients: [Client]
    var sink: Sink
    var nextRequest: UInt64 = 0
    var nextMessage: UInt64 = 0
    var operationsLeft: Int
    var isHealing: Bool { healedAt != nil }
    var healedAt: MonotonicTime?
    /// Far past the end of every run that comes to rest.
    static let timeMax = MonotonicTime.zero + .seconds(3600)
    var isStuck = false
    /// Laws of the partitions' machines that did not hold.
    var brokenLaws: [String] = []
    /// Why the node cannot go on.
    var broken: String?
    /// The virtual time without faults after which everything must have come to rest.
    static let settling: TimeSpan = .seconds(60)

    public init(_ options: Options) {
        self.options = options
        random = SeededGenerator(seed: options.seed)
        journal = Array(repeating: [], count: options.partitionCount)
        machineNumbers = Array(repeating: 0, count: options.partitionCount)
        appendTimes = Array(repeating: .zero, count: options.partitionCount)
        snapshots = Array(repeating: [], count: options.partitionCount)
        past = journal
        clients = (0..<options.deviceCount).map { Client(number: $0) }
        operationsLeft = options.operations
        sink = Sink()
        streams = GatewayStreams(
            gateway: GatewayID(0), histories: (0..<options.partitionCount).map { .init(UInt64($0) + 7) })
    }

    // MARK: Running

    /// Runs to the end, and returns the history and the violations.
    public func run() -> (history: History, violations: [Violation]) {
        boot()
        for client in clients.indices {
            schedule(.operate(client: client), in: random.next(upperBound: .milliseconds(5)))
        }
        for crash in 0..<options.crashes {
            schedule(
                .crash,
                in: UInt64(crash + 1) * TimeSpan.milliseconds(150)
                    + random.next(upperBound: .milliseconds(140)))
        }
        while let time = queue.nextTime {
            if let healedAt, time > healedAt + Simulation.settling { break }
            if time > Simulation.timeMax {
                isStuck = true
                break
            }
            guard let (born, event) = queue.next() else { break }
            note(event)
            if case .crash = event {
                if !isHealing { crash() }
                if broken != nil { break }
                continue
            }
            if needsIncarnation(event), born != incarnation { continue }
            handle(event)
            if broken != nil { break }
            if !isHealing, operationsLeft == 0, waiting.isEmpty { heal() }
        }
        return finish()
    }

    private func needsIncarnation(_ event: Event) -> Bool {
        switch event {
        case .partition, .frame, .appended, .recovered, .snapshot: true
        case .operate, .crash, .listen: false
        }
    }

    func schedule(_ event: Event, in delay: TimeSpan) {
        queue.push(after: delay, (incarnation, event))
    }

    func handle(_ event: Event) {
        switch event {
        case .partition(let id, let event): feed(id, event)
        case .appended(let id, let incarnation, let sequence, let body, let fate):
            if machineNumbers[Int(id.rawValue)] == incarnation {
                finishAppend(id, sequence, body: body, fate: fate)
            }
        case .recovered(let id, let incarnation):
            if machineNumbers[Int(id.rawValue)] == incarnation { recover(id) }
        case .snapshot(let id, let covering, let part, let token):
            store(id, covering, part: part, token: token)
        case .frame(let from, let frame): receive(frame, from)
        case .operate(let client): operate(client)
        case .listen(let device): listen(device)
        case .crash: break
        }
    }

    private func note(_ event: Event) {
        let text: String
        switch event {
        case .partition(let id, let event): text = "p\(id.rawValue) \(Simulation.name(event))"
        case .appended(let id, _, let sequence, _, let fate):
            text = "d\(id.rawValue) \(sequence.rawValue) \(fate)"
        case .recovered(let id, _): text = "r\(id.rawValue)"
        case .snapshot(let id, let covering, _, _): text = "s\(id.rawValue) \(covering.rawValue)"
        case .frame(let from, _): text = "f\(from.rawValue)"
        case .operate(let client): text = "o\(client)"
        case .listen(let device): text = "l\(device)"
        case .crash: text = "crash"
        }
        var hash = digest ^ now.nanoseconds
        for byte in text.utf8 { hash = (hash ^ UInt64(byte)) &* 0x0000_0100_0000_01B3 }
        digest = hash
    }

    private static func name(_ event: PartitionEvent) -> String {
        switch event {
        case .request(let id, _): "request \(id.number)"
        case .offered(let frame): "offered \(frame.entries.count)"
        case .acknowledged(let said): "acknowledged \(said.mark.rawValue)"
        default: "other"
        }
    }

    var instant: Instant {
        Instant(
            monotonic: now,
            wall: WallTime(milliseconds: 1_800_000_000_000 + Int64(now.nanoseconds / 1_000_000)))
    }

    // MARK: The node

    /// Starts the node from what survived.
    private func boot() {
        incarnation += 1
        let names = TopicNames()
        partitions = []
        frameTimes = [:]
        sendNumbers = [:]
        sink = Sink()
        streams = GatewayStreams(
            gateway: GatewayID(0), histories: (0..<options.partitionCount).map { .init(UInt64($0) + 7) })
        for number in 0..<options.partitionCount {
            let id = PartitionID(UInt16(number))
            guard let partition = replayed(number, names: names) else { return }
            let body = Partition.barrier(session: SessionID(incarnation), epoch: Epoch(incarnation))
            let sequence = partition.applied.next
            record(number, sequence, body: body)
            do { try partition.replay(sequence, body) } catch { preconditionFailure("a barrier folds") }
            partitions.append(partition)
            machineNumbers[number] += 1
            appendTimes[number] = .zero
            var effects: [PartitionEffect] = []
            partition.start(
                now: instant, incarnation: UInt32(truncatingIfNeeded: machineNumbers[number]), into: &effects)
            carryOut(effects, of: id)
        }
    }

    func record(_ number: Int, _ sequence: Sequence, body: [UInt8]) {
        journal[number].append((sequence, body))
        past[number].append((sequence, body))
    }

    /// Reads a partition as a start does: the newest snapshot that can be read, and the records behind it.
    /// `nil`, and the run ends, where they do not fit together.
    func replayed(_ number: Int, names: TopicNames = TopicNames()) -> Partition? {
        var found = snapshots[number]
        if found.count > 1, !isHealing, random.next(upperBound: UInt64(100)) < options.unreadablePercent {
            found.removeFirst()
        }
        return folded(number, snapshot: found.first?.bytes, journal[number], names: names)
    }

    func folded(
        _ number: Int, snapshot: [UInt8]?, _ records: [(sequence: Sequence, body: [UInt8])],
        names: TopicNames = TopicNames()
    ) -> Partition? {
        let partition = Partition(
            id: PartitionID(UInt16(number)), history: .init(UInt64(number) + 7), options: options.partition,
            names: names,
            proofs: Proofs.shared)
        partition.laws.isHolders = true
        do {
            if let snapshot { try partition.restore(snapshot: snapshot) }
            for record in records where record.sequence > partition.applied {
                try partition.replay(record.sequence, record.body)
            }
        } catch {
            broken = "partition \(number) cannot be read: \(error)"
            return nil
        }
        return partition
    }

    private func crash() {
        history.faults.append("crash at \(now.nanoseconds)")
        // Each append in flight went in or did not; those of one partition went in only in their order.
        for number in 0..<options.partitionCount {
            for (born, event) in queue.waiting {
                guard born == incarnation,
                    case .appended(let id, let incarnation, let sequence, let body, let fate) = event,
                    Int(id.rawValue) == number, incarnation == machineNumbers[number]
                else { continue }
                if case .refused = fate { break }
                if random.next(upperBound: UInt64(2)) == 0 { break }
                record(number, sequence, body: body)
            }
        }
        let unanswered = lost.sorted { $0.key < $1.key }
        waiting = [:]
        lost = [:]
        for client in clients.indices { clients[client].stream = nil }
        boot()
        for (_, tell) in unanswered { tell() }
    }

    func feed(_ id: PartitionID, _ event: PartitionEvent) {
        var effects: [PartitionEffect] = []
        guard let partition = partitions[Int(id.rawValue)] else { return refuse(event) }
        partition.handle(event, now: instant, into: &effects)
        partition.flush(now: instant, into: &effects)
        lookAtLaws(of: partition)
        if options.fanoutsMax < 1000 {
            unfinishedMost = max(unfinishedMost, partition.unfinished(Simulation.project).waiting)
        }
        carryOut(effects, of: id)
    }

    func carryOut(_ effects: [PartitionEffect], of id: PartitionID) {
        for effect in effects {
            switch effect {
            case .append(let sequence, let body):
                append(id, sequence, body: body)
            case .confirm(let token):
                schedule(.partition(id, .confirmed(token)), in: random.next(upperBound: .milliseconds(1)))
            case .readRecords(let sequences, let bytesMax, let token):
                let read = bodies(id, sequences, bytesMax: bytesMax)
                schedule(
                    .partition(id, .records(read, token: token)),
                    in: random.next(upperBound: .milliseconds(3)))
            case .writeSnapshot(let covering, let part, let token):
                schedule(
                    .snapshot(id, covering: covering, part, token: token),
                    in: random.next(upperBound: .milliseconds(20)))
            case .trim(let below, let keeping): trim(Int(id.rawValue), below, keeping: keeping)
            case .wake(let at):
                schedule(.partition(id, .woke(at)), in: at.since(now))
            case .reply(let request, let reply): answer(request.number, reply.value)
            case .offer(let to, let frame): transmit(to, .offered(frame.value))
            case .acknowledge(let to, let said): transmit(to, .acknowledged(said.value))
            case .ask(let of, let question): transmit(of, .asked(question.value))
            case .tell(let to, let told): transmit(to, .told(told.value))
            case .stream(_, let frame): deliver(frame.value, from: id)
            case .push: preconditionFailure("no device of this simulation has an address")
            case .fingerprintsDiffer: fingerprintDifferences += 1
            case .notice(.bodiesGone(let count)): bodiesGone += count
            case .notice(.markMended): marksMended += 1
            case .notice: break
            }
        }
    }

    /// Sends a message between partitions: it comes late, and may be lost, doubled or overtaken.
    private func transmit(_ to: PartitionID, _ event: PartitionEvent) {
        if !isHealing, random.next(upperBound: UInt64(100)) < options.lossPercent { return }
        schedule(.partition(to, event), in: random.next(upperBound: .milliseconds(4)))
        if random.next(upperBound: UInt64(100)) < options.duplicatePercent {
            schedule(.partition(to, event), in: random.next(upperBound: .milliseconds(40)))
        }
    }

    /// Sends a frame to the gateway: late, in order.
    private func deliver(_ frame: StreamFrame, from id: PartitionID) {
        let at = max(frameTimes[id] ?? .zero, now + random.next(upperBound: .milliseconds(2)))
        frameTimes[id] = at + .nanoseconds(1)
        schedule(.frame(from: id, frame), in: at.since(now))
    }

    func answer(_ number: UInt64, _ reply: Reply) {
        lost[number] = nil
        waiting.removeValue(forKey: number)?(reply, now)
    }
}
