import CZlib

/// The content coding gzip (RFC 9110 §8.4.1.3): one or more members of RFC 1952, one behind the other.
public enum Gzip {
    /// The most blocks and headers of members in a body. A block costs its reader time also if it has no
    /// content: without this bound a body of 32 KiB could cost a loop more than a turn. Writers begin a block
    /// about every 16 KiB, and when their caller flushes.
    public static let partsMax = 512

    public enum Failure: Error, Hashable, Sendable {
        /// The content has more than `bytesMax` bytes.
        case tooLong
        case tooManyParts
        /// The body ends within a member.
        case truncated
        /// Not a gzip member, or one whose content, length or check sum is wrong.
        case damaged
        /// Bytes behind a member that begin no other member.
        case trailing
        case outOfMemory

        /// The end of a sentence that begins with "The gzip body".
        public var reason: String {
            switch self {
            case .tooLong: "has more content than this path takes"
            case .tooManyParts: "has more than \(Gzip.partsMax) blocks and members"
            case .truncated: "ends before its content does"
            case .damaged: "is damaged, or is not gzip"
            case .trailing: "has bytes behind its content"
            case .outOfMemory: "cannot be unpacked for want of memory"
            }
        }
    }

    /// The content of all members, one behind the other (RFC 1952 §2.2). Unpacks never more than `bytesMax`
    /// bytes and one, in memory of this size.
    public static func unpack(_ packed: [UInt8], bytesMax: Int) throws(Failure) -> [UInt8] {
        var failure: Failure?
        // The byte past the bound distinguishes a content of `bytesMax` bytes from a longer one.
        let content = [UInt8](unsafeUninitializedCapacity: bytesMax + 1) { room, count in
            packed.withUnsafeBufferPointer { packed in
                switch unpack(packed, into: room) {
                case .success(let bytes): count = bytes
                case .failure(let found): failure = found
                }
            }
        }
        if let failure { throw failure }
        return content
    }

    /// Returns the length of the content, which is shorter than `room`.
    private static func unpack(
        _ packed: UnsafeBufferPointer<UInt8>, into room: UnsafeMutableBufferPointer<UInt8>
    ) -> Result<Int, Failure> {
        var stream = z_stream()
        let size = Int32(MemoryLayout<z_stream>.size)
        guard inflateInit2_(&stream, windowBits, ZLIB_VERSION, size) == Z_OK else {
            return .failure(.outOfMemory)
        }
        defer { inflateEnd(&stream) }
        // Safe: zlib only reads what `next_in` points to.
        stream.next_in = UnsafeMutablePointer(mutating: packed.baseAddress)
        stream.avail_in = UInt32(clamping: packed.count)
        stream.next_out = room.baseAddress
        stream.avail_out = UInt32(clamping: room.count)
        for _ in 0..<partsMax {
            // Z_BLOCK: returns behind each header and each block.
            let result = inflate(&stream, Z_BLOCK)
            if stream.avail_out == 0 { return .failure(.tooLong) }
            switch result {
            case Z_OK: continue
            case Z_STREAM_END: break
            case Z_BUF_ERROR: return .failure(.truncated)
            case Z_MEM_ERROR: return .failure(.outOfMemory)
            default: return .failure(.damaged)
            }
            let rest = packed.suffix(Int(stream.avail_in))
            if rest.isEmpty { return .success(room.count - Int(stream.avail_out)) }
            guard rest.starts(with: magic.prefix(rest.count)) else { return .failure(.trailing) }
            inflateReset(&stream)
        }
        return .failure(.tooManyParts)
    }

    /// The largest window, and 16: only gzip, not zlib's own format (zlib.h, `inflateInit2`).
    private static let windowBits: Int32 = 15 + 16
    /// The first bytes of a member (RFC 1952 §2.3.1).
    private static let magic: [UInt8] = [0x1F, 0x8B]
}
