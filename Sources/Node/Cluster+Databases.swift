import Journal
import Logging
import Model
import NIOCore
import Ownership
import SQLiteEngine

// What a node's part in the cluster does where partitions are spread over several databases: each is asked on
// threads of its own, so that one that does not answer holds up nothing but the partitions in it.

/// The threads on which one database is asked for small things, and for whole partitions.
struct DatabaseLane: Sendable {
    let number: Int
    let control: EngineThread
    let loader: EngineThread

    init(_ database: DatabaseSettings, onFatal: @escaping @Sendable (String) -> Void) {
        number = database.number
        // A lease that is not answered for in time is not renewed: the node should know.
        control = EngineThread(
            makeEngine: { try database.engine(silence: 4000) }, onFatal: onFatal, onResolved: { _, _ in })
        loader = EngineThread(
            makeEngine: { try database.engine() }, onFatal: onFatal, onResolved: { _, _ in })
    }

    func shutdown() {
        control.shutdown()
        loader.shutdown()
    }
}

/// The partitions' rows of all databases: what a look at the home found is joined with what the others have
/// said meanwhile. Whoever does not answer in time is away for this look, and is asked again when the earlier
/// question is settled.
// Safe: touched on the cluster's event loop only.
final class PartitionTables: @unchecked Sendable {
    private struct Table {
        var lane: DatabaseLane
        /// By their order in that database, as they were read last.
        var rows: [PartitionRow]
        /// The look whose question is under way.
        var askedIn: UInt64?
        /// The last look that was answered.
        var answeredIn: UInt64 = 0
        /// What the last question came to, if not to an answer.
        var failure: String?
        var isAway = false
        /// The session is known there. It is made known once: a database that has forgotten it has gone back,
        /// and nothing of what this process believes goes into that past.
        var isRegistered = false
    }

    private struct Waiting {
        var poll: Ownership.Poll
        var asked: MonotonicTime
        var done: (Ownership.Poll, _ asked: MonotonicTime) -> Void
    }

    /// For how long a look waits for the other databases after the home has answered.
    private static let patience = TimeAmount.milliseconds(500)

    /// A database that says nothing is away after so many looks; one that cannot be reached is at once.
    private static let looksMissed: UInt64 = 3

    private var tables: [Table]
    private let session: SessionID
    private let node: String
    private let eventLoop: any EventLoop
    private let log: Logger
    /// Runs something on the event loop, as long as that takes anything.
    private let perform: @Sendable (@escaping @Sendable () -> Void) -> Void
    /// The session is dead in one of them.
    private let fenced: () -> Void
    private var look: UInt64 = 0
    private var waiting: Waiting?
    /// Partitions of databases that cannot be asked, or have not answered for some looks: slow they may be.
    private(set) var away: Set<PartitionID> = []
    private(set) var awayDatabases: Set<Int> = []

    init(
        _ lanes: [DatabaseLane], histories: [History], session: SessionID, node: String,
        eventLoop: any EventLoop, log: Logger,
        perform: @escaping @Sendable (@escaping @Sendable () -> Void) -> Void,
        fenced: @escaping () -> Void
    ) {
        self.perform = perform
        self.fenced = fenced
        self.session = session
        self.node = node
        self.eventLoop = eventLoop
        self.log = log
        tables = lanes.dropFirst().map { lane in
            let ids = histories.indices.filter { $0 % lanes.count == lane.number }
            // Until it answers, nothing is known of who owns what there.
            let rows = ids.map {
                PartitionRow(
                    id: PartitionID(UInt16($0)), history: histories[$0], owner: nil, epoch: Epoch(0),
                    floor: Sequence(1))
            }
            return Table(lane: lane, rows: rows)
        }
    }

    /// Asks each database but the home, which is asked at the same time.
    func ask() {
        look += 1
        let (look, session, node) = (look, session, node)
        for place in tables.indices where tables[place].askedIn == nil {
            tables[place].askedIn = look
            let isRegistered = tables[place].isRegistered
            tables[place].lane.control.perform({ engine in
                guard let engine = engine as? any ClusterEngine else {
                    throw EngineError.refused("the engine is not one of clusters")
                }
                if !isRegistered { try engine.register(session, node: node) }
                // Nobody looks at this lease; renewing it shows whether the database is what it was.
                try engine.renewLease(session, info: [])
                return try engine.partitions()
            }) { result in
                self.perform { self.answered(place, look, result) }
            }
        }
    }

