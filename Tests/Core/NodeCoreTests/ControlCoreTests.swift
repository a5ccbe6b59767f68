import Journal
import Membership
import Model
import Ownership
import Testing

@testable import NodeCore

/// The control side of a node without a shell, in a cluster on two databases: the even partitions live in the
/// home, the odd ones in the other.
final class ControlHarness {
    let core: ControlCore
    let map = NodeMap(partitionCount: 4, databaseCount: 2)
    var now = MonotonicTime(nanoseconds: 1_000_000_000)
    static let session = SessionID(5)

    init() {
        let info = Ownership.NodeInfo(isShard: true, isGateway: true, peer: "a:1", gossip: "a:1")
        core = ControlCore(
            ControlOptions(
                session: ControlHarness.session, name: "a", info: info, map: map,
                histories: (0..<4).map { History($0 + 100) }, seed: 1), now: now)
    }

    @discardableResult
    func hear(_ event: ControlEvent) -> [ControlEffect] {
        core.handle(event, now: now)
        defer { core.effects = [] }
        return core.effects
    }

    func pass(milliseconds: UInt64) { now = now.advanced(by: .milliseconds(milliseconds)) }

    /// Sessions of other nodes.
    var nodes: [SessionID] = []

    /// The home database's answer: this node and `nodes` are there, and no partition has an owner.
    var poll: Ownership.Poll {
        Ownership.Poll(
            sessions: [
                SessionRow(
                    id: ControlHarness.session, node: "a", counter: 1, info: core.options.info.encoded)
            ]
                + nodes.map {
                    SessionRow(id: $0, node: "\($0.rawValue)", counter: 1, info: core.options.info.encoded)
                },
            partitions: rows(of: 0))
    }

    func rows(of database: Int) -> [PartitionRow] {
        (0..<UInt16(4)).map(PartitionID.init).filter { map.database(of: $0) == database }.map {
            PartitionRow(
                id: $0, history: History(UInt64($0.rawValue) + 100), owner: nil, epoch: Epoch(0),
                floor: Sequence(1))
        }
    }

    /// A look at the home with its answer. Returns the effects of the answer.
    func look() -> [ControlEffect] {
        pass(milliseconds: 500)
        hear(.ownership(.nudged))
        return hear(.polled(poll, asked: now))
    }
}

extension [ControlEffect] {
    /// The partitions that are away, as the last order to the loops names them.
    fileprivate var away: Set<PartitionID>? {
        var last: Set<PartitionID>?
        for case .orderAll(.places(_, let away)) in self { last = away }
        return last
    }
    fileprivate var databasesAway: [Int] {
        compactMap { effect in
            if case .noted(.databaseAway(let number, _, _)) = effect { number } else { nil }
        }
    }
    fileprivate var isJoined: Bool {
        contains { if case .orderAll(.members) = $0 { true } else { false } }
    }
    fileprivate var questions: [Bool] {
        compactMap { effect in
            if case .call(.readTable(1, _, let registers)) = effect { registers } else { nil }
        }
    }
}

@Suite("The control side of a node") struct ControlCoreTests {
    private let harness = ControlHarness()

    @Test("joins what the home has said with what the other database says")
    func joining() {
        let first = harness.hear(.start(seeds: []))
        #expect(first.questions == [true])
        #expect(first.contains { if case .call(.poll) = $0 { true } else { false } })
        let home = harness.hear(.polled(harness.poll, asked: harness.now))
        #expect(!home.isJoined)
        guard case .wake(.patience(1), let at)? = home.last else {
            Issue.record("\(home)")
            return
        }
        #expect(at.since(harness.now) == .milliseconds(500))
        #expect(harness.hear(.tableRead(database: 1, look: 1, harness.rows(of: 1))).isJoined)
        // The patience ends, and the timer finds nothing to do.
        #expect(harness.hear(.timer(.patience(look: 1))).isEmpty)
        // The node registers its session once: a database that forgets the session has gone back.
        harness.pass(milliseconds: 500)
        #expect(harness.hear(.ownership(.nudged)).questions == [false])
    }

    @Test("goes on without a database that says nothing, and counts it as away after three looks")
    func silence() {
        harness.hear(.start(seeds: []))
        harness.hear(.polled(harness.poll, asked: harness.now))
        let second = harness.hear(.timer(.patience(look: 1)))
        #expect(second.isJoined && second.databasesAway.isEmpty)
        // The question is still under way: the node does not ask again, and no look waits for the answer.
        #expect(harness.look().databasesAway.isEmpty)
        let third = harness.look()
        #expect(third.databasesAway == [1] && third.away == [PartitionID(1), PartitionID(3)])
        harness.hear(.tableRead(database: 1, look: 1, harness.rows(of: 1)))
        #expect(harness.core.effects.isEmpty)
        harness.pass(milliseconds: 500)
        #expect(harness.hear(.ownership(.nudged)).questions == [false])
        harness.hear(.tableRead(database: 1, look: 4, harness.rows(of: 1)))
        let back = harness.hear(.polled(harness.poll, asked: harness.now))
        #expect(back.contains { if case .noted(.databaseBack(1, _)) = $0 { true } else { false } })
        #expect(back.away == [])
    }

