import Journal
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
        let house = House(count: 1) { $0.snapshotBytesMin = 2500 }
        let (device, _) = try #require(house.register(in: 0))
        let (other, _) = try #require(house.register(in: 0))
        _ = house.request(.sendToDevice(nil, device, house.envelope("m1")), of: PartitionID(0))
        let record = house.partitions[0].applied
        let entries = house.partitions[0].state.log.waiting(
            for: device.index.rawValue, after: .zero, limit: 9)
        let position = try #require(entries.first?.position)
        // Two snapshots behind the record. The engine has not yet reported the second as written.
        while house.partitions[0].snapshots.covering <= record {
            _ = house.request(
                .sendToDevice(nil, other, house.envelope(LostBodyTests.filler)), of: PartitionID(0))
        }
        house.holdsSnapshots = true
        for _ in 0..<40 {
            _ = house.request(
                .sendToDevice(nil, other, house.envelope(LostBodyTests.filler)), of: PartitionID(0))
        }
        house.holdsAppends = true
        let event = EventID(
            position: position, history: UInt16(truncatingIfNeeded: house.partitions[0].history.rawValue))
        let answer = house.request(.acknowledge(device, by: .backend, event), of: PartitionID(0))
        #expect(answer == nil, "the acknowledgement is not durable")
        let before = house.trims.count
        house.releaseSnapshots()
        let trim = try #require(house.trims.dropFirst(before).first)
        #expect(trim.below > record)
        #expect(trim.keeping.contains(record), "the body of m1 is deleted: \(trim)")
    }

    /// A device with `count` waiting messages. No body is in memory, and the bodies of `gone` are in no
    /// record.
    private func lose(
        _ gone: Set<Int>, of count: Int, holdingAppends: Bool = false
    ) throws -> (House, Registration, DeviceMAC) {
        let house = House(count: 1)
        let (device, credential) = try #require(house.register(in: 0))
        for number in 1...count {
            let former = house.partitions[0].applied
            _ = house.request(.sendToDevice(nil, device, house.envelope("m\(number)")), of: PartitionID(0))
            if gone.contains(number) { house.journal[0].removeAll { $0.0 > former } }
        }
        try house.succeedFromSnapshot(0)
        house.holdsAppends = holdingAppends
        house.listen(device, credential, stream: 1)
        house.settle()
        return (house, device, credential)
    }

    @Test("are read once for all the streams that come back for them", arguments: [1, 30])
    func readOnce(streams: Int) throws {
        let house = House(count: 1) { $0.bodiesAtOnce = 16 }
        let devices = try (0..<streams).map { _ in try #require(house.register(in: 0)) }
        _ = house.change(.subscribe, "news", devices.map(\.0))
        let count = 90
        for number in 0..<count { house.publish("m\(number)", to: "news") }
        try house.succeedFromSnapshot(0)
        house.holdsReads = true
        for (number, device) in devices.enumerated() {
            house.listen(device.0, device.1, stream: UInt64(number + 1))
        }
        #expect(house.reads == 1)
        house.releaseReads()
        #expect(house.recordsRead == count)
        let events = house.takeEvents().filter { $0.hasPrefix("m") }
        #expect(events.count == count * streams)
        #expect(house.takeEvents().isEmpty)
    }

    @Test("that are gone are told to all the streams that came back for them")
    func goneForAll() throws {
        let house = House(count: 1)
        let devices = try (0..<3).map { _ in try #require(house.register(in: 0)) }
        _ = house.change(.subscribe, "news", devices.map(\.0))
        let before = house.partitions[0].applied
        house.publish("m", to: "news")
        // The topic and its devices are in one partition, so the body for the devices is in a later record.
        let record = try #require(
            house.partitions[0].state.log.waiting(
                for: devices[0].0.index.rawValue, after: .zero, limit: 1
            ).first)
        #expect(record.record > before)
        house.journal[0].removeAll { $0.0 == record.record }
        try house.succeedFromSnapshot(0)
        house.holdsReads = true
        for (number, device) in devices.enumerated() {
            house.listen(device.0, device.1, stream: UInt64(number + 1))
        }
        house.releaseReads()
        #expect(house.takeEvents().filter { $0 == "deleted" }.count == 3)
    }

    /// A stream that was full asks for more while the record of the lost body is on its way.
    @Test("that are gone are told to who was behind when they went")
    func goneForWhoIsBehind() throws {
        let house = House(count: 1)
        let devices = try (0..<2).map { _ in try #require(house.register(in: 0)) }
        _ = house.change(.subscribe, "news", devices.map(\.0))
        house.publish("m", to: "news")
        let index = devices[1].0.index
        let record = try #require(
            house.partitions[0].state.log.waiting(for: index.rawValue, after: .zero, limit: 1).first)
        house.journal[0].removeAll { $0.0 == record.record }
        try house.succeedFromSnapshot(0)
        house.holdsReads = true
        house.listen(devices[1].0, devices[1].1, stream: 2)
        let stream = StreamID(gateway: House.gateway, number: 2)
        house.send(.stream(.fellBehind(stream, index, written: .zero)), to: PartitionID(0))
        house.listen(devices[0].0, devices[0].1, stream: 1)
        house.holdsAppends = true
        house.releaseReads()
        house.send(.stream(.caughtUp(stream, index)), to: PartitionID(0))
        house.settle()
        #expect(!house.takeEvents().contains("deleted"), "it is not durable")
        house.holdsAppends = false
        house.releaseAppends()
        house.settle()
        #expect(house.takeEvents().filter { $0 == "deleted" }.count == 2)
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
        #expect(first?.records == [Sequence(1), Sequence(2)] && first?.readers == [7, 8])
        #expect(reads.next(4, token: 3) == Array(records.suffix(3)))
        #expect(reads.answered(through: Sequence(5), token: 3)?.readers == [7])
        #expect(reads.next(4, token: 4) == nil)
    }

    @Test("that are gone are told as deleted, and what comes later is heard")
    func gone() throws {
        let (house, device, _) = try lose([1], of: 1)
        #expect(house.takeEvents() == ["attached", "deleted"])
        _ = house.request(.sendToDevice(nil, device, house.envelope("m2")), of: PartitionID(0))
        #expect(house.takeEvents() == ["m2"])
        #expect(house.partitions[0].waitingEntryCount == 1)
    }

    /// A former owner that does not know of its heir finds bodies gone that the heir has trimmed.
    @Test("that are gone are told to nobody, the operator included, before that is durable")
    func goneForAFormerOwner() throws {
        let (house, _, _) = try lose([1], of: 1, holdingAppends: true)
        #expect(!house.takeEvents().contains("deleted"))
        #expect(!house.notices.contains(.bodiesGone(1)))
        let (owner, _, _) = try lose([1], of: 1)
        #expect(owner.notices.contains(.bodiesGone(1)))
    }

    @Test("that are gone hide none that are there", arguments: [[1], [2], [3], [1, 3], [2, 3]])
    func someGone(numbers: [Int]) throws {
        let (house, device, _) = try lose(Set(numbers), of: 3)
        let events = house.takeEvents()
        let left = (1...3).filter { !numbers.contains($0) }.map { "m\($0)" }
        #expect(events.filter { $0.hasPrefix("m") } == left)
        #expect(events.contains("deleted"))
        _ = house.request(.sendToDevice(nil, device, house.envelope("m4")), of: PartitionID(0))
        #expect(house.takeEvents() == ["m4"])
        #expect(house.reads < 10)
        #expect(house.partitions[0].waitingEntryCount == left.count + 1)
    }
}
