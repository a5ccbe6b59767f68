import Model
import Quotas
import Testing

@testable import Routing
@testable import Simulator

/// The checker of G6, on buckets of 30 tokens and 8 a second.
@Suite("What is admitted, against burst + rate × window")
struct QuotaMeterTests {
    private func meter() -> QuotaMeter { QuotaMeter(.tight, projects: [ProjectNumber(1), ProjectNumber(2)]) }

    private func take(
        _ meter: inout QuotaMeter, _ count: Int, by machine: ProcessID = 1, of project: UInt32 = 1,
        milliseconds: UInt64
    ) -> Bool {
        let admitted = Admission.Admitted(
            project: ProjectNumber(project), kind: .subscriptionChanges, count: count)
        return meter.take(admitted, by: machine, MonotonicTime(.milliseconds(milliseconds)))
    }

    private func forgive(_ meter: inout QuotaMeter, until end: TimeSpan) {
        meter.forgive(27, .subscriptionChanges, in: ProjectNumber(1), of: 1, until: MonotonicTime(end))
    }

    private func same(_ seen: Bool, _ wanted: Bool, _ location: SourceLocation = #_sourceLocation) {
        #expect(seen == wanted, sourceLocation: location)
    }

    @Test("is more than a burst, or than a burst and what flowed in")
    func plain() {
        var meter = meter()
        same(take(&meter, 30, milliseconds: 1), true)
        same(take(&meter, 1, milliseconds: 2), false)
        same(take(&meter, 8, milliseconds: 1_003), true)
        same(take(&meter, 1, milliseconds: 1_004), false)
    }

    @Test("is not what flowed in for another project")
    func otherProject() {
        var meter = meter()
        same(take(&meter, 30, milliseconds: 1), true)
        same(take(&meter, 1, milliseconds: 2), false)
        same(take(&meter, 30, of: 2, milliseconds: 2), true)
        same(take(&meter, 1, of: 2, milliseconds: 3), false)
    }

    @Test("may be more by what a machine that stood still may spend, for as long, and no more")
    func forgiven() {
        var meter = meter()
        forgive(&meter, until: .seconds(1))
        same(take(&meter, 30 + 27, milliseconds: 1), true)
        same(take(&meter, 1, milliseconds: 2), false)
        forgive(&meter, until: .seconds(3))
        same(take(&meter, 30 + 27, milliseconds: 6_800), false)
    }

    @Test("does not count as its heir's what such a machine spent, and nothing twice")
    func heir() {
        var meter = meter()
        forgive(&meter, until: .seconds(1))
        // The machine takes these while the heir's bucket is full.
        same(take(&meter, 27, milliseconds: 100), true)
        same(take(&meter, 30, by: 2, milliseconds: 1_100), true)
        same(take(&meter, 1, by: 2, milliseconds: 1_100), false)
        var strict = self.meter()
        same(take(&strict, 27, milliseconds: 100), true)
        same(take(&strict, 30, by: 2, milliseconds: 1_100), false)
    }

    @Test("may be more by what such a machine was granted meanwhile, which nobody else spends")
    func granted() {
        var meter = meter()
        let project = ProjectNumber(1)
        meter.forgive(
            20, .subscriptionChanges, in: project, of: 1, until: MonotonicTime(.seconds(1)), isGranted: true)
        same(take(&meter, 30, by: 2, milliseconds: 1), true)
        same(take(&meter, 1, by: 2, milliseconds: 2), false)
        same(take(&meter, 20, milliseconds: 3), true)
        same(take(&meter, 1, milliseconds: 4), false)
        meter.forgive(
            20, .subscriptionChanges, in: project, of: 1, until: MonotonicTime(.milliseconds(5)),
            isGranted: true)
        same(take(&meter, 1, milliseconds: 6), false)
    }

    @Test("gives an heir nothing of what such a machine did not spend")
    func unspent() {
        var meter = meter()
        forgive(&meter, until: .seconds(1))
        same(take(&meter, 30, by: 2, milliseconds: 500), true)
        same(take(&meter, 10, by: 2, milliseconds: 1_001), false)
    }
}
