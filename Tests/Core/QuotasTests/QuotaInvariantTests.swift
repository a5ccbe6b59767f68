import Model
import Testing

@testable import Quotas

/// Breaks each invariant of spenders and grantors, in machines that have granted and spent.
@Suite("The invariants of quotas")
struct QuotaInvariantTests {
    private let project = ProjectNumber(7)

    /// A spender that holds a lease, and its grantor.
    private func world() -> OneNode {
        var world = OneNode(.standard, spenders: 1)
        expect(world.take(3).0 == 3)
        world.spenders[0].invariantSchedule.isHolders = true
        expect(world.spenders[0].brokenInvariant(isWhole: true) == nil)
        expect(world.grantor.brokenInvariant(isWhole: true) == nil)
        return world
    }

    private func isSeen(
        _ invariant: String, at location: SourceLocation = #_sourceLocation, _ change: (inout OneNode) -> Void
    ) {
        var world = world()
        change(&world)
        let broken =
            world.spenders[0].brokenInvariant(isWhole: true)
            ?? world.grantor.brokenInvariant(isWhole: true)
        expect(
            broken == invariant || broken?.hasSuffix(": \(invariant)") ?? false,
            "\(invariant), seen: \(broken ?? "none")",
            at: location)
    }

    @Test("of a spender are seen to be broken")
    func spender() {
        isSeen("more is spent and held than was granted") { $0.spenders[0].leasedTokens[0].tokens += 1 }
        isSeen("more is spent and held than was granted") { $0.spenders[0].leasedTokens[0].spent += 1 }
        isSeen("something is held or awaited, and nobody looks after it") {
            $0.spenders[0].leasedTokens[1].tokens = 1
        }
        isSeen("something is held or awaited, and nobody looks after it") {
            $0.spenders[0].leasedTokens[2].hasWaiting = true
        }
        isSeen("leased tokens are not looked after") {
            $0.spenders[0].leasedTokens[0].state = .idle(since: .zero)
        }
        isSeen("a wake-up must be set exactly while leased tokens are active") { $0.spenders[0].active = [] }
        isSeen("leased tokens are looked after twice") { $0.spenders[0].active += $0.spenders[0].active }
        isSeen("an operation waits, and nothing was asked for it") {
            $0.spenders[0].leasedTokens[0].hasWaiting = true
        }
        isSeen("an answer is awaited to no request") {
            $0.spenders[0].leasedTokens[0].state = .asking(since: .zero)
        }
        isSeen("more requests are awaited than may be") { world in
            world.spenders[0].leasedTokens[0].pending = (0..<5).map { _ in
                .init(number: 1, sent: world.now, needed: 0)
            }
        }
        isSeen("requests are out of order") { world in
            world.spenders[0].leasedTokens[0].pending = [1, 1].map {
                .init(number: $0, sent: world.now, needed: 0)
            }
        }
        isSeen("a request was never made") { world in
            world.spenders[0].leasedTokens[0].pending = [.init(number: 1000, sent: world.now, needed: 0)]
        }
        isSeen("more is needed than is asked for") { $0.spenders[0].leasedTokens[0].needed = .max }
        isSeen("more of the share is spent than it has") { world in
            world.spenders[0].leasedTokens[0].shareRate = 1
            world.spenders[0].leasedTokens[0].shareUsed = .max
        }
        isSeen("more projects are known than may be") { world in
            world.spenders[0].numbers = Array(
                repeating: project, count: QuotaBounds().projectCountMax + 1)
        }
        isSeen("a project is not at its slot") { $0.spenders[0].numbers = [ProjectNumber(9)] }
        isSeen("the slots of projects are counted wrongly") { $0.spenders[0].leasedTokens.removeLast() }
    }

    @Test("of a grantor are seen to be broken")
    func grantor() throws {
        func change(_ world: inout OneNode, _ body: (inout QuotaAccount) -> Void) {
            guard var account = world.grantor.projects[project]?.accountings[0].accounts.first else {
                return expect(false, "no account")
            }
            body(&account)
            world.grantor.projects[project]?.accountings[0].accounts[0] = account
        }
        isSeen("a kind of tokens has no lease accounting") {
            $0.grantor.projects[project]?.accountings.removeLast()
        }
        isSeen("a spender has two accounts") { world in
            let accounts = world.grantor.projects[project]?.accountings[0].accounts ?? []
            world.grantor.projects[project]?.accountings[0].accounts += accounts
        }
        isSeen("more spenders have accounts than may") { world in
            guard let account = world.grantor.projects[project]?.accountings[0].accounts.first else { return }
            world.grantor.projects[project]?.accountings[0].accounts = Array(
                repeating: account, count: QuotaBounds().accountCountMax + 1)
        }
        isSeen("the bucket holds more than its burst") { world in
            world.grantor.projects[project]?.accountings[0].bucket.units = .max
        }
        isSeen("tokens are held of no grant") { world in
            change(&world) { account in
                account.applied = nil
                account.held = 1
            }
        }
        isSeen("a request was granted that never came") { world in change(&world) { $0.number = 0 } }
        isSeen("grants are out of order") { world in change(&world) { $0.flight += $0.flight } }
        isSeen("more grants are on their way than may be") { world in
            change(&world) { account in
                guard let grant = account.flight.first else { return }
                account.flight = Array(repeating: grant, count: QuotaBounds().flightCountMax + 1)
            }
        }
        isSeen("a lease is over before one that was granted earlier") { world in
            change(&world) { account in
                guard var grant = account.flight.first else { return }
                grant.number += 1
                grant.leaseEnd = grant.granted
                account.number = max(account.number, grant.number)
                account.flight = [account.flight[0], grant]
            }
        }
        isSeen("a share ended before it began") { world in
            change(&world) { account in
                account.flight[0].shareRate = 1
                account.flight[0].shareEnd = MonotonicTime.zero
                account.flight[0].shareStart = MonotonicTime(nanoseconds: 1)
            }
        }
        isSeen("a lease ended before it began") { world in
            change(&world) { $0.flight[0].leaseEnd = MonotonicTime.zero }
        }
    }
}
