import Bytes
import Journal
import Model

@testable import Partitions

/// A few partitions on one thread. The journal is always there, and the harness carries out every effect at
/// once.
final class PartitionHarness {
    final class Proofs: DeviceMACMaker {
        func tokenProof(secret: UInt64, key: UInt8) -> DeviceMAC? { DeviceMAC(high: secret, low: 1) }
        func credentialProof(secret: UInt64, key: UInt8) -> DeviceMAC? { DeviceMAC(high: secret, low: 2) }
    }
    static let project = ProjectNumber(7)
    static let gateway = GatewayID(1)

    let count: Int
    let names = TopicNames()
    var partitions: [Partition] = []
    var journal: [[(Sequence, [UInt8])]]
    var replies: [UInt64: Reply] = [:]
    var frames: [StreamFrame] = []
    var now = Instant(
        monotonic: MonotonicTime(nanoseconds: 1_000_000_000), wall: WallTime(milliseconds: 1_800_000_000_000))
    /// Milliseconds by which the wall clocks of some partitions' machines are ahead.
    var ahead: [PartitionID: Int64] = [:]
    /// Whether a test has broken a pair on purpose, and how often its ends noticed.
    var expectsDifferences = false {
        didSet { for partition in partitions { partition.invariantSchedule.isHolders = expectsDifferences } }
    }
    private(set) var differences = 0
    /// The longest body of a record, and the most bytes of one frame of outbox entries.
    private(set) var recordBytesMost = 0
    private(set) var offerBytesMost = 0
    /// Partitions that get no frames of outbox entries for now.
    var away: Set<PartitionID> = []
    /// Whether the journal holds its answers back until `releaseAppends`.
    var holdsAppends = false
    private var held: [(PartitionID, PartitionEvent)] = []
    /// Whether the report of each part of a snapshot waits for `releaseSnapshots`.
    var holdsSnapshots = false
    private var heldSnapshots: [(PartitionID, PartitionEvent)] = []
    /// Whether partitions make snapshots as soon as they begin them.
    var makesSnapshots = true
    /// The parts of snapshots that partitions have handed to the engine.
    private(set) var parts: [PartitionID: [SnapshotPart]] = [:]
    /// The trims that partitions asked for. The harness deletes nothing.
    private(set) var trims: [(below: Sequence, keeping: [Sequence])] = []
    private(set) var notices: [PartitionNotice] = []
    /// What partitions have handed to their senders.
    private(set) var jobs: [(partition: PartitionID, job: PushJob)] = []
    /// How often partitions read bodies, and how many records they asked for.
    private(set) var reads = 0
    private(set) var recordsRead = 0
    /// Whether streams that wait for their turn wait for `readOn`.
    var holdsStreams = false
    /// Whether reads wait for `releaseReads`.
    var holdsReads = false
    private var heldReads: [(PartitionID, PartitionEvent)] = []
    /// What the loop tells of projects' push services.
    var pushServices: [ProjectNumber: PushServices]? {
        didSet { for partition in partitions { partition.pushServices = pushServices } }
    }
    /// The brake that all partitions share, as in a process.
    var brake: (any GoneBrake)? { didSet { for partition in partitions { partition.brake = brake } } }
    private var nextRequest: UInt64 = 0
    private var nextMessage: UInt64 = 0
    /// Timers that are set and have not fired.
    private(set) var timers: [(at: MonotonicTime, partition: PartitionID)] = []
    private let options: PartitionOptions
    private var queue: [(PartitionID, PartitionEvent)] = []

    init(count: Int = 4, _ change: (inout PartitionOptions) -> Void = { _ in }) {
        self.count = count
        var options = PartitionOptions(partitionCount: count)
        options.snapshotPause = .zero
        change(&options)
        self.options = options
        journal = Array(repeating: [], count: count)
        for number in 0..<count {
            let id = PartitionID(UInt16(number))
            let partition = Partition(
                id: id, history: History(UInt64(number) + 100),
                options: options, names: names, proofs: Proofs())
            let body = Partition.barrier(session: SessionID(1), epoch: Epoch(1))
            journal[number].append((Sequence(1), body))
            try? partition.replay(Sequence(1), body)
            partitions.append(partition)
            var effects: [PartitionEffect] = []
            partition.start(now: now, into: &effects)
            carryOut(effects, of: id)
        }
    }

