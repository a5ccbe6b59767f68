import EngineContract
import Journal
import Model
import PostgresEngine
import Testing

@Suite("The engine on PostgreSQL", .enabled(if: Server.isInstalled, Server.missing)) struct ContractTests {
    @Test("keeps the contract of engines", arguments: EngineContract.rules)
    func postgresKeepsTheContract(rule: EngineContract.Rule) throws {
        try rule.check(try newEngine())
    }

    @Test("moves a lease with each renewal, and ends it with a fence")
    func leases() throws {
        let engine = try newEngine()
        let first = try engine.beginSession(node: "a")
        let second = try engine.beginSession(node: "b")
        try engine.renewLease(first, info: [1, 2, 3])
        try engine.renewLease(first, info: [1, 2])
        #expect(try engine.renewLease(first) == 3)
        let rows = try engine.sessions()
        #expect(rows.map(\.id) == [first, second] && rows.map(\.counter) == [3, 0])
        #expect(rows[0].info == [1, 2] && rows[0].node == "a" && rows[1].info.isEmpty)
        try engine.fence(second)
        #expect(try engine.sessions().map(\.id) == [first])
        #expect(throws: EngineError.fenced) { try engine.renewLease(second, info: []) }
        let long = [UInt8](repeating: 0, count: ClusterRules.infoBytesMax + 1)
        #expect(throws: EngineError.self) { try engine.renewLease(first, info: long) }
    }

    @Test("lets a partition's owner alone give the partition up")
    func givenUp() throws {
        let engine = try newEngine()
        let owner = try openSession(engine)
        let other = try engine.beginSession(node: "b")
        #expect(throws: EngineError.fenced) { try engine.release(p(0), by: other) }
        try engine.release(p(0), by: owner)
        #expect(throws: EngineError.fenced) { try engine.release(p(0), by: owner) }
        let free = try engine.partitions()[0]
        #expect(free.owner == nil)
        #expect(try engine.takeOver(p(0), from: free, by: other, barrier: try row(0, 2)) == Epoch(2))
        #expect(throws: EngineError.fenced) { try engine.release(p(0), by: owner) }
        try engine.fence(owner)
        #expect(throws: EngineError.fenced) { try engine.release(p(1), by: owner) }
    }
}
