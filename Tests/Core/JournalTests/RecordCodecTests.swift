import Bytes
import Model
import Testing

@testable import Journal

@Suite("The codec of records") struct RecordCodecTests {
    private let header = RecordHeader(
        partition: PartitionID(31), sequence: Sequence(1 << 40 | 5), epoch: Epoch(9), history: History(.max))

    private func text(_ count: Int) -> [UInt8] { (0..<count).map { UInt8($0 % 7) } }

    private func noise(_ count: Int, seed: UInt64 = 1) -> [UInt8] {
        var generator = SeededGenerator(seed: seed)
        return (0..<count).map { _ in UInt8.random(in: 0...255, using: &generator) }
    }

    @Test(
        "gives a record back as it was",
        arguments: [0, 1, 127, 128, 129, 4096, 70_000, RecordCodec.bodyBytesMax])
    func aRecordComesBackAsItWas(count: Int) throws {
        for body in [text(count), noise(count)] {
            let payload = try RecordCodec.encode(header: header, body: body)
            #expect(payload.count <= RecordCodec.headerBytes + count)
            let record = try RecordCodec.decode(payload, expecting: header.partition, header.sequence)
            #expect(record == Record(header: header, body: body))
        }
    }

    @Test("compresses a body only where that gains")
    func compression() throws {
        #expect(try RecordCodec.encode(header: header, body: text(4096)).count < 200)
        #expect(
            try RecordCodec.encode(header: header, body: text(100)).count == RecordCodec.headerBytes + 100)
        #expect(
            try RecordCodec.encode(header: header, body: noise(4096)).count == RecordCodec.headerBytes + 4096)
    }

    @Test("refuses a body past the bound")
    func pastBound() {
        let count = RecordCodec.bodyBytesMax + 1
        #expect(throws: RecordError.lengthOutOfBounds(UInt64(count))) {
            try RecordCodec.encode(header: header, body: [UInt8](repeating: 0, count: count))
        }
    }

    @Test("finds each flipped bit")
    func noBitFlipsUnseen() throws {
        for body in [text(0), text(60), text(600), noise(300)] {
            let payload = try RecordCodec.encode(header: header, body: body)
            for bit in 0..<payload.count * 8 {
                var damaged = payload
                damaged[bit / 8] ^= 1 << UInt8(bit % 8)
                #expect(throws: RecordError.self) { try RecordCodec.decode(damaged) }
            }
        }
    }

    @Test("finds each truncation, and a byte too many")
    func noTruncationGoesUnseen() throws {
        for body in [text(600), noise(300)] {
            let payload = try RecordCodec.encode(header: header, body: body)
            for count in 0..<payload.count {
                #expect(throws: RecordError.self) { try RecordCodec.decode(Array(payload[..<count])) }
            }
            #expect(throws: RecordError.checksum) { try RecordCodec.decode(payload + [0]) }
        }
    }

    @Test("says in each error what is wrong")
    func errorsSayWhatIsWrong() throws {
        let payload = try RecordCodec.encode(header: header, body: text(10))
        func damaged(_ index: Int, _ value: UInt8) -> [UInt8] {
            var bytes = payload
            bytes[index] = value
            return bytes
        }
        #expect(throws: RecordError.truncated(length: 3)) { try RecordCodec.decode(Array(payload[..<3])) }
        #expect(throws: RecordError.badMagic(0x4a00)) { try RecordCodec.decode(damaged(0, 0)) }
        #expect(throws: RecordError.unknownVersion(9)) { try RecordCodec.decode(damaged(2, 9)) }
        #expect(
            "\(RecordError.unknownVersion(9))"
                == "a record of version 9: it is from a newer tidecast, this one reads version 1")
        #expect(throws: RecordError.unknownFlags(2)) { try RecordCodec.decode(damaged(3, 2)) }
        #expect(throws: RecordError.checksum) { try RecordCodec.decode(damaged(45, 99)) }
        #expect(throws: RecordError.misplaced(partition: 31, sequence: header.sequence.rawValue)) {
            try RecordCodec.decode(payload, expecting: header.partition, header.sequence.next)
        }
    }

    /// A checksum cannot find an encoder that writes a wrong length. The length is the checksum's seed, so
    /// the test writes wrong lengths with right checksums.
    @Test("refuses a wrong length under a right checksum")
    func wrongLength() throws {
        for body in [text(600), noise(300)] {
            let payload = try RecordCodec.encode(header: header, body: body)
            for length: UInt32 in [0, 1, 599, 601, UInt32(RecordCodec.bodyBytesMax), .max] {
                var lying = payload
                for byte in 0..<4 { lying[38 + byte] = UInt8(truncatingIfNeeded: length >> UInt32(8 * byte)) }
                let seed = (0..<4).reduce(UInt64(0)) { $0 | UInt64(lying[$1]) << UInt64(8 * $1) }
                let sum = Checksum.of(Array(lying[12...]), seed: seed)
                for byte in 0..<8 { lying[4 + byte] = UInt8(truncatingIfNeeded: sum >> UInt64(8 * byte)) }
                #expect(throws: RecordError.self) { try RecordCodec.decode(lying) }
            }
        }
    }

    @Test("never takes noise for a record")
    func noiseIsNeverARecord() {
        var generator = SeededGenerator(seed: 4)
        for _ in 0..<20_000 {
            var bytes = noise(Int.random(in: 0...120, using: &generator), seed: generator.next())
            if bytes.count > 3, Bool.random(using: &generator) {
                (bytes[0], bytes[1], bytes[2], bytes[3]) = (0x54, 0x4a, 1, bytes[3] & 1)
            }
            #expect(throws: RecordError.self) { try RecordCodec.decode(bytes) }
        }
    }
}
