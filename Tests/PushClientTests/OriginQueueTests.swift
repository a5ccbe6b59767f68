import Model
import Testing

@testable import PushClient

/// Expects the result of a mutating call; `#expect` itself takes no mutating calls.
private func check(_ answer: Bool, _ location: SourceLocation = #_sourceLocation) {
    #expect(answer, sourceLocation: location)
}

@Suite("Pushes that wait")
struct OriginQueueTests {
    private let now = MonotonicTime(nanoseconds: 1_000)

    /// The requests that may leave now.
    private func leaving(_ queue: inout OriginQueue<Int>) -> [Int] {
        var found: [Int] = []
        while let next = queue.next() { found.append(next.request) }
        return found
    }

    private func queue(all: Int = 100, perOrigin: Int = 10, waiting: Int = 1_000) -> OriginQueue<Int> {
        OriginQueue(allMax: all, perOriginMax: perOrigin, waitingMax: waiting)
    }

    @Test("leave one at once until their origin has answered, then up to the bound, in order")
    func unproven() {
        var queue = queue(perOrigin: 3)
        for number in 1...9 { check(queue.add(number, to: "a", now: now)) }
        check(leaving(&queue) == [1])
        queue.ended("a", isAnswered: false)
        check(leaving(&queue) == [2])
        queue.ended("a", isAnswered: true)
        check(leaving(&queue) == [3, 4, 5])
        queue.ended("a", isAnswered: true)
        check(leaving(&queue) == [6])
        queue.ended("a", isAnswered: false)
        check(leaving(&queue) == [])
        #expect((queue.running, queue.waiting) == (2, 3))
    }

    @Test("of one origin delay no other origin")
    func turns() {
        var queue = queue(all: 4)
        for number in 1...50 { check(queue.add(number, to: "a", now: now)) }
        check(leaving(&queue) == [1])
        queue.ended("a", isAnswered: true)
        check(leaving(&queue) == [2, 3, 4, 5])
        for number in 51...52 { check(queue.add(number, to: "b", now: now)) }
        check(queue.add(53, to: "c", now: now))
        for _ in 1...3 { queue.ended("a", isAnswered: true) }
        check(leaving(&queue) == [6, 51, 53])
        #expect(!queue.isReady)
    }

    @Test("are refused past their bound, and leave in order when some have expired")
    func bounds() {
        var queue = queue(waiting: 4)
        let later = MonotonicTime(nanoseconds: 2_000)
        check(queue.add(1, to: "a", now: now))
        check(queue.add(2, to: "b", now: now))
        check(queue.add(3, to: "a", now: later))
        check(queue.add(4, to: "c", now: later))
        check(!queue.add(5, to: "d", now: later))
        check(Set(queue.expire(before: later)) == [1, 2])
        #expect(queue.waiting == 2)
        #expect(queue.isReady)
        check(leaving(&queue) == [3, 4])
        check(queue.expire(before: later) == [])
    }

    @Test("are all taken out at the end")
    func takeAll() {
        var queue = queue()
        for number in 1...100 { check(queue.add(number, to: "\(number % 7)", now: now)) }
        let left = leaving(&queue)
        #expect(left.count == 7)
        check(Set(queue.takeAll() + left) == Set(1...100))
        check(queue.takeAll() == [])
        #expect(!queue.isReady)
        for number in left { queue.ended("\(number % 7)", isAnswered: true) }
        #expect((queue.running, queue.waiting) == (0, 0))
        check(queue.add(1, to: "1", now: now))
        check(leaving(&queue) == [1])
    }
}

@Suite("An answer's header block")
struct AnswerHeadTests {
    private func head(_ lines: [String], bytesMax: Int = 1_000) -> AnswerHead {
        var head = AnswerHead(bytesMax: bytesMax)
        for line in lines { Array(line.utf8).withUnsafeBytes { head.read($0) } }
        return head
    }

    @Test("gives lower-case names, values without blanks around them, and the final status")
    func wellFormed() {
        let head = head([
            "HTTP/1.1 100 Continue\r\n", "X: 1\r\n", "\r\n", "HTTP/2 201 \r\n", "TTL:\t 60 \r\n",
            "Empty:\r\n",
            "\r\n", "Trailer: x\r\n", "\r\n",
        ])
        #expect(head.status == 201)
        #expect(head.fields.map(\.name) == ["ttl", "empty"])
        #expect(head.fields.map(\.value) == ["60", ""])
    }

    @Test("has no status when it is malformed or unfinished", arguments: 0..<8)
    func malformed(row: Int) {
        let blocks: [[String]] = [
            [], ["\r\n"], ["HTTP/1.1 201 Created\r\n", "A: b\r\n"], ["HTTP/1.1\r\n", "\r\n"],
            ["HTTP/1.1 2x1 A\r\n", "\r\n"], ["HTTP/1.1 20 A\r\n", "\r\n"], ["HTTP/1.1 2010 A\r\n", "\r\n"],
            ["HTTP/1.1 103 Early\r\n", "\r\n"],
        ]
        #expect(head(blocks[row]).status == nil)
    }

    @Test("leaves out lines that are no fields, and fields past its bound")
    func bounded() {
        let head = head(
            [
                "HTTP/1.1 404 Not Found\r\n", ": no name\r\n", "no colon\r\n", "A: \u{FFFD}\r\n",
                "B: " + String(repeating: "b", count: 90) + "\r\n", "C: c\r\n", "\r\n",
            ], bytesMax: 50)
        #expect(head.status == 404)
        #expect(head.fields.map(\.name) == ["a"])
    }
}
