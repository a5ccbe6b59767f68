import Model
import Testing

@testable import Partitions

/// The delivery log and its rules, compared with a plain queue for each device.
@Suite("The delivery log")
struct LogTwinTests {
    /// A partition's fold and its twin, with the same facts.
    private struct LogHarness: ~Copyable {
        var state = LogHarness.empty()
        var twin = LogTwin()
        var dice: Dice
        var now: Int64 = 1_800_000_000_000
        var record: UInt64 = 1
        var message: UInt64 = 0
        var devices: Int
        /// Devices read little for a while, so that much waits for them.
        var isAway = false
        /// All devices count as listening: they may have more waiting messages than devices that are away.
        var isListening = false
        /// The index of the next device: all lower ones were registered.
        var next: UInt32 = 0

        /// Devices have addresses at push services, and messages end there at other times than on streams.
        var hasAddresses: Bool

        init(seed: UInt64, devices: Int, hasAddresses: Bool = false) {
            dice = Dice(seed)
            self.devices = devices
            self.hasAddresses = hasAddresses
            for _ in 0..<devices { register() }
        }

        static func empty() -> PartitionState {
            PartitionState(id: PartitionID(0), history: History(9), partitionCount: 4, names: TopicNames())
        }

        mutating func apply(_ fact: Fact) {
            record += 1
            var cursor = PartitionState.Cursor(record: Sequence(record))
            state.apply(fact, &cursor)
        }

        mutating func register() {
            let project = UInt32(1 + next % 5 / 4)
            apply(
                .register(
                    index: next, project: ProjectNumber(project), nonce: next, secret: 1, day: Day(1)))
            twin.projects[next] = project
            next += 1
        }

        mutating func deliver(_ count: Int, to targets: DeviceSet) {
            let isPlain = dice.chance(1, in: 2)
            for _ in 0..<count {
                let key = isPlain ? "" : dice.one(of: ["", "a", "b", "c", "d", "e", "f"])
                deliver(targets, key: key, disposition: dice.chance(1, in: 12) ? dice.below(4) : 0)
            }
        }

        mutating func deliver(_ targets: DeviceSet, key: String, disposition: Int) {
            message += 1
            now += Int64(dice.below(2000))
            let last = state.log.last.rawValue
            var decision = DeliveryDecision(
                disposition: DeliveryDecision.Disposition(rawValue: UInt8(disposition)) ?? .stored,
                position: Position(max(UInt64(now) * 1000, last + 2)))
            if isListening || dice.chance(1, in: 4) {
                decision.exempt = targets.filtered { $0 & 1 == 0 || isListening }
            }
            if dice.chance(1, in: 20) {
                decision.passed = targets.filtered { $0 & 2 == 0 }
                decision.passedUpTo = Position(dice.chance(1, in: 2) ? last : last - min(last, 3_000_000))
            }
            let envelope = Envelope(
                id: MessageID(time: message, random: 2), event: Array("body \(message)".utf8),
                collapseKey: Array(key.utf8), sent: WallTime(milliseconds: now), times: anyTimes())
            if envelope.times.stream == 0, disposition == 0 { decision.disposition = .passing }
            if decision.disposition == .passing || decision.disposition == .late, dice.chance(2, in: 3) {
                decision.reach = Transport.Kinds(
                    Transport.Kind.allCases.filter { envelope.times[$0] > 0 && dice.chance(3, in: 4) })
                decision.isReachRefused = !decision.reach.isEmpty && dice.chance(1, in: 8)
            }
            let project = ProjectNumber(dice.chance(1, in: 6) ? 2 : 1)
            record += 1
            var cursor = PartitionState.Cursor(record: Sequence(record))
            state.deliver(envelope, of: project, to: targets, by: decision, &cursor)
            twin.deliver(project.rawValue, envelope, targets, decision)
        }

        mutating func anyTimes() -> TimesToLive {
            let seconds: [UInt32] = [30, 600, 86_400, 86_400, 2_419_200]
            guard hasAddresses, dice.chance(1, in: 2) else { return TimesToLive(dice.one(of: seconds)) }
            let some = (0..<4).map { _ in dice.one(of: seconds + [0]) }
            return TimesToLive(stream: some[0], web: some[1], apns: some[2], fcm: some[3])
        }

