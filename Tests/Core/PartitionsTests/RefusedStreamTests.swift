import Model
import Testing

@testable import Partitions

/// A stream begins only when the device's acknowledgement by `Last-Event-ID` is durable. While the engine
/// refuses records, no acknowledgement becomes durable, and nobody knows for how long.
@Suite("A stream that is opened while the engine refuses records") struct RefusedStreamTests {
    private let partition = PartitionID(0)

    /// A harness whose engine refuses a record, and two of its devices.
    private func refused() throws -> (PartitionHarness, [(Registration, DeviceMAC)]) {
        let harness = PartitionHarness(count: 1)
        let devices = try (0..<2).map { _ in try #require(harness.register(in: 0)) }
        harness.settle()
        harness.holdsAppends = true
        _ = harness.request(.sendToDevice(nil, devices[0].0, harness.envelope("m1")), of: partition)
        return (harness, devices)
    }

    @Test("is refused at once, and taken when the engine takes records")
    func opening() throws {
        let (harness, devices) = try refused()
        harness.send(.postponed("full"), to: partition)
        harness.listen(devices[1].0, devices[1].1, stream: 1)
        #expect(harness.takeEvents() == ["refused"] && harness.partitions[0].streams.count == 0)
        harness.releaseAppends()
        harness.holdsAppends = false
        harness.listen(devices[1].0, devices[1].1, stream: 2)
        #expect(harness.takeEvents() == ["attached"])
    }

    @Test("is refused as well where it came a moment before")
    func waiting() throws {
        let (harness, devices) = try refused()
        harness.listen(devices[1].0, devices[1].1, stream: 1)
        #expect(harness.takeEvents().isEmpty)
        harness.send(.postponed("full"), to: partition)
        #expect(harness.takeEvents() == ["refused"] && harness.partitions[0].streams.count == 0)
        harness.releaseAppends()
        #expect(harness.takeEvents().isEmpty)
    }

    /// The stream's device has listened for long and goes on: it would gain nothing by coming back.
    @Test("by a former owner waits for the engine")
    func former() throws {
        let (harness, devices) = try refused()
        harness.send(.postponed("full"), to: partition)
        let stream = StreamID(gateway: PartitionHarness.gateway, number: 1, attachment: 2)
        harness.send(
            .stream(.attach(stream, devices[1].0, by: .device(devices[1].1), resume: nil)), to: partition)
        #expect(harness.takeEvents().isEmpty && harness.partitions[0].streams.count == 1)
        harness.releaseAppends()
        #expect(harness.takeEvents() == ["attached"])
    }
}
