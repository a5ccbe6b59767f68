import Journal
import Model

// Sessions, partitions, reading, snapshots and the catalog of the engine in memory.

extension MemoryEngine {
    public func beginSession(node: String) throws(EngineError) -> SessionID {
        try works()
        for index in sessionList.indices where sessionList[index].node == node {
            sessionList[index].isAlive = false
        }
        sessionList.append((node: node, isAlive: true))
        let session = SessionID(UInt64(sessionList.count))
        if leasesFromBirth { leases[session] = (0, []) }
        return session
    }

    public func fence(_ session: SessionID) throws(EngineError) {
        try works()
        if !share.isHome {
            makeRoom(for: session)
            unknownSessions.remove(session)
        }
        if isLiving(session) { sessionList[Int(session.rawValue) - 1].isAlive = false }
    }

    public func isAlive(_ session: SessionID) throws(EngineError) -> Bool {
        try works()
        return isLiving(session)
    }

    public func createPartitions(count: Int, histories: [History]) throws(EngineError) {
        try works()
        try EngineRules.check(count: count, histories: histories, existing: partitionsByID.count)
        guard partitionsByID.isEmpty else { return }
        partitionsByID = histories.enumerated().map { index, history in
            Partition(
                row: PartitionRow(
                    id: PartitionID(UInt16(index)), history: history, owner: nil, epoch: Epoch(0),
                    floor: Sequence(1)))
        }
    }

    public func partitions() throws(EngineError) -> [PartitionRow] {
        try works()
        return partitionsByID.map(\.row).filter { share.holds($0.id) }
    }

    public func takeOver(
        _ partition: PartitionID, from former: PartitionRow, by session: SessionID, barrier: Row
    ) throws(EngineError) -> Epoch? {
        let index = try self.partition(partition)
        guard isLiving(session) else { throw .fenced }
        if let owner = former.owner, owner != session, isLiving(owner) {
            throw .refused("session \(owner.rawValue) lives and owns partition \(partition.rawValue)")
        }
        let row = partitionsByID[index].row
        guard row.owner == former.owner, row.epoch == former.epoch,
            barrier.sequence == partitionsByID[index].last.next
        else { return nil }
        let epoch = Epoch(row.epoch.rawValue + 1)
        partitionsByID[index].row.owner = session
        partitionsByID[index].row.epoch = epoch
        partitionsByID[index].journal[barrier.sequence] = Stored(
            batch: Appender.barrierBatch(of: session), payload: barrier.payload)
        unacknowledged.removeAll()
        return epoch
    }

    public func lastSequence(_ partition: PartitionID) throws(EngineError) -> Sequence {
        partitionsByID[try self.partition(partition)].last
    }

    public func read(
        _ partition: PartitionID, from: Sequence, bytesMax: Int
    ) throws(EngineError) -> [Row] {
        let journal = partitionsByID[try self.partition(partition)].journal
        var rows: [Row] = []
        var bytes = 0
        for sequence in journal.keys.filter({ $0 >= from }).sorted() {
            guard let stored = journal[sequence] else { continue }
            if !rows.isEmpty, bytes + stored.payload.count > bytesMax { break }
            bytes += stored.payload.count
            rows.append(Row(partition: partition, sequence: sequence, payload: stored.payload))
        }
        for row in rows { try EngineRules.verify(row) }
        return rows
    }

    public func read(
        _ partition: PartitionID, rows: [Sequence], bytesMax: Int
    ) throws(EngineError) -> [Row] {
        let journal = partitionsByID[try self.partition(partition)].journal
        var found: [Row] = []
        var bytes = 0
        for sequence in Set(rows).sorted() where bytes < bytesMax {
            guard let stored = journal[sequence] else { continue }
            bytes += stored.payload.count
            found.append(Row(partition: partition, sequence: sequence, payload: stored.payload))
        }
        for row in found { try EngineRules.verify(row) }
        return found
    }

    // MARK: Snapshots

