import CLZ4

/// LZ4 blocks from liblz4: for records, and for what nodes say to each other.
public enum LZ4 {
    /// A byte of a block stands for at most so many: a longer length that somebody declares is no block's.
    public static let expansionMax = 255

    /// Bytes written to `room`; 0 where LZ4 does not make it as short as `limit`, which is at most the room.
    public static func pack(
        _ source: UnsafeRawBufferPointer, into room: UnsafeMutableRawBufferPointer, atMost limit: Int
    ) -> Int {
        let limit = min(limit, room.count)
        guard limit > 0, source.count <= Int(LZ4_MAX_INPUT_SIZE) else { return 0 }
        let from = source.bindMemory(to: CChar.self).baseAddress
        let to = room.bindMemory(to: CChar.self).baseAddress
        return Int(LZ4_compress_default(from, to, Int32(source.count), Int32(limit)))
    }

    /// What was packed, if it is exactly `count` bytes; `nil` where the block is malformed. The caller has
    /// bounded `count`: so much memory is taken, unless no block of this length could be so long.
    public static func unpack(_ stored: UnsafeRawBufferPointer, count: Int) -> [UInt8]? {
        guard count >= 0, count <= Int(LZ4_MAX_INPUT_SIZE), stored.count <= Int(LZ4_MAX_INPUT_SIZE),
            count / expansionMax <= stored.count
        else { return nil }
        var isWhole = false
        let bytes = [UInt8](unsafeUninitializedCapacity: count) { buffer, written in
            let room = UnsafeMutableRawBufferPointer(buffer)
            let found = LZ4_decompress_safe(
                stored.bindMemory(to: CChar.self).baseAddress, room.bindMemory(to: CChar.self).baseAddress,
                Int32(stored.count), Int32(count))
            isWhole = Int(found) == count
            written = max(0, Int(found))
        }
        return isWhole ? bytes : nil
    }

    // MARK: With its length

    /// The u32 length of the bytes, little endian, and the block; `nil` where the block is longer than
    /// `limit` or the bytes are more than a length can say.
    public static func packWithLength(_ bytes: [UInt8], atMost limit: Int) -> [UInt8]? {
        guard let length = UInt32(exactly: bytes.count), limit > 0 else { return nil }
        let packed = [UInt8](unsafeUninitializedCapacity: 4 + limit) { buffer, count in
            let whole = UnsafeMutableRawBufferPointer(buffer)
            let room = UnsafeMutableRawBufferPointer(rebasing: whole[4..<4 + limit])
            let written = bytes.withUnsafeBytes { pack($0, into: room, atMost: limit) }
            whole.storeBytes(of: length.littleEndian, as: UInt32.self)
            count = written > 0 ? 4 + written : 0
        }
        return packed.isEmpty ? nil : packed
    }

    /// What `packWithLength` packed; `nil` where it says to be longer than `max`, or is malformed.
    public static func unpackWithLength(_ stored: [UInt8], max: Int) -> [UInt8]? {
        stored.withUnsafeBytes { bytes in
            guard bytes.count >= 4 else { return nil }
            let said = Int(UInt32(littleEndian: bytes.loadUnaligned(as: UInt32.self)))
            guard said <= max else { return nil }
            return unpack(UnsafeRawBufferPointer(rebasing: bytes[4...]), count: said)
        }
    }
}
