import Model
import Testing

@testable import Partitions

@Suite("A partition")
struct PartitionTests {
    private let harness = PartitionHarness()

    @Test("a subscribed device that listens gets what is sent to its topic")
    func delivery() throws {
        let (device, credential) = try #require(harness.register(in: 2))
        #expect(harness.change(.subscribe, "news", [device]) == [.changed(harness.now.wall.day)])
        harness.listen(device, credential, stream: 1)
        guard case .accepted = harness.publish("one", to: "news") else {
            Issue.record("the send was not accepted")
            return
        }
        harness.publish("two", to: "news")
        harness.publish("else", to: "other")
        #expect(harness.takeEvents() == ["attached", "one", "two"])
    }

    /// A device to which messages m1, m2 and so on came on stream 1, and the ids of these events.
    private func deviceThatGot(
        _ count: Int, _ harness: PartitionHarness
    ) throws -> (device: Registration, credential: DeviceMAC, ids: [EventID]) {
        let (device, credential) = try #require(harness.register(in: 0))
        _ = harness.change(.subscribe, "news", [device])
        for number in 1...count { harness.publish("m\(number)", to: "news") }
        harness.listen(device, credential, stream: 1)
        // The last frame says that nothing more waits.
        guard case .events(_, _, _, _, _, let events) = harness.frames.dropLast().last else {
            Issue.record("nothing came")
            return (device, credential, [])
        }
        #expect(harness.takeEvents() == ["attached"] + (1...count).map { "m\($0)" })
        let history = UInt16(truncatingIfNeeded: harness.partitions[0].history.rawValue)
        let ids = events.map { EventID(position: $0.position, history: history) }
        try #require(ids.count == count)
        return (device, credential, ids)
    }

    @Test("a device that was away gets what waited, in order, and nothing that it acknowledged")
    func resume() throws {
        let (device, credential, ids) = try deviceThatGot(5, harness)
        harness.listen(device, credential, stream: 2, resume: ids[2])
        #expect(harness.takeEvents() == ["replaced", "attached", "m4", "m5"])
        harness.listen(device, credential, stream: 3)
        #expect(harness.takeEvents() == ["replaced", "attached", "m4", "m5"])
    }

    @Test("an acknowledgement of nothing that waits makes no record, however often it comes")
    func staleAcknowledgements() throws {
        let (device, credential, ids) = try deviceThatGot(3, harness)
        func acknowledge(_ event: EventID) -> Bool {
            let request = Request.acknowledge(device, by: .device(credential), event)
            guard case .done = harness.request(request, of: PartitionID(0)) else { return false }
            return true
        }
        #expect(acknowledge(ids[0]))
        let records = harness.partitions[0].applied
        for stream in UInt64(2)...5 {
            #expect(acknowledge(ids[0]))
            harness.listen(device, credential, stream: stream, resume: ids[0])
            #expect(harness.takeEvents() == ["replaced", "attached", "m2", "m3"])
        }
        #expect(harness.partitions[0].applied == records)
        #expect(acknowledge(ids[1]))
        #expect(harness.partitions[0].applied > records)
    }

    @Test("the 101st waiting message drops the older ones, and the device is told once")
    func overflow() throws {
        let (device, credential) = try #require(harness.register(in: 0))
        _ = harness.change(.subscribe, "news", [device])
        for number in 1...101 { harness.publish("m\(number)", to: "news") }
        harness.listen(device, credential, stream: 1)
        #expect(harness.takeEvents() == ["attached", "deleted", "m101"])
    }

    /// A new owner does not know yet which devices listened under the former owner: a burst that waited for
    /// the new owner does not count as missed.
    @Test("a new owner in a cluster takes everybody for a listener for a while", arguments: [true, false])
    func newOwner(isClustered: Bool) throws {
        let harness = PartitionHarness(count: 1) { $0.streamsOutliveOwners = isClustered }
        let (device, credential) = try #require(harness.register(in: 0))
        _ = harness.change(.subscribe, "news", [device])
        for number in 1...101 { harness.publish("m\(number)", to: "news") }
        harness.listen(device, credential, stream: 1)
        let all = ["attached"] + (1...101).map { "m\($0)" }
        #expect(harness.takeEvents() == (isClustered ? all : ["attached", "deleted", "m101"]))
    }

