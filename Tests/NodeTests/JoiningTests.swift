import MemoryEngine
import Model
import Testing

@testable import Node

@Suite("What is looked at before a node joins") struct JoiningTests {
    private let engine = MemoryEngine()

    /// The node's own clock.
    private let own = WallTime(milliseconds: 1_700_000_000_000)
    private var clocks: Instant { Instant(monotonic: MonotonicTime(nanoseconds: 1), wall: own) }

    /// A node refuses a clock more than a minute from the database's, either way, and says what to do.
    @Test(
        "a clock that is more than a minute off is refused with what to do",
        arguments: [-10_800_000, -60_001, 60_001, 10_800_000] as [Int64])
    func farClock(milliseconds: Int64) {
        engine.clock = WallTime(milliseconds: own.milliseconds + milliseconds)
        #expect {
            try Node.checkNameAndClock(engine, name: "a", clock: { clocks })
        } throws: { error in
            "\(error)".contains("let both follow the same time (NTP)")
                && "\(error)".contains(milliseconds > 0 ? "behind" : "ahead of")
        }
    }

    @Test("a clock that is within a minute is taken", arguments: [-60_000, 0, 60_000] as [Int64])
    func aClockThatIsNearIsTaken(milliseconds: Int64) throws {
        engine.clock = WallTime(milliseconds: own.milliseconds + milliseconds)
        try Node.checkNameAndClock(engine, name: "a", clock: { clocks })
    }

    /// A former process of the name whose lease stands still is no reason to stay away.
    @Test("a former process of the node's name that is gone is superseded")
    func formerGone() throws {
        let former = try engine.beginSession(node: "a")
        try engine.renewLease(former, info: [])
        try Node.checkNameAndClock(engine, name: "a")
    }
}
