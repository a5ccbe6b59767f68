/// Writes the bytes of records and snapshots: fixed-width integers in little endian, varints in LEB128, byte
/// strings with their length in front. `ByteReader` reads them back.
public struct ByteWriter: Sendable {
    public var bytes: [UInt8]

    @inlinable
    public init(capacity: Int = 0) {
        bytes = []
        bytes.reserveCapacity(capacity)
    }

    @inlinable
    public var count: Int { bytes.count }

    @inlinable
    public mutating func u8(_ value: UInt8) { bytes.append(value) }

    @inlinable
    public mutating func u16(_ value: UInt16) { fixed(value) }

    @inlinable
    public mutating func u32(_ value: UInt32) { fixed(value) }

    @inlinable
    public mutating func u64(_ value: UInt64) { fixed(value) }

    /// Unsigned LEB128: seven bits a byte, lowest first, one to ten bytes. 300 is AC 02.
    @inlinable
    public mutating func varint(_ value: UInt64) {
        var rest = value
        while rest >= 0x80 {
            bytes.append(UInt8(truncatingIfNeeded: rest) | 0x80)
            rest >>= 7
        }
        bytes.append(UInt8(truncatingIfNeeded: rest))
    }

    /// A varint for a length or an index.
    @inlinable
    public mutating func varint(_ value: Int) { varint(UInt64(value)) }

    /// The bytes as they are, without a length.
    @inlinable
    public mutating func raw(_ value: some Swift.Sequence<UInt8>) { bytes.append(contentsOf: value) }

    /// The bytes with their length in front, as a varint.
    @inlinable
    public mutating func string(_ value: some Collection<UInt8>) {
        varint(value.count)
        bytes.append(contentsOf: value)
    }

    @inlinable
    mutating func fixed<Value: FixedWidthInteger>(_ value: Value) {
        withUnsafeBytes(of: value.littleEndian) { bytes.append(contentsOf: $0) }
    }
}
