import Model
import Testing

@testable import Membership

/// Each law of a node's membership, broken in one that suspects another.
@Suite("The laws of membership")
struct MembershipLawTests {
    private static let now = MonotonicTime(nanoseconds: 1_000_000_000)

    private func machine() -> Membership {
        var machine = Membership(
            session: SessionID(1), name: "a", address: "a", info: [1], seed: 1, now: MembershipLawTests.now)
        var effects: [Membership.Effect] = []
        let rows = ["b", "c"].enumerated().map {
            Membership.Row(session: SessionID(UInt64($0) + 2), name: $1, address: $1, info: [])
        }
        machine.handle(.table(rows), now: MembershipLawTests.now, into: &effects)
        machine.handle(.linkReset(SessionID(2)), now: MembershipLawTests.now, into: &effects)
        #expect(machine.member(SessionID(2))?.state == .suspect)
        #expect(machine.brokenInvariant(isWhole: true) == nil)
        return machine
    }

    private func isSeen(
        _ law: String, sourceLocation: SourceLocation = #_sourceLocation, _ change: (inout Membership) -> Void
    ) {
        var machine = machine()
        change(&machine)
        let broken = machine.brokenInvariant(isWhole: true)
        #expect(
            broken?.contains(law) ?? false, "\(law), seen: \(broken ?? "none")",
            sourceLocation: sourceLocation)
    }

    @Test("are seen to be broken")
    func broken() {
        isSeen("a later incarnation") { $0.incarnationTold = 9 }
        isSeen("has no incarnation") { $0.own.incarnation = 0 }
        isSeen("takes itself for gone") { $0.own.state = .left }
        isSeen("among the others") { $0.own.session = SessionID(3) }
        isSeen("has the node's name") { $0.own.name = "c" }
        isSeen("more facts") { machine in
            for key in 0...UInt32(Membership.Options().factsMax) {
                machine.facts[key] = .init(key: key, version: 1, value: 1)
            }
        }
        let relay = Membership.Relay(
            requester: SessionID(3), address: "c", number: 1, nackAt: MonotonicTime(nanoseconds: 0),
            endsAt: MonotonicTime(nanoseconds: 0))
        isSeen("for a probe that was asked for") { $0.relays[1] = relay }
        isSeen("more probes are made for others") { machine in
            for number in 0...UInt32(Membership.Options().relaysMax) { machine.relays[number] = relay }
        }
        isSeen("more seeds are asked") { machine in
            for number in 0...UInt32(Membership.Options().seedQuestionsMax) {
                machine.seedQuestions[number] = "d"
            }
        }
        isSeen("woken to probe") { machine in
            machine.probe = nil
            machine.nextProbe = MonotonicTime(nanoseconds: 0)
        }
        isSeen("woken to compare") { $0.nextSync = MonotonicTime(nanoseconds: 0) }
        isSeen("those that are lost") { machine in
            machine.seeds = ["d"]
            machine.nextHealing = MonotonicTime(nanoseconds: 0)
        }
        isSeen("is not suspected") { $0.suspicions[SessionID(3)] = $0.suspicions[SessionID(2)] }
        isSeen("suspected for ever") { $0.suspicions = [:] }
        isSeen("in another incarnation") { machine in
            guard var member = machine.roster[SessionID(2)] else { return }
            member.incarnation += 1
            machine.roster.update(member)
        }
    }

    @Test("of the roster are seen to be broken")
    func roster() {
        isSeen("others are probed") { $0.roster.members[SessionID(3)] = nil }
        isSeen("counted wrongly") { $0.roster.members[SessionID(3)]?.state = .dead }
        isSeen("by its name") { $0.roster.members[SessionID(3)]?.name = "d" }
        isSeen("in the place of another") { $0.roster.members[SessionID(3)]?.session = SessionID(4) }
    }
}
