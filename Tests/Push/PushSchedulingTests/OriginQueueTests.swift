import Model
import Testing

@testable import PushScheduling

/// Expects the result of a mutating call; `#expect` itself takes no mutating calls.
private func check(_ answer: Bool, _ location: SourceLocation = #_sourceLocation) {
    #expect(answer, sourceLocation: location)
}

@Suite("Pushes that wait")
struct OriginQueueTests {
    private typealias Key = OriginQueue<Int>.Key
    private let now = MonotonicTime(nanoseconds: 1_000)
    private let a = Key(share: 1, origin: "a")
    private let b = Key(share: 1, origin: "b")

    /// The requests that may leave now.
    private func leaving(_ queue: inout OriginQueue<Int>) -> [Int] {
        var found: [Int] = []
        while let next = queue.next(now: now) { found.append(next.request) }
        return found
    }

    private func queue(all: Int = 100, perOrigin: Int = 10, waiting: Int = 1_000) -> OriginQueue<Int> {
        OriginQueue(allMax: all, perOriginMax: perOrigin, waitingMax: waiting, waitMax: .seconds(30))
    }

    private func add(_ numbers: ClosedRange<Int>, to key: Key, _ queue: inout OriginQueue<Int>) {
        for number in numbers { check(queue.add(number, of: key.share, to: key.origin, now: now)) }
    }

    @Test("leave one at once until their origin has answered, then up to the bound, in order")
    func unproven() {
        var queue = queue(perOrigin: 3)
        add(1...9, to: a, &queue)
        check(leaving(&queue) == [1])
        queue.ended(a, isAnswered: false, now: now)
        check(leaving(&queue) == [2])
        queue.ended(a, isAnswered: true, now: now)
        check(leaving(&queue) == [3, 4, 5])
        queue.ended(a, isAnswered: true, now: now)
        check(leaving(&queue) == [6])
        queue.ended(a, isAnswered: false, now: now)
        check(leaving(&queue) == [])
        #expect((queue.running, queue.waiting) == (2, 3))
    }

    @Test("leave together a minute after their origin's last answer, and one by one later or after a failure")
    func remembered() {
        var queue = queue()
        func burst(_ numbers: ClosedRange<Int>, after seconds: UInt64) -> Int {
            let time = now.advanced(by: .seconds(seconds))
            for number in numbers { check(queue.add(number, of: 1, to: "a", now: time)) }
            return leaving(&queue).count
        }
        func end(_ count: Int, isAnswered: Bool = true, after seconds: UInt64) {
            for _ in 0..<count {
                queue.ended(a, isAnswered: isAnswered, now: now.advanced(by: .seconds(seconds)))
            }
            check(leaving(&queue).isEmpty)
        }
        check(burst(1...1, after: 0) == 1)
        end(1, after: 0)
        check(burst(2...4, after: 59) == 3)
        end(3, after: 60)
        check(burst(5...5, after: 120) == 1)
        end(1, isAnswered: false, after: 120)
        check(burst(6...6, after: 121) == 1)
        check(burst(7...8, after: 121) == 0)
    }

    @Test("of one origin leave slots to the project's other origins")
    func origins() {
        var queue = queue(all: 12, perOrigin: 100)
        add(1...50, to: a, &queue)
        check(leaving(&queue) == [1])
        queue.ended(a, isAnswered: true, now: now)
        // Four under way, eight free, of which the project leaves as many as it has: four are left.
        check(leaving(&queue) == [2, 3, 4, 5])
        add(51...60, to: b, &queue)
        check(leaving(&queue) == [51])
        queue.ended(b, isAnswered: true, now: now)
        queue.ended(a, isAnswered: true, now: now)
        check(leaving(&queue) == [6, 52, 53])
        #expect(!queue.isReady)
    }

    @Test("of one project leave slots to other projects", arguments: 2...6)
    func shares(count: Int) {
        var queue = queue(all: 24, perOrigin: 100)
        for share in 1...count {
            for origin in 0..<30 {
                let key = Key(share: UInt64(share), origin: "\(share).\(origin)")
                add(share...share, to: key, &queue)
            }
        }
        var taken: [Int: Int] = [:]
        while let next = queue.next(now: now) { taken[next.request, default: 0] += 1 }
        #expect(Set(taken.keys) == Set(1...count))
        let least = taken.values.min() ?? 0
        let most = taken.values.max() ?? 0
        #expect(most - least <= 1)
        #expect(queue.running < 24, "a newcomer has a slot")
        let newcomer = Key(share: 99, origin: "new")
        add(99...99, to: newcomer, &queue)
        check(leaving(&queue) == [99])
    }

    @Test("are found behind many lines that cannot send", arguments: [50, 500])
    func behindBlocked(count: Int) {
        var queue = queue(all: 100, perOrigin: 1, waiting: 5_000)
        for share in 1...count { add(share...share, to: Key(share: UInt64(share), origin: "hung"), &queue) }
        check(queue.next(now: now)?.request == 1)
        while queue.isReady { check(queue.next(now: now) == nil) }
        add(9_999...9_999, to: Key(share: 9_999, origin: "well"), &queue)
        var found: Int?
        while queue.isReady, found == nil { found = queue.next(now: now)?.request }
        #expect(found == 9_999)
    }

