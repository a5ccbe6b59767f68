import Model
import Testing

@testable import Edge

/// A queue of numbers. The clock stands still until a test moves it.
private struct QueueHarness {
    var queue: FairQueue<Int>
    var now = MonotonicTime(.seconds(1))
    private(set) var turns: [[Int]] = []

    init(_ change: (inout FairQueue<Int>.Bounds) -> Void = { _ in }) {
        var bounds = FairQueue<Int>.Bounds()
        (bounds.request, bounds.quantum, bounds.turn, bounds.turnAlone) = (1, 4, 16, 0)
        (bounds.full, bounds.lineMax, bounds.longMax, bounds.allMax) = (100, 2000, 5000, 6000)
        change(&bounds)
        bounds.turnAlone = max(bounds.turnAlone, bounds.turn)
        queue = FairQueue(bounds)
    }

    mutating func pass(_ length: TimeSpan) { now = now + length }

    /// Adds numbers, each with a body of `bytes` bytes.
    @discardableResult
    mutating func add(
        _ items: some Swift.Sequence<Int>, of share: UInt64, bytes: Int = 0
    ) -> FairQueue<Int>.Added {
        var last = FairQueue<Int>.Added.waits
        for item in items {
            last = queue.add(item, of: share, cost: queue.cost(bodyBytes: bytes), now: now)
        }
        return last
    }

    /// The numbers that a turn serves. Where there is a `share`, each number is refused for that share.
    @discardableResult
    mutating func turn(refusing share: UInt64? = nil) -> [Int] {
        queue.beginTurn(now: now)
        var served: [Int] = []
        while let next = queue.next(now: now) {
            served.append(next.item)
            if let share { queue.noteRefused(share, now: now) }
        }
        return served
    }
}

/// Expects the result of a mutating call; `#expect` itself takes no mutating calls.
private func same<Value: Equatable>(
    _ seen: Value, _ wanted: Value, _ location: SourceLocation = #_sourceLocation
) {
    #expect(seen == wanted, sourceLocation: location)
}

@Suite("Requests that wait for their turn")
struct FairQueueTests {
    @Test("need not where nobody does and the turn has room")
    func atOnce() {
        var harness = QueueHarness()
        for _ in 1...16 { same(harness.takes(), true) }
        same(harness.takes(), false)
        harness.queue.endReading()
        same(harness.takes(), true)
        harness.add([1], of: 7)
        same(harness.takes(), false)
        same(harness.turn(), [1])
        harness.queue.endReading()
        same(harness.takes(), true)
    }

    @Test("wait behind a quantum of each other project, however many wait there")
    func quantum() throws {
        for others in 1...4 {
            var harness = QueueHarness { $0.turn = 1000 }
            for other in 0..<others { harness.add((0..<1000).map { _ in other }, of: UInt64(other)) }
            harness.add([-1], of: 99)
            let served = harness.turn()
            let index = try #require(served.firstIndex(of: -1))
            #expect(index <= 4 * others)
        }
    }

    @Test("wait behind a quantum and one request of the largest, where others' are large")
    func large() throws {
        var harness = QueueHarness { $0.turn = 1000 }
        harness.add(0..<50, of: 1, bytes: 29)
        harness.add(100..<200, of: 2)
        let served = harness.turn()
        // A request with 30 of work needs eight quanta of 4: share 2 gets 28 numbers first, then both go at
        // one rate.
        let first = try #require(served.firstIndex(of: 0))
        #expect(served.prefix(first).count { $0 >= 100 } == 28)
        let work = served.prefix(while: { $0 != 199 }).reduce(0) { $0 + ($1 < 100 ? 30 : 0) }
        #expect(work <= 100 + 30)
    }

    @Test("keep their order within a project, over turns too")
    func order() {
        var harness = QueueHarness()
        harness.add(0..<40, of: 1)
        harness.add(100..<140, of: 2)
        var served: [Int] = []
        while harness.queue.count > 0 { served += harness.turn() }
        #expect(served.filter { $0 < 100 } == Array(0..<40))
        #expect(served.filter { $0 >= 100 } == Array(100..<140))
        #expect(harness.queue.lines.isEmpty)
    }

