import Testing

@testable import PushClient

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
