import Model
import Testing

@testable import NodeCore

@Suite("What operators hear of a home that is away") struct OutageTests {
    private func told(_ effects: [ControlEffect]) -> [TimeSpan] {
        effects.compactMap { if case .noted(.databaseAway(0, _, let time)) = $0 { time } else { nil } }
    }

    private func loops(_ effects: [ControlEffect]) -> [Bool] {
        effects.compactMap { if case .orderAll(.home(let isAway)) = $0 { isAway } else { nil } }
    }

    @Test("comes once, then once a minute, and once when it is back")
    func lines() {
        let harness = ControlHarness()
        harness.hear(.start(seeds: []))
        harness.hear(.tableRead(database: 1, look: 1, harness.rows(of: 1)))
        harness.hear(.polled(harness.poll, asked: harness.now))
        let began = harness.now
        var times: [TimeSpan] = []
        var orders: [Bool] = []
        for _ in 0..<250 {
            harness.pass(milliseconds: 500)
            harness.hear(.ownership(.nudged))
            let effects = harness.hear(.ownership(.pollFailed("no route")))
            times += told(effects)
            orders += loops(effects)
        }
        #expect(times == [.zero, .seconds(60), .seconds(120)], "125 s have passed")
        #expect(orders == [true])
        #expect(harness.core.outages.since[0].map { $0 > began } == true)
        harness.hear(.ownership(.nudged))
        let back = harness.hear(.polled(harness.poll, asked: harness.now))
        #expect(loops(back) == [false] && harness.core.outages.since.isEmpty)
        #expect(back.contains { if case .noted(.databaseBack(0, _)) = $0 { true } else { false } })
    }

    @Test("does not come of one look that failed")
    func blip() {
        let harness = ControlHarness()
        harness.hear(.start(seeds: []))
        harness.hear(.tableRead(database: 1, look: 1, harness.rows(of: 1)))
        harness.hear(.polled(harness.poll, asked: harness.now))
        harness.hear(.ownership(.nudged))
        let effects = harness.hear(.ownership(.pollFailed("no route")))
        #expect(told(effects).isEmpty && loops(effects).isEmpty)
    }
}