    @Test("are begun so far as a turn goes, and the next turn goes on where it ended")
    func turns() {
        var harness = QueueHarness()
        harness.add(0..<30, of: 1)
        harness.add(100..<130, of: 2)
        same(harness.turn(), [0, 1, 2, 3, 100, 101, 102, 103, 4, 5, 6, 7, 104, 105, 106, 107])
        same(Array(harness.turn().prefix(5)), [8, 9, 10, 11, 108])
        #expect(harness.queue.turnsCut == 2)
    }

    @Test("of one project alone have a longer turn, until others' were there for a moment")
    func alone() {
        var harness = QueueHarness { ($0.turnAlone, $0.alone) = (32, .nanoseconds(100)) }
        harness.add(0..<100, of: 1)
        same(harness.turn().count, 32)
        harness.add([-1], of: 2)
        same(harness.turn().count, 16)
        harness.pass(.nanoseconds(99))
        same(harness.turn().count, 16)
        harness.pass(.nanoseconds(1))
        same(harness.turn().count, 32)
    }

    @Test("are told how many turns they waited")
    func waited() {
        var harness = QueueHarness()
        harness.add(0..<20, of: 1)
        harness.turn()
        harness.queue.beginTurn(now: harness.now)
        let served = harness.queue.next(now: harness.now)
        #expect(served?.item == 16)
        #expect(served?.turns == 2)
        #expect(served?.since == harness.now)
    }

    @Test("save nothing up while none is there")
    func idle() {
        var harness = QueueHarness { $0.turn = 8 }
        harness.add([1], of: 1)
        harness.turn()
        harness.add(100..<120, of: 2)
        harness.add(0..<20, of: 1)
        same(harness.turn(), [100, 101, 102, 103, 0, 1, 2, 3])
    }

    @Test("are too many at a bound of their project's and at one of all")
    func bounds() {
        var harness = QueueHarness()
        same(harness.add(0..<100, of: 1), .waits)
        same(harness.add([100], of: 1), .waitsAndIsFull)
        #expect(!harness.queue.hasRoom(1))
        #expect(harness.queue.hasRoom(2))
        same(harness.add(101..<2000, of: 1), .waitsAndIsFull)
        same(harness.add([2000], of: 1), .refused)
        same(harness.add(0..<2000, of: 2), .waitsAndIsFull)
        same(harness.add(0..<1001, of: 3), .refused)
        #expect(harness.queue.refused == 2)
        for _ in 0..<500 { harness.turn() }
        #expect(harness.queue.count == 0)
        #expect(harness.queue.hasRoom(1))
    }

    @Test("are taken in where lines of others are as long as they may be")
    func room() {
        var harness = QueueHarness { ($0.lineMax, $0.longMax, $0.allMax) = (100, 160, 256) }
        for stranger in UInt64(1)...16 { harness.add(0..<100, of: stranger) }
        // Two long lines have 160 of work together, and 14 lines have a quantum each.
        same(harness.queue.work, 160 + 14 * 4)
        // A new line takes one request of any size, or small requests up to a quantum.
        same(harness.add([0], of: 98, bytes: 19), .waits)
        same(harness.add(0..<4, of: 99), .waits)
        same(harness.add([4], of: 99), .refused)
        for project in UInt64(100)..<110 { harness.add([0], of: project) }
        same(harness.add([0], of: 111, bytes: 5), .waits)
        same(harness.queue.work, 256)
        same(harness.add([0], of: 112), .refused)
    }

    @Test("are held where too many were refused, and go on when half of what is owed is over")
    func held() {
        var harness = QueueHarness { ($0.refusal, $0.debt) = (.nanoseconds(10), .nanoseconds(100)) }
        harness.add(0..<40, of: 1)
        // With the eleventh refusal the line owes more than it may.
        same(harness.turn(refusing: 1), Array(0...10))
        #expect(harness.queue.holds == 1)
        #expect(!harness.queue.isReady)
        #expect(harness.queue.heldUntil == harness.now + .nanoseconds(60))
        same(harness.takes(), false)
        harness.add([100, 101], of: 2)
        same(harness.turn(), [100, 101])
        harness.pass(.nanoseconds(59))
        same(harness.turn(), [])
        harness.pass(.nanoseconds(1))
        same(harness.turn(refusing: 1), [11, 12, 13, 14, 15, 16])
        harness.pass(.nanoseconds(1_000))
        same(harness.turn(), Array(17...32))
    }

