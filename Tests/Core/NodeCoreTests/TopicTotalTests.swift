import Quotas
import Testing

@testable import NodeCore

@Suite("The bound of a project's names of topics")
struct TopicTotalTests {
    @Test("is the project's quota on each loop, and the default where the project has none")
    func settable() {
        let harness = LoopHarness()
        let names = harness.core.names
        #expect(names.bounds.standard == QuotaLimits.standard.topics)
        #expect(names.bounds.ofProjects.isEmpty)
        let limits = [LoopHarness.project: QuotaLimits(topics: 7)]
        harness.core.updateCatalog(
            projects: [LoopHarness.project], limits: limits, births: [:], now: harness.now)
        #expect(names.bounds.ofProjects == [LoopHarness.project: 7])
    }
}
