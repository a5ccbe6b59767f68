import Testing

@testable import TidecastMessaging

@Suite("A listener") struct StreamTests {
    static func names(_ world: MachineWorld) -> [String] {
        world.delivered.compactMap { if case .message(let message) = $0 { message.messageID } else { nil } }
    }
    static func listening() -> MachineWorld {
        var world = MachineWorld.registered()
        world.listen()
        world.signal(.opened)
        world.pull()
        return world
    }

    @Test("gets one event at a time, in order, and the position moves when it has handled one")
    func order() {
        var world = StreamTests.listening()
        world.message("m1", id: "e1")
        world.message("m2", id: "e2")
        #expect(StreamTests.names(world) == ["m1"])
        #expect(world.stored?.position == nil)
        world.pull()
        #expect(StreamTests.names(world) == ["m1", "m2"])
        #expect(world.stored?.position == "e1")
        #expect(world.restarted().stored?.position == "e1")
    }

    @Test("of the next process begins behind the last handled event")
    func resumes() {
        var world = StreamTests.listening()
        world.message("m1", id: "e1")
        world.message("m2", id: "e2")
        world.pull()
        var next = world.restarted()
        next.listen()
        #expect(next.stream?.resume == "e1")
    }

    @Test("acknowledges within a second, and at once after twenty")
    func acknowledges() {
        var world = StreamTests.listening()
        world.message("m1", id: "e1")
        world.pull()
        #expect(world.calls == [])
        world.pass(.seconds(1))
        #expect(world.calls == [.acknowledge(MachineWorld.device, event: "e1")])
        world.answer(.ok)
        for number in 2...21 {
            world.message("m\(number)", id: "e\(number)")
            world.pull()
        }
        #expect(world.calls == [.acknowledge(MachineWorld.device, event: "e21")])
        world.answer(.status(503, after: .seconds(3)))
        world.pass(.seconds(3))
        #expect(world.calls == [.acknowledge(MachineWorld.device, event: "e21")])
    }

    @Test("does not get a message again that came on two streams")
    func copies() {
        var world = StreamTests.listening()
        world.message("m1", id: "e1")
        world.message("m2", id: "e2")
        world.message("m3", id: "e3")
        world.pull()
        world.signal(.ended("cut"))
        expect(world.next())
        #expect(world.stream?.resume == "e1")
        world.signal(.opened)
        for (message, id) in [("m2", "f2"), ("m3", "f3"), ("m4", "f4"), ("m1", "f5")] {
            world.message(message, id: id)
        }
        world.pull()
        #expect(world.stored?.position == "f2", "the app had the first copy in hand")
        for _ in 0..<8 { world.pull() }
        #expect(StreamTests.names(world) == ["m1", "m2", "m3", "m4"])
        #expect(world.stored?.position == "f5", "the newer stream's ids count")
    }

    @Test("hears why a stream ended, and the next one comes after a pause")
    func reconnects() {
        var world = StreamTests.listening()
        world.signal(.ended("cut"))
        guard case .reconnecting(let pause, "cut") = world.delivered.last else { return expect(false) }
        #expect(pause >= Backoff.shortest && pause <= .milliseconds(1_100))
        #expect(world.stream == nil)
        let before = world.now
        expect(world.next())
        #expect(world.stream != nil && world.now - before == pause)
    }

    @Test("comes back after the pause that the server asks for")
    func reconnectAsked() {
        var world = StreamTests.listening()
        world.signal(.reconnect(after: .milliseconds(4_321)))
        world.signal(.ended("end"))
        #expect(world.delivered.last == .reconnecting(after: .milliseconds(4_321), reason: "end"))
        let before = world.now
        expect(world.next())
        #expect(world.stream != nil && world.now - before == .milliseconds(4_321))
    }

    @Test("leaves a stream that is silent for 65 s, and not one with comments")
    func silent() {
        var world = StreamTests.listening()
        for _ in 0..<10 {
            world.pass(.seconds(25))
            world.signal(.heard)
        }
        let number = world.stream?.number
        #expect(number != nil)
        world.pass(.seconds(66))
        #expect(world.stream == nil)
    }

    @Test("ends when another process takes the stream over, after what had come before")
    func replaced() {
        var world = StreamTests.listening()
        world.message("m1", id: "e1")
        world.message("m2", id: "e2")
        world.signal(.replaced)
        world.pull()
        world.pull()
        #expect(world.delivered.last == .replaced && StreamTests.names(world) == ["m1", "m2"])
        world.pull()
        #expect(world.ended == [100])
        #expect(world.stored?.position == "e2")
        for _ in 0..<5 {
            _ = world.next()
            #expect(world.stream == nil)
        }
        world.listen(101)
        #expect(world.stream != nil)
    }

    @Test("is told where the server dropped messages")
    func deleted() {
        var world = StreamTests.listening()
        world.signal(.event(.deletedMessages, id: "e9"))
        #expect(world.delivered.last == .deletedMessages)
        world.pull()
        #expect(world.stored?.position == "e9")
    }

    @Test("is told where the registration is gone, and the next stream is the next registration's")
    func unregistered() {
        var world = StreamTests.listening()
        world.message("m1", id: "e1")
        world.signal(.unregistered)
        world.pull()
        #expect(world.delivered.last == .unregistered)
        #expect(world.stored?.position == nil, "the event was of the former registration")
        expect(world.next())
        world.answer(.done(.registration(MachineWorld.device2)))
        #expect(world.stream?.resume == nil && world.stream != nil)
    }

    @Test("that begins later ends the former, and what that did not handle comes again")
    func second() {
        var world = StreamTests.listening()
        world.message("m1", id: "e1")
        world.listen(101)
        #expect(world.ended == [100])
        world.pull(100)
        #expect(world.ended == [100, 100] && world.stored?.position == nil)
        #expect(world.stream?.resume == nil)
        world.signal(.opened)
        world.message("m1", id: "e1")
        world.pull(101)
        #expect(StreamTests.names(world) == ["m1", "m1"])
    }

    @Test("that is slow closes the stream past 1,000 events, and opens it when most are handled")
    func flooded() {
        var world = StreamTests.listening()
        for number in 0..<1_100 { world.message("m\(number)", id: "e\(number)") }
        #expect(world.stream == nil)
        #expect(world.machine.inbox.waiting.count == 1_000)
        for _ in 0..<749 { world.pull() }
        #expect(world.stream == nil)
        world.pull()
        #expect(world.stream?.resume == "e749")
    }

    @Test("has no stream where the app does not listen")
    func none() {
        var world = MachineWorld.registered()
        world.pass(.seconds(100))
        #expect(world.stream == nil)
        world.listen()
        #expect(world.stream != nil)
        world.act { $0.stopListening(100, now: $1) }
        #expect(world.stream == nil && world.ended == [100])
        #expect(world.machine.nextTime(now: world.now).map { $0 > world.now + .seconds(3600) } ?? true)
    }
}
