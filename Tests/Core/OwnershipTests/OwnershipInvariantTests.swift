import Journal
import Model
import Testing

@testable import Ownership

/// Breaks each invariant of ownership, in a node that serves partitions.
@Suite("The invariants of ownership")
struct OwnershipInvariantTests {
    private static let own = SessionID(1)
    private static let other = SessionID(2)
    private static let now = MonotonicTime(nanoseconds: 10_000_000_000)

    private func row(_ session: SessionID, _ name: String) -> SessionRow {
        let info = Ownership.NodeInfo(isShard: true, isGateway: true, peer: name, gossip: name)
        return SessionRow(id: session, node: name, counter: 1, info: info.encoded)
    }

    /// Two nodes; this one owns and serves both partitions.
    private func machine() -> Ownership {
        let info = Ownership.NodeInfo(isShard: true, isGateway: true, peer: "a", gossip: "a")
        var machine = Ownership(
            session: OwnershipInvariantTests.own, name: "a", info: info, now: OwnershipInvariantTests.now)
        var effects: [Ownership.Effect] = []
        machine.handle(.nudged, now: OwnershipInvariantTests.now, into: &effects)
        let poll = Ownership.Poll(
            sessions: [row(OwnershipInvariantTests.own, "a"), row(OwnershipInvariantTests.other, "b")],
            partitions: (0..<2).map {
                PartitionRow(
                    id: PartitionID($0), history: History(7), owner: OwnershipInvariantTests.own,
                    epoch: Epoch(3), floor: Sequence(1))
            })
        machine.handle(
            .polled(poll, asked: OwnershipInvariantTests.now), now: OwnershipInvariantTests.now,
            into: &effects)
        for number in 0..<UInt16(2) {
            machine.handle(.serving(PartitionID(number)), now: OwnershipInvariantTests.now, into: &effects)
        }
        #expect(machine.brokenInvariant == nil)
        return machine
    }

    @Test("are seen to be broken")
    func broken() {
        func isSeen(_ invariant: String, _ change: (inout Ownership) -> Void) {
            var machine = machine()
            change(&machine)
            let broken = machine.brokenInvariant
            #expect(broken == invariant)
        }
        isSeen("partition 0 is owned without an epoch") { $0.holdings[PartitionID(0)] = .serving(Epoch(0)) }
        isSeen("partition 0 may be given up, and is not being given up") { $0.unsure = [PartitionID(0)] }
        isSeen("partition 0 has an heir, and is not served") { machine in
            _ = machine.following.advise(
                PartitionID(0), to: OwnershipInvariantTests.other, machine.options,
                now: OwnershipInvariantTests.now)
            machine.holdings[PartitionID(0)] = nil
        }
        isSeen("there are routes of other partitions than there are") { $0.last.partitions.removeLast() }
        isSeen("the node believes gossip of itself") {
            $0.heard[PartitionID(0)] = .init(session: OwnershipInvariantTests.own, epoch: Epoch(4))
        }
        isSeen("the node fences itself") { $0.fencing = [OwnershipInvariantTests.own] }
        isSeen("a session is fenced that is gone") { $0.fencing = [SessionID(9)] }
        isSeen("counters are known of others than are there") { $0.last.sessions.removeLast() }
        isSeen("a member has no session") { machine in
            let member = machine.members[0]
            machine.members.append(.init(session: SessionID(9), name: "c", info: member.info))
        }
    }

    @Test("an heir of a partition that is lost is waited for no longer")
    func lostWithAnHeir() {
        var machine = machine()
        machine.invariantSchedule.isHolders = true
        _ = machine.following.advise(
            PartitionID(0), to: OwnershipInvariantTests.other, machine.options,
            now: OwnershipInvariantTests.now)
        #expect(machine.following.waitingCount == 1)
        var effects: [Ownership.Effect] = []
        machine.handle(.lost(PartitionID(0)), now: OwnershipInvariantTests.now, into: &effects)
        #expect(machine.following.waitingCount == 0)
        #expect(machine.brokenInvariant == nil)
    }

    @Test("of links are seen to be broken")
    func links() {
        func isSeen(_ invariant: String, _ change: (inout PeerLinks.Link) -> Void) {
            var links = PeerLinks()
            links.setPeers([OwnershipInvariantTests.other])
            let processID = OwnershipInvariantTests.other.processID
            _ = links.stands(processID, loop: 0, now: OwnershipInvariantTests.now)
            _ = links.failed(processID, loop: 1, reason: "a test", now: OwnershipInvariantTests.now)
            #expect(links.brokenInvariant == nil)
            guard var link = links.links[processID] else {
                Issue.record("no link")
                return
            }
            change(&link)
            links.links[processID] = link
            let broken = links.brokenInvariant
            #expect(broken == invariant)
        }
        isSeen("a link stands in the place of another") { $0.session = SessionID(9) }
        isSeen("a link is down for no reason") { $0.reasons = [:] }
        isSeen("a connection stands, and cannot be made") { $0.reasons[0] = "a test" }
        isSeen("a link is said to be down, and is up") { link in
            link.reasons = [:]
            link.downSince = nil
        }
    }
}
