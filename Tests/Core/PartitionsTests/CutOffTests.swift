import Bytes
import Model
import Testing

@testable import Partitions

/// A gateway confirms too few pushes: the partition cuts its streams off, tells it so, and brings them back.
@Suite("Streams that are cut off")
struct CutOffTests {
    private let partition = PartitionID(0)

    /// `count` listening devices of a partition whose push window is 2.
    private func listeners(_ count: Int) throws -> (PartitionHarness, [Registration]) {
        let harness = PartitionHarness(count: 1) { $0.pushWindow = 2 }
        var devices: [Registration] = []
        for number in 0..<count {
            let (device, credential) = try #require(harness.register(in: 0))
            devices.append(device)
            harness.listen(device, credential, stream: UInt64(number) + 1)
        }
        harness.frames = []
        return (harness, devices)
    }

    private func stream(_ device: Registration) -> StreamID {
        StreamID(gateway: PartitionHarness.gateway, number: UInt64(device.index.rawValue) + 1)
    }

    private func send(_ text: String, to device: Registration, _ harness: PartitionHarness) {
        _ = harness.request(.sendToDevice(nil, device, harness.envelope(text)), of: partition)
    }

    private func isLive(_ device: Registration, _ harness: PartitionHarness) -> Bool {
        harness.partitions[0].streams.isLive(device.index.rawValue)
    }

    /// Confirms frames until no more come. Returns the events of all of them.
    private func confirmAll(_ harness: PartitionHarness) -> [String] {
        var texts: [String] = []
        while let number = harness.frames.compactMap(CutOffTests.number).last {
            texts += harness.takeEvents()
            harness.send(.stream(.processed(PartitionHarness.gateway, frame: number)), to: partition)
        }
        return texts + harness.takeEvents()
    }

    private static func number(_ frame: StreamFrame) -> UInt64? {
        switch frame {
        case .push(let push): push.number
        case .cutOff(let cut): cut.number
        default: nil
        }
    }

    @Test("are named in the link, behind the pushes that they still got")
    func named() throws {
        let (harness, devices) = try listeners(3)
        for number in 1...3 { send("m\(number)", to: devices[0], harness) }
        guard case .cutOff(let cut) = harness.frames.last,
            case .push(let push) = harness.frames.dropLast().last
        else {
            Issue.record("no cut-off was said: \(harness.frames)")
            return
        }
        #expect(cut.devices.sorted == devices.map(\.index.rawValue))
        #expect(cut.position == push.items.last?.position && cut.number == push.number + 1)
        #expect(devices.allSatisfy { !isLive($0, harness) })
        #expect(confirmAll(harness) == ["m1", "m2", "m3"])
        #expect(devices.allSatisfy { isLive($0, harness) })
    }

    /// A device whose stream was cut off, and a device that attached afterwards.
    private func latecomer() throws -> (
        harness: PartitionHarness, devices: [Registration], late: Registration
    ) {
        let (harness, devices) = try listeners(1)
        for number in 1...3 { send("m\(number)", to: devices[0], harness) }
        let (late, credential) = try #require(harness.register(in: 0))
        harness.listen(late, credential, stream: UInt64(late.index.rawValue) + 1)
        return (harness, devices, late)
    }

    @Test("who attaches meanwhile is not live before its gateway confirms")
    func attaching() throws {
        let (harness, devices, late) = try latecomer()
        #expect(!isLive(late, harness))
        send("m4", to: late, harness)
        #expect(confirmAll(harness).sorted() == ["attached", "m1", "m2", "m3", "m4"])
        #expect(isLive(late, harness) && isLive(devices[0], harness))
    }

    @Test("who ended without a word keeps nobody waiting who comes later")
    func lost() throws {
        let (harness, _, late) = try latecomer()
        // A link is lost with the frames, the cut-off, and the gateway's word that the stream ended.
        harness.frames = []
        for second in 1...3 {
            harness.now.monotonic = harness.now.monotonic.advanced(by: .seconds(1))
            harness.send(.woke(harness.now.monotonic), to: partition)
            let outstanding = harness.partitions[0].streams.links[PartitionHarness.gateway]?.outstanding
            #expect(outstanding?.count == 4, "second \(second)")
        }
        guard case .push(let push) = harness.frames.last else {
            Issue.record("its gateway is asked nothing: \(harness.frames)")
            return
        }
        #expect(push.items.isEmpty && !isLive(late, harness))
        harness.send(.stream(.processed(PartitionHarness.gateway, frame: push.number)), to: partition)
        #expect(isLive(late, harness))
    }

    @Test("come back in portions, also while others are pushed to steadily")
    func portions() throws {
        let (harness, devices) = try listeners(PartitionOptions(partitionCount: 1).returningAtOnce + 40)
        let last = try #require(devices.last)
        for number in 1...3 { send("m\(number)", to: last, harness) }
        guard case .cutOff(let cut) = harness.frames.last else {
            Issue.record("no cut-off was said")
            return
        }
        harness.frames = []
        harness.send(.stream(.processed(PartitionHarness.gateway, frame: cut.number)), to: partition)
        let back = devices.filter { isLive($0, harness) }
        #expect(back.count == PartitionOptions(partitionCount: 1).returningAtOnce)
        let talker = try #require(back.first)
        // One push is always without confirmation.
        send("x", to: talker, harness)
        for _ in 0..<6 {
            let number = try #require(harness.frames.compactMap(CutOffTests.number).last)
            harness.frames = []
            send("x", to: talker, harness)
            harness.send(.stream(.processed(PartitionHarness.gateway, frame: number)), to: partition)
        }
        #expect(devices.allSatisfy { isLive($0, harness) })
    }

    @Test("one that is full as well comes back when it says that it is not")
    func full() throws {
        let (harness, devices) = try listeners(1)
        for number in 1...3 { send("m\(number)", to: devices[0], harness) }
        harness.send(
            .stream(.fellBehind(stream(devices[0]), devices[0].index, written: .zero)), to: partition)
        harness.frames = []
        harness.send(.stream(.processed(PartitionHarness.gateway, frame: 3)), to: partition)
        #expect(harness.takeEvents() == [] && !isLive(devices[0], harness))
        harness.send(.stream(.caughtUp(stream(devices[0]), devices[0].index)), to: partition)
        #expect(harness.takeEvents() == ["m1", "m2", "m3"])
        #expect(isLive(devices[0], harness))
    }

    @Test("a live one whose gateway does not take it for live reads the log again")
    func contradicted() throws {
        let (harness, devices) = try listeners(1)
        send("m1", to: devices[0], harness)
        #expect(harness.takeEvents() == ["m1"])
        harness.send(.stream(.caughtUp(stream(devices[0]), devices[0].index)), to: partition)
        #expect(confirmAll(harness) == ["m1"])
        #expect(isLive(devices[0], harness))
    }

    @Test("what is said of them crosses a network")
    func wire() throws {
        let cut = StreamFrame.CutOff(
            epoch: Epoch(3), number: 9, position: Position(77), devices: DeviceSet(sorted: [1, 5]))
        var writer = ByteWriter()
        StreamFrame.cutOff(cut).encode(into: &writer)
        var reader = ByteReader(writer.bytes)
        guard case .cutOff(let read) = try StreamFrame.decode(from: &reader) else {
            Issue.record("another frame")
            return
        }
        try reader.expectEnd()
        #expect(read.epoch == cut.epoch && read.number == 9 && read.position == cut.position)
        #expect(read.devices == cut.devices)
    }
}
