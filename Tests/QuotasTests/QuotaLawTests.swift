import Model
import Testing

@testable import Quotas

/// Each law of spenders and grantors, broken in those that have granted and spent.
@Suite("The laws of quotas")
struct QuotaLawTests {
    private let project = ProjectNumber(7)

    /// A spender that holds a lease, and its grantor.
    private func world() -> OneNode {
        var world = OneNode(.standard, spenders: 1)
        expect(world.take(3).0 == 3)
        world.spenders[0].laws.isHolders = true
        expect(world.spenders[0].brokenInvariant(isWhole: true) == nil)
        expect(world.grantor.brokenInvariant(isWhole: true) == nil)
        return world
    }

    private func isSeen(
        _ law: String, at location: SourceLocation = #_sourceLocation, _ change: (inout OneNode) -> Void
    ) {
        var world = world()
        change(&world)
        let broken =
            world.spenders[0].brokenInvariant(isWhole: true)
            ?? world.grantor.brokenInvariant(isWhole: true)
        expect(broken?.contains(law) ?? false, "\(law), seen: \(broken ?? "none")", at: location)
    }

    @Test("of a spender are seen to be broken")
    func spender() {
        isSeen("more is spent and held than was granted") { $0.spenders[0].purses[0].tokens += 1 }
        isSeen("more is spent and held than was granted") { $0.spenders[0].purses[0].spent += 1 }
        isSeen("nobody looks after it") { $0.spenders[0].purses[1].tokens = 1 }
        isSeen("nobody looks after it") { $0.spenders[0].purses[2].hasWaiting = true }
        isSeen("is not looked after") { $0.spenders[0].purses[0].isActive = false }
        isSeen("does not go together") { $0.spenders[0].active = [] }
        isSeen("looked after twice") { $0.spenders[0].active += $0.spenders[0].active }
        isSeen("nothing was asked for it") { $0.spenders[0].purses[0].hasWaiting = true }
        isSeen("awaited to no request") { $0.spenders[0].purses[0].isAsking = true }
        isSeen("more requests are awaited") { world in
            world.spenders[0].purses[0].pending = (0..<5).map { _ in
                .init(number: 1, sent: world.now, needed: 0)
            }
        }
        isSeen("requests are out of order") { world in
            world.spenders[0].purses[0].pending = [1, 1].map { .init(number: $0, sent: world.now, needed: 0) }
        }
        isSeen("was never made") { world in
            world.spenders[0].purses[0].pending = [.init(number: 1000, sent: world.now, needed: 0)]
        }
        isSeen("more is needed") { $0.spenders[0].purses[0].needed = .max }
        isSeen("more of the share") { world in
            world.spenders[0].purses[0].shareRate = 1
            world.spenders[0].purses[0].shareUsed = .max
        }
        isSeen("places of projects") { $0.spenders[0].purses.removeLast() }
    }

    @Test("of a grantor are seen to be broken")
    func grantor() throws {
        func change(_ world: inout OneNode, _ body: (inout QuotaAccount) -> Void) {
            guard var account = world.grantor.projects[project]?.ledgers[0].accounts.first else {
                return expect(false, "no account")
            }
            body(&account)
            world.grantor.projects[project]?.ledgers[0].accounts[0] = account
        }
        isSeen("has no ledger") { $0.grantor.projects[project]?.ledgers.removeLast() }
        isSeen("two accounts") { world in
            let accounts = world.grantor.projects[project]?.ledgers[0].accounts ?? []
            world.grantor.projects[project]?.ledgers[0].accounts += accounts
        }
        isSeen("held of no grant") { world in
            change(&world) { account in
                account.applied = nil
                account.held = 1
            }
        }
        isSeen("that never came") { world in change(&world) { $0.number = 0 } }
        isSeen("grants are out of order") { world in change(&world) { $0.flight += $0.flight } }
        isSeen("more grants are on their way") { world in
            change(&world) { account in
                guard let grant = account.flight.first else { return }
                account.flight = Array(repeating: grant, count: QuotaBounds().flightCountMax + 1)
            }
        }
        isSeen("over before one that was granted earlier") { world in
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
                account.flight[0].shareEnd = MonotonicTime(nanoseconds: 0)
                account.flight[0].shareStart = MonotonicTime(nanoseconds: 1)
            }
        }
        isSeen("a lease ended before it began") { world in
            change(&world) { $0.flight[0].leaseEnd = MonotonicTime(nanoseconds: 0) }
        }
    }
}
