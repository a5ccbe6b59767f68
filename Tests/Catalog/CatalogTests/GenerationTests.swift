import Journal
import MemoryEngine
import Testing

@testable import Catalog

@Suite("The generation of a cluster's database") struct GenerationTests {
    private let engine = MemoryEngine()

    private func past(_ system: UInt64, _ timeline: UInt32, replicated: Bool = false) -> EnginePast {
        EnginePast(system: system, timeline: timeline, isReplicated: replicated)
    }

    /// The generation rises when acknowledged records may be missing, and at no other time.
    @Test("rises when acknowledged records may be missing, and at no other time")
    func losses() throws {
        #expect(try Generation.current(engine).number == 0, "an engine of one past")
        let steps: [(EnginePast, UInt64)] = [
            (past(1, 1), 0), (past(1, 1), 0),
            // A failover, without a standby that had everything.
            (past(1, 2), 1), (past(1, 2), 1),
            // From now on there is such a standby: the next failover loses nothing.
            (past(1, 2, replicated: true), 1), (past(1, 3, replicated: true), 1),
            // A copy that was restored elsewhere, and an old primary.
            (past(2, 3), 2), (past(2, 1), 3),
        ]
        for (past, generation) in steps {
            engine.currentPast = past
            #expect(try Generation.current(engine).number == generation, "\(past)")
        }
    }

    /// A copy of a database is another cluster, in another server and also beside the original.
    @Test("has another life in each copy, and one life for all nodes of a cluster")
    func lives() throws {
        #expect(try Generation.current(engine).life.isEmpty, "an engine of one past")
        func life(_ past: EnginePast) throws -> [UInt8] {
            engine.currentPast = past
            return try Generation.current(engine).life
        }
        let beside = EnginePast(system: 1, database: 8, timeline: 1, isReplicated: false)
        let clone = EnginePast(system: 1, database: 9, timeline: 1, isReplicated: false)
        let steps = [past(2, 1), beside, clone, beside, past(1, 2)]
        var lives: [[UInt8]] = []
        for past in steps {
            lives.append(try life(past))
            #expect(try life(past) == lives.last, "each node of a cluster has the same")
        }
        #expect(Set(lives).count == steps.count && lives.allSatisfy { $0.count == 16 })
        // A setting of the same database changes no life.
        let replicated = try life(past(1, 2, replicated: true))
        #expect(replicated == lives.last)
        #expect(try life(past(1, 3, replicated: true)) == replicated, "a failover without a loss")
    }

    /// Another node is faster while this node stands still between its look and its write: the generation
    /// rises once.
    @Test("rises once where two nodes see the same loss")
    func race() throws {
        engine.currentPast = past(1, 1)
        #expect(try Generation.current(engine).number == 0)
        engine.currentPast = past(1, 2)
        var others: [UInt64] = []
        let standing = try Generation.current(engine, databases: 2) {
            if others.isEmpty { others.append(try Generation.current(engine).number) }
            return [1: past(7, 1)]
        }
        #expect(others == [1] && standing.number == 1 && standing.pasts == [1: past(7, 1)])
        // Another node has seen a loss of database 1 meanwhile: this node's older look at the database must
        // not count.
        var isFirst = true
        let again = try Generation.current(engine, databases: 2) {
            guard isFirst else { return [1: past(8, 1)] }
            isFirst = false
            let other = try Generation.current(engine, databases: 2) { [1: past(8, 1)] }
            #expect(other.number == 2)
            return [1: past(7, 1)]
        }
        #expect(again.number == 2 && again.pasts == [1: past(8, 1)])
    }
}
