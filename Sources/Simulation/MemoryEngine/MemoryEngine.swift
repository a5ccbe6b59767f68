import Journal
import Model

/// An engine in memory, for tests and the simulator: deterministic, with faults that the test chooses.
///
/// Acknowledged rows survive every crash. Rows that went in under a lost reply are visible, and vanish with
/// `crash(keepsUnacknowledged: false)` until a later append or take is acknowledged. A database behaves like
/// this when it fails over before its standby has the commit.
public final class MemoryEngine: Engine {
    /// A fault of the next append.
    public enum Fault: Hashable, Sendable {
        /// The disk is full: nothing goes in.
        case refuse
        /// The rows go in, and the reply is lost.
        case loseReply
        /// The request is lost: the rows do not go in, and no reply comes.
        case loseRequest
        /// The engine gives up for good, before or after the rows went in.
        case fail(afterCommit: Bool)
    }

    struct Stored {
        var batch: BatchID
        var payload: [UInt8]
    }
    struct Snapshot {
        var covering: Sequence
        var parts: [[UInt8]] = []
        var end = SnapshotPart.End(parts: 0, length: 0, digest: 0)
    }
    struct Partition {
        var row: PartitionRow
        var journal: [Sequence: Stored] = [:]
        var snapshots: [Snapshot] = []
        /// A snapshot whose last part is missing.
        var upload: (number: UInt64, snapshot: Snapshot)?
        var last: Sequence { max(journal.keys.max() ?? .zero, Sequence(row.floor.rawValue - 1)) }
    }

    public internal(set) var failure: String?
    /// The wall clock and the past that the engine reports; `nil` for an engine that has none.
    public var clock: WallTime?
    public var currentPast: EnginePast?
    /// Whether a session has a lease before its first renewal, as in PostgreSQL.
    public var leasesFromBirth = false
    /// Which partitions live here.
    public let share: EngineShare
    /// Faults of the next appends, in order; `nil` is an append that works.
    public var faults: [Fault?] = []
    /// The engine fails at the call after so many; `nil`: at none.
    public var callsLeft: Int?
    /// Whether a partition's newest snapshot cannot be read where there is an older one.
    public var hidesNewestSnapshots = false
    /// Appends that were acknowledged.
    public internal(set) var commits = 0
    var partitionsByID: [Partition] = []
    var sessionList: [(node: String, isAlive: Bool)] = []
    /// Outside the home: sessions that have begun, and are neither registered nor fenced here so far.
    var unknownSessions: Set<SessionID> = []
    var uploads: UInt64 = 0
    var leases: [SessionID: (counter: UInt64, info: [UInt8])] = [:]
    var catalog: [CatalogTable: [String: [UInt8]]] = [:]
    /// Visible rows that a crash may take away, until a later append or take is acknowledged.
    var unacknowledged: [(partition: PartitionID, sequence: Sequence)] = []

    public init(share: EngineShare = EngineShare()) { self.share = share }

    /// The machine goes down and comes back: sessions stay as they were, faults are forgotten, the handle
    /// works again.
    public func crash(keepsUnacknowledged: Bool) {
        if !keepsUnacknowledged {
            for row in unacknowledged {
                partitionsByID[Int(row.partition.rawValue)].journal[row.sequence] = nil
            }
        }
        unacknowledged.removeAll()
        faults.removeAll()
        failure = nil
    }

    /// Flips bits of a stored payload, as a bad disk does.
    public func damage(_ partition: PartitionID, _ sequence: Sequence, byte: Int, mask: UInt8) {
        guard var stored = partitionsByID[Int(partition.rawValue)].journal[sequence],
            byte < stored.payload.count
        else { return }
        stored.payload[byte] ^= mask
        partitionsByID[Int(partition.rawValue)].journal[sequence] = stored
    }

    func works() throws(EngineError) {
        if let left = callsLeft {
            callsLeft = left - 1
            if left <= 0 { failure = "the machine went down" }
        }
        if let failure { throw .ioFailure(failure) }
    }

    func partition(_ id: PartitionID) throws(EngineError) -> Int {
        try works()
        guard Int(id.rawValue) < partitionsByID.count, share.holds(id) else {
            throw .refused("no partition \(id.rawValue)")
        }
        return Int(id.rawValue)
    }

    func isLiving(_ session: SessionID) -> Bool {
        session.rawValue > 0 && session.rawValue <= UInt64(sessionList.count)
            && sessionList[Int(session.rawValue) - 1].isAlive
    }

    func owned(_ id: PartitionID, by session: SessionID) throws(EngineError) -> Int {
        let index = try partition(id)
        guard isLiving(session), partitionsByID[index].row.owner == session else { throw .fenced }
        return index
    }

    // MARK: Appending

    public func append(session: SessionID, batch: BatchID, rows: [Row]) -> AppendOutcome {
        if let failure { return .unknown(failure) }
        let fault = faults.isEmpty ? nil : faults.removeFirst()
        switch fault {
        case .refuse: return .refused("the disk is full")
        case .loseRequest: return .unknown("the request was lost")
        case .fail(afterCommit: false):
            failure = "the disk failed"
            return .unknown("the disk failed")
        case .loseReply, .fail, nil: break
        }
        let outcomes = commit(session: session, batch: batch, rows: rows)
        let appended = zip(rows, outcomes).filter { $0.1 == .appended }.map {
            ($0.0.partition, $0.0.sequence)
        }
        if fault == nil {
            if !outcomes.contains(.fenced) { unacknowledged.removeAll() }
            commits += 1
            return .rows(outcomes)
        }
        unacknowledged.append(contentsOf: appended.map { (partition: $0.0, sequence: $0.1) })
        if fault == .fail(afterCommit: true) { failure = "the disk failed" }
        return .unknown("the reply was lost")
    }

    private func commit(session: SessionID, batch: BatchID, rows: [Row]) -> [RowOutcome] {
        guard isLiving(session) else { return Array(repeating: .fenced, count: max(1, rows.count)) }
        guard !rows.isEmpty else { return [.appended] }
        return rows.map { row in
            let index = Int(row.partition.rawValue)
            guard index < partitionsByID.count, partitionsByID[index].row.owner == session else {
                return .unowned
            }
            // No row goes in below the floor: a late copy of an append would put back what was trimmed.
            guard row.sequence >= partitionsByID[index].row.floor else { return .unowned }
            guard partitionsByID[index].journal[row.sequence] == nil else { return .taken }
            partitionsByID[index].journal[row.sequence] = Stored(batch: batch, payload: row.payload)
            return .appended
        }
    }

    #if DEBUG
        /// Deletes records that only the newest snapshot covers: a bug that tests plant.
        public var trimsToNewest = false

        /// An append that checks neither the session nor its ownership: a bug that tests plant.
        public func appendUnchecked(batch: BatchID, rows: [Row]) -> [RowOutcome] {
            rows.map { row in
                let index = Int(row.partition.rawValue)
                guard partitionsByID[index].journal[row.sequence] == nil else { return .taken }
                partitionsByID[index].journal[row.sequence] = Stored(batch: batch, payload: row.payload)
                return .appended
            }
        }
    #endif

    public func look(_ partition: PartitionID, _ sequence: Sequence) throws(EngineError) -> BatchID? {
        partitionsByID[try self.partition(partition)].journal[sequence]?.batch
    }
}
