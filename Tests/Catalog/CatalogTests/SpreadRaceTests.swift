import Journal
import MemoryEngine
import Model
import Testing

@testable import Catalog

/// Counts the calls of one node for all its databases, and runs `interruption` before one of them.
private final class Calls {
    private(set) var count = 0
    private let step: Int
    private let interruption: () throws -> Void

    init(before step: Int = .max, _ interruption: @escaping () throws -> Void = {}) {
        (self.step, self.interruption) = (step, interruption)
    }

    func one() throws(EngineError) {
        count += 1
        guard count == step else { return }
        do { try interruption() } catch { throw EngineError.refused("\(error)") }
    }
}

/// One node's connection to a database, as far as the spread needs one.
private final class Connection: Engine {
    private let database: MemoryEngine
    private let calls: Calls

    init(_ database: MemoryEngine, _ calls: Calls) { (self.database, self.calls) = (database, calls) }

    var failure: String? { nil }

    func createPartitions(count: Int, histories: [History]) throws(EngineError) {
        try calls.one()
        try database.createPartitions(count: count, histories: histories)
    }
    func partitions() throws(EngineError) -> [PartitionRow] {
        try calls.one()
        return try database.partitions()
    }
    func put(_ table: CatalogTable, key: String, value: [UInt8]) throws(EngineError) {
        try calls.one()
        try database.put(table, key: key, value: value)
    }
    func putIfAbsent(_ table: CatalogTable, key: String, value: [UInt8]) throws(EngineError) -> [UInt8] {
        try calls.one()
        return try database.putIfAbsent(table, key: key, value: value)
    }
    func get(_ table: CatalogTable, key: String) throws(EngineError) -> [UInt8]? {
        try calls.one()
        return try database.get(table, key: key)
    }
    func remove(_ table: CatalogTable, key: String) throws(EngineError) {
        try calls.one()
        try database.remove(table, key: key)
    }

    private func notAsked() -> EngineError { .refused("no node asks for this while it makes a spread") }
    func beginSession(node: String) throws(EngineError) -> SessionID { throw notAsked() }
    func fence(_ session: SessionID) throws(EngineError) { throw notAsked() }
    func isAlive(_ session: SessionID) throws(EngineError) -> Bool { throw notAsked() }
    func takeOver(
        _ partition: PartitionID, from former: PartitionRow, by session: SessionID, barrier: Row
    ) throws(EngineError) -> Epoch? { throw notAsked() }
    func lastSequence(_ partition: PartitionID) throws(EngineError) -> Sequence { throw notAsked() }
    func append(session: SessionID, batch: BatchID, rows: [Row]) -> AppendOutcome { .refused("") }
    func look(_ partition: PartitionID, _ sequence: Sequence) throws(EngineError) -> BatchID? {
        throw notAsked()
    }
    func read(_ partition: PartitionID, from: Sequence, bytesMax: Int) throws(EngineError) -> [Row] {
        throw notAsked()
    }
    func read(_ partition: PartitionID, rows: [Sequence], bytesMax: Int) throws(EngineError) -> [Row] {
        throw notAsked()
    }
    func writeSnapshot(
        session: SessionID, partition: PartitionID, covering: Sequence, part: SnapshotPart
    ) throws(EngineError) -> UInt64 { throw notAsked() }
    func snapshots(_ partition: PartitionID) throws(EngineError) -> [SnapshotRow] { throw notAsked() }
    func readSnapshot(_ partition: PartitionID, covering: Sequence) throws(EngineError) -> [UInt8] {
        throw notAsked()
    }
    func trim(
        session: SessionID, partition: PartitionID, below: Sequence, keeping: [Sequence], limit: Int
    ) throws(EngineError) -> Int { throw notAsked() }
    func change(_ step: CatalogStep, _ writes: CatalogWrites) throws(EngineError) -> Bool {
        throw notAsked()
    }
    func all(_ table: CatalogTable) throws(EngineError) -> [CatalogEntry] { throw notAsked() }
}

@Suite("Nodes that make a spread at the same time") struct SpreadRaceTests {
    private static let partitions = 8

    private func settle(_ databases: [MemoryEngine], _ calls: Calls) throws -> DatabaseSpread {
        let engines = databases.map { Connection($0, calls) }
        return try DatabaseSpread.settle(
            engines[0], further: Array(engines.dropFirst()), partitions: SpreadRaceTests.partitions)
    }

    private func databases() throws -> [MemoryEngine] {
        try (0..<3).map { MemoryEngine(share: try #require(EngineShare(number: $0, of: 3))) }
    }

    /// Before each call of one node, the other node does the whole, or does a part and dies.
    @Test("find the same spread, wherever one comes between the other's steps or dies")
    func bothFindTheSameSpread() throws {
        let alone = Calls()
        _ = try settle(try databases(), alone)
        struct Died: Error {}
        for step in 1...alone.count {
            for steps in 1...(alone.count + 1) {
                let all = try databases()
                var other: DatabaseSpread?
                let one = try settle(
                    all,
                    Calls(before: step) {
                        other = try? settle(all, Calls(before: steps) { throw Died() })
                    })
                #expect(other.map { $0.encoded == one.encoded } ?? true, "before \(step), \(steps) steps")
                #expect(try DatabaseSpread.read(all[0])?.encoded == one.encoded)
                #expect(try all.map { try $0.partitions().count } == [3, 3, 2])
            }
        }
    }
}
