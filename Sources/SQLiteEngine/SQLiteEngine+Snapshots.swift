import Glibc
import Journal
import Model

// Snapshots are files of their own: written aside, synced, renamed, the folder synced, and only then named by
// a row under the session that owns the partition. A file that no row names does not count, and goes at the
// next opening.

extension SQLiteEngine {
    static let snapshotMagic: UInt64 = 0x3150_414e_5343_4454  // "TDCSNAP1", little endian
    static let snapshotHeaderBytes = 34

    public func writeSnapshot(
        session: SessionID, partition: PartitionID, covering: Sequence, bytes: [UInt8]
    ) throws(EngineError) {
        guard bytes.count <= EngineRules.snapshotBytesMax else {
            throw .refused("a snapshot of \(bytes.count) bytes; at most \(EngineRules.snapshotBytesMax)")
        }
        // Asked before the long work as well as with the row.
        guard try isAlive(session), try partitionRow(partition).owner == session else { throw .fenced }
        let name = "\(partition.rawValue)-\(covering.rawValue)-\(session.rawValue).snap"
        do throws(EngineError) {
            try place(name, partition: partition, covering: covering, bytes: bytes)
        } catch {
            if case .ioFailure(let reason) = error { throw database.poison(reason) }
            throw error
        }
        Failpoint.reach("snapshot.renamed")
        let dropped = try database.transaction { () throws(EngineError) in
            let row = try owned(partition, by: session)
            guard covering <= (try lastSequence(partition, floor: row.floor)) else {
                throw .refused("a snapshot covers durable records only")
            }
            let before = try snapshots(partition)
            try database.statement(
                "INSERT OR REPLACE INTO snapshot (partition, covering, name) VALUES (?1, ?2, ?3)"
            )
            .bind(1, UInt64(partition.rawValue)).bind(2, covering.rawValue).bind(3, name).run()
            let others = before.filter { $0.covering != covering }
            let kept = others.filter { $0.covering > covering }.count
            let dropped = others.filter { $0.covering < covering }.dropFirst(
                max(0, EngineRules.snapshotsKept - 1 - kept))
            for old in dropped {
                try database.statement("DELETE FROM snapshot WHERE partition = ?1 AND covering = ?2")
                    .bind(1, UInt64(partition.rawValue)).bind(2, old.covering.rawValue).run()
            }
            let replaced = before.filter { $0.covering == covering && $0.name != name }
            return (dropped + replaced).map(\.name)
        }
        for name in dropped { unlink(snapshotFolder + "/" + name) }
    }

    private func place(
        _ name: String, partition: PartitionID, covering: Sequence, bytes: [UInt8]
    ) throws(EngineError) {
        let aside = snapshotFolder + "/" + name + ".aside"
        var header = ByteWriter(capacity: SQLiteEngine.snapshotHeaderBytes)
        header.u64(SQLiteEngine.snapshotMagic)
        header.u16(partition.rawValue)
        header.u64(covering.rawValue)
        header.u64(UInt64(bytes.count))
        header.u64(Checksum.of(bytes, seed: Checksum.of(header.bytes)))
        try Files.write(aside, [header.bytes, bytes])
        guard rename(aside, snapshotFolder + "/" + name) == 0 else {
            throw .ioFailure("cannot rename \(aside): \(Files.reason())")
        }
        try Files.syncFolder(snapshotFolder)
    }

    public func snapshots(_ partition: PartitionID) throws(EngineError) -> [SnapshotRow] {
        let statement = try database.statement(
            "SELECT covering, name FROM snapshot WHERE partition = ?1 ORDER BY covering DESC")
        statement.bind(1, UInt64(partition.rawValue))
        defer { statement.reset() }
        var rows: [SnapshotRow] = []
        while try statement.step() {
            rows.append(SnapshotRow(covering: Sequence(statement.uint(0)), name: statement.text(1)))
        }
        return rows
    }

    public func readSnapshot(_ partition: PartitionID, covering: Sequence) throws(EngineError) -> [UInt8] {
        guard let row = try snapshots(partition).first(where: { $0.covering == covering }) else {
            throw .refused("partition \(partition.rawValue) has no snapshot up to \(covering.rawValue)")
        }
        guard !row.name.contains("/") else {
            throw .corrupt("the name of a snapshot of \(partition.rawValue)")
        }
        let path = snapshotFolder + "/" + row.name
        let file = try Files.read(
            path, bytesMax: EngineRules.snapshotBytesMax + SQLiteEngine.snapshotHeaderBytes)
        do throws(DecodeError) {
            return try SQLiteEngine.open(file, partition: partition, covering: covering)
        } catch {
            throw .corrupt("\(path) \(error)")
        }
    }

    private static func open(
        _ file: [UInt8], partition: PartitionID, covering: Sequence
    ) throws(DecodeError) -> [UInt8] {
        var reader = ByteReader(file)
        guard try reader.u64() == snapshotMagic else { throw reader.fail("is no snapshot of this version") }
        guard try reader.u16() == partition.rawValue, try reader.u64() == covering.rawValue else {
            throw reader.fail("is another snapshot")
        }
        let length = try reader.u64()
        guard length <= UInt64(EngineRules.snapshotBytesMax), Int(length) == reader.remaining - 8 else {
            throw reader.fail("has another length")
        }
        let seed = Checksum.of(Array(file[..<reader.offset]))
        let checksum = try reader.u64()
        let bytes = try reader.raw(reader.remaining)
        guard Checksum.of(bytes, seed: seed) == checksum else { throw reader.fail("fails its checksum") }
        return bytes
    }
}