    public func writeSnapshot(
        session: SessionID, partition: PartitionID, covering: Sequence, part: SnapshotPart
    ) throws(EngineError) -> UInt64 {
        let index = try owned(partition, by: session)
        try EngineRules.check(part)
        guard covering <= partitionsByID[index].last else {
            throw .refused("a snapshot covers durable records only")
        }
        if part.number == 0 {
            uploads += 1
            partitionsByID[index].upload = (uploads, Snapshot(covering: covering))
        }
        guard let (number, before) = partitionsByID[index].upload else {
            throw .refused("a part of another snapshot")
        }
        var snapshot = before
        guard part.number == 0 || number == part.upload, snapshot.parts.count == part.number,
            snapshot.covering == covering
        else { throw .refused("a part of another snapshot") }
        snapshot.parts.append(part.bytes)
        partitionsByID[index].upload = (number, snapshot)
        guard let end = part.end else { return number }
        partitionsByID[index].upload = nil
        snapshot.end = end
        var snapshots = partitionsByID[index].snapshots.filter { $0.covering != covering }
        snapshots.append(snapshot)
        snapshots.sort { $0.covering > $1.covering }
        partitionsByID[index].snapshots = Array(snapshots.prefix(EngineRules.snapshotsKept))
        return number
    }

    public func snapshots(_ partition: PartitionID) throws(EngineError) -> [SnapshotRow] {
        partitionsByID[try self.partition(partition)].snapshots.map {
            SnapshotRow(covering: $0.covering, name: "\(partition.rawValue)-\($0.covering.rawValue)")
        }
    }

    public func readSnapshot(_ partition: PartitionID, covering: Sequence) throws(EngineError) -> [UInt8] {
        let snapshots = partitionsByID[try self.partition(partition)].snapshots
        guard let found = snapshots.first(where: { $0.covering == covering }) else {
            throw .refused("partition \(partition.rawValue) has no snapshot up to \(covering.rawValue)")
        }
        if hidesNewestSnapshots, snapshots.count > 1, covering == snapshots.first?.covering {
            throw .corrupt("the snapshot of partition \(partition.rawValue) up to \(covering.rawValue)")
        }
        var digest = SnapshotDigest(partition, covering: covering)
        for part in found.parts { digest.add(part) }
        let bytes = Array(found.parts.joined())
        guard
            found.end == .init(parts: found.parts.count, length: bytes.count, digest: digest.value)
        else {
            throw .corrupt("the snapshot of partition \(partition.rawValue) up to \(covering.rawValue)")
        }
        return bytes
    }

    public func trim(
        session: SessionID, partition: PartitionID, below: Sequence, keeping: [Sequence], limit: Int
    ) throws(EngineError) -> Int {
        let index = try owned(partition, by: session)
        guard partitionsByID[index].snapshots.count >= EngineRules.snapshotsKept,
            let oldest = partitionsByID[index].snapshots.last
        else { return 0 }
        var bound = min(below, oldest.covering.next)
        #if DEBUG
            if trimsToNewest { bound = below }
        #endif
        partitionsByID[index].row.floor = max(partitionsByID[index].row.floor, bound)
        let kept = Set(keeping)
        let doomed = partitionsByID[index].journal.keys.filter { $0 < bound && !kept.contains($0) }.sorted()
        for sequence in doomed.prefix(limit) { partitionsByID[index].journal[sequence] = nil }
        return min(max(0, doomed.count - limit), limit)
    }

    // MARK: Catalog

    public func put(_ table: CatalogTable, key: String, value: [UInt8]) throws(EngineError) {
        try works()
        try EngineRules.check(key: key, value: value)
        catalog[table, default: [:]][key] = value
    }

    public func putIfAbsent(
        _ table: CatalogTable, key: String, value: [UInt8]
    ) throws(EngineError) -> [UInt8] {
        if let known = try get(table, key: key) { return known }
        try put(table, key: key, value: value)
        return value
    }

    public func change(_ step: CatalogStep, _ writes: CatalogWrites) throws(EngineError) -> Bool {
        try works()
        try EngineRules.check(step, writes)
        let standing = catalog[.setting]?[step.key]
        guard standing == step.from || standing == step.to else { return false }
        catalog[.setting, default: [:]][step.key] = step.to
        for table in CatalogTable.allCases {
            for entry in writes.puts(table) { catalog[table, default: [:]][entry.key] = entry.value }
            for key in writes.removals(table) { catalog[table]?[key] = nil }
        }
        return true
    }

    public func get(_ table: CatalogTable, key: String) throws(EngineError) -> [UInt8]? {
        try works()
        return catalog[table]?[key]
    }

    public func remove(_ table: CatalogTable, key: String) throws(EngineError) {
        try works()
        catalog[table]?[key] = nil
    }

    public func all(_ table: CatalogTable) throws(EngineError) -> [CatalogEntry] {
        try works()
        return (catalog[table] ?? [:]).map { CatalogEntry(key: $0.key, value: $0.value) }
            .sorted { $0.key.utf8.lexicographicallyPrecedes($1.key.utf8) }
    }
}