    func send(_ event: PartitionEvent, to partition: PartitionID) {
        queue.append((partition, event))
        while !queue.isEmpty {
            let (to, event) = queue.removeFirst()
            if away.contains(to) {
                switch event {
                case .offered, .asked: continue
                default: break
                }
            }
            var effects: [PartitionEffect] = []
            partitions[Int(to.rawValue)].handle(event, now: now(at: to), into: &effects)
            readOn(partitions[Int(to.rawValue)], now: now(at: to), into: &effects)
            partitions[Int(to.rawValue)].flush(now: now(at: to), into: &effects)
            carryOut(effects, of: to)
        }
    }

    /// The clocks of the partition's machine.
    func now(at partition: PartitionID) -> Instant {
        let wall = now.wall.milliseconds + (ahead[partition] ?? 0)
        return Instant(monotonic: now.monotonic, wall: WallTime(milliseconds: wall))
    }

    func releaseAppends(_ count: Int = .max) {
        var left = count
        while !held.isEmpty, left > 0 {
            left -= 1
            let (partition, event) = held.removeFirst()
            send(event, to: partition)
        }
    }

    /// Messages without a collapse key that wait for a device.
    func waitingCount(_ partition: Int, _ index: UInt32) -> Int? {
        guard let (page, slot) = partitions[partition].state.devices.find(index) else { return nil }
        return Int(page.waiting[slot])
    }

    func mark(of sender: UInt16, at receiver: Int) -> Sequence {
        partitions[receiver].state.marks[PartitionID(sender)]?.number ?? .zero
    }

    func outboxBytes(from: Int, to: UInt16) -> Int {
        partitions[from].state.outboxes[PartitionID(to)]?.weight ?? 0
    }

    func releaseSnapshots() {
        while !heldSnapshots.isEmpty {
            let (partition, event) = heldSnapshots.removeFirst()
            send(event, to: partition)
        }
    }

    func releaseReads() {
        while !heldReads.isEmpty {
            let (partition, event) = heldReads.removeFirst()
            send(event, to: partition)
        }
    }

    /// Whether reads of bodies wait for `releaseReads`.
    var isReading: Bool { !heldReads.isEmpty }

    /// Fails the parts of snapshots that are held, as a full disk would.
    func failSnapshots() {
        let failed = heldSnapshots
        heldSnapshots = []
        for case (let id, .snapshotPart(_, let token)) in failed {
            send(.snapshotFailed(token: token), to: id)
        }
    }

    /// Fires the timers that are due.
    func fireTimers() {
        let due = timers.filter { $0.at <= now.monotonic }
        timers.removeAll { $0.at <= now.monotonic }
        for (at, id) in due { send(.woke(at), to: id) }
    }

    /// The messages that senders got since the last call.
    func takeJobs() -> [String] {
        defer { jobs = [] }
        return jobs.map { String(decoding: $0.job.event, as: UTF8.self) }
    }

    func takeAllJobs() -> [(partition: PartitionID, job: PushJob)] {
        defer { jobs = [] }
        return jobs
    }

    func dropFirstJob() { jobs.removeFirst() }

    func makeSlice(of number: Int) { send(.woke(now.monotonic), to: PartitionID(UInt16(number))) }

    func forgetParts(_ id: PartitionID, through last: Int) { parts[id]?.removeSubrange(...last) }

    func request(_ request: Request, of partition: PartitionID) -> Reply? {
        nextRequest += 1
        send(
            .request(RequestID(gateway: PartitionHarness.gateway, number: nextRequest), request),
            to: partition)
        return replies[nextRequest]
    }

    /// Hands over all events before it carries out any of their effects: in one turn, and so into one record,
    /// or in one turn for each event.
    func sendTogether(_ events: [PartitionEvent], to id: PartitionID, inTurns: Bool = false) {
        let partition = partitions[Int(id.rawValue)]
        var effects: [PartitionEffect] = []
        for event in events {
            partition.handle(event, now: now, into: &effects)
            readOn(partition, now: now, into: &effects)
            if inTurns { partition.flush(now: now, into: &effects) }
        }
        partition.flush(now: now, into: &effects)
        carryOut(effects, of: id)
        send(.woke(now.monotonic), to: id)
    }

