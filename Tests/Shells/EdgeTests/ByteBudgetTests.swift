import Testing

@testable import Edge

@Suite("A connection's budget of bytes")
struct ByteBudgetTests {
    private func take(_ budget: inout ByteBudget, _ bytes: Int) -> Bool { budget.take(bytes) }

    @Test("asks all connections' budget for nothing while it holds a little")
    func free() {
        let shared = SharedBudget(bytesMax: 0)
        var budget = ByteBudget(shared, bytesMax: 1 << 20)
        #expect(take(&budget, ByteBudget.freeBytes))
        #expect(!take(&budget, 1))
        #expect(budget.held == ByteBudget.freeBytes)
        budget.give(1)
        #expect(take(&budget, 1))
    }

    @Test("holds no more than its own bound, and takes nothing where it is refused")
    func own() {
        let shared = SharedBudget(bytesMax: .max)
        var budget = ByteBudget(shared, bytesMax: 100_000)
        #expect(take(&budget, 100_000))
        #expect(!take(&budget, 1))
        #expect(budget.held == 100_000)
    }

    @Test("takes in steps from all connections' budget, and gives them back")
    func shared() {
        let shared = SharedBudget(bytesMax: 3 * ByteBudget.stepBytes)
        var first = ByteBudget(shared, bytesMax: 1 << 20)
        var second = ByteBudget(shared, bytesMax: 1 << 20)
        #expect(take(&first, ByteBudget.freeBytes + 1))
        #expect(shared.bytes == ByteBudget.stepBytes)
        #expect(take(&second, ByteBudget.freeBytes + 2 * ByteBudget.stepBytes))
        #expect(!take(&first, ByteBudget.stepBytes))
        second.end()
        #expect(shared.bytes == ByteBudget.stepBytes)
        #expect(take(&first, ByteBudget.stepBytes))
        first.give(first.held)
        #expect(shared.bytes == 0)
    }

    @Test("of one address are held to a quarter together, and leave the rest to others")
    func address() {
        let shared = SharedBudget(bytesMax: 8 * ByteBudget.stepBytes)
        var budgets = (0..<3).map { _ in ByteBudget(shared, for: 7, bytesMax: 1 << 20) }
        let more = ByteBudget.freeBytes + ByteBudget.stepBytes
        #expect(take(&budgets[0], more))
        #expect(take(&budgets[1], more))
        #expect(!take(&budgets[2], more))
        var other = ByteBudget(shared, for: 8, bytesMax: 1 << 20)
        #expect(take(&other, more))
        // A budget without an address is in no address's quarter.
        var balancer = ByteBudget(shared, bytesMax: 1 << 20)
        #expect(take(&balancer, more + 3 * ByteBudget.stepBytes))
        budgets[0].end()
        #expect(!take(&budgets[2], more), "a third of what is free is less now")
        balancer.end()
        other.end()
        #expect(take(&budgets[2], more))
        for index in budgets.indices { budgets[index].end() }
        #expect(shared.bytes == 0)
        var pending = PendingBytes(shared, for: 7)
        let isQuarterTaken = pending.add(2 * ByteBudget.stepBytes)
        let isMoreTaken = pending.add(1)
        #expect(isQuarterTaken && !isMoreTaken)
        pending.clear()
        #expect(shared.bytes == 0)
    }

    @Test("of many addresses leave something for the next one")
    func addresses() {
        for (count, left) in [(1, 3 << 18), (4, 3 << 17), (40, 1 << 16)] {
            let shared = SharedBudget(bytesMax: 1 << 20)
            var attackers = (0..<count).map { PendingBytes(shared, for: UInt64($0)) }
            var isTaking = true
            while isTaking {
                isTaking = false
                for index in attackers.indices where attackers[index].add(1 << 10) { isTaking = true }
            }
            #expect((1 << 20) - shared.bytes >= left)
            var next = PendingBytes(shared, for: 99)
            let hasRoom = next.add(16 << 10)
            #expect(hasRoom)
        }
    }

    @Test("counts what is added whatever it is, and then takes nothing")
    func added() {
        let shared = SharedBudget(bytesMax: .max)
        var budget = ByteBudget(shared, bytesMax: 100_000)
        budget.add(150_000)
        #expect(!take(&budget, 1))
        budget.give(150_000)
        #expect(budget.held == 0 && shared.bytes == 0)
        #expect(take(&budget, 1))
    }
}
