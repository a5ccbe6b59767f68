import Model
import Quotas
import Testing

@testable import NodeCore
@testable import Partitions

@Suite("The invariants of a loop")
struct LoopInvariantTests {
    /// A project whose buckets live with the partition that the tests look at.
    private func project(_ harness: LoopHarness) throws -> ProjectNumber {
        let number = (1..<UInt32(100)).first {
            harness.core.home(of: ProjectNumber($0)) == LoopHarness.partition
        }
        return ProjectNumber(try #require(number))
    }

    @Test("are seen to be broken")
    func broken() throws {
        func isSeen(_ invariant: String, _ change: (LoopHarness) throws -> Void) throws {
            let harness = LoopHarness()
            harness.serve()
            #expect(harness.core.brokenInvariant == nil)
            try change(harness)
            let broken = harness.core.brokenInvariant
            #expect(broken == invariant)
        }
        try isSeen("partition 2 is served, and read") { $0.core.loading[LoopHarness.partition] = Epoch(3) }
        try isSeen("partition 1 is read for another epoch than it is owned in") {
            $0.core.loading[PartitionID(1)] = Epoch(9)
        }
        try isSeen("nobody knows since when partition 2 is served") { $0.core.servedSince = [:] }
        try isSeen("no timer lets streams read on") {
            $0.core.reading.partitions.insert(LoopHarness.partition)
        }
        try isSeen("no timer ends streams that nobody accepts") {
            let device = Registration(
                project: LoopHarness.project, partition: LoopHarness.partition, index: DeviceIndex(0),
                nonce: 1, key: 0)
            _ = $0.core.attach(device, by: .backend, resume: nil, now: $0.now)
            $0.core.isExpirySet = false
        }
        try isSeen("nobody reads the log for the streams of partition 2") {
            let partition = $0.core.partitions[LoopHarness.partition]
            partition?.streams.attach(0, StreamID(gateway: $0.gateway, number: 1), after: .zero)
            partition?.streams.setWaiting(0)
        }
        try isSeen("partition 2 is served without an epoch") {
            $0.core.epochs[Int(LoopHarness.partition.rawValue)] = Epoch(0)
        }
        try isSeen("partition 1 is not served any more, and doubts the clock") {
            $0.core.doubting = [PartitionID(1)]
        }
        try isSeen("partition 1 is not served any more, and said to be") {
            $0.core.servedSince[PartitionID(1)] = $0.host.monotonic
        }
        try isSeen("something that a partition wants is left") { $0.core.partitionEffects = [.confirm(1)] }
        try isSeen("the buckets of project 2 are open, and their partition is not served") { harness in
            let other = (1..<UInt32(100)).map { ProjectNumber($0) }
                .first { harness.core.home(of: $0) != LoopHarness.partition }
            harness.core.grantor.open(
                try #require(other), .standard, epoch: Epoch(1), beginning: .full,
                now: harness.host.monotonic)
        }
    }

    @Test("of what each loop serves are seen to be broken")
    func loops() throws {
        let harness = LoopHarness(loopCount: 2)
        let map = harness.core.options.map
        let other = try #require((0..<4).map(PartitionID.init).first { map.loop(of: $0) != 0 })
        harness.core.partitions[other] = Partition(
            id: other, history: History(1), options: harness.core.options.partition,
            names: harness.core.names,
            proofs: harness.core.proofs)
        #expect(harness.core.brokenInvariant == "partition \(other.rawValue) is another loop's")
    }

    /// The observer hears of broken invariants in the machines below, and the loop goes on.
    @Test("of its partitions and its gateway are looked at after a turn")
    func parts() {
        final class Observer: LoopObserver {
            var invariants: [String] = []
            override func isBroken(_ invariant: String) { invariants.append(invariant) }
        }
        let harness = LoopHarness()
        harness.serve()
        let observer = Observer()
        harness.core.observer = observer
        harness.turn()
        #expect(observer.invariants.isEmpty)
        harness.core.partitions[LoopHarness.partition]?.confirmInFlight = true
        harness.turn(.timer(.partition(LoopHarness.partition, harness.now.monotonic)))
        #expect(observer.invariants == ["partition 2: a confirmation is awaited for nobody"])
    }

    @Test("who has given a partition up does not open its projects' buckets to tell what is in them")
    func levels() throws {
        let harness = LoopHarness()
        harness.serve()
        let project = try project(harness)
        harness.core.updateCatalog(projects: [project], limits: [:], births: [:], now: harness.now)
        harness.pass(milliseconds: 5000)
        let asked = LoopMessage.levelsAsked(project, by: 0, question: 1)
        func told(_ effects: [LoopEffect]) -> [BucketLevel]? {
            effects.lazy.compactMap { effect -> [BucketLevel]? in
                if case .levels(let levels, 1) = effect { levels } else { nil }
            }.first
        }
        #expect(told(harness.turn(asked))?.count == 3)
        harness.turn(.order(.drop(LoopHarness.partition)))
        let observer = LoopObserver()
        harness.core.observer = observer
        #expect(told(harness.turn(asked))?.isEmpty ?? false)
        #expect(!harness.core.grantor.isOpen(project))
        #expect(harness.core.brokenInvariant == nil)
    }
}
