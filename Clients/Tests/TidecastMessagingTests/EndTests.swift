import Testing

@testable import TidecastMessaging

@Suite("The end of a registration") struct EndTests {
    static let device = MachineWorld.device

    @Test(
        "is stored before it is asked for, and repeated until the server has confirmed it",
        arguments: [
            Answer.lost, .status(503), .status(401), .status(403), .status(404), .status(410),
            .status(403, code: "SENDER_ID_MISMATCH"), .status(400, field: "name"), .page(404), .page(200),
        ])
    func repeated(failure: Answer) {
        var world = MachineWorld.registered("a")
        world.answer(.done(.topics(["a"], nextPage: "")))
        world.trace = []
        world.act { $0.deleteData(1, now: $1) }
        #expect(world.trace == ["store at once", "store registrations", "send"])
        world.answer(failure)
        #expect(world.heard[1]?.count == 1 && world.heard[1]?.first != .some(nil))
        #expect(world.storedRegistrations == Registrations(ended: [EndTests.device]))
        expect(world.next())
        #expect(world.calls == [.unregister(EndTests.device)])
        world = world.restarted()
        #expect(world.calls == [.unregister(EndTests.device), .register])
        #expect(world.stored?.wishes == [:])
        world.answer(failure)
        world.answer(.done(.registration(MachineWorld.device2)))
        expect(world.next())
        world.answer(.gone)
        #expect(world.storedRegistrations == Registrations(current: MachineWorld.device2))
    }

    @Test("takes the messages that wait for the app with it, and its stream")
    func messages() {
        var world = MachineWorld.registered("a")
        world.listen()
        world.signal(.opened)
        world.message("m1", id: "e1")
        world.message("m2", id: "e2")
        world.pull()
        world.act { $0.deleteData(1, now: $1) }
        #expect(world.stream == nil)
        world.answer(.lost)
        world.pull()
        #expect(world.delivered == [.connected, .message(.named("m1"))])
    }

    @Test("is also that of a registration whose answer came after it")
    func late() {
        var world = MachineWorld()
        world.act { $0.deleteToken(1, now: $1) }
        world.act { $0.token(2, now: $1) }
        #expect(world.calls == [.register, .register])
        world.answer(.done(.registration(EndTests.device)))
        #expect(world.calls == [.register, .unregister(EndTests.device)])
        world.answer(.done(.registration(MachineWorld.device2)))
        #expect(
            world.storedRegistrations
                == Registrations(current: MachineWorld.device2, ended: [EndTests.device]))
        #expect(world.tokens == [2: [.success("fid2:proof")]])
    }

    @Test("is confirmed to a later caller when the server has confirmed all of them")
    func secondCaller() {
        var world = MachineWorld.registered()
        world.act { $0.deleteToken(1, now: $1) }
        world.answer(.lost)
        world.act { $0.deleteToken(2, now: $1) }
        #expect(world.calls == [.unregister(EndTests.device)])
        #expect(world.heard[2] == nil)
        world.answer(.ok)
        #expect(world.heard[2] == [nil])
    }

    @Test("waits with at most 16 others; past them no registration is made, so that no end is forgotten")
    func bound() {
        let ended = (0..<Machine.endedMax).map {
            Registration(fid: "e\($0)", token: "e\($0):p", credential: "c")
        }
        var world = MachineWorld(ended: ended)
        world.act { $0.token(1, now: $1) }
        #expect(world.calls == ended.map { .unregister($0) })
        #expect(world.tokens[1] == [.failure(.endsWait)])
        world.answer(.ok)
        #expect(world.calls.last == .register)
    }
}

@Suite("A storage that refuses") struct RefusingStorageTests {
    static let full = MessagingError(.storage, "full")

    @Test("is told to the caller whose change the server has confirmed, and is tried again by time alone")
    func told() {
        var world = MachineWorld.registered("a")
        world.answer(.done(.topics(["a"], nextPage: "")))
        world.storageError = RefusingStorageTests.full
        world.unsubscribe("a", 1)
        world.answer(.ok)
        #expect(world.heard == [1: [RefusingStorageTests.full]])
        #expect(world.stored?.wishes["a"]?.isWanted == true)
        world.storageError = nil
        expect(world.next())
        #expect(world.stored?.wishes == [:])
        #expect(world.restarted().calls == [])
        world.unsubscribe("a", 2)
        world.subscribe("b", 3)
        while !world.sent.isEmpty { world.answer(.ok) }
        #expect(world.heard[3] == [nil])
    }

    @Test("is tried again after growing pauses, of a minute at most")
    func pauses() {
        var world = MachineWorld.registered()
        world.storageError = RefusingStorageTests.full
        world.subscribe("a")
        world.answer(.ok)
        var longest = Duration.zero
        for _ in 0..<30 {
            let before = world.now
            expect(world.next())
            longest = max(longest, world.now - before)
        }
        #expect(longest > .seconds(20) && longest <= Storing.retryMax + Backoff.shortest)
    }

    @Test("is told to who asks for a token, and the token is announced when it is stored")
    func token() {
        var world = MachineWorld()
        world.storageError = RefusingStorageTests.full
        world.act { $0.token(1, now: $1) }
        world.answer(.done(.registration(MachineWorld.device)))
        #expect(world.tokens == [1: [.failure(RefusingStorageTests.full)]])
        #expect(world.announced == [])
        world.storageError = nil
        expect(world.next())
        #expect(world.announced == ["fid1:proof"])
        world.act { $0.token(2, now: $1) }
        #expect(world.tokens[2] == [.success("fid1:proof")])
    }

    @Test("is told to who ends a registration, and the end is stored when there is room")
    func end() {
        var world = MachineWorld.registered("a")
        world.answer(.done(.topics(["a"], nextPage: "")))
        world.storageError = RefusingStorageTests.full
        world.act { $0.deleteData(1, now: $1) }
        world.answer(.ok)
        #expect(world.heard == [1: [RefusingStorageTests.full]])
        world.storageError = nil
        expect(world.next())
        #expect(world.storedRegistrations == Registrations() && world.stored?.wishes == [:])
    }
}
