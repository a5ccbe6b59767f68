import Journal
import Model
import Ownership

/// The partitions' rows of all databases. A look joins the home's rows with the rows that the other databases
/// have sent meanwhile. If a database has not answered in time, its rows are old in this look; the look asks
/// it again once the earlier question is settled.
struct PartitionTables {
    struct Table {
        var database: Int
        /// In that database's order, as they were read last.
        var rows: [PartitionRow]
        /// The look whose question is under way; `nil` if none is.
        var askedIn: UInt64?
        /// The last look that was answered.
        var answeredIn: UInt64 = 0
        /// Looks since then that the home answered. Other looks show nothing about this database: while the
        /// home is away, looks follow each other faster than any answer comes.
        var missed: UInt64 = 0
        /// Why the last question got no answer; `nil` if it got one.
        var failure: String?
        var isAway = false
        /// The database knows the session. A node registers once: a database that has forgotten the session
        /// has gone back, and nothing that this process believes may go into that past.
        var isRegistered = false
    }

    private struct Waiting {
        var poll: Ownership.Poll
        var asked: MonotonicTime
    }

    /// How many looks a silent database may miss before it is away. One that cannot be reached is away at
    /// once.
    private let looksMissed: UInt64

    /// One for each database but the home, by number.
    var tables: [Table]
    private(set) var look: UInt64 = 0
    private var waiting: Waiting?
    /// Partitions of databases that cannot be reached, or have not answered for some looks.
    var away: Set<PartitionID> = []
    var awayDatabases: Set<Int> = []

    init(_ map: NodeMap, histories: [History], looksMissed: UInt64) {
        self.looksMissed = looksMissed
        tables = (1..<max(1, map.databaseCount)).map { database in
            let ids = histories.indices.filter { map.database(of: PartitionID(UInt16($0))) == database }
            // Until the database answers, nothing is known of its partitions' owners.
            let rows = ids.map {
                PartitionRow(
                    id: PartitionID(UInt16($0)), history: histories[$0], owner: nil, epoch: Epoch(0),
                    floor: Sequence(1))
            }
            return Table(database: database, rows: rows)
        }
    }

    /// Begins a look. Returns the databases to ask, without the home, and whether each must register the
    /// session.
    mutating func ask() -> [(database: Int, registers: Bool)] {
        look += 1
        var asked: [(database: Int, registers: Bool)] = []
        for index in tables.indices where tables[index].askedIn == nil {
            tables[index].askedIn = look
            asked.append((tables[index].database, !tables[index].isRegistered))
        }
        return asked
    }

    mutating func read(_ database: Int, look: UInt64, _ rows: [PartitionRow]) {
        let index = database - 1
        tables[index].askedIn = nil
        guard rows.count == tables[index].rows.count else {
            tables[index].failure =
                "the database has \(rows.count) partitions, not \(tables[index].rows.count)"
            return
        }
        tables[index].rows = rows
        tables[index].isRegistered = true
        tables[index].answeredIn = look
        tables[index].missed = 0
        tables[index].failure = nil
    }

    mutating func failed(_ database: Int, _ reason: String) {
        tables[database - 1].askedIn = nil
        tables[database - 1].failure = reason
    }

    /// Takes the home's answer.
    mutating func join(_ poll: Ownership.Poll, asked: MonotonicTime) {
        waiting = Waiting(poll: poll, asked: asked)
    }

    /// Drops the look under way: nothing of it counts any more.
    mutating func forget() { waiting = nil }

    /// Whether the home has answered, and the look still waits for another database.
    var isWaiting: Bool { waiting != nil }
    var isWhole: Bool { !tables.contains { $0.askedIn == look } }

    /// The joined tables, once the home has answered and the other databases have answered too, or the look
    /// does not wait for them (`isPatient` is false).
    mutating func finish(
        isPatient: Bool
    ) -> (poll: Ownership.Poll, asked: MonotonicTime)? {
        guard !isPatient || isWhole, let waiting = waiting.take() else { return nil }
        var poll = waiting.poll
        for index in tables.indices {
            poll.partitions += tables[index].rows
            if tables[index].answeredIn != look {
                tables[index].missed += 1
                poll.old.formUnion(tables[index].rows.map(\.id))
            }
            judge(index)
        }
        if !tables.isEmpty { poll.partitions.sort { $0.id < $1.id } }
        let gone = tables.filter(\.isAway)
        away = Set(gone.flatMap(\.rows).map(\.id))
        poll.away = away
        awayDatabases = Set(gone.map(\.database))
        return (poll, waiting.asked)
    }

    private mutating func judge(_ index: Int) {
        tables[index].isAway = tables[index].failure != nil || tables[index].missed >= looksMissed
    }

    /// Each further database, and why it is away; `nil` if it answers.
    var failures: [(database: Int, reason: String?)] {
        tables.map { ($0.database, $0.isAway ? $0.failure ?? "the database does not answer" : nil) }
    }
}
