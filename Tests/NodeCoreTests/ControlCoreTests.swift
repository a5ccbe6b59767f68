import Journal
import Membership
import Model
import Ownership
import Partitions
import Routing
import Testing

@testable import NodeCore

/// The control side of a node without a shell, in a cluster on two databases: the even partitions live in the
/// home, the odd ones in the other.
private final class ControlDesk {
    let core: ControlCore
    let map = NodeMap(partitionCount: 4, databaseCount: 2)
    var now = MonotonicTime(nanoseconds: 1_000_000_000)
    static let session = SessionID(5)

    init() {
        let info = Ownership.NodeInfo(isShard: true, isGateway: true, peer: "a:1", gossip: "a:1")
        core = ControlCore(
            ControlOptions(
                session: ControlDesk.session, name: "a", info: info, map: map,
                histories: (0..<4).map { History($0 + 100) }, seed: 1), now: now)
    }

    @discardableResult
    func hear(_ event: ControlEvent) -> [ControlEffect] {
        core.handle(event, now: now)
        defer { core.effects = [] }
        return core.effects
    }

    func pass(milliseconds: UInt64) { now = now.advanced(by: .milliseconds(milliseconds)) }

    /// The home database's answer: only this node is there, and no partition has an owner.
    var poll: Ownership.Poll {
        Ownership.Poll(
            sessions: [
                SessionRow(
                    id: ControlDesk.session, node: "a", counter: 1, info: core.options.info.encoded)
            ],
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
        compactMap { effect in if case .noted(.databaseAway(let number, _)) = effect { number } else { nil } }
    }
    fileprivate var isJoined: Bool {
        contains { if case .orderAll(.members) = $0 { true } else { false } }
    }
    fileprivate var questions: [Bool] {
        compactMap { effect in
            if case .readTable(1, _, let registers) = effect { registers } else { nil }
        }
    }
}

@Suite("The control side of a node") struct ControlCoreTests {
    @Test("joins what the home has said with what the other database says")
    func joining() {
        let desk = ControlDesk()
        let first = desk.hear(.begin(seeds: []))
        #expect(first.questions == [true])
        #expect(first.contains { if case .poll = $0 { true } else { false } })
        let home = desk.hear(.polled(desk.poll, asked: desk.now))
        #expect(!home.isJoined)
        guard case .wake(.patience(1), let at)? = home.last else {
            Issue.record("\(home)")
            return
        }
        #expect(at.since(desk.now) == .milliseconds(500))
        #expect(desk.hear(.tableRead(database: 1, look: 1, desk.rows(of: 1))).isJoined)
        // The patience ends, and the timer finds nothing to do.
        #expect(desk.hear(.timer(.patience(look: 1))).isEmpty)
        // The node registers its session once: a database that forgets the session has gone back.
        desk.pass(milliseconds: 500)
        #expect(desk.hear(.ownership(.nudged)).questions == [false])
    }

    @Test("compares the node's clock with the database's, and says once that they are apart")
    func clocks() {
        let desk = ControlDesk()
        let wall = WallTime(milliseconds: 1_800_000_000_000)
        let own = Instant(monotonic: desk.now, wall: wall)
        func told(_ effects: [ControlEffect]) -> [String] {
            effects.compactMap { effect in
                switch effect {
                case .orderAll(.clockCompared(let reading)): reading == own ? "right" : "wrong"
                case .noted(.clockDiffers(let ahead)): "ahead \(ahead)"
                default: nil
                }
            }
        }
        #expect(told(desk.hear(.clockRead(own, theirs: wall))) == ["right"])
        let theirs = WallTime(milliseconds: wall.milliseconds - 61_000)
        #expect(told(desk.hear(.clockRead(own, theirs: theirs))) == ["ahead 61000", "wrong"])
        #expect(told(desk.hear(.clockRead(own, theirs: theirs))) == ["wrong"])
    }

    @Test("goes on without a database that says nothing, and counts it as away after three looks")
    func silence() {
        let desk = ControlDesk()
        desk.hear(.begin(seeds: []))
        desk.hear(.polled(desk.poll, asked: desk.now))
        let second = desk.hear(.timer(.patience(look: 1)))
        #expect(second.isJoined && second.databasesAway.isEmpty)
        // The question is still under way: the node does not ask again, and no look waits for the answer.
        #expect(desk.look().databasesAway.isEmpty)
        let third = desk.look()
        #expect(third.databasesAway == [1] && third.away == [PartitionID(1), PartitionID(3)])
        desk.hear(.tableRead(database: 1, look: 1, desk.rows(of: 1)))
        #expect(desk.core.effects.isEmpty)
        desk.pass(milliseconds: 500)
        #expect(desk.hear(.ownership(.nudged)).questions == [false])
        desk.hear(.tableRead(database: 1, look: 4, desk.rows(of: 1)))
        let back = desk.hear(.polled(desk.poll, asked: desk.now))
        #expect(back.contains { if case .noted(.databaseBack(1)) = $0 { true } else { false } })
        #expect(back.away == [])
    }