        /// A device tells an address, a service says that an address is gone, or an address ends.
        mutating func changeAddress() {
            let index = UInt32(dice.below(Int(next)))
            let kind = dice.one(of: Transport.Kind.allCases)
            if let stored = state.transports[index]?.first(where: { $0.transport.kind == kind }),
                dice.chance(1, in: 2)
            {
                apply(.endTransport(index: index, kind, generation: stored.generation))
                twin.addresses[index]?.remove(kind)
            } else {
                let address: [UInt8] = dice.chance(1, in: 5) ? [] : [1]
                apply(
                    .setTransport(
                        index: index, Transport(kind: kind, address: address),
                        at: WallTime(milliseconds: now)))
                twin.told(index, kind, at: now)
            }
        }

        /// A push service has taken a message.
        mutating func push() {
            let index = UInt32(dice.below(Int(next)))
            guard let queue = twin.queues[index], !queue.isEmpty else { return }
            let position = dice.one(of: queue).position
            apply(.pushedOne(at: Position(position), index: index))
            twin.pushed(index, at: position)
        }

        mutating func anyDevices(_ count: Int) -> DeviceSet {
            DeviceSet(sorted: dice.indices(count, below: Int(next)))
        }

        mutating func step() {
            if hasAddresses, dice.chance(1, in: 4) { changeAddress() }
            if hasAddresses, dice.chance(1, in: 6) { push() }
            switch dice.below(20) {
            case 0..<9:
                deliver(dice.one(of: [1, 2, 5]), to: anyDevices(dice.one(of: [1, 1, 2, 5, devices])))
            case 9: burst(to: DeviceSet(UInt32(dice.below(Int(next)))))
            case 10: deliver(10, to: DeviceSet(sorted: Array(0..<next)))
            case 11..<16 where !isAway || dice.chance(1, in: 12): read()
            case 16 where !isAway || dice.chance(1, in: 4):
                now += Int64(dice.one(of: [1_000, 40_000, 700_000]))
                apply(.expire(now: WallTime(milliseconds: now)))
                twin.expire(now)
            case 17 where dice.chance(1, in: 3):
                let index = UInt32(dice.below(Int(next)))
                apply(.end(index: index))
                twin.end(index)
                register()
            case 18 where dice.chance(1, in: 3): restore()
            case 19: burst(to: anyDevices(2))
            default: break
            }
        }

        mutating func burst(to device: DeviceSet) {
            guard devices < 50 else { return deliver(5, to: device) }
            isListening = dice.chance(1, in: 5)
            for _ in 0..<(isListening && dice.chance(1, in: 3) ? 1010 : 60) {
                deliver(device, key: "", disposition: 0)
            }
            isListening = false
        }

        mutating func read() {
            let readers = anyDevices(dice.one(of: [1, 1, 3, devices * 2]))
            var upTo = state.log.last.rawValue
            if dice.chance(2, in: 3), let some = readers.sorted.last, let queue = twin.queues[some],
                !queue.isEmpty
            {
                upTo = dice.one(of: queue).position - UInt64(dice.below(2))
            }
            let cursors = [ReadUpTo(position: Position(upTo), devices: readers)]
            if dice.chance(1, in: 8) {
                apply(.pass(cursors))
                readers.forEach { twin.pass($0, wholly: upTo) }
            } else {
                apply(.read(cursors))
                readers.forEach { twin.read($0, upTo: upTo) }
            }
        }

        /// Goes on from a snapshot.
        mutating func restore() {
            state.applied = Sequence(record)
            let bytes = SnapshotWriter.whole(of: state)
            var restored = LogHarness.empty()
            do { try restored.restore(bytes) } catch { Issue.record("a good snapshot: \(error)") }
            #expect(restored.lines() == state.lines())
            state = restored
        }

        mutating func compare(_ comment: Comment) {
            let after = dice.chance(1, in: 2) ? 0 : UInt64(now - Int64(dice.below(60_000))) * 1000
            for index in 0..<next {
                let queue = twin.queues[index] ?? []
                let waiting = state.log.waiting(for: index, after: Position(after), limit: .max)
                let expected = queue.filter { $0.position > after }
                #expect(waiting.map(\.position.rawValue) == expected.map(\.position), comment)
                guard let (page, at) = state.devices.find(index) else {
                    #expect(twin.projects[index] == nil && waiting.isEmpty, comment)
                    continue
                }
                #expect(Int(page.waiting[at]) == queue.count { $0.key.isEmpty }, comment)
                #expect(Int(page.collapsible[at]) == queue.count { !$0.key.isEmpty }, comment)
            }
            #expect(state.overflowed.mapValues(\.told.rawValue) == twin.overflowed, comment)
            compareEntries(comment)
        }

