import Bytes
import Model
import Testing

@testable import Partitions

/// A gateway confirms too few pushes: the partition cuts its streams off, tells it so, and brings them back.
@Suite("Streams that are cut off")
struct CutOffTests {
    private let partition = PartitionID(0)

    /// `count` listening devices of a partition whose push window is 2.
    private func listeners(_ count: Int) throws -> (House, [Registration]) {
        let house = House(count: 1) { $0.pushWindow = 2 }
        var devices: [Registration] = []
        for number in 0..<count {
            let (device, credential) = try #require(house.register(in: 0))
            devices.append(device)
            house.listen(device, credential, stream: UInt64(number) + 1)
        }
        house.frames = []
        return (house, devices)
    }

    private func stream(_ device: Registration) -> StreamID {
        StreamID(gateway: House.gateway, number: UInt64(device.index.rawValue) + 1)
    }

    private func send(_ text: String, to device: Registration, _ house: House) {
        _ = house.request(.sendToDevice(nil, device, house.envelope(text)), of: partition)
    }

    private func isLive(_ device: Registration, _ house: House) -> Bool {
        house.partitions[0].streams.isLive(device.index.rawValue)
    }

    /// Confirms frames until no more come. Returns the events of all of them.
    private func confirmAll(_ house: House) -> [String] {
        var texts: [String] = []
        while let number = house.frames.compactMap(CutOffTests.number).last {
            texts += house.takeEvents()
            house.send(.stream(.processed(House.gateway, frame: number)), to: partition)
        }
        return texts + house.takeEvents()
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
        let (house, devices) = try listeners(3)
        for number in 1...3 { send("m\(number)", to: devices[0], house) }
        guard case .cutOff(let cut) = house.frames.last, case .push(let push) = house.frames.dropLast().last
        else {
            Issue.record("no cut-off was said: \(house.frames)")
            return
        }
        #expect(cut.devices.sorted == devices.map(\.index.rawValue))
        #expect(cut.position == push.items.last?.position && cut.number == push.number + 1)
        #expect(devices.allSatisfy { !isLive($0, house) })
        #expect(confirmAll(house) == ["m1", "m2", "m3"])
        #expect(devices.allSatisfy { isLive($0, house) })
    }

    /// A device whose stream was cut off, and a device that attached afterwards.
    private func latecomer() throws -> (house: House, devices: [Registration], late: Registration) {
        let (house, devices) = try listeners(1)
        for number in 1...3 { send("m\(number)", to: devices[0], house) }
        let (late, credential) = try #require(house.register(in: 0))
        house.listen(late, credential, stream: UInt64(late.index.rawValue) + 1)
        return (house, devices, late)
    }

    @Test("who attaches meanwhile is not live before its gateway confirms")
    func attaching() throws {
        let (house, devices, late) = try latecomer()
        #expect(!isLive(late, house))
        send("m4", to: late, house)
        #expect(confirmAll(house).sorted() == ["attached", "m1", "m2", "m3", "m4"])
        #expect(isLive(late, house) && isLive(devices[0], house))
    }

    @Test("who ended without a word keeps nobody waiting who comes later")
    func lost() throws {
        let (house, _, late) = try latecomer()
        // A link is lost with the frames, the cut-off, and the gateway's word that the stream ended.
        house.frames = []
        for second in 1...3 {
            house.now.monotonic = house.now.monotonic.advanced(by: .seconds(1))
            house.send(.woke(house.now.monotonic), to: partition)
            let outstanding = house.partitions[0].streams.links[House.gateway]?.outstanding
            #expect(outstanding?.count == 4, "second \(second)")
        }
        guard case .push(let push) = house.frames.last else {
            Issue.record("its gateway is asked nothing: \(house.frames)")
            return
        }
        #expect(push.items.isEmpty && !isLive(late, house))
        house.send(.stream(.processed(House.gateway, frame: push.number)), to: partition)
        #expect(isLive(late, house))
    }

    @Test("come back in portions, also while others are pushed to steadily")
    func portions() throws {
        let (house, devices) = try listeners(PartitionOptions(partitionCount: 1).returningAtOnce + 40)
        let last = try #require(devices.last)
        for number in 1...3 { send("m\(number)", to: last, house) }
        guard case .cutOff(let cut) = house.frames.last else {
            Issue.record("no cut-off was said")
            return
        }
        house.frames = []
        house.send(.stream(.processed(House.gateway, frame: cut.number)), to: partition)
        let back = devices.filter { isLive($0, house) }
        #expect(back.count == PartitionOptions(partitionCount: 1).returningAtOnce)
        let talker = try #require(back.first)
        // One push is always without confirmation.
        send("x", to: talker, house)
        for _ in 0..<6 {
            let number = try #require(house.frames.compactMap(CutOffTests.number).last)
            house.frames = []
            send("x", to: talker, house)
            house.send(.stream(.processed(House.gateway, frame: number)), to: partition)
        }
        #expect(devices.allSatisfy { isLive($0, house) })
    }

    @Test("one that is full as well comes back when it says that it is not")
    func full() throws {
        let (house, devices) = try listeners(1)
        for number in 1...3 { send("m\(number)", to: devices[0], house) }
        house.send(
            .stream(.fellBehind(stream(devices[0]), devices[0].index, written: .zero)), to: partition)
        house.frames = []
        house.send(.stream(.processed(House.gateway, frame: 3)), to: partition)
        #expect(house.takeEvents() == [] && !isLive(devices[0], house))
        house.send(.stream(.caughtUp(stream(devices[0]), devices[0].index)), to: partition)
        #expect(house.takeEvents() == ["m1", "m2", "m3"])
        #expect(isLive(devices[0], house))
    }

    @Test("a live one whose gateway does not take it for live reads the log again")
    func contradicted() throws {
        let (house, devices) = try listeners(1)
        send("m1", to: devices[0], house)
        #expect(house.takeEvents() == ["m1"])
        house.send(.stream(.caughtUp(stream(devices[0]), devices[0].index)), to: partition)
        #expect(confirmAll(house) == ["m1"])
        #expect(isLive(devices[0], house))
    }

    @Test("what is said of them crosses a network, and is an empty push to nodes of before")
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
        let item = StreamFrame.PushItem(
            position: Position(77), event: [], targets: DeviceSet(), deleted: cut.devices)
        var push = ByteWriter()
        StreamFrame.push(StreamFrame.Push(epoch: Epoch(3), number: 9, items: [item])).encode(into: &push)
        #expect(push.bytes == writer.bytes)
    }
}
