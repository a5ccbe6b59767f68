import EngineDriver
import Journal
import Model

/// The threads that write a node's journals, one for each database of its cluster; a lone node has one.
///
/// A transaction is in one database, so each engine has its own queue, batch in flight and unknown outcomes.
/// A database that is slow, full or away delays only the partitions in it.
struct Engines: Sendable {
    /// The home first.
    let all: [EngineThread]

    init(_ all: [EngineThread]) {
        precondition(!all.isEmpty, "a node has an engine")
        self.all = all
    }

    /// The database with what a cluster has once: sessions, projects, keys, settings.
    var home: EngineThread { all[0] }

    func database(of partition: PartitionID) -> Int { partition.database(of: all.count) }

    /// The engine of the database in which the partition lives.
    subscript(_ partition: PartitionID) -> EngineThread { all[database(of: partition)] }

    func use(_ session: SessionID) { for engine in all { engine.use(session) } }

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

    /// Finishes the work that was submitted. Skips databases that are away, because they finish nothing.
    func shutdown(except away: Set<Int> = []) {
        for (number, engine) in all.enumerated() where !away.contains(number) { engine.shutdown() }
    }
}