        func compareEntries(_ comment: Comment) {
            let entries = twin.entries
            #expect(state.log.count == entries.count, comment)
            var bytes: [UInt32: UInt64] = [:]
            for entry in entries.values { bytes[entry.project, default: 0] += UInt64(entry.bytes) }
            let held = state.log.bytes.sorted(by: <).filter { $0.value > 0 }
            #expect(Dictionary(uniqueKeysWithValues: held.map { ($0.key, $0.value) }) == bytes, comment)
            var seen: [UInt64] = []
            state.log.forEach { entry in
                seen.append(entry.position.rawValue)
                guard let waiting = entries[entry.position.rawValue] else { return }
                #expect(state.log.keys.name(of: entry.key)?.bytes ?? [] == waiting.key, comment)
                #expect(entry.ends.stream.milliseconds == waiting.stream, comment)
                for kind in Transport.Kind.allCases {
                    #expect(entry.ends[kind].milliseconds == waiting.services[kind], comment)
                }
            }
            #expect(seen == entries.keys.sorted(), comment)
            #expect(state.log.records.values.reduce(0, +) == entries.count, comment)
            let keys = Set(entries.values.filter { !$0.key.isEmpty }.map { "\($0.project) \($0.key)" })
            #expect(state.log.keys.count == keys.count, comment)
        }
    }

    @Test("gives few devices what plain queues would, also past their bounds", arguments: UInt64(1)...10)
    func fewDevices(seed: UInt64) {
        var harness = LogHarness(seed: seed, devices: 6)
        for step in 0..<400 {
            harness.isAway = (step / 80) % 2 == 1
            harness.step()
            harness.compare("seed \(seed), step \(step)")
        }
        #expect(harness.message > 400, "seed \(seed) sends next to nothing")
        #expect(harness.twin.overflows > 0, "seed \(seed) overflows nobody")
    }

    @Test("gives many devices what plain queues would", arguments: UInt64(1)...4)
    func manyDevices(seed: UInt64) {
        var harness = LogHarness(seed: 100 + seed, devices: 90)
        for step in 0..<200 {
            harness.step()
            harness.compare("seed \(100 + seed), step \(step)")
        }
    }

    @Test("ends each device's messages with its last way", arguments: UInt64(1)...8)
    func addresses(seed: UInt64) {
        var harness = LogHarness(seed: 200 + seed, devices: seed < 5 ? 6 : 90, hasAddresses: true)
        for step in 0..<300 {
            harness.step()
            harness.compare("seed \(200 + seed), step \(step)")
            #expect(harness.state.log.brokenInvariant == nil, "seed \(200 + seed), step \(step)")
            #expect(harness.state.transports.brokenInvariant == nil, "seed \(200 + seed), step \(step)")
        }
    }

    @Test("forgets the expiry of what went before it, however far off it is")
    func forgottenExpiries() {
        var log = DeliveryLog()
        for number in 1...30_000 as ClosedRange<UInt64> {
            log.append(
                LogEntry(
                    position: Position(number), ends: .same(WallTime(milliseconds: 2_419_200_000)),
                    project: 1, key: 0, record: Sequence(number), ordinal: 0, bytes: 1,
                    targets: DeviceSet(number == 5 ? 2 : 1)))
            log.drop(DeviceSet(1), upTo: Position(number)) { _, _ in }
        }
        #expect(log.count == 1)
        #expect(log.expiriesHeld <= 128)
        #expect(log.nextExpiry == WallTime(milliseconds: 2_419_260_000))
        log.expire(WallTime(milliseconds: 2_419_260_000), AddressTable()) { _, _ in }
        #expect(log.count == 0 && log.expiriesHeld == 0 && log.nextExpiry == nil)
    }

    @Test("reads no more than it was asked for, the oldest first")
    func limit() {
        var harness = LogHarness(seed: 1, devices: 1)
        for _ in 0..<90 { harness.deliver(DeviceSet(0), key: "", disposition: 0) }
        let all = (harness.twin.queues[0] ?? []).map(\.position)
        for limit in [1, 2, 64, 65] {
            let some = harness.state.log.waiting(for: 0, after: .zero, limit: limit)
            #expect(some.map(\.position.rawValue) == Array(all.prefix(limit)))
        }
    }
}

extension DeliveryLog {
    fileprivate var expiriesHeld: Int { expiring.values.reduce(0) { $0 + $1.positions.count } }
}
