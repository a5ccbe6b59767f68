import Bytes
import Model
import Testing

@testable import Partitions

/// Journals whose records decode and do not fit together. A trap would end the node, and then the node that
/// takes the partition over (rule: damage-is-quarantined).
@Suite("A journal whose records do not fit")
struct MisfitTests {
    /// A few partitions that have done everything for a while.
    private static func world(_ seed: UInt64) -> PartitionHarness {
        let harness = PartitionHarness(count: 2)
        var dice = Dice(seed)
        var devices: [Registration] = []
        var requests: UInt64 = 0
        let topics = ["a", "b", "c", "d"]
        for _ in 0..<60 {
            switch dice.below(8) {
            case 0, 1:
                if let made = harness.register(in: UInt16(dice.below(2)))?.0 { devices.append(made) }
            case 2, 3:
                guard !devices.isEmpty else { continue }
                _ = harness.change(.subscribe, dice.one(of: topics), [dice.one(of: devices)])
            case 4:
                guard !devices.isEmpty else { continue }
                _ = harness.change(.unsubscribe, dice.one(of: topics), [dice.one(of: devices)])
            case 5, 6:
                requests += 1
                let key = RequestKey(session: 1, number: requests)
                _ = harness.publish("x", to: dice.one(of: topics), key: dice.one(of: ["", "k"]), as: key)
            default: harness.pass(seconds: 2)
            }
        }
        return harness
    }

    private func empty(_ harness: PartitionHarness, _ number: Int) throws -> Partition {
        try harness.replayed(number, upTo: .zero)
    }

    /// Folds the records under rising sequences, up to the first that does not fit. Returns whether all did.
    private func folds(_ bodies: [[UInt8]], into partition: Partition) -> Bool {
        for (at, body) in bodies.enumerated() {
            do { try partition.replay(Sequence(UInt64(at) + 1), body) } catch { return false }
        }
        return true
    }

    @Test(
        "ends in an error, whichever records were lost, doubled, swapped or are another's", arguments: 1...40)
    func damaged(seed: Int) throws {
        let harness = MisfitTests.world(UInt64(seed))
        var dice = Dice(UInt64(seed))
        var refused = 0
        for number in 0..<2 {
            let bodies = harness.journal[number].map(\.1)
            let foreign = harness.journal[1 - number].map(\.1)
            #expect(folds(bodies, into: try empty(harness, number)))
            for _ in 0..<40 {
                var damaged = bodies
                for _ in 0..<(1 + dice.below(3)) {
                    let at = dice.below(damaged.count)
                    switch dice.below(5) {
                    case 0: damaged.remove(at: at)
                    case 1: damaged.insert(damaged[at], at: dice.below(damaged.count))
                    case 2: damaged.swapAt(at, dice.below(damaged.count))
                    case 3: damaged[at] = dice.one(of: foreign)
                    default: dice.shuffle(&damaged)
                    }
                }
                if !folds(damaged, into: try empty(harness, number)) { refused += 1 }
            }
        }
        #expect(refused > 20, "the damage shows nowhere")
    }

    @Test("ends in an error, whichever facts are in it", arguments: 1...40)
    func facts(seed: Int) throws {
        let harness = MisfitTests.world(UInt64(seed))
        var dice = Dice(UInt64(seed))
        let samples = (FactSamples.small + FactSamples.large).map { FactSamples.encoded($0) }
        for _ in 0..<60 {
            var bodies = harness.journal[0].map(\.1)
            let at = 1 + dice.below(bodies.count - 1)
            bodies[at] += dice.one(of: samples)
            bodies.insert(dice.one(of: samples) + dice.one(of: samples), at: at)
            _ = folds(bodies, into: try empty(harness, 0))
        }
    }

    @Test("says what does not fit")
    func sentences() throws {
        let harness = PartitionHarness(count: 2)
        let (device, _) = try #require(harness.register(in: 0))
        _ = harness.change(.subscribe, "a", [device])
        _ = harness.publish("x", to: "a")
        let topic = TopicName(checked: Array("z".utf8))
        let project = PartitionHarness.project
        let next = harness.partitions[0].state.devices.next
        let ahead = Sequence(UInt64(harness.journal[0].count) + 1)
        let late = DeliveryDecision(disposition: .stored, position: Position(1))
        let message = FactSamples.envelope("e", key: "")
        let cases: [(Fact, String)] = [
            (.register(index: 0, project: project, nonce: 1, secret: 1, day: Day(1)), "registered again"),
            (
                .register(index: next, project: ProjectNumber(0), nonce: 1, secret: 1, day: Day(1)),
                "no project"
            ),
            (.subscribe(project: project, topic: topic, day: Day(1), indices: [next]), "not there"),
            (.subscribe(project: ProjectNumber(9), topic: topic, day: Day(1), indices: [0]), "not there"),
            (.unsubscribe(project: project, topic: topic, indices: [0]), "is not in the topic"),
            (.acknowledge([OutboxMark(partition: PartitionID(1), number: ahead)]), "not offered"),
            (
                .acceptDirect(key: nil, project: project, index: 0, message: message, decision: late),
                "position of the past"
            ),
        ]
        for (fact, sentence) in cases {
            let partition = try harness.replayed(0)
            let error = #expect(throws: DecodeError.self) {
                try partition.replay(ahead, FactSamples.encoded(fact))
            }
            #expect("\(String(describing: error))".contains(sentence), "\(sentence)")
        }
    }

    @Test("is refused as a snapshot too, whichever bytes of it are another snapshot's", arguments: 1...40)
    func snapshots(seed: Int) throws {
        let harness = MisfitTests.world(UInt64(seed))
        let other = MisfitTests.world(UInt64(seed) + 1000)
        var dice = Dice(UInt64(seed))
        let (image, foreign) = (harness.partitions[0].image(), other.partitions[0].image())
        for _ in 0..<300 {
            var damaged = image
            let (from, at) = (dice.below(foreign.count), dice.below(image.count))
            let count = min(dice.below(64), foreign.count - from, image.count - at)
            damaged.replaceSubrange(at..<at + count, with: foreign[from..<from + count])
            let partition = try empty(harness, 0)
            guard (try? partition.restore(snapshot: damaged)) != nil else { continue }
            let barrier = Partition.barrier(session: SessionID(9), epoch: Epoch(9))
            _ = try? partition.replay(partition.applied.next, barrier)
        }
    }
}
