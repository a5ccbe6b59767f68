import Journal
import Model
import Partitions
import VirtualTime

/// Partitions in virtual time, each with its machine and its journal. A commit takes 5 ms, a message between
/// two partitions or from a gateway 1 ms.
public final class PartitionWorld {
    private final class Proofs: DeviceMACMaker {
        func tokenProof(secret: UInt64, key: UInt8) -> DeviceMAC? { DeviceMAC(high: secret, low: 1) }
        func credentialProof(secret: UInt64, key: UInt8) -> DeviceMAC? { DeviceMAC(high: secret, low: 2) }
    }
    private enum Happening {
        /// `run`: the machine that the event is for; `nil` for the machine that is there when the event
        /// arrives.
        case event(PartitionID, run: UInt32?, PartitionEvent)
        case commit(PartitionID, run: UInt32, Sequence, body: [UInt8])
        case frame(PartitionID, StreamFrame)
    }
    public static let project = ProjectNumber(7)
    public static let gateway = GatewayID(1)
    public static let began = MonotonicTime(.seconds(1))
    static let commitTime: TimeSpan = .milliseconds(5)
    static let messageTime: TimeSpan = .milliseconds(1)

    public private(set) var partitions: [Partition] = []
    /// The bodies of each partition's records, from the first.
    public var journals: [[[UInt8]]]
    /// Partitions without an owner: what is sent to them is lost.
    public private(set) var ownerless: Set<PartitionID> = []
    /// Whether each message between two partitions comes twice.
    public var isDoubling = false
    /// Frames to the gateway that will be lost.
    public var framesToLose = 0
    public var replies: [UInt64: Reply] = [:]
    /// What machines do, and what comes to them. `false`: there is no machine for the event.
    public var onEffect: (PartitionID, PartitionEffect) -> Void = { _, _ in }
    public var onEvent: (PartitionID, PartitionEvent, Bool) -> Void = { _, _, _ in }
    /// A frame that comes to the gateway; `false`: it is lost on the way.
    public var onFrame: (PartitionID, StreamFrame, Bool) -> Void = { _, _, _ in }
    private var time = EventQueue<Happening>(began: began)
    private var runs: [UInt32]
    private var options: PartitionOptions
    private var lastRequest: UInt64 = 0
    private var lastMessage: UInt64 = 0

    public init(count: Int, _ change: (inout PartitionOptions) -> Void = { _ in }) throws {
        options = PartitionOptions(partitionCount: count)
        change(&options)
        journals = Array(repeating: [], count: count)
        runs = Array(repeating: 0, count: count)
        for number in 0..<count {
            let id = PartitionID(UInt16(number))
            partitions.append(machine(id))
            try succeed(id)
        }
    }

    public var now: MonotonicTime { time.now }
    private var instant: Instant {
        Instant(
            monotonic: now,
            wall: WallTime(milliseconds: 1_800_000_000_000 + Int64(now.nanoseconds / 1_000_000)))
    }

    private func machine(_ id: PartitionID) -> Partition {
        Partition(
            id: id, history: History(UInt64(id.rawValue) + 100), options: options, names: TopicNames(),
            proofs: Proofs())
    }

    // MARK: Owners

    /// The owner dies: its machine is gone, and what is on its way to the journal does not go in.
    public func die(_ id: PartitionID) {
        runs[Int(id.rawValue)] += 1
        ownerless.insert(id)
    }

    /// The databases may have lost an end.
    public func raiseGeneration() { options.generation += 1 }

    /// The next owner writes its barrier, reads the journal, and begins.
    public func succeed(_ id: PartitionID) throws {
        let number = Int(id.rawValue)
        runs[number] += 1
        ownerless.remove(id)
        let owner = UInt64(runs[number])
        journals[number].append(Partition.barrier(session: SessionID(owner), epoch: Epoch(owner)))
        let partition = machine(id)
        for (index, body) in journals[number].enumerated() {
            try partition.replay(Sequence(UInt64(index) + 1), body)
        }
        partitions[number] = partition
        var effects: [PartitionEffect] = []
        partition.start(now: instant, incarnation: runs[number], into: &effects)
        partition.flush(now: instant, into: &effects)
        carryOut(effects, of: id)
    }

    // MARK: Clients