    func publishTogether(_ texts: [String], to topic: String) {
        let requests = texts.map { text -> PartitionEvent in
            nextRequest += 1
            let request = Request.sendToTopic(
                nil, project: PartitionHarness.project, TopicName(checked: Array(topic.utf8)), envelope(text),
                fanoutsMax: 1000)
            return .request(RequestID(gateway: PartitionHarness.gateway, number: nextRequest), request)
        }
        sendTogether(requests, to: home(topic))
    }

    func carryOut(_ effects: [PartitionEffect], of id: PartitionID) {
        for effect in effects {
            switch effect {
            case .append(let sequence, let body):
                recordBytesMost = max(recordBytesMost, body.count)
                journal[Int(id.rawValue)].append((sequence, body))
                if holdsAppends {
                    held.append((id, .appended(sequence)))
                } else {
                    queue.append((id, .appended(sequence)))
                }
            case .confirm(let token): queue.append((id, .confirmed(token)))
            case .readRecords(let sequences, _, let token):
                reads += 1
                recordsRead += sequences.count
                guard reads < 100_000 else { fatalError("bodies are read for ever") }
                let found = journal[Int(id.rawValue)].filter { sequences.contains($0.0) }
                let read = RecordBodies(
                    records: found.map { (sequence: $0.0, body: $0.1) }, through: sequences.max() ?? .zero)
                let answer = (id, PartitionEvent.records(read, token: token))
                if holdsReads { heldReads.append(answer) } else { queue.append(answer) }
            case .writeSnapshot(_, let part, let token):
                parts[id, default: []].append(part)
                let written = (id, PartitionEvent.snapshotPart(upload: 1, token: token))
                if holdsSnapshots { heldSnapshots.append(written) } else { queue.append(written) }
            case .reply(let request, let reply): replies[request.number] = reply.value
            case .offer(let to, let frame):
                var writer = ByteWriter()
                PartitionEvent.offered(frame.value).encode(into: &writer)
                offerBytesMost = max(offerBytesMost, writer.count)
                queue.append((to, .offered(frame.value)))
            case .acknowledge(let to, let said): queue.append((to, .acknowledged(said.value)))
            case .ask(let of, let question): queue.append((of, .asked(question.value)))
            case .tell(let to, let answer): queue.append((to, .told(answer.value)))
            case .stream(_, let frame): frames.append(frame.value)
            case .push(let job): jobs.append((id, job.value))
            case .trim(let below, let keeping): trims.append((below, keeping))
            case .notice(let notice): notices.append(notice)
            case .wake(let at):
                timers.append((at, id))
                if makesSnapshots, at <= now.monotonic { queue.append((id, .woke(at))) }
            case .fingerprintsDiffer(let with):
                guard expectsDifferences else { fatalError("fingerprints of \(id) and \(with) differ") }
                differences += 1
            }
        }
    }

    // MARK: What clients do

    func register(
        in partition: UInt16, project: ProjectNumber = PartitionHarness.project
    ) -> (Registration, DeviceMAC)? {
        nextRequest += 1
        let secret = nextRequest &* 0x9E37_79B9_7F4A_7C15
        let reply = request(
            .register(
                project: project, limit: 100_000, nonce: UInt32(nextRequest), secret: secret),
            of: PartitionID(partition))
        guard case .registered(let index, let nonce, let secret) = reply else { return nil }
        let registration = Registration(
            project: project, partition: PartitionID(partition), index: index, nonce: nonce, key: 1)
        return (registration, DeviceMAC(high: secret, low: 2))
    }

    func change(_ kind: Request.ChangeKind, _ topic: String, _ devices: [Registration]) -> [DeviceChange]? {
        guard let name = TopicName(topic), let first = devices.first else { return nil }
        let reply = request(
            .change(kind, project: first.project, topic: name, devices: devices, by: .backend),
            of: first.partition)
        guard case .changes(let changes) = reply else { return nil }
        return changes
    }

