import Journal
import Model
import Ownership
import Partitions

/// A call that a node makes to a database. The node and the simulator carry out each call with the same
/// `perform`, and hand its answer to the same cores (rule: one-core-in-two-worlds).
public enum DatabaseCall: Sendable {
    // Calls of the control side. `poll` and `readTable` are in no order with the other calls: a look may find
    // a change before the change's answer has come. `Ownership.reconcile` rests on epochs and on when each
    // question was asked, not on order.
    /// Renew the lease in the home with this description, and read the tables. Answered by `polled`, or by
    /// ownership's `pollFailed` or `sessionDead`.
    case poll(Ownership.NodeInfo, asked: MonotonicTime)
    /// Renew the lease in another database and read the partitions there, after registering the session if
    /// `registers`. Answered by `tableRead`, `tableFailed`, or by ownership's `sessionDead`.
    case readTable(database: Int, look: UInt64, registers: Bool)
    /// Mark the session dead in the home, if its counter is still this one. Answered by `fenced` or
    /// `fenceFailed`.
    case fence(SessionID, at: UInt64)
    /// The session is dead in the home: mark it dead in this database. Nothing waits for that.
    case markDead(SessionID, database: Int)
    /// Ask the home whether the previous owner of the row lives. Answered by `former` or `notTaken`.
    case askFormer(PartitionRow, SessionID)
    /// Take the partition, after marking its previous owner dead in the partition's database. Answered by
    /// ownership's `taken`, or by `notTaken`.
    case takeOver(PartitionRow, markingDead: SessionID?)
    /// Read a partition that another node owns. Answered by `followed` to the partition's loop, or by
    /// ownership's `followFailed`.
    case follow(PartitionID)

    // Calls of a loop, for a partition that it serves or is to serve.
    /// Read the partition behind the mark, or whole, and in a cluster the tokens that the owner of the epoch
    /// before left in the buckets. Answered by `loaded` or `loadFailed`.
    case load(PartitionID, Epoch, behind: StoredPartition.Mark?)
    /// The partition's machine has ended and nothing of it is in flight: clear the row's owner, and keep the
    /// tokens in the buckets of its projects. Answered by ownership's `released` or `releaseFailed`.
    case giveUp(PartitionID, Epoch, left: [ProjectNumber: [UInt64]])
    /// Ask whether this session lives. Answered by `confirmed` to the partition, by `lost`, or by
    /// `confirmFailed`.
    case confirm(PartitionID, token: UInt64)
    /// Answered by `records` to the partition, or by `readFailed`.
    case readRecords(PartitionID, [Sequence], bytesMax: Int, token: UInt64)
    /// Write a part of a snapshot. Answered by `snapshotPart` or `snapshotFailed` to the partition.
    case writeSnapshot(PartitionID, covering: Sequence, SnapshotPart, token: UInt64)
    /// Delete a slice. Answered by `trimmed` or `trimFailed`.
    case trim(PartitionID, below: Sequence, keeping: [Sequence])

    /// Rows that a trim deletes at most, so that appends never wait long behind it.
    private static let trimSlice = 500

    /// A connection of a node to a database. Each carries out one call at a time, in order.
    public enum Line: Sendable {
        /// Renews the lease and reads the tables, and does nothing else. Other nodes judge by the lease
        /// whether this node lives, so it must not wait for anything else (rule: lease-waits-for-nothing).
        case lease
        /// Takes, releases and fences. Each may wait long for its commit.
        case control
        /// Reads whole partitions.
        case loader
        /// Writes the journals. Calls run between appends.
        case journal
    }

    public var line: Line {
        switch self {
        case .poll, .readTable: .lease
        case .fence, .markDead, .askFormer, .takeOver, .giveUp: .control
        case .follow, .load: .loader
        case .confirm, .readRecords, .writeSnapshot, .trim: .journal
        }
    }

    /// Whether the call moves many bytes.
    public var isLarge: Bool {
        switch self {
        case .readRecords, .writeSnapshot: true
        default: false
        }
    }

