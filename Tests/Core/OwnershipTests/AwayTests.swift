import Journal
import Model
import Ownership
import Testing

/// Partitions in two databases, the even ones in the first. The second database does not answer.
@Suite("Partitions whose database is away") struct AwayTests {
    private static let away: Set<PartitionID> = [PartitionID(1), PartitionID(3)]
    private static let own = SessionID(7)

    private var ownership = Ownership(
        session: own, name: "node-7",
        info: Ownership.NodeInfo(isShard: true, isGateway: true, weight: 1, peer: "h:1", zone: "", build: ""),
        now: MonotonicTime.zero)
    private var time = MonotonicTime.zero
    private var counter: UInt64 = 0

    private mutating func tell(_ event: Ownership.Event) -> [Ownership.Effect] {
        var effects: [Ownership.Effect] = []
        time = time + .milliseconds(500)
        ownership.handle(event, now: time, into: &effects)
        return effects
    }

    /// A look: the owner and the epoch of each of the four partitions.
    private mutating func look(
        _ rows: [(owner: SessionID?, epoch: UInt64)], old: Set<PartitionID> = [], away: Set<PartitionID>,
        leavingToPeer hasPeer: Bool = false
    ) -> [Ownership.Effect] {
        counter += 1
        let info = Ownership.NodeInfo(
            isShard: true, isGateway: true, weight: 1, peer: "h:1", zone: "", build: "")
        var own = info
        own.isLeaving = hasPeer
        let infos = [(AwayTests.own, own)] + (hasPeer ? [(SessionID(8), info)] : [])
        let poll = Ownership.Poll(
            sessions: infos.map {
                SessionRow(id: $0, node: "node-\($0.rawValue)", counter: counter, info: $1.encoded)
            },
            partitions: rows.enumerated().map { index, row in
                PartitionRow(
                    id: PartitionID(UInt16(index)), history: History(1), owner: row.owner,
                    epoch: Epoch(row.epoch), floor: Sequence(1))
            }, old: old, away: away)
        _ = tell(.nudged)
        return tell(.polled(poll, asked: time))
    }

    private func taken(_ effects: [Ownership.Effect]) -> [UInt16] {
        effects.compactMap { if case .takeOver(let row) = $0 { row.id.rawValue } else { nil } }
    }
    private func released(_ effects: [Ownership.Effect]) -> [UInt16] {
        effects.compactMap { if case .release(let id) = $0 { id.rawValue } else { nil } }
    }

    private mutating func serve(_ numbers: [UInt16]) {
        for number in numbers {
            _ = tell(.taken(PartitionID(number), Epoch(1)))
            _ = tell(.serving(PartitionID(number)))
        }
    }

    /// The peer follows all partitions, and the node gives those up whose database answers.
    private mutating func giveUp(_ first: [UInt16]) {
        var given = first
        for number: UInt16 in 0..<4 {
            given += released(tell(.isFollowed(PartitionID(number), by: SessionID(8))))
        }
        #expect(given == [0, 2])
        for number in given { _ = tell(.released(PartitionID(number))) }
    }

    private let free: [(owner: SessionID?, epoch: UInt64)] = Array(repeating: (nil, 0), count: 4)
    private let mine: [(owner: SessionID?, epoch: UInt64)] = Array(repeating: (own, 1), count: 4)
    private let halved: [(owner: SessionID?, epoch: UInt64)] = [
        (SessionID(8), 2), (own, 1), (SessionID(8), 2), (own, 1),
    ]

    @Test("are not taken, and the node is ready with the others")
    mutating func others() {
        let first = look(free, away: AwayTests.away)
        #expect(taken(first) == [0, 2])
        serve([0, 2])
        let next = look([(AwayTests.own, 1), (nil, 0), (AwayTests.own, 1), (nil, 0)], away: AwayTests.away)
        #expect(next.contains(.status(.serving)))
        #expect(taken(next).isEmpty)
        let back = look([(AwayTests.own, 1), (nil, 0), (AwayTests.own, 1), (nil, 0)], away: [])
        #expect(taken(back) == [1, 3])
    }

    /// The database is only slow: the node leaves its partitions as they are, and does not end without them.
    @Test("are waited for where their database misses one look")
    mutating func oneLook() {
        _ = look(free, away: [])
        serve(Array(0..<4))
        _ = tell(.leave)
        giveUp(released(look(mine, old: AwayTests.away, away: [], leavingToPeer: true)))
        #expect(!look(halved, old: AwayTests.away, away: [], leavingToPeer: true).contains(.left))
    }

    /// The rows are old: the node does not believe them about its own partitions.
    @Test("are not changed by rows that were read earlier")
    mutating func staleRows() {
        _ = look(free, away: [])
        serve(Array(0..<4))
        let stale = look([(AwayTests.own, 1), (nil, 5), (AwayTests.own, 1), (nil, 0)], away: AwayTests.away)
        #expect(!stale.contains { if case .drop = $0 { true } else { false } })
        let fresh = look([(AwayTests.own, 1), (nil, 5), (AwayTests.own, 1), (AwayTests.own, 1)], away: [])
        #expect(fresh.contains(.drop(PartitionID(1))))
        #expect(!fresh.contains(.drop(PartitionID(3))))
    }

    /// The node's session ends with the node: a taker that reaches the database later finds the owner dead.
    @Test("do not hold up a node that leaves")
    mutating func leaving() {
        _ = look(free, away: [])
        serve(Array(0..<4))
        _ = tell(.leave)
        let effects = look(mine, away: AwayTests.away, leavingToPeer: true)
        #expect(!effects.contains(.left))
        giveUp(released(effects))
        let last = look(halved, away: AwayTests.away, leavingToPeer: true)
        #expect(last.contains(.left))
    }
}
