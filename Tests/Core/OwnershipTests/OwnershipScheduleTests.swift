import Journal
import Model
import Testing

@testable import Ownership

/// Single schedules that simulated clusters have found.
@Suite("Schedules of ownership")
final class OwnershipScheduleTests {
    private var harness = OwnershipHarness()

    private struct OwnershipHarness {
        var machine = Ownership(
            session: SessionID(1), name: "one", info: .init(isShard: true, isGateway: true, peer: "one:1"),
            now: at(0))
        var effects: [Ownership.Effect] = []
        var owner: SessionID?
        var epoch = Epoch(0)
        /// The counter in the lease of session 2.
        var counter: UInt64 = 1

        static func at(_ milliseconds: UInt64) -> MonotonicTime {
            MonotonicTime(.milliseconds(1000 + milliseconds))
        }

        mutating func tell(_ event: Ownership.Event, _ milliseconds: UInt64) {
            effects = []
            machine.handle(event, now: OwnershipHarness.at(milliseconds), into: &effects)
        }

        /// A look at the tables, asked for at one time and answered at another.
        mutating func look(asked: UInt64, answered: UInt64) {
            let one = Ownership.NodeInfo(isShard: true, isGateway: true, peer: "one:1")
            let two = Ownership.NodeInfo(isShard: false, isGateway: true, peer: "two:1")
            let poll = Ownership.Poll(
                sessions: [
                    SessionRow(id: SessionID(1), node: "one", counter: answered, info: one.encoded),
                    SessionRow(id: SessionID(2), node: "two", counter: counter, info: two.encoded),
                ],
                partitions: [
                    PartitionRow(
                        id: PartitionID(0), history: History(7), owner: owner, epoch: epoch,
                        floor: Sequence(1))
                ])
            tell(.polled(poll, asked: OwnershipHarness.at(asked)), answered)
        }

        mutating func serve() {
            tell(.nudged, 0)
            look(asked: 0, answered: 1)
            (owner, epoch) = (SessionID(1), Epoch(1))
            tell(.taken(PartitionID(0), Epoch(1)), 2)
            tell(.serving(PartitionID(0)), 3)
        }
    }

    private let partition = PartitionID(0)

    @Test("a partition whose machine is gone is given up until that is done")
    func releaseAgain() {
        harness.serve()
        harness.tell(.lost(partition), 10)
        #expect(harness.effects.contains(.release(partition)))
        harness.tell(.releaseFailed(partition), 20)
        harness.look(asked: 100, answered: 101)
        #expect(harness.effects.contains(.release(partition)), "its row still names this session")
        harness.tell(.releaseFailed(partition), 110)
        // Only the answer to the release was lost.
        harness.owner = nil
        harness.look(asked: 200, answered: 201)
        let takes = harness.effects.contains { if case .takeOver = $0 { true } else { false } }
        #expect(takes, "it is free, and this node's by rendezvous hashing")
    }

    @Test("a look that was asked for before this node slept makes nobody dead")
    func lateLook() {
        harness.serve()
        harness.look(asked: 500, answered: 501)
        harness.look(asked: 1000, answered: 9000)
        #expect(!harness.effects.contains(.fence(SessionID(2), at: 1)))
    }

    @Test("who is gone is fenced by the counter that stood still, and again where that was refused")
    func counted() {
        harness.counter = 7
        harness.serve()
        for time: UInt64 in stride(from: 500, to: 4500, by: 500) {
            harness.look(asked: time, answered: time + 1)
        }
        harness.look(asked: 4600, answered: 4601)
        #expect(harness.effects.contains(.fence(SessionID(2), at: 7)))
        harness.look(asked: 5000, answered: 5001)
        #expect(!harness.effects.contains(.fence(SessionID(2), at: 7)), "it is under way")
        harness.tell(.fenceFailed(SessionID(2)), 5002)
        harness.look(asked: 5500, answered: 5501)
        #expect(harness.effects.contains(.fence(SessionID(2), at: 7)))
        // The database refused the fence because the lease had moved.
        harness.tell(.fenceFailed(SessionID(2)), 5502)
        harness.counter = 8
        harness.look(asked: 6000, answered: 6001)
        #expect(!harness.effects.contains { if case .fence = $0 { true } else { false } })
    }

    @Test("a node is ready again with the look that shows that the database answers")
    func overdue() {
        harness.serve()
        harness.look(asked: 500, answered: 501)
        harness.tell(.woke, 1001)
        harness.tell(.woke, 2600)
        #expect(harness.effects.contains(.status(.unreachable("the database does not answer"))))
        harness.tell(.serving(PartitionID(0)), 2700)
        #expect(!harness.effects.contains(.status(.serving)))
        harness.look(asked: 1001, answered: 3000)
        #expect(harness.effects.contains(.status(.serving)))
    }

    @Test("who could not be watched for a while has not stood still for it")
    func sleptThroughAnOutage() {
        harness.serve()
        harness.look(asked: 500, answered: 501)
        // The node slept. Meanwhile the database was away for all nodes, so no counter moved.
        harness.look(asked: 9000, answered: 9001)
        #expect(!harness.effects.contains(.fence(SessionID(2), at: 1)))
        for time: UInt64 in stride(from: 9500, to: 13_400, by: 500) {
            harness.look(asked: time, answered: time + 1)
            #expect(!harness.effects.contains(.fence(SessionID(2), at: 1)), "at \(time)")
        }
        harness.look(asked: 13_600, answered: 13_601)
        #expect(harness.effects.contains(.fence(SessionID(2), at: 1)), "three leases, watched")
    }
}