    public var isWrite: Bool {
        switch self {
        case .askFormer, .follow, .load, .confirm, .readRecords: false
        default: true
        }
    }

    /// The number of the call's database; 0 is the home.
    public func database(_ map: NodeMap) -> Int {
        switch self {
        case .poll, .fence, .askFormer: 0
        case .readTable(let database, _, _), .markDead(_, let database): database
        case .takeOver(let row, _): map.database(of: row.id)
        case .follow(let id), .load(let id, _, _), .giveUp(let id, _, _), .confirm(let id, _),
            .readRecords(let id, _, _, _), .writeSnapshot(let id, _, _, _), .trim(let id, _, _):
            map.database(of: id)
        }
    }

    /// The process that calls.
    public struct Caller: Sendable {
        public var session: SessionID
        public var node: String
        /// Bytes of records that a reading of a partition asks for at a time.
        public var bytesMax: Int

        public init(
            session: SessionID, node: String = "", bytesMax: Int = StoredPartition.readBytesMax
        ) {
            self.session = session
            self.node = node
            self.bytesMax = bytesMax
        }
    }

    /// Carries the call out, on the thread of its line. `clock` reads the caller's clocks. `answer` makes an
    /// answer of what this throws.
    public func perform(
        on engine: any Engine, for caller: Caller, clock: () -> Instant
    ) throws -> DatabaseAnswer {
        let session = caller.session
        switch self {
        case .poll(let info, let asked):
            let cluster = try engine.ofCluster
            let poll = try Ownership.Poll(renewing: session, info: info, of: cluster)
            return DatabaseAnswer(try DatabaseCall.look(at: cluster, clock) + [.polled(poll, asked: asked)])
        case .readTable(let database, let look, let registers):
            let cluster = try engine.ofCluster
            if registers { try cluster.register(session, node: caller.node) }
            // No node judges by this lease. The renewal shows whether the database is still what it was.
            try cluster.renewLease(session, info: [])
            return DatabaseAnswer([.tableRead(database: database, look: look, try cluster.partitions())])
        case .fence(let other, let counter):
            let isFenced = try engine.ofCluster.fence(other, at: counter)
            return DatabaseAnswer([isFenced ? .fenced(other) : .fenceFailed(other, nil)])
        case .markDead(let other, _):
            try engine.fence(other)
            return DatabaseAnswer()
        case .askFormer(let row, let former):
            return DatabaseAnswer([.former(row, former, isAlive: try engine.isAlive(former))])
        case .takeOver(let row, let former):
            if let former { try engine.fence(former) }
            let epoch = try PartitionTransfer.takeOver(row, by: session, of: engine)?.epoch
            return DatabaseAnswer([.ownership(.taken(row.id, epoch))])
        case .giveUp(let id, let epoch, let left):
            try PartitionTransfer.giveUp(id, epoch, left: left, by: session, of: engine.ofCluster)
            return DatabaseAnswer([.ownership(.released(id))])
        case .follow(let id):
            let read = try StoredPartition(id, from: engine, bytesMax: caller.bytesMax)
            return DatabaseAnswer(id, .engine(.followed(read)))
        case .load(let id, let epoch, let mark):
            let loaded = try PartitionTransfer.load(
                id, epoch, behind: mark, from: engine, bytesMax: caller.bytesMax)
            let answer = DatabaseAnswer(id, .engine(.loaded(loaded.partition, epoch, quotas: loaded.quotas)))
            return loaded.unreadableQuotas.map {
                answer.telling("the stored buckets of quotas cannot be read: the buckets begin empty", $0)
            } ?? answer
        case .confirm(let id, let token):
            guard try engine.isAlive(session) else {
                // Records in flight may be in the journal, or may still go in.
                return DatabaseAnswer(
                    id, .lost(id, mayHaveAppended: true, reason: "the session was fenced"))
            }
            return DatabaseAnswer(id, .partition(id, .confirmed(token)))
        case .readRecords(let id, let sequences, let bytesMax, let token):
            let records = try engine.readBodies(id, of: sequences, bytesMax: bytesMax)
            return DatabaseAnswer(id, .partition(id, .records(records, token: token)))
        case .writeSnapshot(let id, let covering, let part, let token):
            let upload = try engine.writeSnapshot(
                session: session, partition: id, covering: covering, part: part)
            return DatabaseAnswer(id, .partition(id, .snapshotPart(upload: upload, token: token)))
        case .trim(let id, let below, let keeping):
            let left = try engine.trim(
                session: session, partition: id, below: below, keeping: keeping,
                limit: DatabaseCall.trimSlice)
            return DatabaseAnswer(id, .engine(.trimmed(id, left: left)))
        }
    }

