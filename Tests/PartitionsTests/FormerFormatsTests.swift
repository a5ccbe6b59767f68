import Bytes
import Model
import Testing

@testable import Partitions

/// Bytes as version 1 wrote them: a build must read earlier journals, snapshots and frames.
@Suite("What was written before")
struct FormerFormatsTests {
    private func bytes(_ hex: String) -> [UInt8] {
        let digits = Array(hex.utf8)
        return stride(from: 0, to: digits.count, by: 2).compactMap {
            UInt8(String(decoding: digits[$0..<$0 + 2], as: UTF8.self), radix: 16)
        }
    }

    @Test("facts are read, and are the same facts")
    func facts() throws {
        #expect(FormerFormatsTests.facts.count <= FactSamples.small.count)
        for (hex, fact) in zip(FormerFormatsTests.facts, FactSamples.small) {
            var reader = ByteReader(bytes(hex))
            let decoded = try Fact.decode(from: &reader)
            try reader.expectEnd()
            #expect(FactSamples.encoded(decoded) == FactSamples.encoded(fact))
        }
    }

    @Test("a snapshot of version 1 is read")
    func snapshot() throws {
        var state = PartitionState(
            id: PartitionID(0), history: History(9), partitionCount: 2, names: TopicNames())
        try state.restore(bytes(FormerFormatsTests.snapshot))
        #expect(state.snapshot() == FactSamples.snapshot(isLarge: false))
    }

    @Test("facts and snapshots of a newer tidecast are refused and say so")
    func newer() throws {
        func sentence(_ body: () throws -> Void) -> String {
            do { try body() } catch { return "\(error)" }
            return ""
        }
        for tag in [0, 34, 255] as [UInt8] {
            let said = sentence { try Partition.check([tag, 1, 2, 3]) }
            #expect(said.contains("a fact of unknown kind \(tag), as only a newer tidecast writes it"))
        }
        var snapshot = FactSamples.snapshot(isLarge: false)
        var state = PartitionState(
            id: PartitionID(0), history: History(9), partitionCount: 2, names: TopicNames())
        snapshot[0] = SnapshotWriter.versionWithShares + 1
        #expect(
            sentence { try state.restore(snapshot) }
                == "a snapshot of version 7: it is from a newer tidecast, this one reads versions 1 to 6")
        snapshot[0] = 0
        #expect(sentence { try state.restore(snapshot) }.contains("a snapshot of version 0"))
    }

    @Test("a frame of outbox entries is read, and written as before")
    func frame() throws {
        var reader = ByteReader(bytes(FormerFormatsTests.frame))
        let event = try PartitionEvent.decode(from: &reader)
        try reader.expectEnd()
        var writer = ByteWriter()
        event.encode(into: &writer)
        #expect(writer.bytes == bytes(FormerFormatsTests.frame))
    }

    @Test("topics hash as before: fingerprints of pairs are made of it")
    func topicHash() {
        #expect(TopicNames.hash(Array("news".utf8), ProjectNumber(7)) == 0xa81586f1cc51a48d)
        #expect(TopicNames.hash([UInt8](), ProjectNumber(1)) == 0xeee488a61e6fb3f1)
    }

    @Test("a number of an outbox entry that no journal reaches is refused", arguments: [UInt64.max, 1 << 63])
    func hugeNumbers(number: UInt64) {
        let entry = OutboxEntry(number: Sequence(number), predecessor: .zero, items: [], fingerprint: 0)
        let said = OutboxAcknowledgement(
            from: PartitionID(1), history: History(1), mark: Sequence(number), fingerprint: 0)
        let frame = OutboxFrame(
            from: PartitionID(1), history: History(1), clock: WallTime(milliseconds: 1), entries: [entry])
        for event in [PartitionEvent.offered(frame), .acknowledged(said)] {
            var writer = ByteWriter()
            event.encode(into: &writer)
            var reader = ByteReader(writer.bytes)
            #expect(throws: DecodeError.self) { try PartitionEvent.decode(from: &reader) }
        }
    }

    // MARK: The bytes

    private static let facts = [
        """
        01ffffffffffffffffff014d
        """,
        """
        02ffffff7ff0a204ffffffffffffffffffffffff204e
        """,
        """
        03ac02
        """,
        """
        04f0a204046e6577730900030001ffff3f
        """,
        """
        05f0a204046e6577730105
        """,
        """
        06ac020000000000000080f0a204046e6577730000000000000010050000000000000000505c18a301000080d4930105\
        73636f72650a736f6d65206576656e74
        """,
        """
        0600f0a204046e6577730000000000000010050000000000000000505c18a301000080d493010573636f72650a736f6d\
        65206576656e74
        """,
        """
        07ac020000000000000080f0a20402046e65777301620302000001000100010000000000000010050000000000000000\
        505c18a301000080d493010573636f72650a736f6d65206576656e74
        """,
        """
        08080202000603b905c4faff3fff1f0200
        """,
        """
        0900f0a2040c0000000000000010050000000000000000505c18a301000080d493010573636f72650a736f6d65206576\
        656e740c80808080808080020603b905c4faff3f090204
        """,
        """
        0a11fffffffffffffffff403f303cefaedfe000000000500f0a2040000000000000010050000000000000000505c18a3\
        01000080d493010573636f72650a736f6d65206576656e740603b905c4faff3f01f0a204046e657773030101820702f0\
        a204046e657773010000f0a2040000000000000010050000000000000000505c18a301000080d4930100000201030103\
        01f0a204046e657773030401fbff3f0c80808080808080020603b905c4faff3f0902040302
        """,
        """
        0b0101808080808020
        """,
        """
        0c01ffffffffffffffffff010603b905c4faff3f
        """,
        """
        12014d0603b905c4faff3f
        """,
        """
        0d00505c18a3010000
        """,
        """
        0e214e0603b905c4faff3f
        """,
        """
        0f0400000000000000
        """,
        """
        1103ac02
        """,
        """
        130209000000000000000346
        """,
        """
        1403
        """,
        """
        1003010301f0a204046e657773030401fbff3f
        """,
    ]

    private static let snapshot = """
        010900000000000000010100000002f0a2040162f0a204046e6577730d0500f0a2040000000001000000000000000300\
        0101090003f0a20403000000010000000000000003000101090003f0a204060000000100000000000000030001010900\
        03f0a20409000000010000000000000003000101090003f0a2040c00000001000000000000000300010109000103cf0f\
        020001010a00030303030101010a0003030303d00f01e80700608ea8a3010000f0a2040573636f726501000a0a000303\
        030301010171a631967a4a379301010071a631967a4a37930201f0a204046e65777305000303030300f0a20400000000\
        00000010050000000000000000505c18a301000080d493010573636f72650a736f6d65206576656e740a000303030301\
        0108000000000000000004001702f42978edd00106000000000000000204000000000000000000000000000000000000\
        000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000\
        000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000\
        00000000000000000000000000010102f0a20402046e6577730162030200000100010001000000000000001005000000\
        0000000000505c18a301000080d493010573636f72650a736f6d65206576656e74
        """

    private static let frame = """
        0211ffffffffffffffff0201010304f4515c18a301000001f403f303cefaedfe000000000500f0a20400000000000000\
        10050000000000000000505c18a301000080d493010573636f72650a736f6d65206576656e740603b905c4faff3f01f0\
        a204046e657773030101820702f0a204046e657773010000f0a2040000000000000010050000000000000000505c18a3\
        01000080d493010000020103010301f0a204046e657773030401fbff3f
        """
}
