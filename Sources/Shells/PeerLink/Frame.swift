import Bytes
import NIOCore

/// The form of a frame between two nodes.
///
/// ```
/// 0  u32 length of all that follows   4  u8 version   5  u8 kind   6  u16 flags (1 = LZ4)
/// 8  u64 checksum of the payload as on the wire      16 the payload
/// ```
/// All numbers are little endian. The checksum is XXH3-64. A packed payload is the u32 length of the unpacked
/// payload and an LZ4 block. The checksum is seeded with bytes 4 to 7.
///
/// A frame that breaks a rule ends its connection, and both ends ask again for what was lost with it. The
/// greetings of both ends decide the version (`Dialect`).
enum Frame {
    static let headerBytes = 16
    /// More than the messages of a loop's turn to one node ever take, and little enough for the receiver's
    /// memory.
    static let payloadBytesMax = 64 << 20
    /// The bound until the other end has greeted.
    static let greetingBytesMax = 4096
    /// A shorter payload is sent unpacked: it fills three packets at most (docs/decisions/0009).
    static let packBytesMin = 4096

    static let flagLZ4: UInt16 = 1

    enum Kind: UInt8 {
        /// The identity of an end; the first frame on each connection, in both directions.
        case hello = 1
        case data = 2
        case ping = 3
        case pong = 4
        /// Proves that an end has the cluster's key; follows the greeting.
        case proof = 5
        /// Why an end closes the connection, as a sentence; only during the greeting.
        case refusal = 6
    }

    enum Fault: Error, Hashable, CustomStringConvertible {
        case version(UInt8, spoken: UInt8)
        case kind(UInt8)
        case length(UInt32)
        case flags(UInt16)
        case checksum
        case packed

        var description: String {
            switch self {
            case .version(let version, let spoken):
                "a frame of version \(version) on a connection of version \(spoken)"
            case .kind(let kind): "a frame of an unknown kind \(kind)"
            case .length(let length): "a frame of \(length) bytes"
            case .flags(let flags): "a frame with unknown flags \(flags)"
            case .checksum: "a frame whose checksum is wrong"
            case .packed: "a packed frame that does not open"
            }
        }
    }

    static func write(_ kind: Kind, _ payload: [UInt8], in dialect: Dialect, to buffer: inout ByteBuffer) {
        let start = buffer.writerIndex
        let packed = pack(payload)
        let stored = packed ?? payload
        buffer.writeInteger(UInt32(headerBytes - 4 + stored.count), endianness: .little)
        buffer.writeInteger(dialect.version)
        buffer.writeInteger(kind.rawValue)
        buffer.writeInteger(packed == nil ? 0 : flagLZ4, endianness: .little)
        let seed = seed(buffer, start: start)
        buffer.writeInteger(Checksum.of(stored, seed: seed), endianness: .little)
        buffer.writeBytes(stored)
    }

    /// `nil` if packing saves less than a quarter: the bytes then cost less than the time.
    private static func pack(_ payload: [UInt8]) -> [UInt8]? {
        guard payload.count >= packBytesMin else { return nil }
        return LZ4.packWithLength(payload, atMost: payload.count - payload.count / 4)
    }

    static func seed(_ buffer: ByteBuffer, start: Int) -> UInt64 {
        UInt64(buffer.getInteger(at: start + 4, endianness: .little, as: UInt32.self) ?? 0)
    }

    /// The next whole frame; `nil` if more bytes are needed.
    static func read(
        from buffer: inout ByteBuffer, in dialect: Dialect, payloadMax: Int = payloadBytesMax
    ) throws(Fault) -> (kind: Kind, payload: [UInt8])? {
        let start = buffer.readerIndex
        guard let length: UInt32 = buffer.getInteger(at: start, endianness: .little) else { return nil }
        guard length >= UInt32(headerBytes - 4), length <= UInt32(headerBytes - 4 + payloadMax) else {
            throw .length(length)
        }
        // The reader refuses a wrong version immediately, before the whole frame has come.
        if let version: UInt8 = buffer.getInteger(at: start + 4), version != dialect.version {
            throw .version(version, spoken: dialect.version)
        }
        guard buffer.readableBytes >= 4 + Int(length) else { return nil }
        guard let raw: UInt8 = buffer.getInteger(at: start + 5),
            let flags: UInt16 = buffer.getInteger(at: start + 6, endianness: .little),
            let sum: UInt64 = buffer.getInteger(at: start + 8, endianness: .little),
            let stored = buffer.getBytes(at: start + headerBytes, length: Int(length) - headerBytes + 4)
        else { return nil }
        guard let kind = Kind(rawValue: raw) else { throw .kind(raw) }
        guard flags & ~flagLZ4 == 0 else { throw .flags(flags) }
        guard Checksum.of(stored, seed: seed(buffer, start: start)) == sum else { throw .checksum }
        let isPacked = flags & flagLZ4 != 0
        let payload = isPacked ? LZ4.unpackWithLength(stored, max: payloadMax) : stored
        guard let payload else { throw .packed }
        buffer.moveReaderIndex(forwardBy: 4 + Int(length))
        return (kind, payload)
    }
}
