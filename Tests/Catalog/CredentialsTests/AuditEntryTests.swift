import Bytes
import Model
import Testing

@testable import Credentials

@Suite("An entry of the audit log") struct AuditEntryTests {
    private let entry = AuditEntry(
        time: WallTime(milliseconds: 9), author: .init(name: "root", source: "admin socket, process 7"),
        action: "key.revoke", subject: "0123456789abcdef")

    @Test("is read as it was written")
    func isReadAsItWasWritten() throws {
        #expect(try AuditEntry(decoding: entry.encoded) == entry)
    }

    @Test("is refused where it is newer or damaged")
    func malformed() throws {
        let good = entry.encoded
        #expect(good.first == 1)
        for count in good.indices {
            #expect(throws: DecodeError.self) { try AuditEntry(decoding: Array(good[..<count])) }
        }
        for bad in [good + [0], [2] + good.dropFirst()] as [[UInt8]] {
            #expect(throws: DecodeError.self) { try AuditEntry(decoding: bad) }
        }
        var bad = good
        bad[8] = 255
        #expect(throws: DecodeError.self) { try AuditEntry(decoding: bad) }
    }

    /// Clients choose the names of nodes and quotas.
    @Test("has nothing that steers a terminal, and cuts its texts to their bounds")
    func terminal() throws {
        let long = String(repeating: "é", count: 1000)
        let made = AuditEntry(
            time: WallTime(milliseconds: 9), author: .init(name: "a\u{1B}[2Jb", source: long), action: "x\ny",
            subject: "\u{202E}\u{0}" + long)
        #expect(made.author.name == "a?[2Jb" && made.action == "x?y" && made.subject.hasPrefix("??é"))
        #expect(made.author.source.utf8.count == AuditEntry.nameBytesMax)
        #expect(made.subject.utf8.count == AuditEntry.subjectBytesMax)
        #expect(try AuditEntry(decoding: made.encoded) == made)
    }
}
