import Bytes
import CXXHash
import Model

/// The header in front of every record's body.
public struct RecordHeader: Hashable, Sendable {
    public var partition: PartitionID
    public var sequence: Sequence
    /// The epoch of the session that wrote the record; never falls along a journal.
    public var epoch: Epoch
    public var history: History

    public init(partition: PartitionID, sequence: Sequence, epoch: Epoch, history: History) {
        self.partition = partition
        self.sequence = sequence
        self.epoch = epoch
        self.history = history
    }
}

public struct Record: Hashable, Sendable {
    public var header: RecordHeader
    public var body: [UInt8]
}

public enum RecordError: Error, Hashable, Sendable, CustomStringConvertible {
    /// Shorter than a header.
    case truncated(length: Int)
    case badMagic(UInt16)
    /// Written by a newer program.
    case unknownVersion(UInt8)
    case unknownFlags(UInt8)
    case checksum
    /// A length past its bound, or a declared length that does not fit the payload.
    case lengthOutOfBounds(UInt64)
    /// The checksum matches, but the compressed body does not unpack.
    case decompress
    /// A whole record in another record's place.
    case misplaced(partition: UInt16, sequence: UInt64)

    public var description: String {
        switch self {
        case .truncated(let length): "a record of \(length) bytes"
        case .badMagic(let magic): "no record: it begins with \(magic)"
        case .unknownVersion(let version):
            FormatVersion.sentence(
                "a record", UInt64(version),
                known: UInt64(RecordCodec.version)...UInt64(RecordCodec.version))
        case .unknownFlags(let flags): "a record with flags \(flags), which only a newer tidecast knows"
        case .checksum: "a record that fails its checksum"
        case .lengthOutOfBounds(let length): "a record that says \(length) bytes"
        case .decompress: "a record whose compressed body does not open"
        case .misplaced(let partition, let sequence):
            "record \(sequence) of partition \(partition), in the place of another"
        }
    }
}

/// One journal row's payload.
///
/// ```
/// 0  u16 magic   2  u8 version   3  u8 flags (1 = LZ4)   4  u64 checksum
/// 12 u16 partition   14 u64 sequence   22 u64 epoch   30 u64 history   38 u32 length of the body, unpacked
/// 42 the body as stored
/// ```
/// The checksum is XXH3-64 over everything behind it, seeded with everything before it, so that no bit of a
/// row can change unseen. Every read verifies the checksum before it believes anything else of the row.
/// Partition and sequence are inside, so a read also finds a row in another row's place. All integers are
/// little endian.
public enum RecordCodec {
    /// The longest body of a record, unpacked.
    public static let bodyBytesMax = 4 << 20
    /// The longest payload that `encode` makes: a body that compression did not shorten is stored as it is.
    public static let payloadBytesMax = headerBytes + bodyBytesMax
    /// A shorter body is stored as it is: LZ4 finds nothing in so few bytes.
    public static let compressBytesMin = 128
    public static let version: UInt8 = 1
    public static let headerBytes = 42

    static let magic: UInt16 = 0x4a54
    static let flagLZ4: UInt8 = 1
    static let checksumOffset = 4
    static let checkedOffset = 12

    /// The payload of a row. Throws `lengthOutOfBounds` for a body longer than `bodyBytesMax`, and nothing
    /// else.
    public static func encode(header: RecordHeader, body: [UInt8]) throws(RecordError) -> [UInt8] {
        guard body.count <= bodyBytesMax else { throw .lengthOutOfBounds(UInt64(body.count)) }
        // Packing must save a sixteenth: otherwise unpacking costs more than reading the rest.
        let packedMax = body.count >= compressBytesMin ? body.count - body.count / 16 : 0
        return [UInt8](unsafeUninitializedCapacity: headerBytes + body.count) { buffer, count in
            var flags: UInt8 = 0
            var stored = body.count
            let whole = UnsafeMutableRawBufferPointer(buffer)
            let room = UnsafeMutableRawBufferPointer(rebasing: whole[headerBytes...])
            body.withUnsafeBytes { source in
                let packed = LZ4.pack(source, into: room, atMost: packedMax)
                if packed > 0 {
                    flags = flagLZ4
                    stored = packed
                } else {
                    room.copyMemory(from: source)
                }
            }
            write(header, flags: flags, bodyBytes: body.count, to: whole)
            count = headerBytes + stored
            let sum = checksum(of: UnsafeRawBufferPointer(rebasing: whole[..<count]))
            whole.storeBytes(of: sum.littleEndian, toByteOffset: checksumOffset, as: UInt64.self)
        }
    }

    private static func write(
        _ header: RecordHeader, flags: UInt8, bodyBytes: Int, to whole: UnsafeMutableRawBufferPointer
    ) {
        whole.storeBytes(of: magic.littleEndian, toByteOffset: 0, as: UInt16.self)
        whole.storeBytes(of: version, toByteOffset: 2, as: UInt8.self)
        whole.storeBytes(of: flags, toByteOffset: 3, as: UInt8.self)
        whole.storeBytes(of: header.partition.rawValue.littleEndian, toByteOffset: 12, as: UInt16.self)
        whole.storeBytes(of: header.sequence.rawValue.littleEndian, toByteOffset: 14, as: UInt64.self)
        whole.storeBytes(of: header.epoch.rawValue.littleEndian, toByteOffset: 22, as: UInt64.self)
        whole.storeBytes(of: header.history.rawValue.littleEndian, toByteOffset: 30, as: UInt64.self)
        whole.storeBytes(of: UInt32(bodyBytes).littleEndian, toByteOffset: 38, as: UInt32.self)
    }

    /// `payload` must have at least a header's bytes.
    static func checksum(of payload: UnsafeRawBufferPointer) -> UInt64 {
        let seed = UInt32(littleEndian: payload.loadUnaligned(fromByteOffset: 0, as: UInt32.self))
        let checked = UnsafeRawBufferPointer(rebasing: payload[checkedOffset...])
        return XXH3_64bits_withSeed(checked.baseAddress, checked.count, XXH64_hash_t(seed))
    }
}
