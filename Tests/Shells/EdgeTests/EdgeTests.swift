import HTTPMessages
import Testing

@testable import Edge

private let good: [(String, String)] = [
    (":method", "POST"), (":scheme", "http"), (":path", "/v1/x"), (":authority", "localhost"),
    ("content-type", "application/json"),
]

/// Header blocks that RFC 9113 §8.2 and §8.3 forbid, one for each rule.
private let malformedBlocks: [(String, [(String, String)])] = [
    ("an upper-case name", good + [("Accept", "x")]), ("a name with a blank", good + [("a b", "x")]),
    ("an empty name", good + [("", "x")]), ("connection", good + [("connection", "keep-alive")]),
    ("keep-alive", good + [("keep-alive", "1")]), ("upgrade", good + [("upgrade", "h2c")]),
    ("proxy-connection", good + [("proxy-connection", "x")]),
    ("transfer-encoding", good + [("transfer-encoding", "chunked")]),
    ("te: gzip", good + [("te", "gzip")]),
    ("CR LF in a value", good + [("x", "a\r\nb: c")]), ("NUL in a value", good + [("x", "a\0b")]),
    ("a blank before a value", good + [("x", " a")]), ("a tab after a value", good + [("x", "a\t")]),
    ("a pseudo-header after a field", [("x", "y")] + good), ("two methods", [(":method", "GET")] + good),
    ("two paths", [(":path", "/")] + good), ("two schemes", [(":scheme", "http")] + good),
    ("an unknown pseudo-header", [(":protocol", "x")] + good),
    ("a response's pseudo-header", [(":status", "200")] + good),
    ("no method", Array(good.dropFirst())), ("no scheme", good.filter { $0.0 != ":scheme" }),
    ("no path", good.filter { $0.0 != ":path" }),
    ("an empty path", good.map { $0.0 == ":path" ? ($0.0, "") : $0 }),
    ("a path that is no path", good.map { $0.0 == ":path" ? ($0.0, "x") : $0 }),
    ("a content-length that is no number", good + [("content-length", "1x")]),
    ("two different content-lengths", good + [("content-length", "1"), ("content-length", "2")]),
]

@Suite("A request's header block over HTTP/2")
struct RequestHeadTests {
    /// The request that the header block makes, or `nil` where the block is refused.
    private func read(_ fields: [(String, String)], trailers: [(String, String)] = []) -> HTTPRequest? {
        var head = RequestHead()
        let request = HTTPRequest(method: .get, target: [])
        for (isTrailer, list) in [(false, fields), (true, trailers)] {
            for (name, value) in list {
                let isTaken = Array(name.utf8).withUnsafeBufferPointer { name in
                    Array(value.utf8).withUnsafeBufferPointer { value in
                        head.addField(name, value, isTrailer: isTrailer, into: request)
                    }
                }
                if !isTaken { return nil }
            }
        }
        return head.isComplete ? request : nil
    }

    @Test("is taken when it is as RFC 9113 has it")
    func wellFormed() throws {
        let request = try #require(read(good))
        #expect(request.method == .post)
        #expect(request.target == Array("/v1/x".utf8))
        #expect(request.fields.string("content-type") == "application/json")
    }

    @Test("takes the scheme of an SDK, https with a colon")
    func oddScheme() {
        var fields = good
        fields[1].1 = "https:"
        fields[3].1 = "fcm.googleapis.com:443"
        #expect(read(fields) != nil)
    }

    @Test("is refused when it is malformed", arguments: 0..<26)
    func malformed(row: Int) {
        let (rule, fields) = malformedBlocks[row]
        #expect(read(fields) == nil, "\(rule)")
    }

    @Test("has no pseudo-headers in its trailers, and te may say trailers")
    func trailers() {
        #expect(read(good, trailers: [(":path", "/")]) == nil)
        #expect(read(good + [("te", "trailers")], trailers: [("x", "y")]) != nil)
    }
}

/// Expects the result of a mutating call; `#expect` itself takes no mutating calls.
private func check(_ answer: Bool, _ location: SourceLocation = #_sourceLocation) {
    #expect(answer, sourceLocation: location)
}

@Suite("The guard against abuse")
struct AbuseGuardTests {
    @Test(
        "admits up to each limit and not one more, and begins again after its window",
        arguments: AbuseGuard.Kind.allCases)
    func limits(kind: AbuseGuard.Kind) {
        var guarding = AbuseGuard()
        for _ in 1...kind.max { check(guarding.admits(kind, second: 1)) }
        check(!guarding.admits(kind, second: 1))
        check(guarding.admits(kind, second: 1 + AbuseGuard.windowSeconds))
    }

    @Test("admits window updates in proportion to what was sent")
    func windowUpdates() {
        var guarding = AbuseGuard()
        for _ in 0..<1000 { guarding.noteSent(second: 0) }
        for _ in 0..<AbuseGuard.Kind.windowUpdate.max + 2000 {
            check(guarding.admits(.windowUpdate, second: 0))
        }
        check(!guarding.admits(.windowUpdate, second: 0))
    }
}

@Suite("A connection's deadlines")
struct ConnectionDeadlineTests {
    let configuration = EdgeConfiguration()

    @Test("close who sends no request, who stays idle, who sends slowly and who does not read")
    func deadlines() {
        var silent = ConnectionDeadlines(configuration, second: 0)
        check(!silent.noteState(10, open: 0, heading: nil, receiving: nil, stuck: false))
        check(silent.noteState(11, open: 0, heading: nil, receiving: nil, stuck: false))

        var idle = ConnectionDeadlines(configuration, second: 0)
        idle.hasBegun = true
        check(!idle.noteState(5, open: 1, heading: nil, receiving: nil, stuck: false))
        check(!idle.noteState(6, open: 0, heading: nil, receiving: nil, stuck: false))
        check(!idle.noteState(126, open: 0, heading: nil, receiving: nil, stuck: false))
        check(idle.noteState(127, open: 0, heading: nil, receiving: nil, stuck: false))

        var slow = ConnectionDeadlines(configuration, second: 0)
        slow.hasBegun = true
        check(!slow.noteState(31, open: 1, heading: nil, receiving: 1, stuck: false))
        check(slow.noteState(32, open: 1, heading: nil, receiving: 1, stuck: false))

        // A connection may always have requests under way, as long as each request is finished quickly.
        for second in 1...200 {
            check(
                !slow.noteState(
                    second, open: 1, heading: second - 1, receiving: second - 2, stuck: false))
        }
        check(!slow.noteState(211, open: 1, heading: 201, receiving: 201, stuck: false))
        check(slow.noteState(212, open: 1, heading: 201, receiving: 201, stuck: false))

        var stuck = ConnectionDeadlines(configuration, second: 0)
        stuck.hasBegun = true
        check(!stuck.noteState(1, open: 1, heading: nil, receiving: nil, stuck: true))
        check(stuck.noteState(62, open: 1, heading: nil, receiving: nil, stuck: true))
    }

    @Test("leave a stream that listens alone for ever")
    func listening() {
        var listening = ConnectionDeadlines(configuration, second: 0)
        listening.hasBegun = true
        for second in stride(from: 1, to: 100_000, by: 100) {
            check(!listening.noteState(second, open: 1, heading: nil, receiving: nil, stuck: false))
        }
    }
}
