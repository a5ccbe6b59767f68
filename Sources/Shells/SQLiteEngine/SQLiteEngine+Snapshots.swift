import Bytes
import Glibc
import Journal
import Model

// Each snapshot is a file. The engine writes the file aside part by part, syncs each part, renames the file
// and syncs the folder. Only then it names the file in a row, under the session that owns the partition. A
// file that no row names does not count. An unfinished file goes with the partition's next snapshot, any
// other at the next opening.

extension SQLiteEngine {
    /// "TDCSNAP1", little endian.
    static let snapshotMagic: UInt64 = 0x3150_414e_5343_4454
    /// Bytes of a file that are not the snapshot itself, at most.
    static let snapshotExtraBytesMax = 64 << 20

    /// A snapshot's file that is not finished.
    struct Upload {
        var number: UInt64
        var covering: Sequence
        var name: String
        var parts = 0
        /// Bytes of the parts so far.
        var length = 0
        var aside: String { name + ".aside" }
    }

    public func writeSnapshot(
        session: SessionID, partition: PartitionID, covering: Sequence, part: SnapshotPart
    ) throws(EngineError) -> UInt64 {
        try EngineRules.check(part)
        // Checked before the work, and again with the row.
        guard try isAlive(session), try partitionRow(partition).owner == session else { throw .fenced }
        var upload = try self.upload(of: part, partition, covering, session: session)
        do throws(EngineError) {
            try write(part, &upload, partition: partition)
        } catch {
            uploads[partition] = upload
            forget(partition)
            if case .ioFailure(let reason) = error { throw database.poison(reason) }
            throw error
        }
        uploads[partition] = upload
        guard part.end != nil else { return upload.number }
        uploads[partition] = nil
        Failpoint.reach("snapshot.renamed")
        try name(upload, partition, session: session)
        return upload.number
    }

    private func upload(
        of part: SnapshotPart, _ partition: PartitionID, _ covering: Sequence, session: SessionID
    ) throws(EngineError) -> Upload {
        if part.number == 0 {
            forget(partition)
            lastUpload += 1
            let name = "\(partition.rawValue)-\(covering.rawValue)-\(session.rawValue).snap"
            return Upload(number: lastUpload, covering: covering, name: name)
        }
        guard let upload = uploads[partition], upload.number == part.upload, upload.parts == part.number,
            upload.covering == covering
        else { throw .refused("a part of another snapshot") }
        return upload
    }

    private func forget(_ partition: PartitionID) {
        guard let upload = uploads.removeValue(forKey: partition) else { return }
        unlink(snapshotFolder + "/" + upload.aside)
    }

    /// Each part comes behind its length. Behind the last come a zero, the length of all parts and their
    /// digest.
    private func write(
        _ part: SnapshotPart, _ upload: inout Upload, partition: PartitionID
    ) throws(EngineError) {
        let aside = snapshotFolder + "/" + upload.aside
        var bytes = ByteWriter(capacity: part.bytes.count + 64)
        if part.number == 0 {
            bytes.u64(SQLiteEngine.snapshotMagic)
            bytes.u16(partition.rawValue)
            bytes.u64(upload.covering.rawValue)
        }
        if !part.bytes.isEmpty {
            bytes.u32(UInt32(part.bytes.count))
            bytes.raw(part.bytes)
        }
        upload.parts += 1
        upload.length += part.bytes.count
        if let end = part.end {
            guard end.parts == upload.parts, end.length == upload.length else {
                throw .refused("the parts of a snapshot are not those that were written")
            }
            bytes.u32(0)
            bytes.u64(UInt64(end.length))
            bytes.u64(end.digest)
        }
        try Files.write(aside, bytes.bytes, isNew: part.number == 0)
        guard part.end != nil else { return }
        guard rename(aside, snapshotFolder + "/" + upload.name) == 0 else {
            throw Files.failure("cannot rename \(aside)")
        }
        try snapshotEntries.sync()
    }

    /// Names the file in a row, so that the snapshot counts, and drops snapshots beyond the number to keep.
    private func name(
        _ upload: Upload, _ partition: PartitionID, session: SessionID
    ) throws(EngineError) {
        let (covering, name) = (upload.covering, upload.name)
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
            path, bytesMax: EngineRules.snapshotBytesMax + SQLiteEngine.snapshotExtraBytesMax)
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
        let magic = try reader.u64()
        guard magic == snapshotMagic else {
            // "TDCSNAP" and a digit.
            let digit = UInt8(truncatingIfNeeded: magic >> 56)
            guard magic << 8 == snapshotMagic << 8, (0x32...0x39).contains(digit) else {
                throw reader.fail("is no snapshot")
            }
            throw DecodeError(
                offset: 0, reason: .version(of: "is a snapshot's file", UInt64(digit - 0x30), known: 1...1))
        }
        guard try reader.u16() == partition.rawValue, try reader.u64() == covering.rawValue else {
            throw reader.fail("is another snapshot")
        }
        var bytes: [UInt8] = []
        bytes.reserveCapacity(file.count)
        var digest = SnapshotDigest(partition, covering: covering)
        while true {
            let count = Int(try reader.u32())
            if count == 0 { break }
            guard count <= reader.remaining else { throw reader.fail("ends in a part") }
            let part = try reader.raw(count)
            digest.add(part)
            bytes += part
        }
        // An empty snapshot has one empty part.
        if bytes.isEmpty { digest.add([]) }
        guard try reader.u64() == UInt64(bytes.count) else { throw reader.fail("has another length") }
        guard try reader.u64() == digest.value else { throw reader.fail("fails its checksum") }
        try reader.expectEnd()
        return bytes
    }
}
