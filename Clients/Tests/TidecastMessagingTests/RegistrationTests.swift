import Testing

@testable import TidecastMessaging

@Suite("A registration") struct RegistrationTests {
    @Test("is made at the first start, stored, and told")
    func made() {
        var world = MachineWorld()
        #expect(world.calls == [.register])
        world.answer(.done(.registration(MachineWorld.device)))
        #expect(world.storedRegistration == MachineWorld.device)
        #expect(world.announced == ["fid1:proof"])
        #expect(world.restarted().calls == [])
        #expect(world.restarted().announced == ["fid1:proof"])
    }

    @Test("is not made without auto-init, until the app asks")
    func withoutAutoInit() {
        var state = ClientState()
        state.isAutoInitEnabled = false
        var world = MachineWorld(state: state)
        #expect(world.calls == [])
        world.act { $0.token(1, now: $1) }
        #expect(world.calls == [.register])
        world.answer(.done(.registration(MachineWorld.device)))
        #expect(world.tokens == [1: [.success("fid1:proof")]])
    }

    @Test("that cannot be made ends the waiting for a token, and is tried again")
    func unreachable() {
        var world = MachineWorld()
        world.act { $0.token(1, now: $1) }
        world.answer(.lost)
        guard case .failure(let error) = world.tokens[1]?.first else { return expect(false) }
        #expect(error.code == .network)
        expect(world.next())
        #expect(world.calls == [.register])
    }

    @Test("that the server refuses for a wrong key tells all callers, and keeps their wishes")
    func wrongKey() {
        var world = MachineWorld()
        world.subscribe("news", 1)
        world.answer(.status(401))
        #expect(world.heard[1]?.first??.code == .authentication)
        #expect(world.stored?.wishes["news"]?.isWanted == true)
    }

    @Test("that the server has forgotten is made again, and all topics are subscribed again")
    func forgotten() {
        var world = MachineWorld.registered("a", "b")
        world.answer(.gone)
        #expect(world.storedRegistration == nil)
        #expect(world.announced == ["fid1:proof", nil])
        expect(world.next())
        #expect(world.calls == [.register])
        world.answer(.done(.registration(MachineWorld.device2)))
        #expect(world.calls == ["a", "b"].map { world.change($0, true, by: MachineWorld.device2) })
        #expect(world.announced.last == "fid2:proof")
    }

    @Test("that is forgotten takes its open ends of subscriptions with it, and their callers hear of success")
    func forgottenEnds() {
        var world = MachineWorld.registered("a", "b")
        world.answer(.done(.topics(["a", "b"], nextPage: "")))
        world.unsubscribe("a", 1)
        world.subscribe("b", 2)
        world.answer("b", .gone)
        #expect(world.heard == [1: [nil]])
        #expect(world.stored?.wishes.keys.sorted() == ["b"])
    }

    @Test("that each new server forgets at once is made again after growing pauses")
    func forgottenAtOnce() {
        var world = MachineWorld.registered("a")
        var pauses: [Duration] = []
        for _ in 0..<12 {
            world.sent.removeAll { if case .list = $0.call { true } else { false } }
            if world.calls.isEmpty { world.subscribe("a") }
            world.answer("a", .gone)
            #expect(world.calls == [])
            let before = world.now
            expect(world.next())
            pauses.append(world.now - before)
            world.answer(.done(.registration(MachineWorld.device)))
        }
        #expect(pauses.max() ?? .zero > .seconds(60))
        world.answer(.ok)
        #expect(world.machine.registering == Backoff())
    }

    @Test("that is forgotten again after its stream stood is made again after a short pause")
    func forgottenLater() {
        var world = MachineWorld.registered()
        world.listen()
        for _ in 0..<12 {
            world.signal(.opened)
            world.signal(.unregistered)
            let before = world.now
            expect(world.next())
            #expect(world.now - before <= .milliseconds(1_100))
            world.answer(.done(.registration(MachineWorld.device)))
        }
    }

    @Test("that is not the stored state's is ended, and the topics are the next one's")
    func foreignState() {
        var state = ClientState()
        state.fid = "another"
        state.position = "p1"
        state.wishes["a"] = .init(isWanted: true, version: 1, confirmed: 1)
        var world = MachineWorld(state: state, registration: MachineWorld.device)
        #expect(world.calls == [.unregister(MachineWorld.device), .register])
        world.answer(.ok)
        world.answer(.done(.registration(MachineWorld.device2)))
        #expect(world.calls == [world.change("a", true, by: MachineWorld.device2)])
        world.listen()
        #expect(world.stream?.resume == nil)
        #expect(world.announced == ["fid2:proof"])
    }

    @Test("without a state is a former installation's: it is ended, and another one is made")
    func installedAgain() {
        var world = MachineWorld(registration: MachineWorld.device)
        world.listen()
        #expect(world.stream == nil, "the former user's messages are not for this one")
        #expect(world.calls == [.unregister(MachineWorld.device), .register])
        #expect(world.storedRegistrations == Registrations(ended: [MachineWorld.device]))
        world.answer(.lost)
        world = world.restarted()
        #expect(world.calls.contains(.unregister(MachineWorld.device)))
    }

    @Test("ends when the app deletes its token; the wishes wait for the next")
    func deleted() {
        var world = MachineWorld.registered("a")
        world.answer(.done(.topics(["a"], nextPage: "")))
        world.act { $0.deleteToken(1, now: $1) }
        #expect(world.calls == [.unregister(MachineWorld.device)])
        world.answer(.ok)
        #expect(world.heard == [1: [nil]])
        #expect(world.storedRegistration == nil && world.announced.last == .some(nil))
        expect(world.next() == false, "it stays deleted")
        world.subscribe("b", 2)
        world.answer(.done(.registration(MachineWorld.device2)))
        #expect(world.calls == ["a", "b"].map { world.change($0, true, by: MachineWorld.device2) })
    }

    @Test("that ends while another call finds it gone: the caller hears of success once")
    func deletedTwice() {
        var world = MachineWorld.registered()
        world.subscribe("a", 1)
        world.act { $0.deleteToken(2, now: $1) }
        world.answer("a", .gone)
        #expect(world.heard[2] == nil)
        world.answer(.gone)
        #expect(world.heard[2] == [nil])
        #expect(world.heard[1]?.first??.code == .cancelled)
    }

    @Test("ends with all wishes where the app deletes its data")
    func dataDeleted() {
        var world = MachineWorld.registered("a")
        world.answer(.done(.topics(["a"], nextPage: "")))
        world.act { $0.deleteData(1, now: $1) }
        world.answer(.ok)
        #expect(world.heard == [1: [nil]])
        #expect(world.stored?.wishes == [:])
        #expect(world.restarted().calls == [.register])
    }

    @Test("tells its address at Apple's push service, once for each registration")
    func address() {
        var world = MachineWorld.registered()
        let address = PushAddress(token: "0a", isSandbox: true, bundleID: "b")
        world.act { $0.setAddress(address, now: $1) }
        #expect(world.calls == [.authToken(MachineWorld.device)])
        #expect(MachineWorld.device.refreshToken == "secret1.proof")
        world.answer(.status(503))
        expect(world.next())
        world.answer(.done(.authToken("auth")))
        #expect(world.calls == [.tell(MachineWorld.device, address, authToken: "auth")])
        world.answer(.ok)
        #expect(world.restarted().calls == [])
        world.subscribe("a")
        world.answer(.gone)
        _ = world.next()
        world.answer(.done(.registration(MachineWorld.device2)))
        #expect(world.calls.contains(.authToken(MachineWorld.device2)))
    }
}
