import Model
import Testing

@testable import Node

@Suite("The metrics' text")
struct ScrapePaceTests {
    private func at(_ milliseconds: UInt64) -> MonotonicTime {
        MonotonicTime(.seconds(1) + .milliseconds(milliseconds))
    }

    @Test("is made at once for the client that asks first, and once for all who ask until it is made")
    func together() {
        var pace = ScrapePace()
        #expect(pace.ask(now: at(0)) == .zero)
        for _ in 0..<250 { #expect(pace.ask(now: at(1)) == nil) }
        pace.made(now: at(2))
        #expect(pace.ask(now: at(1000)) == .zero)
    }

    @Test("is made again for who asks afterwards, and not before the time between two is over")
    func apart() {
        var pace = ScrapePace()
        #expect(pace.ask(now: at(0)) == .zero)
        pace.made(now: at(0))
        #expect(pace.ask(now: at(30)) == ScrapePace.apart - .milliseconds(30))
        #expect(pace.ask(now: at(60)) == nil)
        pace.made(now: at(100))
        // The time is over at exactly this nanosecond.
        #expect(pace.ask(now: at(200)) == .zero)
    }
}
