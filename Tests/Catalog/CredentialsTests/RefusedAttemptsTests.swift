import Model
import Testing

@testable import Credentials

private func at(_ milliseconds: Int64) -> WallTime { WallTime(milliseconds: milliseconds) }

@Suite("Attempts that were refused") struct RefusedAttemptsTests {
    private func attempt(
        _ source: String, _ subject: String = "GET /admin/keys: no"
    ) -> RefusedAttempts.Attempt {
        .init(name: "unknown token 00", source: source, subject: subject)
    }

    @Test("are told at once where they are an address's first, and counted afterwards")
    func firstAtOnce() throws {
        var attempts = RefusedAttempts()
        let told = attempts.note(attempt("192.0.2.7"), now: at(1000))
        let first = try #require(told)
        #expect(first.author == .init(name: "unknown token 00", source: "192.0.2.7"))
        #expect(first.action == "refused" && first.subject == "GET /admin/keys: no")
        #expect(first.time == at(1000))
        for number in 0..<1000 {
            let again = attempts.note(attempt("192.0.2.7", "number \(number)"), now: at(2000))
            #expect(again == nil)
        }
        // An attempt from another address gets an entry at once as well.
        let other = attempts.note(attempt("192.0.2.8"), now: at(2000))
        #expect(other != nil)
        let early = attempts.drain(now: at(1000 + RefusedAttempts.period - 1))
        #expect(early.isEmpty)
        let rest = attempts.drain(now: at(1000 + RefusedAttempts.period))
        #expect(rest.map(\.subject) == ["1000 more in a minute, the last one: number 999"])
        let late = attempts.drain(now: at(500_000))
        #expect(late.isEmpty)
        let again = attempts.note(attempt("192.0.2.7"), now: at(500_000))
        #expect(again != nil)
    }

    @Test("are counted together where they come from too many addresses")
    func manyAddresses() {
        var attempts = RefusedAttempts()
        var told = 0
        for number in 0..<10_000 where attempts.note(attempt("192.0.2.\(number)"), now: at(5)) != nil {
            told += 1
        }
        #expect(told == RefusedAttempts.countMax)
        let rest = attempts.drain(now: at(5 + RefusedAttempts.period))
        #expect(rest.map(\.subject) == ["\(10_000 - RefusedAttempts.countMax) more in a minute"])
        #expect(rest.first?.author.source == "more addresses")
    }

    @Test("are told early where the clock is set back")
    func clockSetBack() {
        var attempts = RefusedAttempts()
        for _ in 0..<2 { _ = attempts.note(attempt("192.0.2.7"), now: at(90_000)) }
        let rest = attempts.drain(now: at(10))
        #expect(rest.count == 1)
    }
}
