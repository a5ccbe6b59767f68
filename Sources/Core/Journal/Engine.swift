import Model

/// One record of one partition, as an engine stores it. `RecordCodec` makes `payload`.
public struct Row: Hashable, Sendable {
    public var partition: PartitionID
    public var sequence: Sequence
    public var payload: [UInt8]
    /// Which of the partition's machines in this process made the row. Not stored; 0 if the row was read.
    public var incarnation: UInt32

    public init(partition: PartitionID, sequence: Sequence, payload: [UInt8], incarnation: UInt32 = 0) {
        self.partition = partition
        self.sequence = sequence
        self.payload = payload
        self.incarnation = incarnation
    }
}

/// The outcome of one row of an append.
public enum RowOutcome: Hashable, Sendable {
    case appended
    /// The session is dead; nothing that it sends goes in any more.
    case fenced
    /// Another row has this sequence already, perhaps an earlier try of the same batch: `look` returns which.
    case taken
    /// The row is not in: the session does not own the partition (any more), or the journal was trimmed past
    /// this sequence.
    case unowned
}

/// The outcome of one append.
public enum AppendOutcome: Hashable, Sendable {
    /// The transaction is durable, and so is everything that it saw, even if all its sequences were taken.
    /// One outcome for each row, in order. An append of no rows has exactly one outcome: `appended` or
    /// `fenced`.
    case rows([RowOutcome])
    /// Nothing went in, and the engine goes on: the disk is full, or the database is locked.
    case refused(String)
    /// The reply was lost. The append may be in, may still go in, or may never have arrived.
    case unknown(String)
}

/// One partition's row: which session may write the journal, and under which epoch.
public struct PartitionRow: Hashable, Sendable {
    public var id: PartitionID
    public var history: History
    public var owner: SessionID?
    public var epoch: Epoch
    /// The journal is whole from this sequence on. Below it are only rows that a trim had to keep. At first
    /// 1.
    public var floor: Sequence

    public init(id: PartitionID, history: History, owner: SessionID?, epoch: Epoch, floor: Sequence) {
        self.id = id
        self.history = history
        self.owner = owner
        self.epoch = epoch
        self.floor = floor
    }
}

public enum EngineError: Error, Hashable, Sendable {
    /// The session is dead, or no longer owns the partition.
    case fenced
    /// The engine can no longer be trusted. It does nothing more: stop, start again, check.
    case ioFailure(String)
    /// The call did nothing, and the engine goes on: the disk is full, the database is locked, or the request
    /// makes no sense here.
    case refused(String)
    /// The stored bytes are not the bytes that were written.
    case corrupt(String)
}

extension EngineError: CustomStringConvertible {
    public var description: String {
        switch self {
        case .fenced: "the session was fenced"
        case .ioFailure(let reason), .refused(let reason), .corrupt(let reason): reason
        }
    }
}

/// The small tables beside the journals: keys are texts, and the callers encode the values.
public enum CatalogTable: String, CaseIterable, Sendable {
    case project, credential, key, setting
}

/// A snapshot as the engine's table names it.
public struct SnapshotRow: Hashable, Sendable {
    /// The snapshot holds everything up to and including the record of this sequence.
    public var covering: Sequence
    public var name: String

    public init(covering: Sequence, name: String) {
        self.covering = covering
        self.name = name
    }
}

/// The store of journals. Synchronous, used from one thread at a time. SQLite, PostgreSQL and memory keep the
/// same contract, and no caller asks an engine for anything else.
///
/// Only the engine grants writing. An append goes in under a *living session* that *owns the partition*, at
/// sequences that no row has (rule: checked-append). Snapshots, the floor and trimming demand such a session
/// too (rule: fenced-snapshots).
public protocol Engine: AnyObject {
    /// Why the engine has given up for good, if it has. From then on every call fails with `ioFailure`, and
    /// an append is `unknown`. The caller must look here after each call and then stop acknowledging.
    var failure: String? { get }

    /// Begins a new session of `node` and fences all its earlier sessions.
    func beginSession(node: String) throws(EngineError) -> SessionID
    /// Marks the session dead; nothing that it sends later goes in. Fencing a dead session is no error.
    func fence(_ session: SessionID) throws(EngineError)
    /// Whether the session lives: the read that confirms an epoch (rule: proven-answers).
    func isAlive(_ session: SessionID) throws(EngineError) -> Bool

    /// Creates the partitions on first start, with one history each. Their number never changes: the same
    /// number again does nothing, and another number is refused.
    func createPartitions(count: Int, histories: [History]) throws(EngineError)
    /// All partitions by rising id.
    func partitions() throws(EngineError) -> [PartitionRow]
    /// Makes `session` the owner and appends the barrier, if the row is still as `former` says. The barrier
    /// must come directly behind the last record. `nil`: another session was faster. Refused while another
    /// living session owns the partition.
    func takeOver(
        _ partition: PartitionID, from former: PartitionRow, by session: SessionID, barrier: Row
    ) throws(EngineError) -> Epoch?
    /// The sequence of the last record ever appended, 0 before the first.
    func lastSequence(_ partition: PartitionID) throws(EngineError) -> Sequence

    /// One transaction. A row whose sequence is taken does not hinder the others.
    func append(session: SessionID, batch: BatchID, rows: [Row]) -> AppendOutcome
    /// The batch that put a row at this sequence, `nil` if there is none.
    func look(_ partition: PartitionID, _ sequence: Sequence) throws(EngineError) -> BatchID?
    /// Rows from `from` on, in order and each verified, until their payloads pass `bytesMax`; at least one if
    /// there is one. The reader must look for gaps.
    func read(_ partition: PartitionID, from: Sequence, bytesMax: Int) throws(EngineError) -> [Row]
    /// The rows of these sequences that are there, by rising sequence and each verified. Ends behind the row
    /// with which their payloads reach `bytesMax`.
    func read(_ partition: PartitionID, rows: [Sequence], bytesMax: Int) throws(EngineError) -> [Row]

