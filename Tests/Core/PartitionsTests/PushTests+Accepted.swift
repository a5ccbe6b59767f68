import Model
import Testing

@testable import Partitions

extension PushTests {
    @Test("what the service has taken is written down at once, so that an owner's death repeats little")
    func acceptedAtOnce() throws {
        let harness = PartitionHarness()
        let (device, _) = try PushTests.device(harness)
        for text in ["a", "b"] { harness.publish(text, to: "news") }
        harness.settle()
        let former = harness.partitions[1].pipeline.durable
        try PushTests.answer(harness, .done)
        #expect(harness.partitions[1].pipeline.durable > former)
        #expect(harness.waitingCount(1, device.index.rawValue) == 1)
    }
}