    /// The node asks a home that refuses again four times as soon. Such looks do not show how slow the others
    /// are.
    @Test("does not count looks at a home that does not answer against the others")
    func homeAway() {
        harness.hear(.start(seeds: []))
        harness.hear(.tableRead(database: 1, look: 1, harness.rows(of: 1)))
        harness.hear(.polled(harness.poll, asked: harness.now))
        for _ in 0..<6 {
            harness.pass(milliseconds: 500)
            harness.hear(.ownership(.nudged))
            harness.hear(.ownership(.pollFailed("refused")))
        }
        #expect(harness.core.tables.look > 4)
        harness.pass(milliseconds: 500)
        harness.hear(.ownership(.nudged))
        #expect(harness.hear(.polled(harness.poll, asked: harness.now)).databasesAway.isEmpty)
    }

    @Test("counts a database that cannot be reached as away at once")
    func failure() {
        harness.hear(.start(seeds: []))
        harness.hear(.polled(harness.poll, asked: harness.now))
        let effects = harness.hear(.tableFailed(database: 1, look: 1, "no route"))
        #expect(effects.databasesAway == [1] && effects.away == [PartitionID(1), PartitionID(3)])
    }

    @Test(
        "ends when its session is dead in any database, unless it has ended it itself",
        arguments: [false, true])
    func fenced(_ isOver: Bool) {
        harness.hear(.start(seeds: []))
        if isOver { harness.hear(.end) }
        let steps = harness.hear(.ownership(.sessionDead)).filter {
            if case .stepDown = $0 { true } else { false }
        }
        #expect(steps.count == (isOver ? 0 : 1))
    }

    @Test("marks a session dead in the other database once it is dead in the home")
    func markingDead() {
        let effects = harness.hear(.fenced(SessionID(3)))
        #expect(effects.contains { if case .call(.markDead(SessionID(3), 1)) = $0 { true } else { false } })
    }

    @Test("takes a partition of the other database only from an owner that is dead in the home")
    func taking() throws {
        var row = try #require(harness.rows(of: 1).first)
        row.owner = SessionID(3)
        let dead = harness.hear(.former(row, SessionID(3), isAlive: false))
        #expect(dead.contains { if case .call(.takeOver(row, SessionID(3))) = $0 { true } else { false } })
        let alive = harness.hear(.former(row, SessionID(3), isAlive: true))
        #expect(alive.contains { if case .noted(.notTaken) = $0 { true } else { false } })
        #expect(!alive.contains { if case .call(.takeOver) = $0 { true } else { false } })
    }

    @Test("notes a fence that failed with its reason, and a lease that has moved not at all")
    func failedFences() {
        _ = harness.hear(.start(seeds: []))
        func noted(_ reason: String?) -> [String] {
            harness.hear(.fenceFailed(SessionID(7), reason)).compactMap { effect in
                if case .noted(.notFenced(SessionID(7), let reason)) = effect { reason } else { nil }
            }
        }
        #expect(noted("a lock") == ["a lock"])
        #expect(noted(nil) == [])
    }

    @Test("is not ready before it has joined, and says so")
    func readiness() {
        harness.hear(.start(seeds: []))
        harness.hear(.polled(harness.poll, asked: harness.now))
        let joined = harness.hear(.tableRead(database: 1, look: 1, harness.rows(of: 1)))
        let reasons = joined.compactMap { effect -> String?? in
            if case .notReady(let reason) = effect { .some(reason) } else { nil }
        }
        #expect(reasons.first == .some("joining the cluster"))
    }

    @Test("sees when one of its invariants does not hold")
    func invariants() {
        func isSeen(_ invariant: String, _ change: (ControlCore) -> Void) {
            let harness = ControlHarness()
            harness.hear(.start(seeds: []))
            harness.hear(.polled(harness.poll, asked: harness.now))
            harness.hear(.tableRead(database: 1, look: 1, harness.rows(of: 1)))
            #expect(harness.core.brokenInvariant(isWhole: true) == nil)
            change(harness.core)
            let broken = harness.core.brokenInvariant(isWhole: true)
            #expect(broken == invariant)
        }
        isSeen("what is shown of the cluster is old") { $0.isViewStale = true }
        isSeen("gossip speaks of another session") { core in
            core.membership = Membership(
                session: SessionID(6), name: "a", address: "a:1", info: [], seed: 1, now: core.now)
        }
        isSeen("the loops do not know which databases are away") { $0.tables.awayDatabases = [1] }
        isSeen("other partitions are away than those of databases that are") {
            $0.tables.away = [PartitionID(1)]
        }
        isSeen("a database stands in the place of another") { $0.tables.tables[0].database = 2 }
        isSeen("a look to come was answered") { $0.tables.tables[0].askedIn = 99 }
        isSeen("it is not clear whether database 1 knows the session") {
            $0.tables.tables[0].isRegistered = false
        }
        isSeen("a look waits for nobody") { core in
            core.tables.join(Ownership.Poll(sessions: [], partitions: []), asked: core.now)
        }
    }
}