    @Test(
        "who is brought up to date while the 101st is not durable is told once, when it is",
        arguments: [PlantedBug(), .tellVolatileLoss])
    func overflowWhileCatchingUp(planted: PlantedBug) throws {
        let harness = PartitionHarness(count: 1) { $0.planted = planted }
        let (device, credential) = try #require(harness.register(in: 0))
        _ = harness.change(.subscribe, "news", [device])
        harness.listen(device, credential, stream: 1)
        let stream = StreamID(gateway: PartitionHarness.gateway, number: 1)
        let partition = device.partition
        harness.send(.stream(.fellBehind(stream, device.index, written: .zero)), to: partition)
        for number in 1...264 { harness.publish("m\(number)", to: "news") }
        harness.holdsAppends = true
        harness.publish("m265", to: "news")
        // The record that accepts m265 becomes durable, the record that brings it to the device does not yet.
        harness.releaseAppends(1)
        harness.send(.stream(.caughtUp(stream, device.index)), to: partition)
        let before = harness.takeEvents()
        harness.holdsAppends = false
        harness.releaseAppends()
        harness.settle()
        let events = before + harness.takeEvents()
        if planted == .tellVolatileLoss {
            #expect(before.contains("deleted"), "the planted bug does not show: \(events)")
        } else {
            // The stream skips no message that is still in the journal for a loss that may never become
            // durable.
            #expect(events == ["attached"] + (1...264).map { "m\($0)" } + ["deleted", "m265"])
        }
    }

    @Test("a newer message with the same collapse key replaces the older; a fifth key drops the oldest")
    func collapsing() throws {
        let (device, credential) = try #require(harness.register(in: 0))
        _ = harness.change(.subscribe, "news", [device])
        for text in ["a1", "b1", "a2", "c1", "d1", "e1"] {
            harness.publish(text, to: "news", key: String(text.prefix(1)))
        }
        harness.listen(device, credential, stream: 1)
        #expect(harness.takeEvents() == ["attached", "a2", "c1", "d1", "e1"])
    }

    @Test("a live device's window passes as delivered instead of overflowing, once its gateway wrote it")
    func window() throws {
        let (device, credential) = try #require(harness.register(in: 0))
        _ = harness.change(.subscribe, "news", [device])
        harness.listen(device, credential, stream: 1)
        var positions: [Position] = []
        for number in 1...300 {
            harness.publish("m\(number)", to: "news")
            for case .push(let push) in harness.frames.suffix(1) {
                harness.send(
                    .stream(.processed(PartitionHarness.gateway, frame: push.number)), to: device.partition)
                positions += push.items.map(\.position)
            }
        }
        #expect(harness.takeEvents() == ["attached"] + (1...300).map { "m\($0)" })
        // The device comes back without an event id: its connection may have been dead for long.
        harness.listen(device, credential, stream: 2)
        let lastHundred = (201...300).map { "m\($0)" }
        #expect(harness.takeEvents() == ["replaced", "attached", "deleted"] + lastHundred)
        func comesBack(_ number: UInt64, after message: Int) -> [String] {
            let last = EventID(position: positions[message - 1], history: 100)
            harness.listen(device, credential, stream: number, resume: last)
            return harness.takeEvents()
        }
        #expect(comesBack(3, after: 12) == ["replaced", "attached", "deleted"] + lastHundred)
        // The device got all messages that have passed.
        #expect(comesBack(4, after: 200) == ["replaced", "attached"] + lastHundred)
        #expect(comesBack(5, after: 300) == ["replaced", "attached"])
    }

    @Test("what a dead gateway was sent and never confirmed comes again, all of it")
    func unconfirmed() throws {
        let (device, credential) = try #require(harness.register(in: 0))
        _ = harness.change(.subscribe, "news", [device])
        harness.listen(device, credential, stream: 1)
        for number in 1...150 { harness.publish("m\(number)", to: "news") }
        _ = harness.takeEvents()
        harness.partitions[0].forgetGateways { $0 == PartitionHarness.gateway }
        harness.listen(device, credential, stream: 2)
        #expect(harness.takeEvents() == ["attached"] + (1...150).map { "m\($0)" })
    }

