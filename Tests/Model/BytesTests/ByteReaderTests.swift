import Bytes
import Model
import Testing

@Suite("A reader of bytes") struct ByteReaderTests {
    private enum Value: Equatable {
        case u8(UInt8), u16(UInt16), u32(UInt32), u64(UInt64), varint(UInt64), string([UInt8])
    }

    private func value(_ generator: inout SeededGenerator) -> Value {
        let wide = generator.next() >> UInt64.random(in: 0...63, using: &generator)
        return switch Int.random(in: 0...5, using: &generator) {
        case 0: .u8(UInt8(truncatingIfNeeded: wide))
        case 1: .u16(UInt16(truncatingIfNeeded: wide))
        case 2: .u32(UInt32(truncatingIfNeeded: wide))
        case 3: .u64(wide)
        case 4: .varint(wide)
        default: .string((0..<Int(wide % 300)).map { UInt8(truncatingIfNeeded: $0) })
        }
    }

    private func write(_ values: [Value]) -> [UInt8] {
        var writer = ByteWriter()
        for value in values {
            switch value {
            case .u8(let value): writer.u8(value)
            case .u16(let value): writer.u16(value)
            case .u32(let value): writer.u32(value)
            case .u64(let value): writer.u64(value)
            case .varint(let value): writer.varint(value)
            case .string(let value): writer.string(value)
            }
        }
        return writer.bytes
    }

    private func read(_ reader: inout ByteReader, like value: Value) throws(DecodeError) -> Value {
        switch value {
        case .u8: .u8(try reader.u8())
        case .u16: .u16(try reader.u16())
        case .u32: .u32(try reader.u32())
        case .u64: .u64(try reader.u64())
        case .varint: .varint(try reader.varint())
        case .string: .string(try reader.string(max: 300))
        }
    }

    @Test("gives back the values that were written, and throws at every truncation")
    func roundTrip() throws {
        var generator = SeededGenerator(seed: 11)
        for _ in 0..<200 {
            let values = (0..<20).map { _ in value(&generator) }
            let bytes = write(values)
            var reader = ByteReader(bytes)
            for value in values { #expect(try read(&reader, like: value) == value) }
            try reader.expectEnd()
            for cut in 0..<bytes.count {
                var short = ByteReader(Array(bytes[..<cut]))
                #expect(throws: DecodeError.self) {
                    for value in values { _ = try read(&short, like: value) }
                }
            }
        }
    }

    @Test("throws at noise, and never traps or reads past the end")
    func noiseNeverTraps() {
        var generator = SeededGenerator(seed: 12)
        for _ in 0..<5_000 {
            let count = Int.random(in: 0...40, using: &generator)
            var reader = ByteReader((0..<count).map { _ in UInt8.random(in: 0...255, using: &generator) })
            for _ in 0..<50 {
                let before = reader.offset
                do {
                    _ = try read(&reader, like: value(&generator))
                } catch {
                    #expect(reader.offset >= before && reader.offset <= count)
                }
            }
        }
    }

    @Test(
        "refuses a varint that is longer than it must be or past 64 bits",
        arguments: [
            [0x80, 0x00], [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02],
            [0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x01],
        ] as [[UInt8]])
    func aVarintHasOneForm(bytes: [UInt8]) {
        var reader = ByteReader(bytes)
        #expect(throws: DecodeError(offset: 0, reason: .badVarint)) { try reader.varint() }
        #expect(reader.offset == 0)
    }

    @Test("refuses a count that its bytes cannot hold, before memory is reserved")
    func counts() throws {
        var writer = ByteWriter()
        writer.varint(UInt64.max)
        var reader = ByteReader(writer.bytes)
        #expect(throws: DecodeError(offset: 0, reason: .tooMany(.max, max: 10))) { try reader.count(max: 10) }
        var few = ByteReader([3, 1, 2, 3, 4, 5])
        #expect(throws: DecodeError(offset: 0, reason: .truncated)) {
            try few.count(max: 10, elementBytesMin: 2)
        }
        #expect(try few.count(max: 10, elementBytesMin: 1) == 3)
        #expect(throws: DecodeError(offset: 1, reason: .trailing(5))) { try few.expectEnd() }
        #expect(throws: DecodeError.self) { try few.raw(-1) }
        #expect(throws: DecodeError.self) { try few.raw(.max) }
    }
}