    private func answered(_ place: Int, _ asked: UInt64, _ result: Result<[PartitionRow], any Error>) {
        tables[place].askedIn = nil
        switch result {
        case .success(let rows) where rows.count == tables[place].rows.count:
            tables[place].rows = rows
            tables[place].isRegistered = true
            tables[place].answeredIn = asked
            tables[place].failure = nil
        case .success(let rows): tables[place].failure = "it has \(rows.count) partitions"
        case .failure(EngineError.fenced):
            // Superseded by a later process of its node, or the database has forgotten this one.
            waiting = nil
            return fenced()
        case .failure(let error): tables[place].failure = "\(error)"
        }
        finishIfWhole()
    }

    /// What the home has said; `done` when the others have as well, or were waited for.
    func join(
        _ poll: Ownership.Poll, asked: MonotonicTime,
        _ done: @escaping (Ownership.Poll, _ asked: MonotonicTime) -> Void
    ) {
        waiting = Waiting(poll: poll, asked: asked, done: done)
        finishIfWhole()
        guard waiting != nil else { return }
        let look = look
        eventLoop.assumeIsolated().scheduleTask(in: PartitionTables.patience) {
            if self.look == look { self.finish() }
        }
    }

    private func finishIfWhole() {
        if !tables.contains(where: { $0.askedIn == look }) { finish() }
    }

    private func finish() {
        guard let waiting else { return }
        self.waiting = nil
        var poll = waiting.poll
        for place in tables.indices {
            poll.partitions += tables[place].rows
            if tables[place].answeredIn != look { poll.old.formUnion(tables[place].rows.map(\.id)) }
            tell(place)
        }
        if !tables.isEmpty { poll.partitions.sort { $0.id < $1.id } }
        let gone = tables.filter(\.isAway)
        away = Set(gone.flatMap(\.rows).map(\.id))
        poll.away = away
        awayDatabases = Set(gone.map(\.lane.number))
        waiting.done(poll, waiting.asked)
    }

    private func tell(_ place: Int) {
        let isSlow = look - tables[place].answeredIn >= PartitionTables.looksMissed
        let isAway = tables[place].failure != nil || isSlow
        guard tables[place].isAway != isAway else { return }
        tables[place].isAway = isAway
        let number: Logger.MetadataValue = "\(tables[place].lane.number + 1)"
        if isAway {
            log.error(
                "a database is away: the partitions in it wait",
                metadata: ["database": number, "reason": "\(tables[place].failure ?? "no answer")"])
        } else {
            log.notice("a database is back", metadata: ["database": number])
        }
    }
}

extension Cluster {
    func lane(of partition: PartitionID) -> DatabaseLane { lanes[shared.engines.database(of: partition)] }

    /// What became of a look at the tables of all databases.
    func adopt(_ poll: Ownership.Poll, asked: MonotonicTime) {
        let known = current.away
        handle(.polled(poll, asked: asked))
        // Patience with links that are down ends without anything happening.
        tellReadiness()
        if tables.awayDatabases != known { publish() }
    }

    /// The home has the session dead: nobody believes it any more. In the others it is marked dead so that
    /// nothing of it goes in there either. Where that fails, whoever takes one of its partitions does it.
    func fenceElsewhere(_ session: SessionID) {
        for lane in lanes.dropFirst() {
            lane.control.perform({ engine in try engine.fence(session) }) { _ in }
        }
    }

    /// In the home the engine's own word is enough. Elsewhere the former owner must be dead in the home, then
    /// in the partition's database; only then is it taken there.
    func take(_ row: PartitionRow) {
        let session = shared.session
        let lane = lane(of: row.id)
        guard lane.number > 0, let former = row.owner, former != session else {
            return take(row, in: lane, burying: nil)
        }
        lanes[0].control.perform({ engine in try engine.isAlive(former) }) { result in
            switch result {
            case .success(false): self.take(row, in: lane, burying: former)
            case .success(true): self.tookNot(row.id, "session \(former.rawValue) lives")
            case .failure(let error): self.tookNot(row.id, "\(error)")
            }
        }
    }

    private func take(_ row: PartitionRow, in lane: DatabaseLane, burying former: SessionID?) {
        let session = shared.session
        lane.control.perform({ engine in
            if let former { try engine.fence(former) }
            return try Recovery.take(row, by: session, of: engine)
        }) { result in
            switch result {
            case .success(let epoch): self.handle(.taken(row.id, epoch))
            case .failure(let error): self.tookNot(row.id, "\(error)")
            }
        }
    }

    private func tookNot(_ id: PartitionID, _ reason: String) {
        log.warning(
            "a partition was not taken", metadata: ["partition": "\(id.rawValue)", "error": "\(reason)"])
        handle(.takeFailed(id))
    }
}
