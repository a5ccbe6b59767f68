import Model
import Testing

@testable import Partitions

@Suite("The timers of a partition")
struct TimerTests {
    @Test("do not pile up while it is busy and idle in turns")
    func busyAndIdle() throws {
        let harness = PartitionHarness()
        let (device, _) = try #require(harness.register(in: 0))
        _ = harness.change(.subscribe, "news", [device])
        for number in 1...200 {
            harness.publish("m\(number)", to: "news", ttl: 60)
            harness.fireTimers(for: 3)
        }
        for id in (0..<UInt16(4)).map({ PartitionID($0) }) {
            let set = harness.timers.filter { $0.partition == id }.map(\.at)
            #expect(set.count <= 4, "partition \(id.rawValue)")
            #expect(set == harness.partitions[Int(id.rawValue)].wakes.times, "what it takes for set is set")
        }
    }

    @Test("do not have it wait for those that a suspension of the machine put off by hours")
    func suspension() throws {
        let harness = PartitionHarness()
        let (device, _) = try #require(harness.register(in: 0))
        harness.fireTimers(for: 5)
        // Only the timer of the look of every six hours is left.
        #expect(harness.partitions[0].wakes.times.count == 1)
        harness.now.monotonic = harness.now.monotonic.advanced(by: .seconds(8 * 3600))
        let before = harness.timers.count
        _ = harness.change(.subscribe, "news", [device])
        let set = harness.timers[before...].filter { $0.partition == device.partition }
        #expect(set.contains { $0.at <= harness.now.monotonic.advanced(by: .seconds(1)) })
    }

    @Test("are given up when they are late, once in a second")
    func late() {
        func at(_ seconds: UInt64) -> MonotonicTime { MonotonicTime(.seconds(seconds)) }
        var plan = WakePlan()
        func set(_ times: UInt64..., now: UInt64) -> [Bool] { times.map { plan.plan(at($0), now: at(now)) } }
        #expect(set(100, 10, 10, 20, now: 1) == [true, true, false, false])
        // The timer is late by 1 s, as on a busy machine.
        #expect(set(30, now: 11) == [false] && plan.times == [at(100), at(10)])
        #expect(set(112, now: 112) == [true] && plan.times == [at(112)])
        // A timer that is due already is set once.
        #expect(set(50, now: 112) == [true] && set(50, 60, now: 113) == [false, false])
        plan.fired(at(100))
        #expect(plan.times == [at(112)])
    }
}
