import Model
import Testing

@testable import Membership

/// Breaks each invariant of membership, in a node that suspects another node.
@Suite("The invariants of membership")
struct MembershipInvariantTests {
    private static let now = MonotonicTime(nanoseconds: 1_000_000_000)

    private func machine() -> Membership {
        var machine = Membership(
            session: SessionID(1), name: "a", address: "a", info: [1], seed: 1,
            now: MembershipInvariantTests.now)
        var effects: [Membership.Effect] = []
        let rows = ["b", "c"].enumerated().map {
            Membership.Row(session: SessionID(UInt64($0) + 2), name: $1, address: $1, info: [])
        }
        machine.handle(.table(rows), now: MembershipInvariantTests.now, into: &effects)
        machine.handle(.linkReset(SessionID(2)), now: MembershipInvariantTests.now, into: &effects)
        #expect(machine.member(SessionID(2))?.state == .suspect)
        #expect(machine.brokenInvariant(isWhole: true) == nil)
        return machine
    }

    private func isSeen(
        _ invariant: String, sourceLocation: SourceLocation = #_sourceLocation,
        _ change: (inout Membership) -> Void
    ) {
        var machine = machine()
        change(&machine)
        let broken = machine.brokenInvariant(isWhole: true)
        #expect(broken == invariant, sourceLocation: sourceLocation)
    }

    @Test("are seen to be broken")
    func broken() {
        isSeen("others were told of a later incarnation of the node") { $0.incarnationTold = 9 }
        isSeen("the node has no incarnation") { $0.own.incarnation = 0 }
        isSeen("the node takes itself for gone") { $0.own.state = .dead }
        isSeen("the node is among the others") { $0.own.session = SessionID(3) }
        isSeen("another has the node's name") { $0.own.name = "c" }
        isSeen("more entries are remembered than may be") { machine in
            for key in 0...UInt32(Membership.Options().entriesMax) {
                machine.entries[key] = .init(key: key, version: 1, value: 1)
            }
        }
        let relay = Membership.Relay(
            requester: SessionID(3), address: "c", number: 1, nackAt: MonotonicTime.zero,
            endsAt: MonotonicTime.zero)
        isSeen("nobody is woken for a probe that was asked for") { $0.relays[1] = relay }
        isSeen("more probes are made for others than may be") { machine in
            for number in 0...UInt32(Membership.Options().relaysMax) { machine.relays[number] = relay }
        }
        isSeen("more seeds are asked than may be") { machine in
            for number in 0...UInt32(Membership.Options().seedQuestionsMax) {
                machine.seedQuestions[number] = "d"
            }
        }
        isSeen("nobody is woken to probe") { machine in
            machine.probe = nil
            machine.nextProbe = MonotonicTime.zero
        }
        isSeen("nobody is woken to compare everything") { $0.nextSync = MonotonicTime.zero }
        isSeen("nobody is woken to find those that are lost") { machine in
            machine.seeds = ["d"]
            machine.nextHealing = MonotonicTime.zero
        }
        isSeen("session 3 has a suspicion, and is not suspected") {
            $0.suspicions[SessionID(3)] = $0.suspicions[SessionID(2)]
        }
        isSeen("session 2 is suspected for ever") { $0.suspicions = [:] }
        isSeen("session 2 is suspected in another incarnation") { machine in
            guard var member = machine.roster[SessionID(2)] else { return }
            member.incarnation += 1
            machine.roster.update(member)
        }
        isSeen("nobody suspects session 2") { $0.suspicions[SessionID(2)]?.confirmations = [] }
        isSeen("somebody suspects session 2 twice") {
            $0.suspicions[SessionID(2)]?.confirmations = [SessionID(3), SessionID(3)]
        }
        isSeen("nobody is woken to end a suspicion") { machine in
            let never = MonotonicTime.max
            machine.armed = never
            machine.probe = nil
            (machine.nextProbe, machine.nextSync, machine.nextHealing) = (never, never, never)
        }
    }

    @Test("of its bounds are seen to be broken")
    func bounds() {
        isSeen("the node's health is out of its scale") { machine in
            machine.health = LocalHealth(scoreMax: 100)
            machine.health.worsen(by: 100)
        }
        // A guard never remembers more senders than it may, so the test makes a guard that may have less than
        // none.
        isSeen("the numbers of more senders are remembered than may be") {
            $0.replays = ReplayGuard(sendersMax: -1)
        }
        isSeen("more members are remembered than may be") { machine in
            guard var member = machine.member(SessionID(3)) else { return }
            for number in 0..<UInt64(Membership.Options().membersMax) {
                member.session = SessionID(number + 10)
                member.name = "d\(number)"
                machine.roster.insert(member, &machine.random)
            }
        }
    }

    @Test("of the roster are seen to be broken")
    func roster() {
        isSeen("others are probed than there are") { $0.roster.members[SessionID(3)] = nil }
        isSeen("those that are not there are counted wrongly") {
            $0.roster.members[SessionID(3)]?.state = .dead
        }
        isSeen("a member is not known by its name") { $0.roster.members[SessionID(3)]?.name = "d" }
        isSeen("a member is not known by its name") { machine in
            guard var member = machine.member(SessionID(3)) else { return }
            member.session = SessionID(4)
            machine.roster.insert(member, &machine.random)
        }
        isSeen("the round of probes is at nobody") { $0.roster.position = 9 }
        isSeen("a member stands in the place of another") {
            $0.roster.members[SessionID(3)]?.session = SessionID(4)
        }
    }
}