    private static func look(
        at engine: any ClusterEngine, _ clock: () -> Instant
    ) throws -> [ControlEvent] {
        let asked = clock().monotonic
        guard let theirs = try engine.wallClock() else { return [] }
        return [.clockRead(ClockReading(asked: asked, own: clock(), theirs: theirs))]
    }

    /// The call's answer, also if the database refused the call or could not be reached.
    public func answer(_ result: Result<DatabaseAnswer, any Error>) -> DatabaseAnswer {
        switch result {
        case .success(let answer): answer
        case .failure(let error): failed(error)
        }
    }

    private func failed(_ error: any Error) -> DatabaseAnswer {
        // A later process of this node has superseded this one, or the database has forgotten this session.
        let isDead = if case EngineError.fenced = error { true } else { false }
        switch self {
        case .poll: return DatabaseAnswer([.ownership(isDead ? .sessionDead : .pollFailed("\(error)"))])
        case .readTable(let database, let look, _):
            let failure = ControlEvent.tableFailed(database: database, look: look, "\(error)")
            return DatabaseAnswer([isDead ? .ownership(.sessionDead) : failure])
        case .fence(let other, _): return DatabaseAnswer([.fenceFailed(other, "\(error)")])
        case .markDead: return DatabaseAnswer()
        case .askFormer(let row, _), .takeOver(let row, _):
            return DatabaseAnswer([.notTaken(row.id, "\(error)")])
        case .giveUp(let id, _, _): return DatabaseAnswer([.ownership(.releaseFailed(id))])
        case .follow(let id): return DatabaseAnswer([.ownership(.followFailed(id))])
        case .load(let id, let epoch, _):
            let failure = EngineAnswer.loadFailed(id, epoch, of: error)
            return DatabaseAnswer(id, .engine(failure)).telling("a partition could not be read", error)
        case .confirm(let id, let token):
            return DatabaseAnswer(id, .engine(.confirmFailed(id, token: token)))
        case .readRecords(let id, let sequences, let bytesMax, let token):
            let failure = EngineAnswer.readFailed(id, sequences, bytesMax: bytesMax, token: token)
            return DatabaseAnswer(id, .engine(failure)).telling("bodies could not be read", error)
        case .writeSnapshot(let id, _, _, let token):
            return DatabaseAnswer(id, .partition(id, .snapshotFailed(token: token)))
                .telling("a snapshot was not written", error)
        case .trim(let id, _, _):
            return DatabaseAnswer(id, .engine(.trimFailed(id))).telling("the journal was not trimmed", error)
        }
    }
}

/// What a call's answer is to the node: events for its control side, or a message to a partition's loop.
public struct DatabaseAnswer: Sendable {
    public var events: [ControlEvent] = []
    public var message: (partition: PartitionID, LoopMessage)?
    /// A line for operators about the message's partition, with the error.
    public var complaint: (line: String, error: String)?

    public init(_ events: [ControlEvent] = []) { self.events = events }

    init(_ partition: PartitionID, _ message: LoopMessage) { self.message = (partition, message) }

    /// With a line for operators.
    func telling(_ line: String, _ error: any Error) -> DatabaseAnswer {
        var answer = self
        answer.complaint = (line, "\(error)")
        return answer
    }
}

extension Engine {
    public var ofCluster: any ClusterEngine {
        get throws(EngineError) {
            guard let engine = self as? any ClusterEngine else {
                throw .refused("this engine cannot store a cluster")
            }
            return engine
        }
    }
}
