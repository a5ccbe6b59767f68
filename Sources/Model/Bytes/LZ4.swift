import CLZ4

/// LZ4 blocks from liblz4, for records and for frames between nodes.
public enum LZ4 {
    /// One byte of a block expands to at most this many bytes; a longer declared length is malformed.
    static let expansionMax = 255

    /// Returns the bytes written to `room`; 0 if the block does not fit into `limit` and the room.
    public static func pack(
        _ source: UnsafeRawBufferPointer, into room: UnsafeMutableRawBufferPointer, atMost limit: Int
    ) -> Int {
        let limit = min(limit, room.count)
        guard limit > 0, source.count <= Int(LZ4_MAX_INPUT_SIZE) else { return 0 }
        let from = source.bindMemory(to: CChar.self).baseAddress
        let to = room.bindMemory(to: CChar.self).baseAddress
        return Int(LZ4_compress_default(from, to, Int32(source.count), Int32(limit)))
    }

    /// The unpacked bytes, if they are exactly `count` bytes; `nil` if the block is malformed. The caller
    /// must bound `count`: that much memory is reserved, unless no block of this length could hold it.
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

    /// The u32 length of the bytes, little endian, and the block; `nil` if the block is longer than `limit`,
    /// or if the length does not fit into a u32.
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

    /// Unpacks what `packWithLength` made; `nil` if the length is above `max` or the block is malformed.
    public static func unpackWithLength(_ stored: [UInt8], max: Int) -> [UInt8]? {
        stored.withUnsafeBytes { bytes in
            guard bytes.count >= 4 else { return nil }
            let said = Int(UInt32(littleEndian: bytes.loadUnaligned(as: UInt32.self)))
            guard said <= max else { return nil }
            return unpack(UnsafeRawBufferPointer(rebasing: bytes[4...]), count: said)
        }
    }
}