    @Test("of projects with one origin share what the origin takes")
    func oneOrigin() {
        var queue = queue(all: 100, perOrigin: 6)
        add(2...20, to: a, &queue)
        let other = Key(share: 2, origin: "a")
        add(21...40, to: other, &queue)
        check(leaving(&queue) == [2])
        queue.ended(a, isAnswered: true, now: now)
        check(leaving(&queue) == [21, 3, 22, 4, 23, 5])
    }

    @Test("are never stuck while a slot is free and nothing is under way", arguments: 0..<200)
    func random(seed: Int) {
        var random = SeededGenerator(seed: UInt64(seed))
        let all = Int(random.next(upperBound: UInt64(9))) + 1
        var queue = queue(all: all, perOrigin: Int(random.next(upperBound: UInt64(4))) + 1)
        var waiting = 0
        var underWay: [Key] = []
        for number in 1...400 {
            if random.next(upperBound: UInt64(2)) == 0 {
                let share = random.next(upperBound: UInt64(5))
                let origin = "\(random.next(upperBound: UInt64(8)))"
                check(queue.add(number, of: share, to: origin, now: now))
                waiting += 1
            } else if let key = underWay.popLast() {
                queue.ended(key, isAnswered: random.next(upperBound: UInt64(3)) > 0, now: now)
            }
            while let next = queue.next(now: now) {
                underWay.append(next.key)
                waiting -= 1
            }
            underWay.shuffle(using: &random)
            #expect((queue.running, queue.waiting) == (underWay.count, waiting))
            #expect(queue.running <= all)
            #expect(waiting == 0 || queue.running > 0, "something is under way")
        }
        while let key = underWay.popLast() {
            queue.ended(key, isAnswered: true, now: now)
            while let next = queue.next(now: now) { underWay.append(next.key) }
        }
        #expect((queue.running, queue.waiting) == (0, 0))
    }

    @Test("are refused past their bound, and leave in order when some have expired")
    func bounds() {
        var queue = queue(waiting: 4)
        let later = now.advanced(by: .seconds(1))
        let late = now.advanced(by: .seconds(31))
        check(queue.add(1, of: 1, to: "a", now: now))
        check(queue.add(2, of: 1, to: "b", now: now))
        check(queue.add(3, of: 1, to: "a", now: later))
        check(queue.add(4, of: 2, to: "c", now: later))
        check(!queue.add(5, of: 2, to: "d", now: later))
        check(queue.expire(now: later) == [])
        check(queue.expire(now: late) == [1, 2])
        #expect(queue.waiting == 2)
        #expect(queue.isReady)
        check(leaving(&queue) == [3, 4])
        check(queue.expire(now: late) == [])
    }

    @Test("of a project have one turn of two after others of the project have waited for too long")
    func oneTurn() {
        var queue = queue(all: 1)
        add(1...2, to: a, &queue)
        check(leaving(&queue) == [1])
        let late = now.advanced(by: .seconds(31))
        check(queue.expire(now: late) == [2])
        check(queue.next(now: late) == nil)
        queue.ended(a, isAnswered: true, now: late)
        let other = Key(share: 2, origin: "c")
        for number in 3...4 { check(queue.add(number, of: a.share, to: a.origin, now: late)) }
        for number in 5...6 { check(queue.add(number, of: other.share, to: other.origin, now: late)) }
        var found: [Int] = []
        while let next = queue.next(now: late) {
            found.append(next.request)
            queue.ended(next.key, isAnswered: true, now: late)
        }
        #expect(found == [3, 5, 4, 6])
    }

    @Test("do not leave after a sleep in which they have become too old, and those behind them do")
    func late() {
        var queue = queue(perOrigin: 3)
        add(1...2, to: a, &queue)
        let woken = now.advanced(by: .seconds(31))
        check(queue.add(3, of: a.share, to: a.origin, now: woken))
        var found: [Int] = []
        while let next = queue.next(now: woken) { found.append(next.request) }
        #expect((found, queue.takeLate()) == ([3], [1, 2]))
        #expect((queue.running, queue.waiting) == (1, 0))
    }

    @Test("are all taken out at the end")
    func takeAll() {
        var queue = queue()
        for number in 1...100 { check(queue.add(number, of: 1, to: "\(number % 7)", now: now)) }
        let left = leaving(&queue)
        #expect(left.count == 7)
        check(Set(queue.takeAll() + left) == Set(1...100))
        check(queue.takeAll() == [])
        #expect(!queue.isReady)
        for number in left {
            queue.ended(Key(share: 1, origin: "\(number % 7)"), isAnswered: true, now: now)
        }
        #expect((queue.running, queue.waiting) == (0, 0))
        check(queue.add(1, of: 1, to: "1", now: now))
        check(leaving(&queue) == [1])
    }
}
