import Glibc
import Journal
import Model
import Partitions
import Placement

// The cost of the core alone, without sockets, disk or threads, in CPU nanoseconds for each operation. The
// partitions run on one thread. Their records are encoded as for the journal and are durable immediately.

final class Proofs: DeviceMACMaker {
    func tokenProof(secret: UInt64, key: UInt8) -> DeviceMAC? { DeviceMAC(high: secret, low: 1) }
    func credentialProof(secret: UInt64, key: UInt8) -> DeviceMAC? { DeviceMAC(high: secret, low: 2) }
}

final class Bench {
    let count: Int
    let names = TopicNames()
    var partitions: [Partition] = []
    var replies = 0
    var pushed = 0
    var bytes = 0
    /// The longest turn of one partition, in milliseconds.
    var longestTurn = 0.0
    /// Parts of snapshots that partitions gave to the engine.
    var parts = 0
    var waitingRecords: [(PartitionID, Sequence)] = []
    var devices: [Registration] = []
    private var queue: [(PartitionID, PartitionEvent)] = []
    private var wakes: [(MonotonicTime, PartitionID)] = []
    private var now = Instant(
        monotonic: MonotonicTime(nanoseconds: 1), wall: WallTime(milliseconds: 1_800_000_000_000))
    private var nextMessage: UInt64 = 0
    let project = ProjectNumber(1)
    let gateway = GatewayID(0)

    init(count: Int = 32) {
        self.count = count
        for number in 0..<count {
            let partition = Partition(
                id: PartitionID(UInt16(number)), history: History(1),
                options: PartitionOptions(partitionCount: count),
                names: names, proofs: Proofs())
            try? partition.replay(Sequence(1), Partition.barrier(session: SessionID(1), epoch: Epoch(1)))
            var effects: [PartitionEffect] = []
            partition.start(now: now, into: &effects)
            partitions.append(partition)
        }
    }

    func post(_ event: PartitionEvent, _ to: PartitionID) { queue.append((to, event)) }

    /// A turn: all waiting events, then one commit for all partitions.
    func turn() {
        now.monotonic = now.monotonic.advanced(by: .milliseconds(1))
        now.wall = WallTime(milliseconds: now.wall.milliseconds + 1)
        for (at, id) in wakes where at <= now.monotonic { post(.woke(at), id) }
        wakes.removeAll { $0.0 <= now.monotonic }
        var effects: [PartitionEffect] = []
        var dirty: Set<Int> = []
        while !queue.isEmpty {
            var batch: [(PartitionID, PartitionEvent)] = []
            swap(&batch, &queue)
            for (to, event) in batch {
                let time = milliseconds {
                    partitions[Int(to.rawValue)].handle(event, now: now, into: &effects)
                }
                longestTurn = max(longestTurn, time)
                dirty.insert(Int(to.rawValue))
                carryOut(effects, to)
                effects.removeAll(keepingCapacity: true)
            }
        }
        for number in dirty {
            let time = milliseconds { partitions[number].flush(now: now, into: &effects) }
            longestTurn = max(longestTurn, time)
            carryOut(effects, PartitionID(UInt16(number)))
            effects.removeAll(keepingCapacity: true)
        }
        for (partition, sequence) in waitingRecords { post(.appended(sequence), partition) }
        waitingRecords.removeAll(keepingCapacity: true)
    }

    func settle() { while !queue.isEmpty { turn() } }

    private func carryOut(_ effects: [PartitionEffect], _ id: PartitionID) {
        for effect in effects {
            switch effect {
            case .append(let sequence, let body):
                let header = RecordHeader(
                    partition: id, sequence: sequence, epoch: Epoch(1), history: History(1))
                bytes += (try? RecordCodec.encode(header: header, body: body))?.count ?? 0
                waitingRecords.append((id, sequence))
            case .confirm(let token): post(.confirmed(token), id)
            case .reply(_, let reply):
                replies += 1
                if case .registered(let index, let nonce, _) = reply.value {
                    devices.append(
                        Registration(project: project, partition: id, index: index, nonce: nonce, key: 0))
                }
            case .offer(let to, let frame): post(.offered(frame.value), to)
            case .acknowledge(let to, let said): post(.acknowledged(said.value), to)
            case .ask(let of, let question): post(.asked(question.value), of)
            case .tell(let to, let answer): post(.told(answer.value), to)
            case .stream(_, let frame):
                if case .push(let push) = frame.value {
                    for item in push.items { item.targets.forEach { _ in pushed += 1 } }
                    post(.stream(.processed(gateway, frame: push.number)), id)
                }
            case .writeSnapshot(_, _, let token):
                parts += 1
                post(.snapshotPart(upload: 1, token: token), id)
            case .wake(let at): wakes.append((at, id))
            case .readRecords, .trim, .fingerprintsDiffer, .notice, .push: break
            }
        }
    }

