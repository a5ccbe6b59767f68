import Model
import Testing

@testable import Partitions

@Suite("A project that has all its names of topics")
struct TopicBoundTests {
    private let harness = PartitionHarness()

    private func subscribe(_ topic: String, _ device: Registration) -> DeviceChange? {
        harness.change(.subscribe, topic, [device])?.first
    }

    private func weight() -> UInt64 {
        harness.partitions[0].state.names.weight(of: PartitionHarness.project)
    }

    private func allow(_ most: UInt64) {
        for partition in harness.partitions {
            partition.state.names.bounds.ofProjects[PartitionHarness.project] = most
        }
    }

    @Test("gets no further name until one is free, and goes on with the names that it has")
    func total() throws {
        let (first, _) = try #require(harness.register(in: 0))
        let (second, _) = try #require(harness.register(in: 0))
        allow(2)
        for topic in ["a", "b"] {
            guard case .changed? = subscribe(topic, first) else {
                Issue.record("a name within the bound was refused")
                return
            }
        }
        harness.settle()
        #expect(subscribe("c", first) == .refused(.tooManyTopics))
        #expect(subscribe("c", second) == .refused(.tooManyTopics))
        guard case .changed? = subscribe("a", second) else {
            Issue.record("a name that exists was refused")
            return
        }
        // A name is free when its last device has left it.
        #expect(harness.change(.unsubscribe, "b", [first])?.count == 1)
        harness.settle()
        guard case .changed? = subscribe("c", second) else {
            Issue.record("a name in the place of one that is gone was refused")
            return
        }
        harness.settle()
        #expect(subscribe("d", first) == .refused(.tooManyTopics))
        allow(3)
        guard case .changed? = subscribe("d", first) else {
            Issue.record("a name within the new bound was refused")
            return
        }
    }

    @Test("counts a long name more than once")
    func long() throws {
        let (device, _) = try #require(harness.register(in: 0))
        let long = String(repeating: "x", count: 900)
        allow(14)
        #expect(subscribe(long, device) == .refused(.tooManyTopics))
        allow(15)
        guard case .changed? = subscribe(long, device) else {
            Issue.record("a name of the bound's weight was refused")
            return
        }
        #expect(subscribe("a", device) == .refused(.tooManyTopics))
        #expect(weight() == 15)
        #expect(harness.change(.unsubscribe, long, [device])?.count == 1)
        harness.settle()
        #expect(weight() == 0)
    }
}
