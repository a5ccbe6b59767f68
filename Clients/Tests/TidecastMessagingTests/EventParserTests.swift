import Testing

@testable import TidecastMessaging

@Suite("The reader of server-sent events") struct EventParserTests {
    static func events(_ chunks: String...) throws -> [EventParser.Event] {
        var parser = EventParser()
        return try chunks.flatMap { try parser.read(Array($0.utf8)) }
    }

    @Test("reads id, event, data and retry, in pieces of any size", arguments: [1, 2, 3, 7, 1000])
    func pieces(size: Int) throws {
        let text =
            ": listening\n\nid: 7.a\nevent: message\ndata: {\"a\": \"b: c\"}\n\nevent: reconnect\ndata: {}\nretry: 500\n\n"
        var parser = EventParser()
        var found: [EventParser.Event] = []
        let bytes = Array(text.utf8)
        for start in stride(from: 0, to: bytes.count, by: size) {
            found += try parser.read(bytes[start..<min(start + size, bytes.count)])
        }
        #expect(
            found == [
                .init(id: "7.a", type: "message", data: "{\"a\": \"b: c\"}"),
                .init(id: nil, type: "reconnect", data: "{}", retryMilliseconds: 500),
            ])
    }

    @Test("takes all three ends of lines, a byte order mark, and data of several lines")
    func lines() throws {
        let found = try EventParserTests.events(
            "\u{FEFF}data: a\r\ndata:b\rdata\n\r\n", "id: 1\r", "\ndata: c\r", "\n\r", "\n")
        #expect(found == [.init(data: "a\nb\n"), .init(id: "1", data: "c")])
    }

    @Test(
        "passes over what is malformed, and goes on",
        arguments: [
            "nonsense", "retry: -1", "retry: 99999999999999999999", "id: a\0b", "other: x", "\u{FFFD}:",
        ])
    func malformed(line: String) throws {
        let found = try EventParserTests.events("\(line)\ndata: a\n\ndata: b\n\n")
        #expect(found == [.init(data: "a"), .init(data: "b")])
    }

    @Test("gives no event that has no data, or whose end did not come")
    func unfinished() throws {
        #expect(try EventParserTests.events("id: 1\nevent: message\n\ndata: a\n") == [])
    }

    @Test("refuses an event past 1 MiB, and never one for its comments")
    func tooLong() throws {
        var parser = EventParser()
        let comment = Array((": " + String(repeating: "x", count: 60_000) + "\n").utf8)
        for _ in 0..<40 { expect(try parser.read(comment) == []) }
        let piece = Array(String(repeating: "x", count: 65_536).utf8)
        expect(try parser.read(Array("data: ".utf8)) == [])
        #expect(throws: EventParser.TooLong.self) {
            for _ in 0..<17 { _ = try parser.read(piece) }
        }
    }
}
