import Journal
import Model
import Ownership

/// The partitions' rows of all databases: what a look at the home found is joined with what the others have
/// said meanwhile. A database that does not answer in time is away for this look, and is asked again when the
/// earlier question is settled.
struct PartitionTables {
    struct Table {
        var database: Int
        /// By their order in that database, as they were read last.
        var rows: [PartitionRow]
        /// The look whose question is under way.
        var askedIn: UInt64?
        /// The last look that was answered.
        var answeredIn: UInt64 = 0
        /// Looks since then that the home answered. Others say nothing of this database: while the home is
        /// away they come faster than any answer.
        var missed: UInt64 = 0
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
    }

    /// A database that says nothing is away after so many looks; one that cannot be reached is at once.
    private let looksMissed: UInt64

    /// Of all databases but the home, by number.
    var tables: [Table]
    private(set) var look: UInt64 = 0
    private var waiting: Waiting?
    /// Partitions of databases that cannot be asked, or have not answered for some looks.
    var away: Set<PartitionID> = []
    var awayDatabases: Set<Int> = []

    init(_ map: NodeMap, histories: [History], looksMissed: UInt64) {
        self.looksMissed = looksMissed
        tables = (1..<max(1, map.databaseCount)).map { database in
            let ids = histories.indices.filter { map.database(of: PartitionID(UInt16($0))) == database }
            // Until it answers, nothing is known of who owns what there.
            let rows = ids.map {
                PartitionRow(
                    id: PartitionID(UInt16($0)), history: histories[$0], owner: nil, epoch: Epoch(0),
                    floor: Sequence(1))
            }
            return Table(database: database, rows: rows)
        }
    }

    /// A look begins. The databases to ask, the home aside, and whether the session must be registered there.
    mutating func ask() -> [(database: Int, registers: Bool)] {
        look += 1
        var asked: [(database: Int, registers: Bool)] = []
        for place in tables.indices where tables[place].askedIn == nil {
            tables[place].askedIn = look
            asked.append((tables[place].database, !tables[place].isRegistered))
        }
        return asked
    }

    mutating func read(_ database: Int, look: UInt64, _ rows: [PartitionRow]) {
        let place = database - 1
        tables[place].askedIn = nil
        guard rows.count == tables[place].rows.count else {
            tables[place].failure = "it has \(rows.count) partitions"
            return
        }
        tables[place].rows = rows
        tables[place].isRegistered = true
        tables[place].answeredIn = look
        tables[place].missed = 0
        tables[place].failure = nil
    }

    mutating func failed(_ database: Int, _ reason: String) {
        tables[database - 1].askedIn = nil
        tables[database - 1].failure = reason
    }

    /// What the home has said.
    mutating func join(_ poll: Ownership.Poll, asked: MonotonicTime) {
        waiting = Waiting(poll: poll, asked: asked)
    }

    /// Nothing of this look counts any more.
    mutating func forget() { waiting = nil }

    /// Whether the home has answered and somebody else has not.
    var isWaiting: Bool { waiting != nil }
    var isWhole: Bool { !tables.contains { $0.askedIn == look } }

    /// The joined tables, where the home has answered and the others have as well, or are not waited for
    /// (`isPatient` is false).
    mutating func finish(
        isPatient: Bool, notes: inout [ControlNote]
    ) -> (poll: Ownership.Poll, asked: MonotonicTime)? {
        guard !isPatient || isWhole, let waiting = waiting.take() else { return nil }
        var poll = waiting.poll
        for place in tables.indices {
            poll.partitions += tables[place].rows
            if tables[place].answeredIn != look {
                tables[place].missed += 1
                poll.old.formUnion(tables[place].rows.map(\.id))
            }
            judge(place, &notes)
        }
        if !tables.isEmpty { poll.partitions.sort { $0.id < $1.id } }
        let gone = tables.filter(\.isAway)
        away = Set(gone.flatMap(\.rows).map(\.id))
        poll.away = away
        awayDatabases = Set(gone.map(\.database))
        return (poll, waiting.asked)
    }

    private mutating func judge(_ place: Int, _ notes: inout [ControlNote]) {
        let isAway = tables[place].failure != nil || tables[place].missed >= looksMissed
        guard tables[place].isAway != isAway else { return }
        tables[place].isAway = isAway
        let database = tables[place].database
        notes.append(
            isAway
                ? .databaseAway(database, reason: tables[place].failure ?? "no answer")
                : .databaseBack(database))
    }
}
