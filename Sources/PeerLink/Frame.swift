import Journal
import Model
import NIOCore

/// What stands between two nodes on the wire.
///
/// ```
/// 0  u32 length of all that follows   4  u8 version   5  u8 kind   6  u16 zero
/// 8  u64 checksum of the payload      16 the payload
/// ```
/// Little endian. The checksum is XXH3-64. A frame that breaks a rule ends its connection: what was lost
/// with it is asked for again.
enum Frame {
    static let version: UInt8 = 1
    static let headerBytes = 16
    /// More than any turn's messages to one node; less than what would hurt.
    static let payloadBytesMax = 64 << 20

    /// Of whoever has not said who it is.
    static let greetingBytesMax = 4096

    enum Kind: UInt8 {
        /// Who speaks, first on each connection, in both directions.
        case hello = 1
        case data = 2
        case ping = 3
        case pong = 4
    }

    enum Fault: Error, Hashable {
        case version(UInt8)
        case kind(UInt8)
        case length(UInt32)
        case reserved
        case checksum
    }

    static func write(_ kind: Kind, _ payload: [UInt8], to buffer: inout ByteBuffer) {
        buffer.writeInteger(UInt32(headerBytes - 4 + payload.count), endianness: .little)
        buffer.writeInteger(version)
        buffer.writeInteger(kind.rawValue)
        buffer.writeInteger(UInt16(0))
        buffer.writeInteger(Checksum.of(payload), endianness: .little)
        buffer.writeBytes(payload)
    }

    /// The next whole frame; `nil` where more bytes are needed.
    static func read(from buffer: inout ByteBuffer, payloadMax: Int = payloadBytesMax) throws(Fault) -> (
        kind: Kind, payload: [UInt8]
    )? {
        let start = buffer.readerIndex
        guard let length: UInt32 = buffer.getInteger(at: start, endianness: .little) else { return nil }
        guard length >= UInt32(headerBytes - 4), length <= UInt32(headerBytes - 4 + payloadMax) else {
            throw .length(length)
        }
        // Told at once, not when the whole of it has come.
        if let version: UInt8 = buffer.getInteger(at: start + 4), version != Frame.version {
            throw .version(version)
        }
        guard buffer.readableBytes >= 4 + Int(length) else { return nil }
        guard let raw: UInt8 = buffer.getInteger(at: start + 5),
            let reserved: UInt16 = buffer.getInteger(at: start + 6),
            let sum: UInt64 = buffer.getInteger(at: start + 8, endianness: .little),
            let payload = buffer.getBytes(at: start + headerBytes, length: Int(length) - headerBytes + 4)
        else { return nil }
        guard let kind = Kind(rawValue: raw) else { throw .kind(raw) }
        guard reserved == 0 else { throw .reserved }
        guard Checksum.of(payload) == sum else { throw .checksum }
        buffer.moveReaderIndex(forwardBy: 4 + Int(length))
        return (kind, payload)
    }
}

/// Who is at one end of a connection.
public struct PeerIdentity: Hashable, Sendable {
    /// 16 random bytes that a cluster got when it was made.
    public var cluster: [UInt8]
    /// The process, for as long as it runs: 24 bits.
    public var life: UInt32
    public var name: String
    /// Which of the process's loops speaks, and the how manieth connection to this peer it is: what comes
    /// over an older one is late.
    public var loop: UInt16 = 0
    var turn: UInt64 = 0

    public init(cluster: [UInt8], life: UInt32, name: String) {
        self.cluster = cluster
        self.life = life
        self.name = name
    }

    var encoded: [UInt8] {
        var out = ByteWriter()
        out.string(cluster)
        out.u32(life)
        out.string(name.utf8)
        out.u16(loop)
        out.u64(turn)
        return out.bytes
    }

    init?(decoding bytes: [UInt8]) {
        var reader = ByteReader(bytes)
        do {
            cluster = try reader.string(max: 16)
            life = try reader.u32()
            name = String(decoding: try reader.string(max: 1024), as: UTF8.self)
            loop = try reader.u16()
            turn = try reader.u64()
        } catch {
            return nil
        }
    }
}
