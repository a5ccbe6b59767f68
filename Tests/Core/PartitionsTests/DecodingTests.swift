import Bytes
import Journal
import Model
import Testing

@testable import Partitions

/// The decoders of facts and of snapshots on bytes that no encoder wrote.
///
/// A reader verifies the checksum of a record or a snapshot before it decodes. So these bytes have damage
/// that no checksum shows, or come from another program. Bitmaps are the exception: their library does not
/// withstand damage, so a decoder looks at them only behind a checksum.
@Suite("Decoding facts and snapshots")
struct DecodingTests {
    @Test("what was encoded is decoded, and encodes to the same bytes")
    func roundTrips() throws {
        for fact in FactSamples.small + FactSamples.large {
            let bytes = FactSamples.encoded(fact)
            var reader = ByteReader(bytes)
            let decoded = try Fact.decode(from: &reader)
            try reader.expectEnd()
            #expect(FactSamples.encoded(decoded) == bytes)
        }
        for isLarge in [false, true] {
            let bytes = FactSamples.snapshot(isLarge: isLarge)
            var state = emptyState()
            try state.restore(bytes)
            var again = emptyState()
            try again.restore(SnapshotWriter.whole(of: state))
            #expect(SnapshotWriter.image(of: again) == SnapshotWriter.image(of: state))
            #expect(again.lines() == state.lines())
        }
    }

    @Test("a fact that ends too early is refused, wherever it ends")
    func factPrefixes() {
        for fact in FactSamples.small + FactSamples.large {
            let bytes = FactSamples.encoded(fact)
            for length in 0..<bytes.count {
                var reader = ByteReader(Array(bytes.prefix(length)))
                #expect(throws: DecodeError.self) { try Fact.decode(from: &reader) }
            }
        }
    }

    @Test("a snapshot that ends too early is refused, wherever it ends, and so is one that goes on")
    func snapshotPrefixes() {
        for isLarge in [false, true] {
            let bytes = FactSamples.snapshot(isLarge: isLarge)
            for length in 0..<bytes.count {
                #expect(throws: DecodeError.self) { try restore(Array(bytes.prefix(length))) }
            }
            #expect(throws: DecodeError.self) { try restore(bytes + [0]) }
        }
    }

    @Test("a fact with any one bit flipped is refused or is another fact")
    func factBits() {
        for fact in FactSamples.small { for bytes in flips(FactSamples.encoded(fact)) { tryFact(bytes) } }
    }

    @Test("a snapshot with any one bit flipped is refused or is another state")
    func snapshotBits() {
        for bytes in flips(FactSamples.snapshot(isLarge: false)) { tryState(bytes) }
    }

    @Test("bytes put in, taken out and overwritten at random trap nowhere", arguments: UInt64(1)...10)
    func mutations(seed: UInt64) {
        var dice = Dice(seed)
        let facts = FactSamples.small.map(FactSamples.encoded)
        let snapshot = FactSamples.snapshot(isLarge: false)
        for _ in 0..<400 {
            tryFact(mutated(dice.one(of: facts), &dice))
            tryState(mutated(snapshot, &dice))
        }
    }

    @Test("random bytes trap nowhere", arguments: UInt64(1)...10)
    func randomBytes(seed: UInt64) {
        var dice = Dice(seed)
        for _ in 0..<1000 {
            let bytes = (0..<dice.below(80)).map { _ in dice.byte() }
            tryFact(bytes)
            tryFact([UInt8(1 + dice.below(15))] + bytes)
            tryState(Array(FactSamples.snapshot(isLarge: false).prefix(11)) + bytes)
        }
    }

    @Test("a count or length of more than there is is refused wherever it stands")
    func hugeCounts() {
        let huge: [UInt64] = [
            1 << 20, 1 << 28, 1 << 31, (1 << 32) - 1, 1 << 32, 1 << 62, (1 << 63) - 1, 1 << 63, .max,
        ]
        let inputs =
            FactSamples.small.map { (FactSamples.encoded($0), false) }
            + [(FactSamples.snapshot(isLarge: false), true)]
        for (bytes, isState) in inputs {
            for index in bytes.indices {
                for count in huge {
                    var writer = ByteWriter()
                    writer.raw(bytes[..<index])
                    writer.varint(count)
                    writer.raw(bytes[(index + 1)...])
                    if isState { tryState(writer.bytes) } else { tryFact(writer.bytes) }
                }
            }
        }
    }

