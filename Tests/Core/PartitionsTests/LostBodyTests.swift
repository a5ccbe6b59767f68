import Model
import Testing

@testable import Partitions

/// A trim deletes bodies that a snapshot makes superfluous, and keeps bodies for which a device still waits,
/// also when that device's acknowledgement is in memory only.
@Suite("Bodies of waiting messages")
struct LostBodyTests {
    private static let filler = String(repeating: "x", count: 3000)

    @Test("are kept while the acknowledgement that makes them superfluous is not durable")
    func keeping() throws {
        let harness = PartitionHarness(count: 1) { $0.snapshotBytesMin = 2500 }
        let (device, _) = try #require(harness.register(in: 0))
        let (other, _) = try #require(harness.register(in: 0))
        _ = harness.request(.sendToDevice(nil, device, harness.envelope("m1")), of: PartitionID(0))
        let record = harness.partitions[0].applied
        let entries = harness.partitions[0].state.log.waiting(
            for: device.index.rawValue, after: .zero, limit: 9)
        let position = try #require(entries.first?.position)
        // Two snapshots behind the record. The engine has not yet reported the second as written.
        while harness.partitions[0].snapshots.covering <= record {
            _ = harness.request(
                .sendToDevice(nil, other, harness.envelope(LostBodyTests.filler)), of: PartitionID(0))
        }
        harness.holdsSnapshots = true
        for _ in 0..<40 {
            _ = harness.request(
                .sendToDevice(nil, other, harness.envelope(LostBodyTests.filler)), of: PartitionID(0))
        }
        harness.holdsAppends = true
        let event = EventID(
            position: position, history: UInt16(truncatingIfNeeded: harness.partitions[0].history.rawValue))
        let answer = harness.request(.acknowledge(device, by: .backend, event), of: PartitionID(0))
        #expect(answer == nil, "the acknowledgement is not durable")
        let before = harness.trims.count
        harness.releaseSnapshots()
        let trim = try #require(harness.trims.dropFirst(before).first)
        #expect(trim.below > record)
        #expect(trim.keeping.contains(record), "the body of m1 is deleted: \(trim)")
    }

    /// A device with `count` waiting messages. No body is in memory, and the bodies of `gone` are in no
    /// record.
    private func lose(
        _ gone: Set<Int>, of count: Int, holdingAppends: Bool = false
    ) throws -> (PartitionHarness, Registration, DeviceMAC) {
        let harness = PartitionHarness(count: 1)
        let (device, credential) = try #require(harness.register(in: 0))
        for number in 1...count {
            let former = harness.partitions[0].applied
            _ = harness.request(
                .sendToDevice(nil, device, harness.envelope("m\(number)")), of: PartitionID(0))
            if gone.contains(number) { harness.journal[0].removeAll { $0.0 > former } }
        }
        try harness.succeedFromSnapshot(0)
        harness.holdsAppends = holdingAppends
        harness.listen(device, credential, stream: 1)
        harness.settle()
        return (harness, device, credential)
    }