    @Test("makes who is refused owe more for a long body than for a short one")
    func longBodies() {
        var queue = FairQueue<Int>()
        queue.noteRefused(1, bodyBytes: 0, now: .zero)
        queue.noteRefused(2, bodyBytes: 64 << 10, now: .zero)
        #expect(queue.lines[1]?.owesUntil == MonotonicTime(.microseconds(200)))
        #expect(queue.lines[2]?.owesUntil == MonotonicTime(.milliseconds(1)))
    }

    @Test("of a project that is refused are answered at its pace, and others' at once")
    func pace() {
        var harness = QueueHarness {
            ($0.refusal, $0.debt, $0.turn) = (.microseconds(200), .milliseconds(20), 256)
        }
        var refused = 0
        for turn in 0..<10_000 {
            if harness.queue.count < 200 { harness.add((0..<100).map { _ in 0 }, of: 1) }
            harness.add([turn + 1], of: 2)
            harness.queue.beginTurn(now: harness.now)
            var isServed = false
            while let next = harness.queue.next(now: harness.now) {
                if next.item == 0 {
                    refused += 1
                    harness.queue.noteRefused(1, now: harness.now)
                } else {
                    isServed = next.item == turn + 1
                    #expect(next.turns == 1)
                }
            }
            #expect(isServed)
            harness.pass(.microseconds(100))
        }
        // One second has room for 5,000 refusals, and the line may owe for 100 more at its end.
        #expect((4_900...5_102).contains(refused))
    }

    @Test("count no turns if their project was held since they came")
    func paced() {
        var harness = QueueHarness { ($0.refusal, $0.debt) = (.nanoseconds(10), .nanoseconds(100)) }
        harness.add(0..<20, of: 1)
        harness.turn(refusing: 1)
        harness.pass(.nanoseconds(60))
        harness.queue.beginTurn(now: harness.now)
        same(harness.queue.next(now: harness.now)?.turns, nil)
        // The line owes nothing any more, but this request waited while the line was held.
        harness.pass(.nanoseconds(100))
        harness.queue.beginTurn(now: harness.now)
        same(harness.queue.next(now: harness.now)?.turns, nil)
        while harness.queue.next(now: harness.now) != nil {}
        harness.add([20, 21], of: 1)
        harness.queue.beginTurn(now: harness.now)
        same(harness.queue.next(now: harness.now)?.turns, 1)
        // One refusal holds no line.
        harness.queue.noteRefused(1, now: harness.now)
        same(harness.queue.next(now: harness.now)?.turns, 1)
    }

    @Test("come and go without end, and what is kept of projects does not grow")
    func forgotten() {
        var harness = QueueHarness { ($0.refusal, $0.debt) = (.nanoseconds(10), .nanoseconds(15)) }
        for share in UInt64(0)..<1000 {
            harness.add([1, 2, 3], of: share)
            harness.turn(refusing: share)
            harness.pass(.nanoseconds(1000))
            harness.turn()
        }
        #expect(harness.queue.lines.count <= 1)
    }

    @Test("keep the invariants, whatever comes in which order", arguments: 1...20)
    func random(seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        func next(_ bound: Int) -> Int { Int.random(in: 0..<bound, using: &random) }
        var harness = QueueHarness {
            ($0.refusal, $0.debt, $0.turn, $0.full) = (.nanoseconds(10), .nanoseconds(60), 20, 10)
        }
        /// The last number that the queue served, by share.
        var last: [Int: Int] = [:]
        var number = 0
        for _ in 0..<2000 {
            switch next(6) {
            case 0...2:
                number += 1
                let share = next(5)
                harness.add([number * 8 + share], of: UInt64(share), bytes: next(10))
            case 3: _ = harness.takes()
            case 4: harness.pass(.nanoseconds(UInt64(next(40))))
            default:
                harness.queue.beginTurn(now: harness.now)
                var work = 0
                while let served = harness.queue.next(now: harness.now) {
                    work += 1
                    if next(3) == 0 { harness.queue.noteRefused(UInt64(next(5)), now: harness.now) }
                    #expect(served.item > last[served.item % 8] ?? 0)
                    last[served.item % 8] = served.item
                }
                #expect(work <= 20)
            }
            #expect(harness.queue.brokenInvariant(isWhole: true) == nil)
        }
        harness.pass(.milliseconds(1))
        while harness.queue.count > 0 { harness.turn() }
        #expect(harness.queue.work == 0)
    }
}

