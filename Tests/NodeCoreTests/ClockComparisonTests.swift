import Model
import Testing

@testable import NodeCore

@Suite("The node's clock beside the database's")
struct ClockComparisonTests {
    private static let own = Instant(
        monotonic: MonotonicTime(nanoseconds: 100_000_000_000),
        wall: WallTime(milliseconds: 1_800_000_000_000))

    /// The node's clock is ahead by so much when the answer comes, after `roundTrip` milliseconds.
    private static func reading(ahead: Int64, roundTrip: UInt64 = 0) -> ClockReading {
        ClockReading(
            asked: own.monotonic.rewound(by: .milliseconds(roundTrip)), own: own,
            theirs: WallTime(milliseconds: own.wall.milliseconds - ahead))
    }

    @Test(
        "differs where no moment of the question explains the difference",
        arguments: [
            (2_000, 0, .agrees), (2_001, 0, .differs), (-2_000, 0, .agrees), (-2_001, 0, .differs),
            (3_000, 1_000, .unclear), (3_001, 1_000, .differs), (2_000, 4_000, .agrees),
            (2_000, 4_001, .unclear),
            (20_000, 30_000, .unclear), (50_000, 30_000, .differs), (-50_000, 30_000, .differs),
        ] as [(Int64, UInt64, ClockReading.Look)])
    func look(ahead: Int64, roundTrip: UInt64, look: ClockReading.Look) {
        let reading = ClockComparisonTests.reading(ahead: ahead, roundTrip: roundTrip)
        #expect(reading.look(errorMax: ClockComparison.errorMax) == look)
    }

    @Test("stops at the ends of the range, whatever a clock shows")
    func extremes() {
        for (own, theirs) in [(Int64.min, Int64.max), (.max, .min)] {
            let own = Instant(monotonic: .zero, wall: WallTime(milliseconds: own))
            let reading = ClockReading(asked: .zero, own: own, theirs: WallTime(milliseconds: theirs))
            #expect(reading.look(errorMax: ClockComparison.joiningErrorMax) == .differs)
            #expect(reading.likelyAhead != 0)
        }
    }

    @Test(
        "differs, and agrees again, when two looks in a row say so, and is said once; the node is not ready")
    func twoLooks() {
        let harness = ControlHarness()
        func hear(_ ahead: Int64, _ roundTrip: UInt64 = 0) -> [String] {
            harness.hear(.clockRead(ClockComparisonTests.reading(ahead: ahead, roundTrip: roundTrip)))
                .compactMap { effect in
                    switch effect {
                    case .orderAll(.clockCompared(let reading)):
                        reading == ClockComparisonTests.own ? "right" : "-"
                    case .noted(.clockDiffers(let ahead)): "ahead \(ahead)"
                    case .noted(.clockAgrees): "agrees"
                    default: nil
                    }
                }
        }
        #expect(hear(0) == ["right"])
        #expect(hear(3_000) == ["-"])
        #expect(hear(3_000, 5_000) == ["-"], "nobody knows")
        #expect(hear(3_000) == ["-"], "it is the first in a row again")
        #expect(hear(2_999) == ["ahead 2999", "-"])
        #expect(harness.core.clocks.inability?.contains("clock is 2 s ahead of the database's") == true)
        #expect(hear(2_999) == ["-"])
        #expect(hear(0) == ["right"])
        #expect(hear(2_999) == ["-"])
        #expect(hear(0) == ["right"])
        #expect(hear(0) == ["agrees", "right"])
        #expect(harness.core.clocks.inability == nil)
        #expect(hear(0) == ["right"])
    }
}
