import Model
import Testing

@testable import Partitions

/// Devices come back to more than the link to their gateway takes at once.
@Suite("Streams that read the log")
struct StreamReadingTests {
    private static let messages = 6

    /// Devices that listen, and whose messages of 100 bytes wait.
    private func waiting(
        _ devices: Int, holdsReads: Bool = false, _ change: (inout PartitionOptions) -> Void = { _ in }
    ) throws -> (PartitionHarness, [Registration]) {
        let harness = PartitionHarness(count: 1) {
            $0.streamBytesAtOnce = 250
            change(&$0)
        }
        harness.holdsStreams = true
        harness.holdsReads = holdsReads
        var registrations: [Registration] = []
        for index in 0..<devices {
            let (device, credential) = try #require(harness.register(in: 0))
            registrations.append(device)
            for number in 0..<StreamReadingTests.messages {
                let text = "\(index)-\(number)-" + String(repeating: "x", count: 96)
                _ = harness.request(
                    .sendToDevice(nil, device, harness.envelope(text)), of: PartitionID(0))
            }
            harness.listen(device, credential, stream: UInt64(index) + 1)
        }
        _ = harness.takeEvents()
        return (harness, registrations)
    }

    /// One call of the loop. Returns the beginnings of the events that it sent.
    private func readOn(_ harness: PartitionHarness, bytes: Int) -> [String] {
        _ = harness.readOn(bytes: bytes)
        return harness.takeEvents().map { String($0.prefix(3)) }
    }

    @Test("take turns, and get a part each time")
    func turns() throws {
        let (harness, _) = try waiting(2)
        #expect(readOn(harness, bytes: 1) == ["0-0", "0-1"])
        #expect(readOn(harness, bytes: 1) == ["1-0", "1-1"])
        #expect(readOn(harness, bytes: 500) == ["0-2", "0-3", "1-2", "1-3"])
        #expect(!harness.partitions[0].streams.isLive(0))
        #expect(readOn(harness, bytes: .max) == ["0-4", "0-5", "1-4", "1-5"])
        #expect(harness.partitions[0].streams.isLive(0) && harness.partitions[0].streams.isLive(1))
        #expect(!harness.partitions[0].hasWaitingStreams)
    }

    @Test("get what comes while they wait, and lose nothing of it")
    func meanwhile() throws {
        let (harness, devices) = try waiting(1) { $0.delivery.waitingMax = 8 }
        #expect(readOn(harness, bytes: 1) == ["0-0", "0-1"])
        for number in 6..<12 {
            _ = harness.request(
                .sendToDevice(nil, devices[0], harness.envelope("0-\(number)")), of: PartitionID(0))
        }
        #expect(harness.takeEvents().isEmpty, "a stream that is not live gets no push")
        #expect(readOn(harness, bytes: .max).count == 10)
        #expect(harness.partitions[0].streams.isLive(0))
    }

    @Test("that ended while they waited get nothing")
    func ended() throws {
        let (harness, _) = try waiting(2)
        let stream = StreamID(gateway: PartitionHarness.gateway, number: 1)
        harness.send(.stream(.detach(stream, DeviceIndex(0))), to: PartitionID(0))
        #expect(readOn(harness, bytes: .max) == (0..<StreamReadingTests.messages).map { "1-\($0)" })
        #expect(!harness.partitions[0].hasWaitingStreams)
    }

    /// Bodies are not in memory, and the partition reads four records at once.
    private func reading(_ devices: Int, alsoAt other: GatewayID? = nil) throws -> PartitionHarness {
        let (harness, registrations) = try waiting(devices, holdsReads: true) {
            $0.bodyCacheBytesMax = 1
            $0.bodiesAtOnce = 4
        }
        guard let other else { return harness }
        for (index, device) in registrations.enumerated() where index % 2 == 1 {
            let stream = StreamID(gateway: other, number: UInt64(100 + index))
            harness.send(
                .stream(.attach(stream, device, by: .backend, resume: nil)), to: PartitionID(0))
        }
        _ = harness.takeEvents()
        return harness
    }

    /// Lets the journal answer until all have read on. Returns the events in their order.
    private func readAll(_ harness: PartitionHarness) -> [String] {
        var events: [String] = []
        for _ in 0..<500 where harness.partitions[0].hasWaitingStreams || harness.isReading {
            events += readOn(harness, bytes: .max)
            #expect(harness.partitions[0].streams.recordsAwaited <= 4)
            harness.releaseReads()
            events += harness.takeEvents().map { String($0.prefix(3)) }
        }
        return events
    }

    private func check(_ events: [String], devices: Range<Int>) {
        for index in devices {
            let own = events.filter { $0.hasPrefix("\(index)-") }
            #expect(own == (0..<StreamReadingTests.messages).map { "\(index)-\($0)" })
        }
    }

    @Test("share what the partition reads of the journal at once")
    func bodies() throws {
        let harness = try reading(8)
        let events = readAll(harness)
        check(events, devices: 0..<8)
        #expect((0..<8).allSatisfy { harness.partitions[0].streams.isLive($0) })
    }

    @Test("of two gateways share it as well")
    func gateways() throws {
        let harness = try reading(8, alsoAt: GatewayID(2))
        let events = readAll(harness)
        check(events, devices: 0..<8)
        let half = events.prefix(events.count / 2)
        let other = half.count { Int(String($0.prefix(1))).map { $0 % 2 == 1 } ?? false }
        #expect(half.count / 3 < other && other < half.count * 2 / 3, "neither gateway waits for the other")
    }

    @Test("that attach again while bodies are read get everything once")
    func again() throws {
        let harness = try reading(2)
        _ = readOn(harness, bytes: .max)
        #expect(harness.isReading)
        let stream = StreamID(gateway: PartitionHarness.gateway, number: 1)
        harness.send(.stream(.fellBehind(stream, DeviceIndex(0), written: .zero)), to: PartitionID(0))
        harness.send(.stream(.caughtUp(stream, DeviceIndex(0))), to: PartitionID(0))
        check(readAll(harness), devices: 0..<2)
        #expect(harness.partitions[0].streams.isLive(0) && harness.partitions[0].streams.isLive(1))
    }
}
