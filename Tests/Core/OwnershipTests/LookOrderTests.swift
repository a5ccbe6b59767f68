import Journal
import Model
import Testing

@testable import Ownership

/// A look at the tables has a connection of its own: it is in no order with takes and releases.
@Suite("A look that overtakes an answer") struct LookOrderTests {
    private let own = SessionID(1)
    private let other = SessionID(2)

    private func at(_ milliseconds: UInt64) -> MonotonicTime {
        MonotonicTime(.milliseconds(10_000 + milliseconds))
    }

    private func info(isShard: Bool = true) -> Ownership.NodeInfo {
        Ownership.NodeInfo(isShard: isShard, isGateway: true, weight: 1, peer: "127.0.0.1:1")
    }

    private func poll(owner: SessionID?, epoch: UInt64, counter: UInt64, otherIsShard: Bool = false)
        -> Ownership.Poll
    {
        Ownership.Poll(
            sessions: [
                SessionRow(id: own, node: "a", counter: counter, info: info().encoded),
                SessionRow(id: other, node: "b", counter: counter, info: info(isShard: otherIsShard).encoded),
            ],
            partitions: [
                PartitionRow(
                    id: PartitionID(0), history: History(1), owner: owner, epoch: Epoch(epoch),
                    floor: Sequence(1))
            ])
    }

    private struct OwnershipHarness {
        var ownership: Ownership
        mutating func hear(_ event: Ownership.Event, _ now: MonotonicTime) -> [Ownership.Effect] {
            var effects: [Ownership.Effect] = []
            ownership.handle(event, now: now, into: &effects)
            return effects
        }
    }

    private func loads(_ effects: [Ownership.Effect]) -> [Epoch] {
        effects.compactMap { if case .load(_, let epoch, _) = $0 { epoch } else { nil } }
    }
    private func drops(_ effects: [Ownership.Effect]) -> Int {
        effects.count { if case .drop = $0 { true } else { false } }
    }
    private func takes(_ effects: [Ownership.Effect]) -> Int {
        effects.count { if case .takeOver = $0 { true } else { false } }
    }

    /// A node that is taking partition 0.
    private func taking() -> OwnershipHarness {
        var harness = OwnershipHarness(
            ownership: Ownership(session: own, name: "a", info: info(), now: at(0)))
        #expect(
            takes(harness.hear(.polled(poll(owner: nil, epoch: 4, counter: 1), asked: at(1)), at(2))) == 1)
        return harness
    }

    /// A node that serves partition 0 since epoch 5.
    private func serving() -> OwnershipHarness {
        var harness = taking()
        #expect(loads(harness.hear(.taken(PartitionID(0), Epoch(5)), at(3))) == [Epoch(5)])
        _ = harness.hear(.serving(PartitionID(0)), at(4))
        return harness
    }

    private func fences(_ effects: [Ownership.Effect]) -> Int {
        effects.count { if case .fence = $0 { true } else { false } }
    }

    /// The other node's counter had stood still for more than three leases when this node asked. In the
    /// second case this node slept before it heard the answer.
    @Test(
        "fences nobody where the node slept before it heard the answer",
        arguments: [(5050, 1), (9000, 0)] as [(UInt64, Int)])
    func slept(heard: UInt64, fenced: Int) {
        var harness = taking()
        for time in stride(from: UInt64(1000), through: 4000, by: 1000) {
            let poll = poll(owner: nil, epoch: 4, counter: 1)
            #expect(fences(harness.hear(.polled(poll, asked: at(time - 400)), at(time - 300))) == 0)
        }
        let last = poll(owner: nil, epoch: 4, counter: 1)
        #expect(fences(harness.hear(.polled(last, asked: at(5000)), at(heard))) == fenced)
    }

    /// The other node's counter stood still for longer than this answer took and a lease, and gossip holds
    /// that node dead.
    @Test(
        "that was asked for longer ago than the patience fences nobody",
        arguments: [(8600, 8700, 1), (8600, 12_600, 0)] as [(UInt64, UInt64, Int)])
    func late(asked: UInt64, heard: UInt64, fenced: Int) {
        var harness = taking()
        let look = poll(owner: nil, epoch: 4, counter: 1)
        _ = harness.hear(.suspected(other, true), at(10))
        for time in stride(from: UInt64(1000), through: 8000, by: 1000) {
            _ = harness.hear(.polled(look, asked: at(time)), at(time + 10))
            // The fence does not go through.
            _ = harness.hear(.fenceFailed(other), at(time + 20))
        }
        #expect(fences(harness.hear(.polled(look, asked: at(asked)), at(heard))) == fenced)
    }

    @Test("leaves a take in flight to its answer")
    func takeInFlight() {
        var harness = taking()
        let seen = harness.hear(.polled(poll(owner: own, epoch: 5, counter: 2), asked: at(5)), at(6))
        #expect(loads(seen).isEmpty && takes(seen) == 0 && drops(seen) == 0)
        #expect(loads(harness.hear(.taken(PartitionID(0), Epoch(5)), at(7))) == [Epoch(5)])
        let again = harness.hear(.polled(poll(owner: own, epoch: 5, counter: 3), asked: at(8)), at(9))
        #expect(loads(again).isEmpty && drops(again) == 0)
    }

    /// The answer to the take is lost, so the row decides.
    @Test("decides about a take whose answer was lost")
    func answerLost() {
        var harness = taking()
        _ = harness.hear(.takeOverFailed(PartitionID(0)), at(5))
        let seen = harness.hear(.polled(poll(owner: own, epoch: 5, counter: 2), asked: at(6)), at(7))
        #expect(loads(seen) == [Epoch(5)])
    }

    @Test("says nothing of a take that came after it")
    func earlier() {
        var harness = taking()
        _ = harness.hear(.taken(PartitionID(0), Epoch(5)), at(5))
        let seen = harness.hear(.polled(poll(owner: nil, epoch: 4, counter: 2), asked: at(4)), at(6))
        #expect(drops(seen) == 0 && takes(seen) == 0)
        #expect(harness.ownership.epoch(of: PartitionID(0)) == Epoch(5))
    }

    @Test("leaves a release in flight to its answer")
    func releaseInFlight() {
        var harness = serving()
        _ = harness.hear(.lost(PartitionID(0)), at(10))
        let gone = harness.hear(.polled(poll(owner: nil, epoch: 5, counter: 3), asked: at(11)), at(12))
        #expect(drops(gone) == 0 && takes(gone) == 0)
        _ = harness.hear(.released(PartitionID(0)), at(13))
        // The look is older than the answer: the row may be from before the release.
        let old = harness.hear(.polled(poll(owner: own, epoch: 5, counter: 4), asked: at(12)), at(14))
        #expect(loads(old).isEmpty)
        let free = harness.hear(.polled(poll(owner: nil, epoch: 5, counter: 5), asked: at(15)), at(16))
        #expect(takes(free) == 1)
    }

    /// Another node takes the partition before the answer to the release comes, so the answer changes
    /// nothing.
    @Test("settles a release in flight where it shows another owner")
    func releaseSettled() {
        var harness = serving()
        _ = harness.hear(.lost(PartitionID(0)), at(10))
        let taken = harness.hear(.polled(poll(owner: other, epoch: 6, counter: 3), asked: at(11)), at(12))
        #expect(drops(taken) == 1)
        _ = harness.hear(.released(PartitionID(0)), at(13))
        #expect(harness.ownership.epoch(of: PartitionID(0)) == nil)
    }
}
