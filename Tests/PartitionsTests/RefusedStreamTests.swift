import Journal
import Model
import Testing

@testable import Partitions

/// A stream begins only when the device's acknowledgement by `Last-Event-ID` is durable. While the engine
/// refuses records, no acknowledgement becomes durable, and nobody knows for how long.
@Suite("A stream that is opened while the engine refuses records") struct RefusedStreamTests {
    private let partition = PartitionID(0)

    /// A house whose engine refuses a record, and two of its devices.
    private func refused() throws -> (House, [(Registration, DeviceMAC)]) {
        let house = House(count: 1)
        let devices = try (0..<2).map { _ in try #require(house.register(in: 0)) }
        house.settle()
        house.holdsAppends = true
        _ = house.request(.sendToDevice(nil, devices[0].0, house.envelope("m1")), of: partition)
        return (house, devices)
    }

    @Test("is refused at once, and taken when the engine takes records")
    func opening() throws {
        let (house, devices) = try refused()
        house.send(.postponed("full"), to: partition)
        house.listen(devices[1].0, devices[1].1, stream: 1)
        #expect(house.takeEvents() == ["refused"] && house.partitions[0].streamCount == 0)
        house.releaseAppends()
        house.holdsAppends = false
        house.listen(devices[1].0, devices[1].1, stream: 2)
        #expect(house.takeEvents() == ["attached"])
    }

    @Test("is refused as well where it came a moment before")
    func waiting() throws {
        let (house, devices) = try refused()
        house.listen(devices[1].0, devices[1].1, stream: 1)
        #expect(house.takeEvents().isEmpty)
        house.send(.postponed("full"), to: partition)
        #expect(house.takeEvents() == ["refused"] && house.partitions[0].streamCount == 0)
        house.releaseAppends()
        #expect(house.takeEvents().isEmpty)
    }

    /// The stream's device has listened for long and goes on: it would gain nothing by coming back.
    @Test("by a former owner waits for the engine")
    func former() throws {
        let (house, devices) = try refused()
        house.send(.postponed("full"), to: partition)
        let stream = StreamID(gateway: House.gateway, number: 1, turn: 2)
        house.send(
            .stream(.attach(stream, devices[1].0, by: .device(devices[1].1), resume: nil)), to: partition)
        #expect(house.takeEvents().isEmpty && house.partitions[0].streamCount == 1)
        house.releaseAppends()
        #expect(house.takeEvents() == ["attached"])
    }
}