extension QueueHarness {
    fileprivate mutating func takes() -> Bool { queue.takesAtOnce(queue.cost(bodyBytes: 0)) }
}

/// Numbers from a seed.
@Suite("The invariants of requests that wait")
struct FairQueueInvariantTests {
    private func isSeen(_ invariant: String, _ change: (inout FairQueue<Int>) -> Void) {
        var queue = FairQueue<Int>()
        queue.invariantSchedule.isHolders = true
        for share in UInt64(1)...2 {
            for item in 0..<3 {
                _ = queue.add(
                    item, of: share, cost: queue.cost(bodyBytes: 0), now: MonotonicTime(.nanoseconds(1)))
            }
        }
        #expect(queue.brokenInvariant(isWhole: true) == nil)
        change(&queue)
        let broken = queue.brokenInvariant(isWhole: true)
        #expect(broken == invariant)
    }

    @Test("are seen to be broken")
    func broken() {
        isSeen("the lines do not have what waits") { _ = $0.lines[1]?.waiting.removeFirst() }
        isSeen("the lines' work is not that of all") { $0.lines[1]?.work += 1 }
        isSeen("a line saves up while nothing waits in it") {
            $0.lines[1]?.deficit = 1
            guard let line = $0.lines[1], let other = $0.lines[2] else { return }
            while !line.waiting.isEmpty { other.waiting.append(line.waiting.removeFirst()) }
            (other.work, line.work) = (other.work + line.work, 0)
        }
        isSeen("a line has spent what it was not given") { $0.lines[1]?.deficit = -1 }
        isSeen("a line's turn comes though it has none, or the other way round") {
            $0.lines[1]?.isHeld = true
        }
        isSeen("a line has its quantum, and it is another's turn") { $0.lines[2]?.isVisited = true }
        isSeen("a line stands under another share") { $0.lines[3] = $0.lines.removeValue(forKey: 1) }
        isSeen("an empty line that owes nothing is kept") { $0.lines[3] = FairQueue<Int>.Line(3) }
        isSeen("a held line is not known") {
            while $0.held.isEmpty { $0.noteRefused(3, now: MonotonicTime(.nanoseconds(1))) }
            $0.lines[3]?.isHeld = false
        }
        isSeen("a line in the ring is not known") { $0.ring.append(FairQueue<Int>.Line(3)) }
        isSeen("a line is in the ring twice") { $0.ring += $0.ring }
    }

    @Test("of how much work there is are seen to be broken")
    func work() {
        isSeen("less work waits than its requests are") {
            _ = $0.add(3, of: 1, cost: 0, now: MonotonicTime(.nanoseconds(1)))
        }
        isSeen("more work waits in a line than may") {
            let more = $0.bounds.lineMax
            $0.lines[1]?.work += more
            $0.lines[2]?.work -= more
        }
        isSeen("work waits without a request") {
            guard let line = $0.lines[1], let first = line.waiting.popFirst() else { return }
            line.waiting.prepend((first.item, 0, first.turn, first.since))
            while $0.next(now: MonotonicTime(.nanoseconds(1))) != nil {}
        }
        isSeen("more work waits than may") {
            var bounds = FairQueue<Int>.Bounds()
            (bounds.quantum, bounds.allMax) = (0, bounds.request)
            $0 = FairQueue(bounds)
            $0.invariantSchedule.isHolders = true
            for item in 0..<2 {
                _ = $0.add(item, of: 1, cost: bounds.request, now: MonotonicTime(.nanoseconds(1)))
            }
        }
        isSeen("a turn went on past its bound") {
            $0 = FairQueue()
            $0.invariantSchedule.isHolders = true
            _ = $0.takesAtOnce($0.bounds.turnAlone + $0.bounds.lineMax)
        }
    }
}
