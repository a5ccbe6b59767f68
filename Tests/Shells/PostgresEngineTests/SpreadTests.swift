import EngineContract
import Foundation
import Journal
import Model
import PostgresEngine
import Testing

/// A cluster's partitions in two databases on servers of their own: 0, 2 and 4 in the home, 1 and 3 in the
/// other.
private struct Two {
    static let histories = (0..<5).map { History(UInt64($0) + 100) }
    static let cluster = [UInt8](repeating: 7, count: DatabaseIdentity.clusterBytes)

    let servers: [Server]
    let engines: [PostgresEngine]
    let identity: DatabaseIdentity

    init() throws {
        servers = [try Server(), try Server()]
        identity = DatabaseIdentity(
            cluster: Two.cluster, share: try #require(EngineShare(number: 1, of: 2)))
        engines = try servers.enumerated().map { number, server in
            var options = PostgresEngine.Options()
            options.share = try #require(EngineShare(number: number, of: 2))
            return try PostgresEngine(server.connection("postgres"), options: options)
        }
        for engine in engines { try engine.createPartitions(count: 5, histories: Two.histories) }
        try engines[1].put(.setting, key: DatabaseIdentity.key, value: identity.encoded)
    }

    var home: PostgresEngine { engines[0] }
    var other: PostgresEngine { engines[1] }

    /// An engine on the other database that is not connected yet.
    func lazy(_ change: (inout PostgresEngine.Options) throws -> Void = { _ in }) throws -> PostgresEngine {
        var options = PostgresEngine.Options()
        options.share = identity.share
        options.identity = identity
        try change(&options)
        return PostgresEngine(lazily: servers[1].connection("postgres"), options: options)
    }

    func openSession(_ node: String) throws -> SessionID {
        let session = try home.beginSession(node: node)
        try other.register(session, node: node)
        return session
    }

    /// Takes all partitions in one database.
    func takeAll(_ engine: PostgresEngine, by session: SessionID) throws -> [Epoch?] {
        try engine.partitions().map { former in
            let next = try engine.lastSequence(former.id).next.rawValue
            let barrier = try row(Int(former.id.rawValue), next, bytes: 0)
            return try engine.takeOver(former.id, from: former, by: session, barrier: barrier)
        }
    }

    func append(_ engine: PostgresEngine, _ session: SessionID, _ partition: Int, _ sequence: UInt64) throws
        -> AppendOutcome
    {
        engine.append(
            session: session, batch: BatchID(sequence), rows: [try row(partition, sequence)])
    }
}

@Suite("A cluster over two databases", .enabled(if: Server.isInstalled, Server.missing)) struct SpreadTests {
    private let two: Two

    init() throws { two = try Two() }

    /// The home alone is restored from a copy that is older than session 1. Its next session would have that
    /// number, which in the other database is another node's, lives, and owns partitions.
    @Test("never gives a session of a restored home a number of another node")
    func restoredHome() throws {
        let first = try two.openSession("a")
        #expect(try two.takeAll(two.other, by: first) == [Epoch(1), Epoch(1)])
        let restored = try Server()
        var options = PostgresEngine.Options()
        options.share = try #require(EngineShare(number: 0, of: 2))
        let home = try PostgresEngine(restored.connection("postgres"), options: options)
        try home.createPartitions(count: 5, histories: Two.histories)
        let again = try home.beginSession(node: "b")
        #expect(again == first)
        #expect(throws: EngineError.self) { try two.other.register(again, node: "b") }

        try home.skipSessions(through: try two.other.lastSession())
        let next = try home.beginSession(node: "b")
        #expect(next > first)
        try two.other.register(next, node: "b")
        #expect(try two.append(two.other, next, 1, 2) == .rows([.unowned]))
        try home.skipSessions(through: first)
        #expect(try home.beginSession(node: "c") > next, "never back")
    }

    @Test("has its own partitions in each database, which takes no others")
    func ownPartitions() throws {
        #expect(try two.home.partitions().map(\.id) == [p(0), p(2), p(4)])
        #expect(try two.other.partitions().map(\.id) == [p(1), p(3)])
        #expect(try two.other.partitions().map(\.history) == [Two.histories[1], Two.histories[3]])
        try two.other.createPartitions(count: 5, histories: Two.histories)
        #expect(throws: EngineError.self) {
            try two.other.createPartitions(count: 8, histories: (0..<8).map { History(UInt64($0)) })
        }
        let session = try two.openSession("a")
        #expect(try two.takeAll(two.home, by: session) == [Epoch(1), Epoch(1), Epoch(1)])
        #expect(try two.takeAll(two.other, by: session) == [Epoch(1), Epoch(1)])
        let strange = PartitionRow(
            id: p(1), history: Two.histories[1], owner: nil, epoch: Epoch(0), floor: Sequence(1))
        #expect(throws: EngineError.self) {
            try two.home.takeOver(p(1), from: strange, by: session, barrier: try row(1, 1, bytes: 0))
        }
        #expect(throws: EngineError.self) { try two.home.lastSequence(p(1)) }
    }

    @Test("begins a session at home, and registers it elsewhere")
    func homeSession() throws {
        #expect(throws: EngineError.self) { try two.other.beginSession(node: "a") }
        let first = try two.home.beginSession(node: "a")
        #expect(try two.append(two.other, first, 1, 1) == .rows([.fenced]), "it is not known there yet")
        try two.other.register(first, node: "a")
        try two.other.register(first, node: "a")
        try two.other.renewLease(first, info: [])
        #expect(throws: EngineError.self) { try two.home.register(first, node: "a") }
        // A later process of the node supersedes the first in each database when it registers there.
        let second = try two.home.beginSession(node: "a")
        #expect(try !two.home.isAlive(first))
        #expect(try two.other.isAlive(first))
        try two.other.register(second, node: "a")
        #expect(try !two.other.isAlive(first))
        #expect(throws: EngineError.fenced) { try two.other.register(first, node: "a") }
        #expect(throws: EngineError.fenced) { try two.other.renewLease(first, info: []) }
        try two.other.renewLease(second, info: [])
        // Numbers may come in any order.
        let third = try two.home.beginSession(node: "b")
        let fourth = try two.home.beginSession(node: "c")
        try two.other.register(fourth, node: "c")
        try two.other.register(third, node: "b")
        #expect(try two.other.isAlive(third))
    }

    @Test("leaves a session dead that was fenced before it was known")
    func fencedUnknown() throws {
        let session = try two.home.beginSession(node: "a")
        try two.home.fence(session)
        try two.other.fence(session)
        try two.other.fence(session)
        #expect(throws: EngineError.fenced) { try two.other.register(session, node: "a") }
        let next = try two.openSession("a")
        #expect(try two.other.isAlive(next))
    }

    /// A fence in one database does not count in the other: an owner must be dead in the partition's
    /// database.
    @Test("lets a partition be taken when its owner is dead in the partition's database")
    func ownDatabase() throws {
        let owner = try two.openSession("a")
        let heir = try two.openSession("b")
        for engine in two.engines { _ = try two.takeAll(engine, by: owner) }
        try two.home.fence(owner)
        #expect(try two.takeAll(two.home, by: heir) == [Epoch(2), Epoch(2), Epoch(2)])
        #expect(throws: EngineError.self) { try two.takeAll(two.other, by: heir) }
        #expect(try two.append(two.home, owner, 0, 3) == .rows([.fenced]))
        #expect(try two.append(two.other, owner, 1, 2) == .rows([.appended]), "it owns what it owns there")
        try two.other.fence(owner)
        #expect(try two.append(two.other, owner, 1, 3) == .rows([.fenced]))
        #expect(try two.takeAll(two.other, by: heir) == [Epoch(2), Epoch(2)])
        #expect(try two.other.read(p(1), from: Sequence(2), bytesMax: .max).count == 2)
    }

    @Test("misses only the partitions of a database that is gone")
    func goneDatabase() throws {
        let owner = try two.openSession("a")
        let heir = try two.openSession("b")
        for engine in two.engines { _ = try two.takeAll(engine, by: owner) }
        try two.servers[1].command("stop")
        let lost = try two.append(two.other, owner, 1, 2)
        #expect(lost.isRefused || lost.isUnknown, "\(lost)")
        #expect(try two.append(two.home, owner, 0, 2) == .rows([.appended]))
        try two.home.renewLease(owner, info: [1])
        try two.home.fence(owner)
        #expect(try two.takeAll(two.home, by: heir) == [Epoch(2), Epoch(2), Epoch(2)])
        #expect(throws: EngineError.self) { try two.other.fence(owner) }
        let lazy = try two.lazy()
        #expect(sentence { _ = try lazy.partitions() }.hasPrefix("cannot reach the database"))
        #expect(lazy.failure == nil && two.other.failure == nil)
        try two.servers[1].command("start")
        #expect(try lazy.partitions().map(\.owner) == [owner, owner])
        try two.other.fence(owner)
        #expect(try two.takeAll(two.other, by: heir) == [Epoch(2), Epoch(2)])
    }

    @Test("tells a database that is another, and leaves it alone")
    func wrongDatabase() throws {
        #expect(try two.lazy().partitions().count == 2)
        let strange = try two.lazy { options in
            options.identity = DatabaseIdentity(
                cluster: [UInt8](repeating: 8, count: 16), share: two.identity.share)
        }
        #expect(sentence { _ = try strange.partitions() }.contains("belongs to another cluster"))
        let disordered = try two.lazy { options in
            let share = try #require(EngineShare(number: 2, of: 3))
            options.identity = DatabaseIdentity(cluster: Two.cluster, share: share)
        }
        let reason = sentence { _ = try disordered.partitions() }
        #expect(reason.contains("named as database 3 of 3 of this cluster is database 2 of 2"), "\(reason)")
        #expect(reason.contains("in the order in which the cluster was made"), "\(reason)")
        let outcome = disordered.append(session: SessionID(1), batch: BatchID(1), rows: [try row(1, 1)])
        #expect(outcome.isRefused)
        var options = PostgresEngine.Options()
        options.identity = two.identity
        let empty = PostgresEngine(lazily: try Server.shared().makeDatabase(), options: options)
        #expect(sentence { _ = try empty.partitions() }.contains("has no identity of a cluster"))
    }

    /// An engine must not write to a database that may lack records which the cluster knew at its last look.
    @Test("does not trust a database whose past may lack something")
    func lackingPast() throws {
        let past = try #require(try two.other.past())
        #expect(try two.lazy { $0.knownPast = past }.partitions().count == 2)
        var later = past
        later.timeline += 1
        let lazy = try two.lazy { $0.knownPast = later }
        #expect(sentence { _ = try lazy.partitions() }.contains("its last records may be lost"))
        #expect(lazy.failure != nil)
    }
}
