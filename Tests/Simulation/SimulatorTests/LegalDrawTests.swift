import Membership
import Model
import Ownership
import Partitions
import Quotas
import Testing

@testable import Routing
@testable import Simulator

/// The options themselves say which bounds must fit together.
@Suite("What a swarm draws")
struct LegalDrawTests {
    @Test("is legal")
    func legal() {
        for seed in UInt64(1)...400 {
            let options = SwarmDraw(seed: seed).options
            let found = [
                options.partition.mistake, options.quotas.mistake, options.ownership.mistake,
                options.membership.mistake,
            ]
            #expect(found.allSatisfy { $0 == nil }, "seed \(seed): \(found)")
            #expect(options.routing.deadline > options.links.waitMax + Deadline.handoverMax)
            #expect(options.quotas.accountCountMax >= options.nodeCount * options.loopCount)
        }
    }

    @Test("is not what breaks an invariant of the bounds")
    func mistakes() {
        func partition(_ change: (inout PartitionOptions) -> Void) -> String? {
            var options = PartitionOptions(partitionCount: 1)
            change(&options)
            return options.mistake
        }
        #expect(partition { _ in } == nil)
        #expect(partition { $0.bodiesAtOnce = 0 } != nil)
        #expect(partition { $0.delivery.waitingHardMax = 163 } != nil)
        #expect(partition { $0.delivery.topicsPerDeviceMax = 2001 } != nil)
        func quotas(_ change: (inout QuotaBounds) -> Void) -> String? {
            var bounds = QuotaBounds()
            change(&bounds)
            return bounds.mistake
        }
        #expect(quotas { _ in } == nil)
        #expect(quotas { $0.share = $0.lease - .nanoseconds(1) } != nil)
        #expect(quotas { $0.flightCountMax = 3 } != nil)
        #expect(quotas { $0.retryMin = $0.retryMax + .nanoseconds(1) } != nil)
        func ownership(_ change: (inout Ownership.Options) -> Void) -> String? {
            var options = Ownership.Options()
            change(&options)
            return options.mistake
        }
        #expect(ownership { _ in } == nil)
        #expect(ownership { $0.lease = $0.pollInterval } != nil)
        func membership(_ change: (inout Membership.Options) -> Void) -> String? {
            var options = Membership.Options()
            change(&options)
            return options.mistake
        }
        #expect(membership { _ in } == nil)
        #expect(membership { $0.ackTimeout = $0.probeInterval + .nanoseconds(1) } != nil)
        #expect(membership { $0.packetBytesMax = 10 } != nil)
    }

    /// The machine's clock shows nothing of the standstill, and its timers fire that much later.
    @Test("may be a machine that stands still with its clock")
    func standstill() throws {
        var options = ClusterSimulation.Options(seed: 1)
        options.hasFaults = false
        let world = ClusterSimulation(options)
        world.boot()
        let process = try #require(world.slots[0].process)
        let before = process.clock.monotonic
        let due = before.advanced(by: .seconds(1))
        var woken: MonotonicTime?
        process.wake(at: due) { woken = world.now }
        let began = world.now
        world.freeze(process, for: .milliseconds(600), stopsClock: true)
        world.run(until: began + .milliseconds(500))
        #expect(process.clock.monotonic == before)
        world.run(until: began + .seconds(2))
        #expect(process.clock.monotonic == before.advanced(by: .milliseconds(1400)))
        #expect(woken == began + .milliseconds(1600))
    }

    /// The meter forgives the tokens that a machine held whose clock stood still: that number, for a time,
    /// and no more.
    @Test("does not make the meter of quotas blind")
    func meter() {
        let limits = QuotaLimits(sends: QuotaRate(count: 1, burst: 2))
        let project = ProjectNumber(1)
        var meter = QuotaMeter(limits, projects: [project])
        func takes(_ count: Int, _ now: UInt64) -> Bool {
            meter.take(
                Admission.Admitted(project: project, kind: .sends, count: count), by: 1,
                MonotonicTime(nanoseconds: now))
        }
        #expect(takes(2, 0))
        #expect(!takes(1, 1))
        meter.forgive(3, .sends, in: project, of: 1, until: MonotonicTime(nanoseconds: 10))
        #expect(takes(3, 2))
        #expect(!takes(1, 3))
        meter.forgive(3, .sends, in: project, of: 1, until: MonotonicTime(nanoseconds: 10))
        #expect(!takes(1, 11), "it is over")
    }
}
