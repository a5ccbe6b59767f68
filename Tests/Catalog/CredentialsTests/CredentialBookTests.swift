import Bytes
import Model
import Testing

@testable import Credentials

private let shop = ProjectNumber(5)
private let day: Int64 = 86_400_000

private func at(_ milliseconds: Int64) -> WallTime { WallTime(milliseconds: milliseconds) }

private func name(_ number: Int) -> String {
    let digits = String(number, radix: 16)
    return String(repeating: "0", count: 16 - digits.count) + digits + String(repeating: "f", count: 48)
}

@Suite("The book of credentials") struct CredentialBookTests {
    private func book(_ count: Int = 1, kind: CredentialKind = .bearer) throws -> CredentialBook {
        var book = CredentialBook()
        for number in 0..<count {
            try book.add(
                name(number), Credential(kind: kind, project: shop, created: at(1)), now: at(1))
        }
        return book
    }

    @Test("finds a credential by its id or more of its name, and by nothing shorter")
    func finds() throws {
        let book = try book(3)
        #expect(try book.name(of: Credential.id(of: name(2))) == name(2))
        #expect(try book.name(of: name(1)) == name(1))
        for unknown in [Credential.id(of: name(3)), name(1) + "0"] {
            let refusal = #expect(throws: ChangeRefusal.self) { try book.name(of: unknown) }
            #expect(refusal?.reason == .unknown)
        }
        for short in ["", "0", String(name(0).prefix(15))] {
            let refusal = #expect(throws: ChangeRefusal.self) { try book.name(of: short) }
            #expect(refusal?.reason == .wrong(field: "credential"))
        }
    }

    @Test("keeps a revoked credential revoked since the first time")
    func whatIsRevokedStaysSo() throws {
        var book = try book()
        #expect(try book.revoke(name(0), now: at(10)) == name(0))
        _ = try book.revoke(name(0), now: at(20))
        #expect(book.all[name(0)]?.revoked == at(10))
        #expect(throws: ChangeRefusal.self) { try book.expire(name(0), at: nil, now: at(11)) }
        #expect(throws: ChangeRefusal.self) { try book.rotate(name(0), overlap: day, now: at(11)) }
        #expect(book.all[name(0)]?.state(now: at(10)) == .revoked)
    }

    @Test("counts a credential until its end and not at it")
    func atItsEnd() throws {
        var book = try book()
        _ = try book.expire(name(0), at: at(100), now: at(1))
        #expect(book.all[name(0)]?.state(now: at(99)) == .active)
        #expect(book.all[name(0)]?.state(now: at(100)) == .expired)
        // An operator may take the end back as long as the credential is listed.
        _ = try book.expire(name(0), at: nil, now: at(200))
        #expect(book.all[name(0)]?.state(now: at(300)) == .active)
        for end in [at(200), at(0), Credential.endMax] {
            #expect(throws: ChangeRefusal.self) { try book.expire(name(0), at: end, now: at(200)) }
        }
    }

    @Test("makes a successor like the former credential, which ends after the overlap")
    func whatFollowsIsLikeWhatWas() throws {
        var book = CredentialBook()
        var made = Credential(kind: .bearer, project: shop, label: "build", created: at(1))
        made.expires = at(1 + 90 * day)
        try book.add(name(0), made, now: at(1))
        let (former, next) = try book.rotate(name(0), overlap: day, now: at(60 * day))
        #expect(former == name(0) && book.all[former]?.expires == at(61 * day))
        #expect(next.label == "build" && next.kind == .bearer && next.project == shop)
        #expect(next.created == at(60 * day) && next.expires == at(150 * day))
        // A credential that ends sooner gets no longer life from an overlap.
        let again = try book.rotate(name(0), overlap: 30 * day, now: at(60 * day))
        #expect(book.all[again.former]?.expires == at(61 * day))
        for overlap in [0, -1, CredentialBook.overlapMax + 1] {
            #expect(throws: ChangeRefusal.self) {
                try book.rotate(name(0), overlap: overlap, now: at(60 * day))
            }
        }
    }

    @Test("is full for each project and kind alone")
    func isFull() throws {
        var book = try book(CredentialBook.accountKeysMax, kind: .serviceAccount)
        func add(_ number: Int, _ kind: CredentialKind, _ project: ProjectNumber?) throws {
            try book.add(name(number), Credential(kind: kind, project: project, created: at(2)), now: at(2))
        }
        let refusal = #expect(throws: ChangeRefusal.self) { try add(100, .serviceAccount, shop) }
        #expect(refusal?.reason == .precondition)
        try add(101, .bearer, shop)
        try add(102, .serviceAccount, ProjectNumber(6))
        _ = try book.revoke(name(0), now: at(3))
        try add(103, .serviceAccount, shop)
    }

    @Test("forgets the oldest credentials that have ended, beyond its bound")
    func forgets() throws {
        var book = try book(CredentialBook.endedMax + 3)
        for number in 0..<(CredentialBook.endedMax + 2) {
            _ = try book.revoke(name(number), now: at(1000 - Int64(number)))
        }
        book.used[name(CredentialBook.endedMax + 1)] = at(4)
        let swept = book.sweep(shop, now: at(2000))
        #expect(swept == [name(CredentialBook.endedMax + 1), name(CredentialBook.endedMax)])
        #expect(book.all.count == CredentialBook.endedMax + 1 && book.used.isEmpty)
        #expect(book.sweep(shop, now: at(2000)).isEmpty && book.sweep(nil, now: at(2000)).isEmpty)
        #expect(book.removeAll(of: shop).count == CredentialBook.endedMax + 1 && book.all.isEmpty)
    }

    @Test(
        "takes a label that a terminal shows",
        arguments: ["", "CI of the shop", "Käse 🧀", String(repeating: "x", count: 64)])
    func goodLabel(text: String) { #expect(Credential.isLabel(text)) }

    @Test(
        "refuses a label that steers a terminal or is too long",
        arguments: ["\u{1B}[2J", "a\nb", "\u{202E}x", "\u{7F}", String(repeating: "x", count: 65)])
    func aLabelSteersNoTerminal(text: String) throws {
        var book = CredentialBook()
        let credential = Credential(kind: .device, project: shop, label: text)
        #expect(throws: ChangeRefusal.self) { try book.add(name(0), credential, now: at(1)) }
    }
}

