import Journal
import Model
import Testing

@testable import Partitions

/// Snapshots that are made in slices while their partition goes on.
@Suite("Snapshots in slices")
struct SnapshotSliceTests {
    private static let partCount = 3

    private func harness(_ change: @escaping (inout PartitionOptions) -> Void = { _ in }) -> PartitionHarness
    {
        PartitionHarness(count: SnapshotSliceTests.partCount) {
            $0.snapshotBytesMin = 1500
            $0.snapshotSliceBytes = 160
            $0.snapshotPartBytes = 200
            change(&$0)
        }
    }

    @Test("what is written is the state of its record, whatever happened meanwhile", arguments: 1...40)
    func frozen(seed: Int) throws {
        var dice = Dice(UInt64(seed))
        let harness = harness()
        harness.makesSnapshots = false
        var devices: [(registration: Registration, credential: DeviceMAC)] = []
        var checked = 0
        for step in 0..<700 {
            // Slices come at random moments.
            if dice.chance(1, in: 2) { harness.makeSlice(of: dice.below(SnapshotSliceTests.partCount)) }
            let topic = "t\(dice.below(30))"
            switch dice.below(10) {
            case 0:
                let device = harness.register(in: UInt16(dice.below(SnapshotSliceTests.partCount)))
                if let device { devices.append(device) }
            case 1, 2, 3:
                guard !devices.isEmpty else { break }
                let one = dice.one(of: devices).registration
                _ = harness.change(dice.chance(2, in: 3) ? .subscribe : .unsubscribe, topic, [one])
            case 4:
                guard devices.count > 20, dice.chance(1, in: 2) else { break }
                let one = devices.remove(at: dice.below(devices.count)).registration
                _ = harness.request(.unregister(one, by: .backend), of: one.partition)
            case 5:
                harness.publish("m\(step)", to: topic, key: dice.chance(1, in: 4) ? "k\(dice.below(3))" : "")
            case 7, 8:
                guard !devices.isEmpty else { break }
                let one = dice.one(of: devices).registration
                let kind = dice.one(of: Transport.Kind.allCases)
                let transport = Transport(kind: kind, address: [UInt8(step & 255), UInt8(step >> 8)])
                let request: Request =
                    dice.chance(2, in: 3)
                    ? .setTransport(one, by: .backend, transport) : .endTransport(one, by: .backend, kind)
                _ = harness.request(request, of: one.partition)
            case 6:
                guard !devices.isEmpty else { break }
                let one = dice.one(of: devices)
                harness.listen(one.registration, one.credential, stream: UInt64(step))
            default:
                let wall = harness.now.wall.milliseconds + 20_000_000
                harness.now = Instant(
                    monotonic: harness.now.monotonic.advanced(by: .seconds(20_000)),
                    wall: WallTime(milliseconds: wall))
            }
            checked += try harness.checkSnapshots()
        }
        #expect(checked > 2)
        for _ in 0..<2000 {
            for number in 0..<SnapshotSliceTests.partCount { harness.makeSlice(of: number) }
        }
        _ = try harness.checkSnapshots()
        harness.partitions = []
        #expect(harness.names.count == 0)
    }

    /// A partition with some devices, and a record so long that a snapshot is due.
    private func startSnapshot(_ harness: PartitionHarness) throws {
        for _ in 0..<30 { _ = harness.register(in: 0) }
        let (device, _) = try #require(harness.register(in: 0))
        #expect(harness.partitions[0].state.writer == nil && harness.parts.isEmpty)
        try grow(harness, device)
    }

    private func grow(_ harness: PartitionHarness, _ device: Registration) throws {
        let body = String(repeating: "x", count: 3000)
        harness.send(
            .request(
                RequestID(gateway: PartitionHarness.gateway, number: 1 << 40),
                .sendToDevice(nil, device, harness.envelope(body))), to: PartitionID(0))
    }

    @Test("a part is written when the one before is, and none before its record is durable")
    func parts() throws {
        let harness = harness()
        harness.holdsSnapshots = true
        for _ in 0..<30 { _ = harness.register(in: 0) }
        let (device, _) = try #require(harness.register(in: 0))
        harness.holdsAppends = true
        try grow(harness, device)
        #expect(harness.partitions[0].state.writer != nil && harness.parts.isEmpty)
        harness.releaseAppends()
        #expect(harness.parts[PartitionID(0)]?.count == 1)
        #expect(harness.parts[PartitionID(0)]?[0].end == nil)
        #expect(harness.trims.isEmpty && harness.partitions[0].snapshots.covering == .zero)
        harness.releaseSnapshots()
        let parts = try #require(harness.parts[PartitionID(0)])
        #expect(parts.count > 3 && parts.dropLast().allSatisfy { $0.end == nil && $0.bytes.count == 200 })
        #expect(parts.enumerated().allSatisfy { $0.offset == $0.element.number })
        #expect(parts.last?.end?.length == parts.reduce(0) { $0 + $1.bytes.count })
        #expect(harness.partitions[0].snapshots.covering > .zero)
    }

    @Test("a snapshot that could not be written is thrown away, and made again after as much journal")
    func refused() throws {
        let harness = harness()
        harness.holdsSnapshots = true
        try startSnapshot(harness)
        #expect(harness.parts[PartitionID(0)]?.count == 1)
        harness.failSnapshots()
        #expect(
            harness.partitions[0].state.writer == nil && harness.partitions[0].snapshots.covering == .zero)
        harness.holdsSnapshots = false
        let (device, _) = try #require(harness.register(in: 0))
        try grow(harness, device)
        #expect(harness.partitions[0].snapshots.covering > .zero)
        #expect(harness.parts[PartitionID(0)]?[1].number == 0)
    }

    @Test("an answer to another snapshot's part says nothing")
    func stranger() throws {
        let harness = harness()
        harness.holdsSnapshots = true
        try startSnapshot(harness)
        harness.send(.snapshotPart(upload: 9, token: 12345), to: PartitionID(0))
        harness.send(.snapshotFailed(token: 12345), to: PartitionID(0))
        #expect(harness.parts[PartitionID(0)]?.count == 1)
        #expect(harness.partitions[0].state.writer != nil)
    }
}

extension PartitionHarness {
    /// Reads every snapshot whose parts are all there, and compares it with the journal up to its record.
    fileprivate func checkSnapshots() throws -> Int {
        var checked = 0
        for (id, found) in parts {
            guard let end = found.lastIndex(where: { $0.end != nil }) else { continue }
            let start = found[...end].lastIndex { $0.number == 0 } ?? 0
            let restored = try replayed(Int(id.rawValue), upTo: .zero)
            try restored.restore(snapshot: found[start...end].flatMap(\.bytes))
            var digest = SnapshotDigest(id, covering: restored.applied)
            for part in found[start...end] { digest.add(part.bytes) }
            #expect(digest.value == found[end].end?.digest)
            let folded = try replayed(Int(id.rawValue), upTo: restored.applied)
            #expect(restored.state.lines() == folded.state.lines())
            #expect(restored.image() == folded.image())
            forgetParts(id, through: end)
            checked += 1
        }
        return checked
    }
}
