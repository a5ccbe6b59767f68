import Journal
import Model
import Testing

@testable import Ownership

/// An owner of buckets grants for a lease's length after a renewal, whatever becomes of its session.
@Suite("Who takes a partition, and what its former owner may grant") struct FormerTests {
    private let own = SessionID(3)
    private let former = SessionID(1)
    private let later = SessionID(9)
    private let lease = Ownership.Options().lease

    private func at(_ milliseconds: UInt64) -> MonotonicTime {
        MonotonicTime(.milliseconds(10_000 + milliseconds))
    }

    private func poll(_ sessions: [(SessionID, node: String, counter: UInt64)]) -> Ownership.Poll {
        let info = Ownership.NodeInfo(isShard: true, isGateway: true, peer: "127.0.0.1:1", gossip: "")
        return Ownership.Poll(
            sessions: sessions.map {
                SessionRow(id: $0.0, node: $0.node, counter: $0.counter, info: info.encoded)
            },
            partitions: (0..<8).map {
                PartitionRow(
                    id: PartitionID($0), history: History(1), owner: former, epoch: Epoch(4),
                    floor: Sequence(1))
            })
    }

    /// The `grantsAfter` of the partitions that the node takes, with looks half a second apart.
    private func grantsAfter(_ looks: [Ownership.Poll]) -> Set<MonotonicTime?> {
        let info = Ownership.NodeInfo(isShard: true, isGateway: true, peer: "127.0.0.1:3", gossip: "")
        var ownership = Ownership(session: own, name: "c", info: info, now: at(0))
        var said: Set<MonotonicTime?> = []
        for (index, look) in looks.enumerated() {
            let now = at(500 * UInt64(index) + 1)
            var effects: [Ownership.Effect] = []
            ownership.handle(.polled(look, asked: now), now: now, into: &effects)
            for effect in effects {
                guard case .takeOver(let row) = effect else { continue }
                ownership.handle(.taken(row.id, Epoch(row.epoch.rawValue + 1)), now: now, into: &effects)
            }
            for case .load(_, _, let grantsAfter) in effects { said.insert(grantsAfter) }
        }
        return said
    }

    @Test("waits until a lease is over where another of the owner's name has begun")
    func superseded() {
        let looks = [
            poll([(own, "c", 1), (former, "a", 1)]), poll([(own, "c", 2), (former, "a", 2)]),
            poll([(own, "c", 3), (later, "a", 1)]),
        ]
        // The owner may have renewed until just before the look that no longer shows its session.
        #expect(grantsAfter(looks) == [at(1001).advanced(by: lease)])
    }

    @Test("gives it to nobody else before, who would not know")
    func handingOn() {
        let info = Ownership.NodeInfo(isShard: true, isGateway: true, peer: "127.0.0.1:3", gossip: "")
        var ownership = Ownership(session: own, name: "c", info: info, now: at(0))
        var released: [UInt64] = []
        for milliseconds in stride(from: UInt64(1), to: 3000, by: 500) {
            let now = at(milliseconds)
            var effects: [Ownership.Effect] = []
            // The node takes all partitions, and then leaves. Another node is there to take them.
            if milliseconds > 1 { ownership.handle(.leave, now: now, into: &effects) }
            var look = poll([(own, "c", milliseconds), (later, "a", milliseconds)])
            if milliseconds == 1 { look.sessions.removeLast() }
            if milliseconds > 1 {
                for index in look.partitions.indices {
                    look.partitions[index].owner = own
                    look.partitions[index].epoch = Epoch(5)
                }
            }
            ownership.handle(.polled(look, asked: now), now: now, into: &effects)
            for effect in effects {
                switch effect {
                case .takeOver(let row):
                    ownership.handle(.taken(row.id, Epoch(5)), now: now, into: &effects)
                    ownership.handle(.serving(row.id), now: now, into: &effects)
                case .offer(let id, let heir):
                    ownership.handle(.isFollowed(id, by: heir), now: now, into: &effects)
                default: break
                }
            }
            let releases = effects.count { if case .release = $0 { true } else { false } }
            if releases > 0 { released.append(milliseconds) }
        }
        #expect(released.min().map { at($0) >= at(0).advanced(by: lease) } ?? false, "\(released)")
    }

    @Test("waits for nothing where the owner was fenced: its lease was over before")
    func fenced() {
        let looks = [poll([(own, "c", 1), (former, "a", 1)]), poll([(own, "c", 2)])]
        #expect(grantsAfter(looks) == [nil])
    }

    /// The owner began, took the partitions and was superseded while the node could not look.
    @Test("waits for a lease from its taking where it never saw the owner", arguments: [0, 1, 9])
    func unseen(looksBefore: Int) {
        var looks = (0..<looksBefore).map { _ in
            var look = poll([(own, "c", 1)])
            for index in look.partitions.indices { look.partitions[index].owner = own }
            return look
        }
        looks.append(poll([(own, "c", 1), (later, "a", 1)]))
        let last = at(500 * UInt64(looksBefore) + 1)
        #expect(grantsAfter(looks).contains(last.advanced(by: lease)))
    }

    @Test("waits for an owner that it saw long ago, and that was superseded while it could not look")
    func supersededUnseen() {
        let info = Ownership.NodeInfo(isShard: true, isGateway: true, peer: "127.0.0.1:3", gossip: "")
        var ownership = Ownership(session: own, name: "c", info: info, now: at(0))
        var effects: [Ownership.Effect] = []
        let first = poll([(own, "c", 1), (former, "a", 1)])
        ownership.handle(.polled(first, asked: at(0)), now: at(1), into: &effects)
        ownership.handle(.pollFailed("no way there"), now: at(500), into: &effects)
        let next = poll([(own, "c", 1), (later, "a", 1)])
        ownership.handle(.polled(next, asked: at(9000)), now: at(9001), into: &effects)
        let taken = effects.compactMap { if case .takeOver(let row) = $0 { row } else { nil } }
        for row in taken { ownership.handle(.taken(row.id, Epoch(5)), now: at(9002), into: &effects) }
        let ends = Set(effects.compactMap { if case .load(_, _, let end) = $0 { end } else { nil } })
        #expect(ends == [at(9001).advanced(by: lease)])
    }
}