    /// The node asks a home that refuses again four times as soon. Such looks do not show how slow the others
    /// are.
    @Test("does not count looks at a home that does not answer against the others")
    func homeAway() {
        let desk = ControlDesk()
        desk.hear(.begin(seeds: []))
        desk.hear(.tableRead(database: 1, look: 1, desk.rows(of: 1)))
        desk.hear(.polled(desk.poll, asked: desk.now))
        for _ in 0..<6 {
            desk.pass(milliseconds: 500)
            desk.hear(.ownership(.nudged))
            desk.hear(.ownership(.pollFailed("refused")))
        }
        #expect(desk.core.tables.look > 4)
        desk.pass(milliseconds: 500)
        desk.hear(.ownership(.nudged))
        #expect(desk.hear(.polled(desk.poll, asked: desk.now)).databasesAway.isEmpty)
    }

    @Test("counts a database that cannot be reached as away at once")
    func failure() {
        let desk = ControlDesk()
        desk.hear(.begin(seeds: []))
        desk.hear(.polled(desk.poll, asked: desk.now))
        let effects = desk.hear(.tableFailed(database: 1, look: 1, "no route"))
        #expect(effects.databasesAway == [1] && effects.away == [PartitionID(1), PartitionID(3)])
    }

    @Test(
        "ends when its session is dead in any database, unless it has ended it itself",
        arguments: [false, true])
    func fenced(_ isOver: Bool) {
        let desk = ControlDesk()
        desk.hear(.begin(seeds: []))
        if isOver { desk.hear(.end) }
        let steps = desk.hear(.ownership(.fenced)).filter { if case .stepDown = $0 { true } else { false } }
        #expect(steps.count == (isOver ? 0 : 1))
    }

    @Test("marks a session dead in the other database once it is dead in the home")
    func burying() {
        let desk = ControlDesk()
        let effects = desk.hear(.fenced(SessionID(3)))
        #expect(effects.contains { if case .bury(SessionID(3), 1) = $0 { true } else { false } })
    }

    @Test("takes a partition of the other database only from an owner that is dead in the home")
    func taking() throws {
        let desk = ControlDesk()
        var row = try #require(desk.rows(of: 1).first)
        row.owner = SessionID(3)
        let dead = desk.hear(.former(row, SessionID(3), isAlive: false))
        #expect(dead.contains { if case .take(row, SessionID(3)) = $0 { true } else { false } })
        let alive = desk.hear(.former(row, SessionID(3), isAlive: true))
        #expect(alive.contains { if case .noted(.notTaken) = $0 { true } else { false } })
        #expect(!alive.contains { if case .take = $0 { true } else { false } })
    }

    @Test("notes a fence that failed with its reason, and a lease that has moved not at all")
    func failedFences() {
        let desk = ControlDesk()
        _ = desk.hear(.begin(seeds: []))
        func noted(_ reason: String?) -> [String] {
            desk.hear(.fenceFailed(SessionID(7), reason)).compactMap { effect in
                if case .noted(.notFenced(SessionID(7), let reason)) = effect { reason } else { nil }
            }
        }
        #expect(noted("a lock") == ["a lock"])
        #expect(noted(nil) == [])
    }

    @Test("is not ready before it has joined, and says so")
    func readiness() {
        let desk = ControlDesk()
        desk.hear(.begin(seeds: []))
        desk.hear(.polled(desk.poll, asked: desk.now))
        let joined = desk.hear(.tableRead(database: 1, look: 1, desk.rows(of: 1)))
        let reasons = joined.compactMap { effect -> String?? in
            if case .notReady(let reason) = effect { .some(reason) } else { nil }
        }
        #expect(reasons.first == .some("joining the cluster"))
    }

    @Test("sees when one of its laws does not hold")
    func laws() {
        func isSeen(_ law: String, _ change: (ControlCore) -> Void) {
            let desk = ControlDesk()
            desk.hear(.begin(seeds: []))
            desk.hear(.polled(desk.poll, asked: desk.now))
            desk.hear(.tableRead(database: 1, look: 1, desk.rows(of: 1)))
            #expect(desk.core.brokenInvariant(isWhole: true) == nil)
            change(desk.core)
            let broken = desk.core.brokenInvariant(isWhole: true)
            #expect(broken == law)
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