@Suite("A credential as it is stored") struct StoredCredentialTests {
    private static let some: [Credential] = {
        var full = Credential(
            kind: .operatorToken, project: nil, label: "ops", role: .operate, created: at(1), expires: at(3))
        full.revoked = at(2)
        return [
            full, Credential(kind: .serviceAccount, project: shop),
            Credential(kind: .device, project: ProjectNumber(0), label: "é", created: at(7)),
        ]
    }()

    @Test("is read as it was written", arguments: some)
    func isReadAsItWasWritten(credential: Credential) throws {
        #expect(try Credential(decoding: credential.encoded) == credential)
    }

    @Test("has the same bytes in every build")
    func hasTheseBytes() throws {
        let bytes = Credential(kind: .bearer, project: shop, label: "ci", created: at(258)).encoded
        let head: [UInt8] = [1, 2, 0, 5, 0, 0, 0, 2, 1]
        #expect(bytes == head + Array(repeating: 0, count: 22) + [2, 0x63, 0x69])
    }

    @Test("is refused where it is newer or damaged")
    func malformed() throws {
        let good = StoredCredentialTests.some[0].encoded
        for count in 0..<good.count {
            #expect(throws: DecodeError.self) { try Credential(decoding: Array(good[..<count])) }
        }
        #expect(throws: DecodeError.self) { try Credential(decoding: good + [0]) }
        // Version, kind, role, project, the top of a time, the label's length.
        for (index, value) in [(0, 2), (1, 4), (1, 1), (2, 0), (2, 4), (3, 5), (14, 255), (31, 200)] {
            var bad = good
            bad[index] = UInt8(value)
            #expect(throws: DecodeError.self, "byte \(index)") { try Credential(decoding: bad) }
        }
    }

    @Test("is an error or reads back the same where bytes are changed, and never a trap")
    func noise() {
        var random = SeededGenerator(seed: 13)
        for _ in 0..<20_000 {
            var bytes = StoredCredentialTests.some.randomElement(using: &random)?.encoded ?? []
            for _ in 0..<Int.random(in: 1...4, using: &random) {
                bytes[Int.random(in: 0..<bytes.count, using: &random)] = UInt8.random(
                    in: 0...255, using: &random)
            }
            guard let credential = try? Credential(decoding: bytes) else { continue }
            #expect((try? Credential(decoding: credential.encoded)) == credential)
        }
    }
}

@Suite("What was used") struct UseNotesTests {
    @Test("is noted once in a period, also where the clock goes back")
    func isNotedOnceInAWhile() {
        var notes = UseNotes()
        notes.note("a", now: at(1000))
        notes.note("a", now: at(2000))
        notes.note("b", now: at(3000))
        #expect(notes.drain(now: at(4000)) == ["a": at(1000), "b": at(3000)])
        notes.note("a", now: at(5000))
        #expect(notes.drain(now: at(6000)).isEmpty)
        notes.note("a", now: at(1000 + UseNotes.period))
        #expect(notes.drain(now: at(2000 + UseNotes.period)) == ["a": at(1000 + UseNotes.period)])
        // A clock that goes back must not stop the notes of uses.
        notes.note("a", now: at(7))
        #expect(notes.drain(now: at(8)) == ["a": at(7)])
    }

    @Test("is noted for a bounded number of credentials in a period")
    func hasABound() {
        var notes = UseNotes()
        for number in 0..<(UseNotes.countMax + 10) { notes.note("\(number)", now: at(1000)) }
        #expect(notes.drain(now: at(1001)).count == UseNotes.countMax)
        notes.note("later", now: at(1002))
        #expect(notes.drain(now: at(1000 + UseNotes.period)).isEmpty)
        notes.note("later", now: at(1001 + UseNotes.period))
        #expect(notes.drain(now: at(1001 + UseNotes.period)).count == 1)
    }
}