    func envelope() -> Envelope {
        nextMessage += 1
        return Envelope(
            id: MessageID(time: nextMessage, random: nextMessage &* 0x9E37_79B9_7F4A_7C15),
            event: Array(repeating: UInt8(ascii: "x"), count: 300), sent: now.wall, ttlSeconds: 3600)
    }

    func home(_ topic: TopicName) -> PartitionID { Placement.partition(of: topic, in: project, count: count) }
}

func cpu() -> Double {
    var time = timespec()
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time)
    return Double(time.tv_sec) + Double(time.tv_nsec) / 1e9
}

func measure(_ name: String, _ operations: Int, body: () -> Void) {
    let before = cpu()
    body()
    let each = (cpu() - before) / Double(operations) * 1e9
    print("\(name): \(Int(each)) ns each, \(operations) operations")
}

@main
struct CoreBench {
    static func main() throws {
        if CommandLine.arguments.contains("snapshots") { return snapshots() }
        if CommandLine.arguments.contains("addresses") { return addresses() }
        if CommandLine.arguments.contains("parts") { return try parts() }
        sends()
        let bench = Bench()
        measure("register", 100_000) {
            for number in 0..<100_000 {
                let partition = PartitionID(UInt16(number % 3))
                bench.post(
                    .request(
                        RequestID(gateway: bench.gateway, number: 1),
                        .register(project: bench.project, limit: .max, nonce: 1, secret: UInt64(number))),
                    partition)
                if number % 1000 == 999 { bench.turn() }
            }
            bench.settle()
        }
        let byPartition = Dictionary(grouping: bench.devices, by: \.partition)
        let names = (0..<1000).map { TopicName(checked: Array("topic-\($0)".utf8)) }
        measure("subscribe, 1,000 devices a request", 3_000_000) {
            for round in 0..<1000 {
                for devices in byPartition.values {
                    let start = round * 1000 % (devices.count - 1000)
                    bench.post(
                        .request(
                            RequestID(gateway: bench.gateway, number: 1),
                            .change(
                                .subscribe, project: bench.project, topic: names[round],
                                devices: Array(devices[start..<start + 1000]), by: .backend)),
                        devices[0].partition)
                }
                if round % 16 == 15 { bench.turn() }
            }
            bench.settle()
        }
        fanOut(bench, byPartition)
    }

    /// Durable sends like those of T1 (docs/benchmarks.md): topics of one member that does not listen.
    static func sends() {
        let bench = Bench()
        for number in 0..<100 {
            bench.post(
                .request(
                    RequestID(gateway: bench.gateway, number: 1),
                    .register(project: bench.project, limit: .max, nonce: 1, secret: UInt64(number))),
                PartitionID(3))
        }
        bench.settle()
        let single = (0..<100).map { TopicName(checked: Array("single-\($0)".utf8)) }
        for (index, topic) in single.enumerated() {
            let device = bench.devices[index]
            bench.post(
                .request(
                    RequestID(gateway: bench.gateway, number: 1),
                    .change(.subscribe, project: bench.project, topic: topic, devices: [device], by: .backend)
                ),
                device.partition)
        }
        bench.settle()
        measure("send to a topic of one absent device", 500_000) {
            for number in 0..<500_000 {
                let topic = single[number % 100]
                bench.post(
                    .request(
                        RequestID(gateway: bench.gateway, number: 1),
                        .sendToTopic(nil, project: bench.project, topic, bench.envelope(), fanoutsMax: .max)),
                    bench.home(topic))
                if number % 400 == 399 { bench.turn() }
            }
            bench.settle()
        }
        print("bytes journaled: \(bench.bytes), replies: \(bench.replies)")
    }

    static func fanOut(_ bench: Bench, _ byPartition: [PartitionID: [Registration]]) {
        let wide = TopicName(checked: Array("wide".utf8))
        var listeners = 0
        for devices in byPartition.values {
            let some = Array(devices.prefix(3334))
            listeners += some.count
            bench.post(
                .request(
                    RequestID(gateway: bench.gateway, number: 1),
                    .change(.subscribe, project: bench.project, topic: wide, devices: some, by: .backend)),
                some[0].partition)
            for device in some {
                bench.post(
                    .stream(
                        .attach(
                            StreamID(gateway: bench.gateway, number: UInt64(device.index.rawValue) + 1),
                            device,
                            by: .backend, resume: nil)), device.partition)
            }
        }
        bench.settle()
        bench.pushed = 0
        let rounds = 1000
        measure("delivery to \(listeners) listening devices", rounds * listeners) {
            for _ in 0..<rounds {
                bench.post(
                    .request(
                        RequestID(gateway: bench.gateway, number: 1),
                        .sendToTopic(nil, project: bench.project, wide, bench.envelope(), fanoutsMax: .max)),
                    bench.home(wide))
                bench.settle()
            }
        }
        print("pushed: \(bench.pushed)")
    }
}
