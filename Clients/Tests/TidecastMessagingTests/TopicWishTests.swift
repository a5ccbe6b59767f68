import Testing

@testable import TidecastMessaging

@Suite("A wish for a topic") struct TopicWishTests {
    @Test("is stored before its call is sent, and its caller hears when the server has confirmed")
    func stored() {
        var world = MachineWorld.registered()
        world.trace = []
        world.subscribe("news", 1)
        #expect(world.trace == ["store at once", "send"])
        #expect(world.calls == [world.change("news", true)])
        #expect(world.heard == [:])
        world.answer(.ok)
        #expect(world.heard == [1: [nil]])
        #expect(world.stored?.wishes["news"]?.isSettled == true)
    }

    @Test("waits without a registration, and goes out when there is one")
    func unregistered() {
        var world = MachineWorld()
        world.subscribe("news", 1)
        #expect(world.calls == [.register])
        world.answer(.lost)
        #expect(world.heard == [:])
        expect(world.next())
        #expect(world.calls == [.register])
        world.answer(.done(.registration(MachineWorld.device)))
        #expect(world.calls == [world.change("news", true)])
        world.answer(.ok)
        #expect(world.heard == [1: [nil]])
    }

    @Test("that is overtaken by its opposite ends as superseded, and the calls go out in order")
    func superseded() {
        var world = MachineWorld.registered()
        world.subscribe("news", 1)
        world.unsubscribe("news", 2)
        #expect(world.heard[1]?.first??.code == .superseded)
        #expect(world.calls.count == 1, "one call for a topic at a time")
        world.subscribe("news", 3)
        world.unsubscribe("news", 4)
        #expect(world.heard[2]?.first??.code == .superseded)
        #expect(world.heard[3]?.first??.code == .superseded)
        world.answer(.ok)
        #expect(world.heard[4] == nil, "the first call's answer is not the last wish's")
        #expect(world.calls == [world.change("news", false)])
        world.answer(.ok)
        #expect(world.heard[4] == [nil])
        #expect(world.stored?.wishes == [:])
    }

    @Test("that is the same as one that waits shares its call")
    func joined() {
        var world = MachineWorld.registered()
        world.subscribe("news", 1)
        world.subscribe("news", 2)
        #expect(world.calls.count == 1)
        world.answer(.ok)
        #expect(world.heard == [1: [nil], 2: [nil]])
        world.subscribe("news", 3)
        #expect(world.calls == [world.change("news", true)], "the server may have lost it meanwhile")
    }

    @Test("survives the process, and is sent by the next one")
    func restarted() {
        var world = MachineWorld.registered()
        world.subscribe("news", 1)
        world.unsubscribe("old", 2)
        var next = world.restarted()
        #expect(Set(next.calls.map { "\($0)" }).count == 2)
        #expect(next.calls == [world.change("news", true), world.change("old", false)])
        next.answer(.ok)
        next.answer(.ok)
        #expect(next.restarted().calls.contains { if case .change = $0 { true } else { false } } == false)
    }

    @Test("is tried again after growing pauses that are drawn at random, at most 15 minutes and a bit")
    func retries() {
        var world = MachineWorld.registered()
        world.subscribe("news", 1)
        var pauses: [Duration] = []
        for _ in 0..<16 {
            let before = world.now
            world.answer(.lost)
            #expect(world.calls == [])
            expect(world.next())
            pauses.append(world.now - before)
            #expect(world.calls == [world.change("news", true)])
        }
        for (index, pause) in pauses.enumerated() {
            #expect(pause >= Backoff.shortest)
            let bound = min(Backoff.longest, .seconds(1 << min(index, 20)))
            #expect(pause <= bound + Backoff.shortest)
        }
        #expect(pauses.max() ?? .zero > .seconds(120))
        #expect(Set(pauses).count == pauses.count, "a pause without chance")
        world.answer(.ok)
        #expect(world.heard == [1: [nil]])
    }

    @Test("keeps the pause that the server asks for")
    func retryAfter() {
        var world = MachineWorld.registered()
        world.subscribe("news", 1)
        let before = world.now
        world.answer(.status(503, after: .seconds(40)))
        expect(world.next())
        #expect(world.now - before >= .seconds(40))
        #expect(world.calls == [world.change("news", true)])
    }

    @Test("keeps that pause where the network comes back, a stream opens, or the app calls again")
    func held() {
        var world = MachineWorld.registered()
        world.subscribe("news", 1)
        world.answer(.status(429, after: .seconds(40)))
        world.act { $0.wake(now: $1) }
        world.subscribe("news", 2)
        world.listen()
        world.signal(.opened)
        #expect(world.calls == [])
        world.pass(.seconds(40))
        #expect(world.calls == [world.change("news", true)])
    }

    @Test("of another topic is sent while one topic is refused for a while")
    func independent() {
        var world = MachineWorld.registered()
        world.subscribe("slow", 1)
        world.answer(.status(500))
        world.subscribe("quick", 2)
        world.answer(.ok)
        #expect(world.heard == [2: [nil]])
    }

