/// Eight bytes of a text in one word, which are compared together.
public struct EightBytes {
    @usableFromInline let word: UInt64

    @inlinable init(_ word: UInt64) { self.word = word }

    @inlinable static func each(_ byte: UInt8) -> UInt64 { UInt64(byte) &* 0x0101_0101_0101_0101 }

    /// Not 0 if a byte is below `bound`, which is at most 128.
    @inlinable
    public func below(_ bound: UInt8) -> UInt64 {
        (word &- EightBytes.each(bound)) & ~word & EightBytes.each(0x80)
    }

    /// Not 0 if a byte has this value.
    @inlinable
    public func equal(to byte: UInt8) -> UInt64 { EightBytes(word ^ EightBytes.each(byte)).below(1) }
}

extension UnsafeBufferPointer<UInt8> {
    /// How many bytes at the beginning pass `test`. `failsIn` must not be 0 for eight bytes of which one
    /// fails. Texts of requests are scanned whole, and byte by byte this costs more than all the rest of a
    /// field.
    @inlinable @inline(__always)
    public func prefixCount(where test: (UInt8) -> Bool, failsIn: (EightBytes) -> UInt64) -> Int {
        let bytes = UnsafeRawBufferPointer(self)
        var index = 0
        while index + 8 <= count,
            failsIn(EightBytes(bytes.loadUnaligned(fromByteOffset: index, as: UInt64.self))) == 0
        {
            index += 8
        }
        while index < count, test(self[index]) { index += 1 }
        return index
    }
}