    /// Sends a request, to which the answer comes later. Returns the request's number.
    @discardableResult
    public func ask(_ request: Request, of id: PartitionID) -> UInt64 {
        lastRequest += 1
        send(.request(RequestID(gateway: PartitionWorld.gateway, number: lastRequest), request), to: id)
        return lastRequest
    }

    /// Registers a device, and waits for the answer.
    public func register(in id: PartitionID) -> (Registration, credential: DeviceMAC)? {
        let number = ask(
            .register(
                project: PartitionWorld.project, limit: 100, nonce: UInt32(lastRequest) + 1,
                secret: lastRequest + 1),
            of: id)
        run(for: 10 * PartitionWorld.commitTime)
        guard case .registered(let index, let nonce, let secret)? = replies[number] else { return nil }
        let device = Registration(
            project: PartitionWorld.project, partition: id, index: index, nonce: nonce, key: 1)
        return (device, DeviceMAC(high: secret, low: 2))
    }

    public func message(_ text: String) -> Envelope {
        lastMessage += 1
        return Envelope(
            id: MessageID(time: lastMessage, random: 1), event: Array(text.utf8), sent: instant.wall,
            ttlSeconds: 3600)
    }

    /// An event that takes the time of a message to come.
    public func send(_ event: PartitionEvent, to id: PartitionID) {
        time.push(after: PartitionWorld.messageTime, .event(id, run: nil, event))
    }

    // MARK: Time

    public func run(for length: TimeSpan) {
        let end = now + length
        while let happening = time.next(until: end) {
            switch happening {
            case .event(let id, let run, let event):
                if run == nil || run == runs[Int(id.rawValue)] { deliver(event, to: id) }
            case .commit(let id, let run, let sequence, let body):
                guard run == runs[Int(id.rawValue)] else { continue }
                journals[Int(id.rawValue)].append(body)
                deliver(.appended(sequence), to: id)
            case .frame(let id, let frame):
                let isLost = framesToLose > 0
                framesToLose -= isLost ? 1 : 0
                onFrame(id, frame, !isLost)
            }
        }
    }

    private func deliver(_ event: PartitionEvent, to id: PartitionID) {
        let isServed = !ownerless.contains(id)
        onEvent(id, event, isServed)
        guard isServed else { return }
        var effects: [PartitionEffect] = []
        partitions[Int(id.rawValue)].handle(event, now: instant, into: &effects)
        let partition = partitions[Int(id.rawValue)]
        while partition.hasWaitingStreams {
            for gateway in partition.gatewaysInTurn() {
                _ = partition.readOn(at: gateway, bytes: .max, now: instant, into: &effects)
            }
        }
        partitions[Int(id.rawValue)].flush(now: instant, into: &effects)
        carryOut(effects, of: id)
    }

    private func carryOut(_ effects: [PartitionEffect], of id: PartitionID) {
        let run = runs[Int(id.rawValue)]
        func answer(_ event: PartitionEvent) {
            time.push(after: PartitionWorld.messageTime, .event(id, run: run, event))
        }
        for effect in effects {
            onEffect(id, effect)
            switch effect {
            case .append(let sequence, let body):
                time.push(after: PartitionWorld.commitTime, .commit(id, run: run, sequence, body: body))
            case .confirm(let token): answer(.confirmed(token))
            case .readRecords(let sequences, _, let token):
                let found = sequences.map {
                    (sequence: $0, body: journals[Int(id.rawValue)][Int($0.rawValue) - 1])
                }
                answer(
                    .records(
                        RecordBodies(records: found, through: sequences.max() ?? .zero), token: token))
            case .reply(let request, let reply): replies[request.number] = reply.value
            case .offer(let to, let frame): pass(.offered(frame.value), to)
            case .acknowledge(let to, let said): pass(.acknowledged(said.value), to)
            case .ask(let of, let question): pass(.asked(question.value), of)
            case .tell(let to, let told): pass(.told(told.value), to)
            case .stream(_, let frame):
                time.push(after: PartitionWorld.messageTime, .frame(id, frame.value))
            case .wake(let at):
                let delay = at.since(now)
                time.push(after: delay, .event(id, run: run, .woke(at)))
            case .writeSnapshot, .trim, .notice, .push, .fingerprintsDiffer: break
            }
        }
    }

    private func pass(_ event: PartitionEvent, _ to: PartitionID) {
        send(event, to: to)
        if isDoubling { send(event, to: to) }
    }
}
