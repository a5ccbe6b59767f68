import Foundation
import Testing

@testable import TidecastMessaging

/// A server without sockets: it has devices and their topics, forgets some, and loses requests and answers.
private struct SimulatedServer {
    var topics: [String: Set<String>] = [:]
    var devices = 0

    mutating func carryOut(_ call: Call) -> Answer {
        switch call {
        case .register:
            devices += 1
            let fid = "fid\(devices)"
            topics[fid] = []
            return .done(.registration(.init(fid: fid, token: "\(fid):p", credential: "c")))
        case .unregister(let device):
            return topics.removeValue(forKey: device.fid) == nil ? .gone : .ok
        case .change(let device, let topic, let isSubscribe):
            guard topics[device.fid] != nil else { return .gone }
            if isSubscribe {
                topics[device.fid]?.insert(topic)
            } else {
                topics[device.fid]?.remove(topic)
            }
            return .ok
        case .list(let device, _):
            guard let found = topics[device.fid] else { return .gone }
            return .done(.topics(found.sorted(), nextPage: ""))
        case .acknowledge, .authToken, .tell: return .ok
        }
    }
}

@Suite("A client of a bad network") struct SimulationTests {
    @Test(
        "comes to what the app wants in the end, and every caller hears once",
        arguments: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12] as [UInt64])
    func converges(seed: UInt64) {
        var random = SplitMix(seed: seed)
        var world = MachineWorld(seed: seed)
        var server = SimulatedServer()
        var waiter: UInt64 = 0
        var wanted: [String: Bool] = [:]
        var alive: Set<UInt64> = []
        func chance(_ percent: Int) -> Bool { Int.random(in: 0..<100, using: &random) < percent }
        for _ in 0..<600 {
            switch Int.random(in: 0..<100, using: &random) {
            case 0..<30:
                waiter += 1
                alive.insert(waiter)
                let topic = "t\(Int.random(in: 0..<15, using: &random))"
                let isWanted = chance(60)
                wanted[topic] = isWanted
                if isWanted { world.subscribe(topic, waiter) } else { world.unsubscribe(topic, waiter) }
            case 30..<75:
                guard !world.sent.isEmpty else { break }
                world.sent.swapAt(0, Int.random(in: 0..<world.sent.count, using: &random))
                let isCarriedOut = !chance(20)
                let answer = isCarriedOut ? server.carryOut(world.sent[0].call) : .lost
                let isLost = chance(15)
                world.answer(isLost ? .lost : chance(10) && !isCarriedOut ? .status(503) : answer)
            case 75..<92: _ = world.next()
            case 92..<94: server.topics = server.topics.mapValues { $0.filter { _ in chance(70) } }
            case 94..<95: server.topics = [:]
            case 95..<97:
                // The process dies: its callers hear nothing more.
                world.sent = []
                for each in alive where world.heard[each] == nil { alive.remove(each) }
                let heard = world.heard
                world = world.restarted(seed: seed &+ waiter)
                world.heard = heard
            default: world.act { $0.wake(now: $1) }
            }
        }
        // The network is good from now on, and the client starts once more.
        for each in alive where world.heard[each] == nil { alive.remove(each) }
        let heard = world.heard
        world = world.restarted()
        for _ in 0..<400 {
            if world.sent.isEmpty {
                guard world.machine.pendingTopics.count + (world.machine.registration == nil ? 1 : 0) > 0,
                    world.next()
                else { break }
            } else {
                world.answer(server.carryOut(world.sent[0].call))
            }
        }
        let fid = world.machine.registration?.fid ?? ""
        #expect(server.topics[fid] == Set(wanted.filter(\.value).keys))
        for each in alive { #expect(heard[each]?.count == 1, "caller \(each)") }
        for (each, answers) in heard { #expect(answers.count == 1, "caller \(each)") }
    }
}

/// An app that logs users out, over a bad network, with a storage that sometimes refuses, in a process that
/// dies between any two writes.
private struct LogoutWorld {
    var world: MachineWorld
    var server = SimulatedServer()
    var random: SplitMix
    /// Registrations that the app has ended; the next process knows it of all of them.
    var over: Set<String> = []
    var messages = 0
    var waiter: UInt64 = 1000

    init(seed: UInt64) {
        random = SplitMix(seed: seed)
        world = MachineWorld(seed: seed)
    }

    mutating func chance(_ percent: Int) -> Bool { Int.random(in: 0..<100, using: &random) < percent }

    mutating func step() {
        world.storageError = chance(10) ? MessagingError(.storage, "full") : nil
        if chance(5) { world.diesAfter = Int.random(in: 0..<3, using: &random) }
        let before = world.delivered.count
        act()
        for case .message(let message) in world.delivered[before...] {
            #expect(!over.contains(message.from), "a message of an ended registration")
        }
        if world.diesAfter != nil || chance(2) { die() }
    }

    private mutating func act() {
        waiter += 1
        switch Int.random(in: 0..<100, using: &random) {
        case 0..<8:
            if let fid = world.machine.registration?.fid { over.insert(fid) }
            world.act { [waiter] in $0.deleteData(waiter, now: $1) }
        case 8..<20: world.act { [waiter] in $0.token(waiter, now: $1) }
        case 20..<30: world.listen()
        case 30..<40: world.subscribe("t\(waiter % 5)", waiter)
        case 40..<65: answer(isGood: chance(70))
        case 65..<75: world.signal(.opened)
        case 75..<85: receive()
        case 85..<92: world.pull()
        default: _ = world.next()
        }
    }

    mutating func answer(isGood: Bool) {
        guard let call = world.calls.first else { return }
        let answer = isGood || chance(30) ? server.carryOut(call) : .lost
        world.answer(isGood ? answer : .lost)
    }

    private mutating func receive() {
        guard world.stream != nil, let fid = world.machine.registration?.fid else { return }
        messages += 1
        let message = RemoteMessage(
            messageID: "m\(messages)", from: fid, sentTime: nil, collapseKey: nil, data: [:],
            notification: nil, json: Data())
        world.signal(.event(.message(message), id: "e\(messages)"))
    }

    mutating func die() {
        // Of an end that the storage refused, the app has heard no success.
        if world.diesAfter != nil || world.machine.storing.error != nil {
            let stored = world.storedRegistrations
            over.formIntersection(stored.ended.map(\.fid))
            if let current = stored.current?.fid, world.stored?.fid != current { over.insert(current) }
        }
        let heard = world.heard
        world = world.restarted(seed: random.next())
        for (_, answers) in heard { #expect(answers.count == 1) }
    }
}

@Suite("An app that logs out") struct LogoutTests {
    @Test(
        "handles no message of an ended registration, and in the end the server has none of them",
        arguments: 1...60 as ClosedRange<UInt64>)
    func ends(seed: UInt64) {
        var logout = LogoutWorld(seed: seed)
        for _ in 0..<500 { logout.step() }
        logout.world.storageError = nil
        logout.die()
        for _ in 0..<300 {
            if logout.world.sent.isEmpty {
                guard !logout.world.machine.ended.isEmpty, logout.world.next() else { break }
            } else {
                logout.answer(isGood: true)
            }
        }
        #expect(logout.world.storedRegistrations.ended == [])
        #expect(logout.over.isDisjoint(with: logout.server.topics.keys))
        #expect(logout.world.storedRegistration.map { logout.over.contains($0.fid) } != true)
    }
}
