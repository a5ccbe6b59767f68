import Journal
import Model
import Testing

@testable import Partitions

/// What a snapshot makes superfluous goes; what somebody still waits for stays, also when that somebody's
/// acknowledgement is in memory only.
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
        // Two snapshots behind it; that the second is written is not reported yet.
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

    /// A device with so many waiting messages, whose bodies nobody has in memory and of which some are gone.
    private func lose(
        _ gone: Set<Int>, of count: Int, holdingAppends: Bool = false
    ) throws -> (House, Registration, DeviceProof) {
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

    @Test("that are gone are told as deleted, and what comes later is heard")
    func gone() throws {
        let (house, device, _) = try lose([1], of: 1)
        #expect(house.takeEvents() == ["attached", "deleted"])
        _ = house.request(.sendToDevice(nil, device, house.envelope("m2")), of: PartitionID(0))
        #expect(house.takeEvents() == ["m2"])
        #expect(house.partitions[0].waitingEntryCount == 1)
    }

    /// An owner that was succeeded and does not know it finds gone what its heir has trimmed.
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