    @Test("an outbox entry that claims as many items as there are bytes gets no memory for them")
    func claimedItems() {
        var writer = ByteWriter()
        writer.u8(10)
        writer.varint(1)
        writer.u64(1)
        writer.varint(2)
        writer.varint(1)
        writer.u64(0)
        writer.varint(4 << 20)
        writer.raw([UInt8](repeating: 9, count: 4 << 20))
        var reader = ByteReader(writer.bytes)
        #expect(throws: DecodeError(offset: writer.count - (4 << 20) - 4, reason: .truncated)) {
            try Fact.decode(from: &reader)
        }
    }

    @Test("numbers from which counting on would overflow are refused")
    func extremes() {
        var message = FactSamples.message
        for sent in [Int64.max, .min, .max - 2_419_200_000] {
            message.sent = WallTime(milliseconds: sent)
            refuse(.accept(key: nil, project: ProjectNumber(1), topic: FactSamples.topic, message: message))
        }
        for position in [0, .max, .max - 1] as [UInt64] {
            refuse(
                .acceptDirect(
                    key: nil, project: ProjectNumber(1), index: 0, message: FactSamples.message,
                    decision: DeliveryDecision(disposition: .stored, position: Position(position))))
        }
        refuse(.expire(now: WallTime(milliseconds: .max)))
    }

    @Test("a bitmap with an index that no device has is refused")
    func indexPastLimit() {
        let devices = DeviceSet(sorted: (0..<100).map { $0 + (1 << 28) - 50 })
        refuse(.seen(day: Day(1), devices: devices))
    }

    @Test("damage to a record is found before its facts are looked at")
    func checksumFirst() throws {
        let header = RecordHeader(
            partition: PartitionID(1), sequence: Sequence(2), epoch: Epoch(3), history: History(4))
        for fact in FactSamples.large {
            let payload = try RecordCodec.encode(header: header, body: FactSamples.encoded(fact))
            for damaged in flips(payload) {
                #expect(throws: RecordError.self) { try RecordCodec.decode(damaged) }
            }
        }
    }

    @Test("a set that was large and is small now is written as the small one that it equals")
    func shrunkSets() throws {
        let names = TopicNames()
        var state = emptyState()
        var cursor = PartitionState.Cursor(record: Sequence(1))
        // Two dense parts split the set, and too many members are left to make the set flat again.
        for from in [0, 1] as [UInt16] {
            let all = Array(0..<600 as Range<UInt32>)
            let items: [OutboxItem] = [
                .join(project: FactSamples.project, topic: FactSamples.topic, indices: all),
                .leave(
                    project: FactSamples.project, topic: FactSamples.topic,
                    indices: all.filter { $0 % 15 > 0 }),
            ]
            let entry = OutboxEntry(
                number: Sequence(1), predecessor: .zero, items: items, fingerprint: 0)
            state.apply(
                .receive(from: PartitionID(from), history: History(1), entry: entry, decisions: []), &cursor)
        }
        state.applied = Sequence(1)
        var restored = PartitionState(
            id: PartitionID(0), history: History(9), partitionCount: 2, names: names)
        try restored.restore(SnapshotWriter.whole(of: state))
        #expect(SnapshotWriter.image(of: restored) == SnapshotWriter.image(of: state))
        #expect(restored.lines() == state.lines())
    }

    @Test("a partition that is thrown away, also half restored, lets go of its topic names")
    func namesReleased() {
        let names = TopicNames()
        let kept = names.retain(Array("kept".utf8), in: ProjectNumber(1))
        let snapshot = FactSamples.snapshot(isLarge: false)
        for length in 0...snapshot.count {
            var state = PartitionState(
                id: PartitionID(0), history: History(9), partitionCount: 2, names: names)
            try? state.restore(Array(snapshot.prefix(length)))
        }
        #expect(names.count == 1)
        #expect(names.number(of: Array("kept".utf8), in: ProjectNumber(1)) == kept)
    }

    // MARK: Helpers

    private func emptyState() -> PartitionState {
        PartitionState(id: PartitionID(0), history: History(9), partitionCount: 2, names: TopicNames())
    }

    private func restore(_ bytes: [UInt8]) throws(DecodeError) {
        var state = emptyState()
        try state.restore(bytes)
    }

    /// Decodes the bytes. A decoded fact must be whole enough to be encoded again.
    private func tryFact(_ bytes: [UInt8]) {
        var reader = ByteReader(bytes)
        guard let fact = try? Fact.decode(from: &reader) else { return }
        #expect(!FactSamples.encoded(fact).isEmpty)
        if case .accept(_, _, _, let message) = fact { _ = message.end(message.times.longest) }
    }

    private func tryState(_ bytes: [UInt8]) {
        var state = emptyState()
        do throws(DecodeError) { try state.restore(bytes) } catch { return }
        #expect(!SnapshotWriter.image(of: state).isEmpty)
        _ = state.log.nextExpiry
        _ = state.applied.next
    }

    private func refuse(_ fact: Fact) {
        var reader = ByteReader(FactSamples.encoded(fact))
        #expect(throws: DecodeError.self) { try Fact.decode(from: &reader) }
    }

    private func flips(_ bytes: [UInt8]) -> some Swift.Sequence<[UInt8]> {
        (0..<bytes.count * 8).lazy.map { bit in
            var flipped = bytes
            flipped[bit / 8] ^= 1 << UInt8(bit % 8)
            return flipped
        }
    }

    private func mutated(_ bytes: [UInt8], _ dice: inout Dice) -> [UInt8] {
        var bytes = bytes
        for _ in 0...dice.below(4) {
            let index = dice.below(bytes.count)
            switch dice.below(4) {
            case 0: bytes[index] = dice.byte()
            case 1: bytes.insert(dice.byte(), at: index)
            case 2 where bytes.count > 1: bytes.remove(at: index)
            default: bytes[index] = dice.one(of: [0, 1, 0x7F, 0x80, 0xFF])
            }
        }
        return bytes
    }
}
