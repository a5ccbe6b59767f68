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
        "differs, and agrees again, when two looks in a row say so, and is said once")
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
        #expect(harness.core.clocks.differs)
        #expect(hear(2_999) == ["-"])
        #expect(hear(0) == ["right"])
        #expect(hear(2_999) == ["-"])
        #expect(hear(0) == ["right"])
        #expect(hear(0) == ["agrees", "right"])
        #expect(!harness.core.clocks.differs)
        #expect(hear(0) == ["right"])
    }

    /// A cluster of this node and others, whose clocks are ahead of the database's by so much; `nil`: one
    /// that has told nothing. Returns why this node is not ready.
    private func reason(own: Int64, others: [Int64?]) -> String? {
        let harness = ControlHarness()
        harness.nodes = others.indices.map { SessionID(UInt64(10 + $0)) }
        harness.hear(.start(seeds: []))
        harness.hear(.polled(harness.poll, asked: harness.now))
        harness.hear(.tableRead(database: 1, look: 1, harness.rows(of: 1)))
        for (node, ahead) in zip(harness.nodes, others) {
            guard let ahead else { continue }
            harness.core.heardOfClock(version: node.rawValue << 20 | 1, UInt64(bitPattern: ahead))
        }
        for _ in 0..<2 { harness.hear(.clockRead(ClockComparisonTests.reading(ahead: own))) }
        #expect(harness.core.clockInability() == nil, "the node has heard nobody yet")
        harness.pass(milliseconds: ClockComparison.hearing.milliseconds)
        harness.hear(.clockRead(ClockComparisonTests.reading(ahead: own)))
        return harness.core.clockInability()
    }

    @Test("keeps nodes from being ready, but not more than half of them that find the same")
    func share() {
        let away: Int64 = -50_000
        // Node by node, and with the database's own clock.
        for others in [[0], [0, 0], [nil, nil], [away, nil, nil]] as [[Int64?]] {
            #expect(reason(own: away, others: others)?.contains("50 s behind") == true, "\(others)")
        }
        let most: [[Int64?]] = [
            [], [away], [0, away], [away + 1_500, 0], [away, away, 0], [away, away, nil],
        ]
        for others in most {
            #expect(reason(own: away, others: others) == nil, "\(others)")
        }
        #expect(reason(own: 0, others: [away, 0]) == nil)
        #expect(reason(own: away, others: [30_000, 30_000])?.contains("80 s behind those of most") == true)
        #expect(reason(own: 0, others: [away, away])?.contains("50 s ahead of those of most nodes") == true)
        #expect(reason(own: away + 9_000, others: [away, away, away])?.contains("9 s ahead") == true)
        #expect(reason(own: .max, others: [.min, .min]) != nil)
    }

    @Test("is told to the other nodes when it begins, moves and ends")
    func told() {
        var clocks = ClockComparison()
        func look(_ ahead: Int64) -> Int64? {
            _ = clocks.compare(ClockComparisonTests.reading(ahead: ahead))
            return clocks.takeNews()
        }
        #expect(
            [0, 3_000, 3_000, 3_500, 4_500, 0, 0, 0].map(look) == [nil, nil, 3_000, nil, 4_500, 0, nil, nil])
    }
}
