import Journal
import MemoryEngine
import Model
import Testing

@testable import Catalog

@Suite("The spread of a cluster's partitions") struct DatabaseSpreadTests {
    private func engines(_ count: Int) throws -> [MemoryEngine] {
        try (0..<count).map { MemoryEngine(share: try #require(EngineShare(number: $0, of: count))) }
    }

    private func settle(_ engines: [MemoryEngine?], partitions: Int = 8) throws -> DatabaseSpread {
        try DatabaseSpread.settle(
            try #require(engines[0]), further: Array(engines.dropFirst()), partitions: partitions)
    }

    private func sentence(_ engines: [MemoryEngine?]) -> String {
        do {
            _ = try settle(engines)
            return ""
        } catch {
            return "\(error)"
        }
    }

    @Test("is made once, and each later start finds it again")
    func itIsMadeOnceAndFoundAgain() throws {
        let all = try engines(3)
        let made = try settle(all)
        #expect(made.isMade && made.count == 3 && made.histories.count == 8)
        #expect(try all.map { try $0.partitions().count } == [3, 3, 2])
        for engine in all {
            for row in try engine.partitions() {
                #expect(row.history == made.histories[Int(row.id.rawValue)])
            }
        }
        let found = try settle(all, partitions: 99)
        #expect(found.encoded == made.encoded)
        #expect(try DatabaseSpread(decoding: made.encoded).encoded == made.encoded)
    }

    /// Once the cluster is made, it does not wait for databases that are away. Before that nothing is
    /// written.
    @Test("needs all databases when it is made, and only the home afterwards")
    func away() throws {
        let all = try engines(3)
        #expect(sentence([all[0], all[1], nil]).contains("database 3 cannot be reached"))
        #expect(try DatabaseSpread.read(all[0]) == nil)
        #expect(try all[1].partitions().isEmpty)
        _ = try settle(all)
        #expect(try settle([all[0], nil, nil]).isMade)
    }

    /// A node may stop after each step of the making, and the next node goes on.
    @Test("is made in steps, and after each step the next node can go on", arguments: 1...7)
    func resumed(steps: Int) throws {
        let all = try engines(3)
        let full = try settle(all)
        let again = try engines(3)
        var unmade = full
        unmade.isMade = false
        let doings: [() throws -> Void] = [
            { try again[0].put(.setting, key: "databases", value: unmade.encoded) },
            { try again[0].createPartitions(count: 8, histories: full.histories) },
            {
                try again[1].put(
                    .setting, key: DatabaseIdentity.key, value: try full.identity(1).encoded)
            },
            {
                try again[2].put(
                    .setting, key: DatabaseIdentity.key, value: try full.identity(2).encoded)
            },
            { try again[1].createPartitions(count: 8, histories: full.histories) },
            { try again[2].createPartitions(count: 8, histories: full.histories) },
            { try again[0].put(.setting, key: "databases", value: full.encoded) },
        ]
        for doing in doings.prefix(steps) { try doing() }
        #expect(try settle(again).encoded == full.encoded)
        #expect(try again.map { try $0.partitions().count } == [3, 3, 2])
    }

    @Test("is refused with what to do where databases are named wrongly")
    func misnamed() throws {
        let all = try engines(3)
        _ = try settle(all)
        #expect(sentence([all[0], all[2], all[1]]).contains("is database 3 of 3: name the databases in"))
        #expect(sentence([all[0], all[1]]).contains("spread over 3 databases, and 2 are named"))
        #expect(sentence([all[0]]).contains("spread over 3 databases, and 1 is named"))
        #expect(sentence([all[1], all[0], all[2]]).contains("--engine names database 2 of 3"))
        #expect(sentence([all[0], all[0], all[2]]).contains("name the home of a cluster as"))
        let others = try engines(3)
        #expect(sentence([all[0], all[1], others[2]]).contains("has no identity of a cluster"))
        _ = try settle(others)
        #expect(sentence([all[0], all[1], others[2]]).contains("belongs to another cluster"))
        #expect(try others[2].partitions().count == 2)
    }

    @Test("does not come later to a cluster that was made on one database")
    func lateSpread() throws {
        let one = MemoryEngine()
        try one.createPartitions(count: 8, histories: (0..<8).map { History($0) })
        let further = try engines(2)[1]
        #expect(sentence([one, further]).contains("leave out --further-engine"))
        #expect(try DatabaseSpread.mistake(one, named: 1) == nil)
        #expect(try further.partitions().isEmpty)
        // Nor can it be a further database of another cluster.
        let home = try engines(2)[0]
        #expect(sentence([home, one]).contains("name the home of a cluster as"))
        #expect(try home.partitions().isEmpty)
    }

    /// A cluster must not use one database twice.
    @Test("is refused where one database is named twice")
    func oneThatIsNamedTwiceIsTold() throws {
        let all = try engines(3)
        #expect(sentence([all[0], all[1], all[1]]).contains("is database 2 of 3"))
        #expect(sentence([all[0], all[1], all[0]]).contains("name the home of a cluster as"))
        #expect(try settle(all).isMade, "it can still be made as it should be")
    }

    @Test("is refused where its bytes are cut or too many, and changed bytes are no trap")
    func notASpread() throws {
        let bytes = try settle(try engines(2)).encoded
        for length in bytes.indices {
            #expect(throws: (any Error).self) { try DatabaseSpread(decoding: Array(bytes[..<length])) }
        }
        #expect(throws: (any Error).self) { try DatabaseSpread(decoding: bytes + [1]) }
        for index in 0..<min(30, bytes.count) {
            for value in UInt8.min...UInt8.max {
                var changed = bytes
                changed[index] = value
                _ = try? DatabaseSpread(decoding: changed)
            }
        }
    }

    /// The generation rises when any of the databases may have lost something.
    @Test("has a generation that rises when any of the databases may have lost something")
    func generations() throws {
        let home = MemoryEngine()
        home.currentPast = EnginePast(system: 1, timeline: 1, isReplicated: false)
        func past(_ timeline: UInt32) -> EnginePast {
            EnginePast(system: 2, timeline: timeline, isReplicated: false)
        }
        #expect(try Generation.current(home, databases: 2) { [1: past(1)] }.number == 0)
        #expect(try Generation.current(home, databases: 2) { [1: past(1)] }.number == 0)
        #expect(try Generation.current(home, databases: 2).number == 0, "one that is away says nothing")
        #expect(try Generation.current(home, databases: 2) { [1: past(2)] }.number == 1)
        #expect(try Generation.current(home, databases: 2) { [1: past(2)] }.number == 1)
        #expect(try Generation.knownPast(of: 1, home) == past(2))
        home.currentPast?.timeline = 2
        #expect(try Generation.current(home, databases: 2) { [1: past(3)] }.number == 3)
        #expect(try Generation.current(home, databases: 2).number == 3)
    }
}
