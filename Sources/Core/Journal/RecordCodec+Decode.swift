import Bytes
import Model

extension RecordCodec {
    /// Decodes a row's payload after its checksum has matched.
    public static func decode(_ payload: [UInt8]) throws(RecordError) -> Record {
        try payload.withUnsafeBufferPointer { bytes throws(RecordError) in
            let buffer = UnsafeRawBufferPointer(bytes)
            let frame = try open(buffer)
            return Record(header: frame.header, body: try unpack(buffer, frame))
        }
    }

    /// The same, and demands that the record belongs to this partition and sequence.
    public static func decode(
        _ payload: [UInt8], expecting partition: PartitionID, _ sequence: Sequence
    ) throws(RecordError) -> Record {
        try payload.withUnsafeBufferPointer { bytes throws(RecordError) in
            let buffer = UnsafeRawBufferPointer(bytes)
            let frame = try open(buffer)
            try frame.demand(partition, sequence)
            return Record(header: frame.header, body: try unpack(buffer, frame))
        }
    }

    /// Checks a row's payload without unpacking it. Engines do this with every row that they read.
    @discardableResult
    public static func verify(
        _ payload: [UInt8], expecting partition: PartitionID, _ sequence: Sequence
    ) throws(RecordError) -> RecordHeader {
        try payload.withUnsafeBufferPointer { bytes throws(RecordError) in
            let buffer = UnsafeRawBufferPointer(bytes)
            let frame = try open(buffer)
            try frame.demand(partition, sequence)
            return frame.header
        }
    }

    private struct Frame {
        var header: RecordHeader
        var isPacked: Bool
        var bodyBytes: Int

        func demand(_ partition: PartitionID, _ sequence: Sequence) throws(RecordError) {
            if header.partition != partition || header.sequence != sequence {
                throw .misplaced(partition: header.partition.rawValue, sequence: header.sequence.rawValue)
            }
        }
    }

    private static func open(_ payload: UnsafeRawBufferPointer) throws(RecordError) -> Frame {
        guard payload.count >= headerBytes else { throw .truncated(length: payload.count) }
        guard payload.count <= payloadBytesMax else { throw .lengthOutOfBounds(UInt64(payload.count)) }
        func load<Value: FixedWidthInteger>(_ offset: Int, _ type: Value.Type) -> Value {
            Value(littleEndian: payload.loadUnaligned(fromByteOffset: offset, as: type))
        }
        let foundMagic = load(0, UInt16.self)
        guard foundMagic == magic else { throw .badMagic(foundMagic) }
        let foundVersion = load(2, UInt8.self)
        guard foundVersion == version else { throw .unknownVersion(foundVersion) }
        let flags = load(3, UInt8.self)
        guard flags & ~flagLZ4 == 0 else { throw .unknownFlags(flags) }
        guard load(checksumOffset, UInt64.self) == checksum(of: payload) else { throw .checksum }
        // The checksum matches, so an encoder wrote these bytes. Lengths are still checked before memory is
        // reserved.
        let partition = load(12, UInt16.self)
        let sequence = load(14, UInt64.self)
        let bodyBytes = load(38, UInt32.self)
        guard Int(partition) < PartitionID.countMax else {
            throw .misplaced(partition: partition, sequence: sequence)
        }
        guard Int(bodyBytes) <= bodyBytesMax else { throw .lengthOutOfBounds(UInt64(bodyBytes)) }
        let isPacked = flags & flagLZ4 != 0
        guard isPacked ? bodyBytes >= compressBytesMin : Int(bodyBytes) == payload.count - headerBytes else {
            throw .lengthOutOfBounds(UInt64(bodyBytes))
        }
        let header = RecordHeader(
            partition: PartitionID(partition), sequence: Sequence(sequence),
            epoch: Epoch(load(22, UInt64.self)),
            history: History(load(30, UInt64.self)))
        return Frame(header: header, isPacked: isPacked, bodyBytes: Int(bodyBytes))
    }

    private static func unpack(
        _ payload: UnsafeRawBufferPointer, _ frame: Frame
    ) throws(RecordError) -> [UInt8] {
        let stored = UnsafeRawBufferPointer(rebasing: payload[headerBytes...])
        guard frame.isPacked else { return Array(stored) }
        guard let body = LZ4.unpack(stored, count: frame.bodyBytes) else { throw .decompress }
        return body
    }
}