    func envelope(
        _ text: String, key: String = "", ttl: UInt32 = 3600, times: TimesToLive? = nil
    ) -> Envelope {
        nextMessage += 1
        return Envelope(
            id: MessageID(time: nextMessage, random: 1), event: Array(text.utf8),
            collapseKey: Array(key.utf8), sent: now.wall, times: times ?? TimesToLive(ttl))
    }

    func home(_ topic: String, in project: ProjectNumber = PartitionHarness.project) -> PartitionID {
        partitions[0].state.home(of: TopicName(checked: Array(topic.utf8)), in: project)
    }

    @discardableResult
    func publish(
        _ text: String, to topic: String, key: String = "", ttl: UInt32 = 3600, times: TimesToLive? = nil,
        as request: RequestKey? = nil, project: ProjectNumber = PartitionHarness.project
    ) -> Reply? {
        self.request(
            .sendToTopic(
                request, project: project, TopicName(checked: Array(topic.utf8)),
                envelope(text, key: key, ttl: ttl, times: times),
                fanoutsMax: 1000), of: home(topic, in: project))
    }

    /// A new machine of a partition, from the journal alone.
    func replayed(
        _ number: Int, generation: UInt64 = 0, upTo last: Sequence? = nil
    ) throws -> Partition {
        var options = options
        options.generation = generation
        let partition = Partition(
            id: PartitionID(UInt16(number)), history: History(UInt64(number) + 100),
            options: options, names: TopicNames(), proofs: Proofs())
        for (sequence, body) in journal[number] where sequence <= last ?? sequence {
            try partition.replay(sequence, body)
        }
        return partition
    }

    /// Another owner begins from the journal.
    func succeed(_ number: Int, generation: UInt64 = 0, clock: TrustedClock? = nil) throws {
        partitions[number] = try replayed(number, generation: generation)
        partitions[number].pushServices = pushServices
        partitions[number].brake = brake
        var effects: [PartitionEffect] = []
        partitions[number].start(
            now: now(at: PartitionID(UInt16(number))), clock: clock, incarnation: 1, into: &effects)
        carryOut(effects, of: PartitionID(UInt16(number)))
    }

    /// Another owner begins from a snapshot of the present state: its memory has no body.
    func succeedFromSnapshot(_ number: Int) throws {
        let former = partitions[number]
        let partition = Partition(
            id: former.id, history: former.history, options: options, names: TopicNames(), proofs: Proofs())
        try partition.restore(snapshot: SnapshotWriter.whole(of: former.state))
        partitions[number] = partition
        partition.pushServices = pushServices
        var effects: [PartitionEffect] = []
        partition.start(now: now, incarnation: 1, into: &effects)
        carryOut(effects, of: partition.id)
    }

    /// All partitions get new owners at once, and these begin from the journals.
    func succeedAll(generation: UInt64) throws {
        partitions = try (0..<count).map { try replayed($0, generation: generation) }
        for partition in partitions {
            var effects: [PartitionEffect] = []
            partition.start(now: now, incarnation: UInt32(truncatingIfNeeded: generation), into: &effects)
            carryOut(effects, of: partition.id)
        }
        settle()
    }

    /// Lets time pass by both clocks, and wakes every partition.
    func pass(seconds: Int64) {
        now.monotonic = now.monotonic.advanced(by: .seconds(UInt64(seconds)))
        now.wall = WallTime(milliseconds: now.wall.milliseconds + seconds * 1000)
        for number in 0..<count { send(.woke(now.monotonic), to: PartitionID(UInt16(number))) }
    }

    /// Lets so many seconds pass by both clocks, and fires in each second the timers that are due.
    func fireTimers(for seconds: Int) {
        for _ in 0..<seconds {
            now.monotonic = now.monotonic.advanced(by: .seconds(1))
            now.wall = WallTime(milliseconds: now.wall.milliseconds + 1000)
            fireTimers()
        }
    }

    /// Lets partitions write bookkeeping that waits for other facts.
    func settle() {
        now.monotonic = now.monotonic.advanced(by: .seconds(2))
        now.wall = WallTime(milliseconds: now.wall.milliseconds + 2000)
        for _ in 0..<2 {
            for number in 0..<count { send(.woke(now.monotonic), to: PartitionID(UInt16(number))) }
            now.monotonic = now.monotonic.advanced(by: .seconds(2))
        }
    }
}
