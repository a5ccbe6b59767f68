import Model
import Testing

@testable import Routing

@Suite("The table of pending requests") struct PendingTableTests {
    private func pending(_ ticket: UInt64) -> Router.Pending {
        let now = MonotonicTime.zero
        return Router.Pending(
            ticket: ticket, kind: .simple, partition: PartitionID(0), deadline: Deadline(now), began: now,
            phase: .asked(at: now))
    }

    @Test("finds a number's request and no other", arguments: 1...20 as ClosedRange<UInt64>)
    func findsItsOwn(seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        var table = PendingTable(capacity: 64)
        var twin: [UInt64: UInt64] = [:]
        var last: UInt64 = 0
        for step in 0..<2_000 as Range<UInt64> {
            if twin.count < 64, random.next() % 2 == 0 {
                let number = table.add(pending(step))
                #expect(number > last, "numbers rise with time; seed \(seed), step \(step)")
                last = number
                twin[number] = step
            } else if let number = twin.keys.sorted().randomElement(using: &random) {
                #expect(table[number]?.ticket == twin[number])
                #expect(table.remove(number)?.ticket == twin.removeValue(forKey: number))
                #expect(table[number] == nil && table.remove(number) == nil, "an answer that comes twice")
            }
            #expect(table.count == twin.count, "seed \(seed), step \(step)")
        }
        let middle = twin.keys.sorted().dropFirst(twin.count / 2).first ?? 0
        #expect(table.numbers(upTo: middle) == twin.keys.filter { $0 <= middle }.sorted())
    }

    @Test("gives a slot that is used again another number")
    func reusedSlot() {
        var table = PendingTable(capacity: 4)
        let first = table.add(pending(1))
        table.remove(first)
        let second = table.add(pending(2))
        #expect(second != first && table[first] == nil && table[second]?.ticket == 2)
        table[first] = pending(3)
        #expect(table.count == 1 && table[second]?.ticket == 2)
    }
}
