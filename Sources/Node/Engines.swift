import Journal
import Model
import SQLiteEngine

/// The threads that write a node's journals, one for each of its cluster's databases; a node on its own has
/// one.
///
/// A transaction is of one database, so each has a queue, a batch in flight and doubts of its own: one that
/// is slow, full or away hinders only the partitions that live in it.
struct Engines: Sendable {
    /// The home first.
    let all: [EngineThread]

    init(_ all: [EngineThread]) {
        precondition(!all.isEmpty, "a node has an engine")
        self.all = all
    }

    /// What there is once: sessions, projects, keys, settings.
    var home: EngineThread { all[0] }

    func database(of partition: PartitionID) -> Int { Int(partition.rawValue) % all.count }

    /// Where the partition lives.
    subscript(_ partition: PartitionID) -> EngineThread { all[database(of: partition)] }

    func begin(_ session: SessionID) { for engine in all { engine.begin(session) } }

    func open(_ partition: PartitionID, next: Sequence) { self[partition].open(partition, next: next) }

    func submit(_ rows: [Row], for owner: Int) {
        guard all.count > 1 else { return home.submit(rows, for: owner) }
        var parts: [[Row]] = Array(repeating: [], count: all.count)
        for row in rows { parts[database(of: row.partition)].append(row) }
        for (engine, part) in zip(all, parts) { engine.submit(part, for: owner) }
    }

    var counters: EngineCounters {
        var sum = EngineCounters.none
        for engine in all { sum.add(engine.counters) }
        return sum
    }

    /// Finishes what was submitted, except where a database is away: there is nothing to wait for.
    func shutdown(except away: Set<Int> = []) {
        for (number, engine) in all.enumerated() where !away.contains(number) { engine.shutdown() }
    }
}