    /// Stores a part of a snapshot of everything up to and including `covering`. Nobody sees the snapshot
    /// before its last part; then it counts, and the engine keeps the two newest. Returns the number of the
    /// upload, which each later part must name. The partition's next snapshots remove the parts of an
    /// unfinished upload.
    func writeSnapshot(
        session: SessionID, partition: PartitionID, covering: Sequence, part: SnapshotPart
    ) throws(EngineError) -> UInt64
    /// Newest first.
    func snapshots(_ partition: PartitionID) throws(EngineError) -> [SnapshotRow]
    /// The snapshot's bytes, verified.
    func readSnapshot(_ partition: PartitionID, covering: Sequence) throws(EngineError) -> [UInt8]
    /// Deletes at most `limit` rows below `below`, except those of `keeping`, and moves the floor. The engine
    /// cuts `below` to what the older of two snapshots covers; before there are two, it deletes nothing.
    /// Returns how many rows are left to delete, counted up to `limit`; 0 for none.
    func trim(
        session: SessionID, partition: PartitionID, below: Sequence, keeping: [Sequence], limit: Int
    ) throws(EngineError) -> Int

    func put(_ table: CatalogTable, key: String, value: [UInt8]) throws(EngineError)
    /// Inserts the value if the key is absent; returns the stored value.
    func putIfAbsent(_ table: CatalogTable, key: String, value: [UInt8]) throws(EngineError) -> [UInt8]
    /// Compare-and-set: takes the step and writes all of `writes`, or does nothing if the setting no longer
    /// has the value `step.from`. The caller must then compute the change again. No lock is held between the
    /// reading and this call. Returns whether the change is done, now or by an earlier try of the same step;
    /// `refused` also if the engine cannot know.
    func change(_ step: CatalogStep, _ writes: CatalogWrites) throws(EngineError) -> Bool
    func get(_ table: CatalogTable, key: String) throws(EngineError) -> [UInt8]?
    /// Removing an entry that is not there is no error.
    func remove(_ table: CatalogTable, key: String) throws(EngineError)
    /// All entries by rising key (bytewise).
    func all(_ table: CatalogTable) throws(EngineError) -> [CatalogEntry]
    /// Runs a change of the small tables after which the engine's files hold nothing of the replaced values.
    /// An engine whose files belong to a database server only runs the change.
    func erasing<Result>(_ change: () throws -> Result) throws -> Result
}

extension Engine {
    public func erasing<Result>(_ change: () throws -> Result) throws -> Result { try change() }
}

public struct CatalogEntry: Hashable, Sendable {
    public var key: String
    public var value: [UInt8]

    public init(key: String, value: [UInt8]) {
        self.key = key
        self.value = value
    }
}

/// Bounds and checks that all engines share, with the same error texts.
public enum EngineRules {
    /// Far above what a partition ever reaches, and safe in every engine's integers.
    public static let sequenceMax = Sequence((1 << 48) - 1)
    /// Names of nodes and keys of catalog tables, in bytes.
    public static let keyBytesMax = 1024
    public static let catalogValueBytesMax = 1 << 20
    public static let snapshotBytesMax = 2 << 30
    /// Bytes of one part of a snapshot.
    public static let snapshotPartBytesMax = 1 << 20
    /// Snapshots kept of each partition.
    public static let snapshotsKept = 2

    /// Checks the arguments of `createPartitions`.
    public static func check(count: Int, histories: [History], existing: Int) throws(EngineError) {
        if existing > 0, existing != count {
            throw .refused(
                "the data has \(existing) partitions, and their number never changes; asked for \(count)")
        }
        guard (1...PartitionID.countMax).contains(count) else {
            throw .refused("a number of partitions is 1 to \(PartitionID.countMax), not \(count)")
        }
        guard existing > 0 || histories.count == count else {
            throw .refused("\(count) partitions need as many histories, not \(histories.count)")
        }
    }

    /// Checks the size of a catalog entry.
    public static func check(key: String, value: [UInt8]) throws(EngineError) {
        guard key.utf8.count <= keyBytesMax else { throw .refused("a key has at most \(keyBytesMax) bytes") }
        guard value.count <= catalogValueBytesMax else {
            throw .refused("a catalog value has at most \(catalogValueBytesMax) bytes")
        }
    }

    /// Checks what all engines demand of a part of a snapshot.
    public static func check(_ part: SnapshotPart) throws(EngineError) {
        guard part.bytes.count <= snapshotPartBytesMax, part.end?.length ?? 0 <= snapshotBytesMax else {
            throw .refused(
                "a part of a snapshot has at most \(snapshotPartBytesMax) bytes, and all parts together"
                    + " \(snapshotBytesMax)")
        }
        guard part.number == 0 || part.upload != nil else {
            throw .refused("a part that is not the first must name its upload")
        }
    }

    /// Verifies a row that an engine has read.
    public static func verify(_ row: Row) throws(EngineError) {
        do throws(RecordError) {
            try RecordCodec.verify(row.payload, expecting: row.partition, row.sequence)
        } catch {
            throw .corrupt("partition \(row.partition.rawValue), record \(row.sequence.rawValue): \(error)")
        }
    }
}
