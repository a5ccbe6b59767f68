import Testing

@testable import TidecastMessaging

/// What a server, or a machine in its place, may answer to a device that lives at another server, or later at
/// this one.
@Suite("Without proof that a registration is gone") struct UnprovenEndTests {
    static let device = MachineWorld.device
    static let refusals: [Answer] = [
        .status(401), .status(403), .status(403, code: "SENDER_ID_MISMATCH"), .status(404), .status(410),
        .status(409), .page(404), .page(403), .page(200), .page(302), .unknown,
    ]

    @Test("the client keeps it with its topics, whatever it asks", arguments: refusals)
    func kept(answer: Answer) {
        var world = MachineWorld.registered("a", "b")
        world.answer(answer)
        world.act { $0.setAddress(.init(token: "0a", isSandbox: true, bundleID: "b"), now: $1) }
        world.answer(answer)
        world.listen()
        world.signal(.opened)
        world.message("m1", id: "e1")
        for _ in 0..<2 { world.pull() }
        for _ in 0..<8 where !world.calls.contains(.acknowledge(UnprovenEndTests.device, event: "e1")) {
            while let call = world.sent.first?.call,
                call != .acknowledge(UnprovenEndTests.device, event: "e1")
            { world.answer(answer) }
            expect(world.next())
        }
        while !world.sent.isEmpty { world.answer(answer) }
        if case .refused(let refusal) = answer { world.signal(.refused(refusal)) }
        #expect(world.storedRegistrations == Registrations(current: UnprovenEndTests.device))
        #expect(world.announced == ["fid1:proof"])
        #expect(world.stored?.wishes.keys.sorted() == ["a", "b"])
        #expect(world.stored?.position == "e1")
        #expect(world.stream == nil)
        expect(world.next(), "and tries again")
    }

    /// Answers all calls of the first registration with `.unknown` for so long.
    private func doubted(_ world: inout MachineWorld, for time: Duration) {
        let end = world.now + time
        while world.now < end {
            world.answerAll(.unknown)
            if world.stream != nil { world.signal(.refused(.unknown)) }
            guard let next = world.machine.nextTime(now: world.now), next <= end else { break }
            expect(world.next())
        }
    }

    @Test("a server that has never made it is believed after a minute, and its end stays a wish")
    func replaced() {
        var world = MachineWorld.registered("a")
        world.listen()
        doubted(&world, for: .seconds(59))
        #expect(world.storedRegistration == UnprovenEndTests.device)
        doubted(&world, for: .seconds(120))
        #expect(world.storedRegistration == nil && world.announced == ["fid1:proof", nil])
        #expect(world.calls.contains(.register))
        #expect(world.restarted().calls.contains(.unregister(UnprovenEndTests.device)))
        world.answerAll(.unknown)
        world.answer(.done(.registration(MachineWorld.device2)))
        #expect(world.calls.contains(world.change("a", true, by: MachineWorld.device2)))
        // The right server is there again, and ends the first one.
        var next = world.restarted()
        #expect(next.calls.first == .unregister(UnprovenEndTests.device))
        next.answer(.ok)
        #expect(next.storedRegistrations == Registrations(current: MachineWorld.device2))
    }

    @Test("a success between two such words takes the first one back")
    func takenBack() {
        var world = MachineWorld.registered("a")
        world.listen()
        for _ in 0..<6 {
            doubted(&world, for: .seconds(40))
            world.subscribe("b", 1)
            while !world.sent.isEmpty { world.answer(.ok) }
        }
        #expect(world.storedRegistration == UnprovenEndTests.device)
    }

    @Test("two such words a day apart are not a minute of them")
    func apart() {
        var world = MachineWorld.registered("a")
        world.listen()
        for _ in 0..<3 {
            while world.stream == nil { expect(world.next()) }
            world.signal(.refused(.unknown))
            world.pass(.seconds(86_400))
            #expect(world.storedRegistration == UnprovenEndTests.device)
        }
    }

    @Test("the ends of replaced ones are kept up to a number, and keep no caller waiting")
    func bounded() {
        let devices = (0..<28).map { Registration(fid: "r\($0)", token: "r\($0):p", credential: "c") }
        var world = MachineWorld.registered("a")
        for device in devices {
            world.listen()
            doubted(&world, for: .seconds(300))
            while !world.calls.contains(.register) { expect(world.next()) }
            world.answerAll(.unknown)
            world.answer(.done(.registration(device)))
        }
        let ends = world.storedRegistrations.replaced ?? []
        #expect(ends.count == Machine.replacedMax && ends.last == devices[26])
        world.answerAll(.lost)
        world.act { $0.deleteToken(7, now: $1) }
        while let sent = world.sent.first {
            world.answer(sent.call == .unregister(devices[27]) ? .ok : .unknown)
        }
        #expect(world.heard[7] == [nil])
    }

    @Test("an end that a server for a minute cannot have made keeps no later caller waiting")
    func endDoubted() {
        var world = MachineWorld.registered()
        world.act { $0.deleteToken(7, now: $1) }
        world.answerAll(.unknown)
        #expect(world.heard[7]?.count == 1 && world.heard[7] != [nil])
        #expect(world.storedRegistrations.ended == [UnprovenEndTests.device])
        doubted(&world, for: .seconds(1800))
        #expect(world.storedRegistrations.ended.isEmpty)
        world.act { $0.deleteToken(8, now: $1) }
        #expect(world.heard[8] == [nil])
        // The right server is there again.
        while !world.calls.contains(.unregister(UnprovenEndTests.device)) { expect(world.next()) }
        world.answerAll(.ok)
        #expect(world.storedRegistrations.replaced == nil)
    }
}

extension Refusal {
    static let unknown = Refusal(status: 400, code: "INVALID_ARGUMENT", field: "name")
}