    @Test("a new owner lets nobody overflow who may have been listening, for a while")
    func succession() throws {
        let (device, credential) = try #require(harness.register(in: 0))
        let (absent, other) = try #require(harness.register(in: 0))
        _ = harness.change(.subscribe, "news", [device])
        harness.listen(device, credential, stream: 1)
        for number in 1...140 { harness.publish("m\(number)", to: "news") }
        try harness.succeed(0)
        _ = harness.takeEvents()
        _ = harness.change(.subscribe, "news", [absent])
        for number in 141...241 { harness.publish("m\(number)", to: "news") }
        harness.listen(device, credential, stream: 2)
        #expect(harness.takeEvents() == ["attached"] + (1...241).map { "m\($0)" })
        harness.listen(absent, other, stream: 3)
        #expect(
            harness.takeEvents() == ["attached", "deleted", "m241"], "it waits since the new owner began")
    }

    @Test("an event id from before the database lost its end acknowledges what was left, and nothing newer")
    func generations() throws {
        let home = Int(harness.home("news").rawValue)
        let (device, credential) = try #require(harness.register(in: UInt16(home)))
        _ = harness.change(.subscribe, "news", [device])
        harness.publish("kept", to: "news")
        let kept = harness.journal[home].count
        harness.publish("lost", to: "news")
        var positions: [Position] = []
        harness.listen(device, credential, stream: 1)
        for case .events(_, _, _, _, _, let events) in harness.frames { positions += events.map(\.position) }
        let seen = EventID(position: try #require(positions.last), history: UInt16(home) + 100)
        // A new message may get the position of the lost one.
        harness.journal[home].removeSubrange(kept...)
        try harness.succeed(home, generation: 1)
        harness.publish("new", to: "news")
        _ = harness.takeEvents()
        harness.listen(device, credential, stream: 2, resume: seen)
        #expect(harness.takeEvents() == ["attached", "new"])
        // The journal keeps where the former generation ended.
        try harness.succeed(home, generation: 1)
        harness.listen(device, credential, stream: 3, resume: seen)
        #expect(harness.takeEvents() == ["attached", "new"])
        try harness.succeed(home, generation: 2)
        harness.listen(device, credential, stream: 4, resume: seen)
        #expect(harness.takeEvents() == ["attached", "new"])
    }

    @Test("the latest windows of gateways that are no more stay: one may not have heard that it is")
    func windows() throws {
        let dead = UInt64(Partition.deadWindowsMax) + 1
        for session in 1...dead + 1 {
            harness.publish("m\(session)", to: "news", as: RequestKey(session: session << 8, number: 1))
        }
        let partition = try #require(harness.partitions.first { !$0.state.windows.isEmpty })
        // The window of a session that is newer than all known ones stays too.
        partition.forgetWindows(living: [SessionID(dead)])
        harness.settle()
        #expect(partition.state.windows.count == Int(dead) + 1)
        partition.forgetWindows(living: [SessionID(dead + 2)])
        harness.settle()
        #expect(partition.state.windows.keys.map { $0 >> 8 }.min() == 3)
        #expect(partition.state.windows.count == Partition.deadWindowsMax)
    }

    @Test("a condition reaches those for whom it holds")
    func condition() throws {
        let devices = (0..<4).compactMap { harness.register(in: UInt16($0)) }
        for (index, (device, credential)) in devices.enumerated() {
            if index & 1 != 0 { _ = harness.change(.subscribe, "a", [device]) }
            if index & 2 != 0 { _ = harness.change(.subscribe, "b", [device]) }
            harness.listen(device, credential, stream: UInt64(index))
        }
        _ = harness.takeEvents()
        let names = ["a", "b"].compactMap { TopicName($0) }
        let condition = Condition(topics: names, root: .and(.topic(0), .not(.topic(1))))
        _ = harness.request(
            .sendToCondition(
                nil, project: PartitionHarness.project, condition, harness.envelope("x"), fanoutsMax: 10),
            of: harness.home("a"))
        #expect(harness.takeEvents() == ["x"])
    }

    @Test("replaying the journal gives the state that lived, and so does a snapshot")
    func replay() throws {
        var devices: [Registration] = []
        for number in 0..<300 {
            if let (device, _) = harness.register(in: UInt16(number % 2)) { devices.append(device) }
        }
        for topic in ["a", "b", "c"] {
            for partition in 0..<2 {
                _ = harness.change(.subscribe, topic, devices.filter { $0.partition.rawValue == partition })
            }
        }
        for number in 0..<150 {
            harness.publish("m\(number)", to: number % 2 == 0 ? "a" : "b", key: number % 7 == 0 ? "k" : "")
        }
        _ = harness.change(.unsubscribe, "a", Array(devices.filter { $0.partition.rawValue == 0 }.prefix(40)))
        _ = harness.request(.unregister(devices[3], by: .backend), of: devices[3].partition)
        harness.settle()
        for number in 0..<harness.count {
            let lived = harness.partitions[number].image()
            #expect(try harness.replayed(number).image() == lived, "partition \(number)")
            let restored = Partition(
                id: PartitionID(UInt16(number)), history: harness.partitions[number].history,
                options: PartitionOptions(partitionCount: harness.count), names: TopicNames(),
                proofs: PartitionHarness.Proofs())
            try restored.restore(snapshot: SnapshotWriter.whole(of: harness.partitions[number].state))
            #expect(restored.image() == lived, "snapshot of partition \(number)")
            #expect(restored.state.lines() == harness.partitions[number].state.lines())
        }
    }

    @Test("what is gone, foreign or wrong is refused")
    func refusals() throws {
        let (device, credential) = try #require(harness.register(in: 1))
        var wrong = device
        wrong.nonce ^= 1
        #expect(harness.change(.subscribe, "a", [wrong]) == [.refused(.unregistered)])
        wrong = device
        wrong.suffix = DeviceMAC(high: 0, low: 0)
        #expect(harness.change(.subscribe, "a", [wrong]) == [.refused(.invalidToken)])
        harness.listen(device, DeviceMAC(high: 1, low: 1), stream: 9)
        #expect(harness.takeEvents() == ["refused"])
        _ = harness.request(.unregister(device, by: .device(credential)), of: device.partition)
        harness.listen(device, credential, stream: 10)
        #expect(harness.takeEvents() == ["refused"])
    }

    /// A gateway asks for this end when the connection of a user agent is over. The user agent may have come
    /// back by another gateway meanwhile.
    @Test("ends an unused device only where it has neither a topic nor a stream when the request comes")
    func unused() throws {
        let (device, credential) = try #require(harness.register(in: 1))
        let asked = Request.unregisterUnused(device, by: .device(credential))
        func isThere() -> Bool {
            guard let reply = harness.request(.check(device, by: .backend), of: device.partition),
                case .done = reply
            else { return false }
            return true
        }
        _ = harness.change(.subscribe, "a", [device])
        guard case .done? = harness.request(asked, of: device.partition) else {
            Issue.record("the owner answers another word than done")
            return
        }
        #expect(isThere())
        _ = harness.change(.unsubscribe, "a", [device])
        harness.listen(device, credential, stream: 1)
        _ = harness.request(asked, of: device.partition)
        #expect(isThere() && harness.takeEvents() == ["attached"])
        harness.send(
            .stream(.detach(StreamID(gateway: PartitionHarness.gateway, number: 1), device.index)),
            to: device.partition)
        _ = harness.request(asked, of: device.partition)
        #expect(!isThere())
    }

    /// Otherwise an owner that is fenced meanwhile would end the stream of a device that is still registered.
    @Test("ends the stream of a device that is unregistered when that is durable")
    func unregistered() throws {
        let (device, credential) = try #require(harness.register(in: 1))
        harness.listen(device, credential, stream: 1)
        #expect(harness.takeEvents() == ["attached"])
        harness.holdsAppends = true
        #expect(harness.request(.unregister(device, by: .backend), of: device.partition) == nil)
        #expect(harness.takeEvents().isEmpty)
        harness.releaseAppends()
        #expect(harness.takeEvents() == ["ended"])
    }
}