    @Test(
        "ends for good where the server refuses for good",
        arguments: [
            (400, "TOO_MANY_TOPICS", MessagingError.Code.tooManyTopics), (400, "", .invalidRequest),
            (413, "", .invalidRequest),
        ])
    func final(status: Int, code: String, error: MessagingError.Code) {
        var world = MachineWorld.registered()
        world.subscribe("news", 1)
        world.answer(.status(status, code: code))
        #expect(world.heard[1]?.first??.code == error)
        #expect(world.stored?.wishes == [:])
        #expect(world.calls == [])
    }

    @Test(
        "stays and is repeated where the server refuses the device without proof, and its caller learns it",
        arguments: [
            (401, "", MessagingError.Code.authentication), (403, "", .noAccess),
            (403, "SENDER_ID_MISMATCH", .noAccess), (404, "", .invalidRequest),
        ], [true, false])
    func unproven(row: (status: Int, code: String, error: MessagingError.Code), isWanted: Bool) {
        var world = MachineWorld.registered()
        world.act { $0.wish("news", isWanted: isWanted, waiter: 1, now: $1) }
        world.answer(.status(row.status, code: row.code))
        #expect(world.heard[1]?.first??.code == row.error)
        #expect(world.stored?.wishes["news"]?.isWanted == isWanted)
        #expect(world.storedRegistration == MachineWorld.device)
        expect(world.next())
        #expect(world.calls == [world.change("news", isWanted)])
        world.answer(.ok)
        #expect(world.heard[1]?.count == 1)
        #expect(world.restarted().calls.allSatisfy { if case .list = $0 { true } else { false } })
    }

    @Test("does not end for good where a machine on the way refuses")
    func foreign() {
        var world = MachineWorld.registered()
        world.subscribe("news", 1)
        var refusal = Refusal(status: 403)
        refusal.isFromServer = false
        world.answer(.refused(refusal))
        #expect(world.heard == [:])
        expect(world.next())
        #expect(world.calls == [world.change("news", true)])
    }

    @Test("is one of at most ten that are under way, the oldest first")
    func bounded() {
        var world = MachineWorld.registered()
        for number in 0..<25 { world.subscribe("t\(number)") }
        #expect(world.calls == (0..<10).map { world.change("t\($0)", true) })
        for _ in 0..<3 { world.answer(.ok) }
        #expect(world.calls == (3..<13).map { world.change("t\($0)", true) })
    }

    @Test("that was under way with others counts with them as one failure")
    func oneFailure() {
        var world = MachineWorld.registered()
        for number in 0..<10 { world.subscribe("t\(number)") }
        for _ in 0..<10 { world.answer(.lost) }
        #expect(world.machine.gate.failures == 1)
        let before = world.now
        expect(world.next())
        #expect(world.now - before <= .milliseconds(1_100))
        #expect(world.calls.count == 10)
    }

    @Test("is tried at once when the network comes back")
    func wakes() {
        var world = MachineWorld.registered()
        world.subscribe("news", 1)
        for _ in 0..<8 {
            world.answer(.lost)
            _ = world.next()
        }
        world.answer(.lost)
        world.act { $0.wake(now: $1) }
        #expect(world.calls == [world.change("news", true)])
    }
}

@Suite("The comparison with the server's list") struct ReconciliationTests {
    static func list(_ page: String = "") -> Call { .list(MachineWorld.device, page: page) }

    @Test("comes at the start, and subscribes again what the server has lost")
    func repairs() {
        var world = MachineWorld.registered("kept", "lost")
        #expect(world.calls == [ReconciliationTests.list()])
        world.answer(.done(.topics(["kept", "by-backend"], nextPage: "")))
        #expect(world.calls == [world.change("lost", true)], "a backend's topics stay")
        world.answer(.ok)
        #expect(world.stored?.wishes["lost"]?.isSettled == true)
    }

    @Test("reads all pages first")
    func pages() {
        var world = MachineWorld.registered("a", "b")
        world.answer(.done(.topics(["a"], nextPage: "p2")))
        #expect(world.calls == [ReconciliationTests.list("p2")])
        world.answer(.done(.topics(["b"], nextPage: "")))
        #expect(world.calls == [])
    }

    @Test("says nothing of wishes that are younger than the list")
    func younger() {
        var world = MachineWorld.registered("a")
        world.subscribe("young")
        world.answer("young", .ok)
        world.answer(.done(.topics(["a"], nextPage: "")))
        #expect(world.calls == [])
        #expect(world.stored?.wishes["young"]?.isSettled == true)
    }

    @Test("comes again with a reconnection, but not within 30 s, and after a week")
    func again() {
        var world = MachineWorld.registered("a")
        world.answer(.done(.topics(["a"], nextPage: "")))
        world.listen()
        world.signal(.opened)
        #expect(world.calls == [])
        world.pass(.seconds(31))
        #expect(world.calls == [ReconciliationTests.list()])
        world.answer(.done(.topics(["a"], nextPage: "")))
        for _ in 0..<14 {
            for _ in 0..<1440 {
                world.signal(.heard)
                world.pass(.seconds(30))
            }
        }
        #expect(world.calls == [ReconciliationTests.list()])
    }

    @Test("is tried again where the server refuses it or does not answer")
    func fails() {
        var world = MachineWorld.registered("a")
        world.answer(.status(503))
        expect(world.next())
        #expect(world.calls == [ReconciliationTests.list()])
        world.answer(.lost)
        expect(world.next())
        #expect(world.calls == [ReconciliationTests.list()])
    }
}