    @Test("are read once for all the streams that come back for them", arguments: [1, 30])
    func readOnce(streams: Int) throws {
        let harness = PartitionHarness(count: 1) { $0.bodiesAtOnce = 16 }
        let devices = try (0..<streams).map { _ in try #require(harness.register(in: 0)) }
        _ = harness.change(.subscribe, "news", devices.map(\.0))
        let count = 90
        for number in 0..<count { harness.publish("m\(number)", to: "news") }
        try harness.succeedFromSnapshot(0)
        harness.holdsReads = true
        for (number, device) in devices.enumerated() {
            harness.listen(device.0, device.1, stream: UInt64(number + 1))
        }
        #expect(harness.reads == 1)
        harness.releaseReads()
        #expect(harness.recordsRead == count)
        let events = harness.takeEvents().filter { $0.hasPrefix("m") }
        #expect(events.count == count * streams)
        #expect(harness.takeEvents().isEmpty)
    }

    @Test("that are gone are told to all the streams that came back for them")
    func goneForAll() throws {
        let harness = PartitionHarness(count: 1)
        let devices = try (0..<3).map { _ in try #require(harness.register(in: 0)) }
        _ = harness.change(.subscribe, "news", devices.map(\.0))
        let before = harness.partitions[0].applied
        harness.publish("m", to: "news")
        // The topic and its devices are in one partition, so the body for the devices is in a later record.
        let record = try #require(
            harness.partitions[0].state.log.waiting(
                for: devices[0].0.index.rawValue, after: .zero, limit: 1
            ).first)
        #expect(record.record > before)
        harness.journal[0].removeAll { $0.0 == record.record }
        try harness.succeedFromSnapshot(0)
        harness.holdsReads = true
        for (number, device) in devices.enumerated() {
            harness.listen(device.0, device.1, stream: UInt64(number + 1))
        }
        harness.releaseReads()
        #expect(harness.takeEvents().filter { $0 == "deleted" }.count == 3)
    }

    /// A stream that was full asks for more while the record of the lost body is on its way.
    @Test("that are gone are told to who was behind when they went")
    func goneForWhoIsBehind() throws {
        let harness = PartitionHarness(count: 1)
        let devices = try (0..<2).map { _ in try #require(harness.register(in: 0)) }
        _ = harness.change(.subscribe, "news", devices.map(\.0))
        harness.publish("m", to: "news")
        let index = devices[1].0.index
        let record = try #require(
            harness.partitions[0].state.log.waiting(for: index.rawValue, after: .zero, limit: 1).first)
        harness.journal[0].removeAll { $0.0 == record.record }
        try harness.succeedFromSnapshot(0)
        harness.holdsReads = true
        harness.listen(devices[1].0, devices[1].1, stream: 2)
        let stream = StreamID(gateway: PartitionHarness.gateway, number: 2)
        harness.send(.stream(.fellBehind(stream, index, written: .zero)), to: PartitionID(0))
        harness.listen(devices[0].0, devices[0].1, stream: 1)
        harness.holdsAppends = true
        harness.releaseReads()
        harness.send(.stream(.caughtUp(stream, index)), to: PartitionID(0))
        harness.settle()
        #expect(!harness.takeEvents().contains("deleted"), "it is not durable")
        harness.holdsAppends = false
        harness.releaseAppends()
        harness.settle()
        #expect(harness.takeEvents().filter { $0 == "deleted" }.count == 2)
    }

    @Test("that are many bytes are read in several goes, one at a time")
    func inPortions() {
        var reads = BodyReads()
        let records = (1...5).map { Sequence($0) }
        reads.want(records, for: 7)
        reads.want([Sequence(2)], for: 8)
        #expect(reads.next(4, token: 1) == Array(records.prefix(4)))
        #expect(reads.next(4, token: 2) == nil)
        #expect(reads.answered(through: Sequence(9), token: 2) == nil)
        let first = reads.answered(through: Sequence(2), token: 1)
        #expect(first?.records == [Sequence(1), Sequence(2)] && first?.readers.map(\.index) == [7, 8])
        #expect(reads.next(4, token: 3) == Array(records.suffix(3)))
        #expect(reads.answered(through: Sequence(5), token: 3)?.readers.map(\.index) == [7])
        #expect(reads.next(4, token: 4) == nil)
    }

    @Test("that are gone are told as deleted, and what comes later is heard")
    func gone() throws {
        let (harness, device, _) = try lose([1], of: 1)
        #expect(harness.takeEvents() == ["attached", "deleted"])
        _ = harness.request(.sendToDevice(nil, device, harness.envelope("m2")), of: PartitionID(0))
        #expect(harness.takeEvents() == ["m2"])
        #expect(harness.partitions[0].state.log.count == 1)
    }

    /// A former owner that does not know of its heir finds bodies gone that the heir has trimmed.
    @Test("that are gone are told to nobody, the operator included, before that is durable")
    func goneForAFormerOwner() throws {
        let (harness, _, _) = try lose([1], of: 1, holdingAppends: true)
        #expect(!harness.takeEvents().contains("deleted"))
        #expect(!harness.notices.contains(.bodiesGone(1)))
        let (owner, _, _) = try lose([1], of: 1)
        #expect(owner.notices.contains(.bodiesGone(1)))
    }

    @Test("that are gone hide none that are there", arguments: [[1], [2], [3], [1, 3], [2, 3]])
    func someGone(numbers: [Int]) throws {
        let (harness, device, _) = try lose(Set(numbers), of: 3)
        let events = harness.takeEvents()
        let left = (1...3).filter { !numbers.contains($0) }.map { "m\($0)" }
        #expect(events.filter { $0.hasPrefix("m") } == left)
        #expect(events.contains("deleted"))
        _ = harness.request(.sendToDevice(nil, device, harness.envelope("m4")), of: PartitionID(0))
        #expect(harness.takeEvents() == ["m4"])
        #expect(harness.reads < 10)
        #expect(harness.partitions[0].state.log.count == left.count + 1)
    }
}
