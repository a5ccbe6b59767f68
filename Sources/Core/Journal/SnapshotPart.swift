import Bytes
import Model

/// One piece of a snapshot, as it goes to the engine between two appends.
public struct SnapshotPart: Sendable {
    /// The number that the engine gave the upload with its first part; `nil` in the first part.
    public var upload: UInt64?
    /// From 0.
    public var number: Int
    public var bytes: [UInt8]
    /// In the last part: the number, length and digest of all parts.
    public var end: End?

    public struct End: Hashable, Sendable {
        public var parts: Int
        public var length: Int
        public var digest: UInt64

        public init(parts: Int, length: Int, digest: UInt64) {
            self.parts = parts
            self.length = length
            self.digest = digest
        }
    }

    public init(upload: UInt64?, number: Int, bytes: [UInt8], end: End?) {
        self.upload = upload
        self.number = number
        self.bytes = bytes
        self.end = end
    }
}

/// The digest of a snapshot's parts in their order. It begins with the partition and the covered sequence, so
/// that no snapshot can replace another. The digest so far seeds the digest of the next part.
public struct SnapshotDigest: Sendable {
    public private(set) var value: UInt64

    public init(_ partition: PartitionID, covering: Sequence) {
        var header = ByteWriter(capacity: 10)
        header.u16(partition.rawValue)
        header.u64(covering.rawValue)
        value = Checksum.of(header.bytes)
    }

    public mutating func add(_ part: [UInt8]) { value = Checksum.of(part, seed: value) }
}

extension Engine {
    /// Stores a whole snapshot at once.
    public func writeSnapshot(
        session: SessionID, partition: PartitionID, covering: Sequence, bytes: [UInt8],
        partBytes: Int = 256 << 10
    ) throws(EngineError) {
        var digest = SnapshotDigest(partition, covering: covering)
        var upload: UInt64?
        var start = 0
        var number = 0
        repeat {
            let end = min(bytes.count, start + partBytes)
            var part = SnapshotPart(
                upload: upload, number: number, bytes: Array(bytes[start..<end]), end: nil)
            digest.add(part.bytes)
            (start, number) = (end, number + 1)
            if start == bytes.count {
                part.end = .init(parts: number, length: bytes.count, digest: digest.value)
            }
            upload = try writeSnapshot(
                session: session, partition: partition, covering: covering, part: part)
        } while start < bytes.count
    }
}
