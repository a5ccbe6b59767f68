import Model
import Testing

@testable import Partitions

/// Services as projects use them: whom a closed service holds up, and what changed settings free.
@Suite("Push services of several projects")
struct PushOriginTests {
    private static let iPhone = Transport(
        kind: .apns,
        address: APNsAddress(isSandbox: false, bundleID: "org.example.app", token: [1, 2]).packed)

    private func origin(_ project: UInt32, _ transport: Transport = iPhone) -> PushOrigin {
        PushOrigin(ProjectNumber(project), transport)
    }

    @Test("apps of one project are judged one by one, devices of one app together, and projects apart")
    func origins() {
        func address(_ bundle: String, sandbox: Bool = false, token: UInt8 = 1) -> Transport {
            Transport(
                kind: .apns,
                address: APNsAddress(isSandbox: sandbox, bundleID: bundle, token: [token]).packed)
        }
        #expect(origin(1, address("a")) == origin(1, address("a", token: 2)))
        #expect(origin(1, address("a")) != origin(1, address("b")))
        #expect(origin(1, address("a")) != origin(1, address("a", sandbox: true)))
        #expect(origin(1, address("a")) != origin(2, address("a")))
        let tokens = ["x", "y"].map { Transport(kind: .fcm, address: FCMAddress(token: $0).packed) }
        #expect(origin(1, tokens[0]) == origin(1, tokens[1]))
        let order = [origin(1, tokens[0]), origin(2, address("a")), origin(2, address("b"))]
        #expect(order.reversed().sorted() == order)
    }

    @Test("a service that is closed for one project parks no device of another")
    func closedForOne() {
        var table = PushTable()
        for index in UInt32(1)...3 { table.want(index) }
        _ = table.next()
        table.close(origin(1), until: MonotonicTime(.seconds(60)), parking: 1)
        let passes = (table.mayPass(2, to: origin(1)), table.mayPass(3, to: origin(2)))
        #expect(passes == (false, true) && table.state(2) == .parked)
        #expect(table.brokenInvariant == nil)
    }

    @Test("changed settings free what waits in their project at once, and nothing else")
    func reopened() {
        var table = PushTable()
        let later = MonotonicTime(.seconds(60))
        for index in UInt32(1)...5 { table.want(index) }
        for _ in 1...5 { _ = table.next() }
        table.close(origin(1), until: later, parking: 1)
        table.close(origin(2), until: later, parking: 2)
        table.wait(3, until: later)
        table.wait(4, until: later)
        table.setSending(
            PushTable.Sending(index: 5, position: Position(1), origin: origin(1), generation: 1), number: 9)
        table.reopen([ProjectNumber(1)]) { [1, 3, 5].contains($0) }
        #expect(table.state(1) == .queued && table.state(3) == .queued)
        #expect(table.state(2) == .parked && table.state(5) == .sending(number: 9))
        guard case .waiting = table.state(4) else {
            Issue.record("device 4 does not wait any more")
            return
        }
        #expect(table.closed.keys.map(\.project) == [ProjectNumber(2)])
        #expect(table.brokenInvariant == nil)
        #expect(table.next() == 1 && table.next() == 3 && table.next() == nil)
    }

    @Test("devices that wait for a service without settings are pushed when the settings come")
    func settingsCome() throws {
        let harness = PartitionHarness { $0.pushesAtOnce = 4 }
        for _ in 0..<12 {
            let (device, _) = try #require(harness.register(in: 1))
            _ = harness.change(.subscribe, "news", [device])
            _ = harness.request(.setTransport(device, by: .backend, Self.iPhone), of: device.partition)
        }
        harness.publish("a", to: "news")
        for _ in 0..<20 {
            for (partition, job) in harness.takeAllJobs() {
                harness.answer(job, of: partition, .closed(for: .seconds(300)))
            }
        }
        harness.send(.pushesChanged([ProjectNumber(99): PushServices()]), to: PartitionID(1))
        #expect(harness.takeAllJobs().isEmpty)
        harness.send(.pushesChanged([PartitionHarness.project: PushServices()]), to: PartitionID(1))
        var served = 0
        while served < 12 {
            let jobs = harness.takeAllJobs()
            try #require(!jobs.isEmpty)
            served += jobs.count
            for (partition, job) in jobs { harness.answer(job, of: partition, .done) }
        }
        #expect(harness.partitions[1].pushes.closed.isEmpty)
        #expect(harness.partitions[1].brokenInvariant(isWhole: true) == nil)
    }

    @Test("a fan-out to one service leaves slots to the others, and goes on as its messages are answered")
    func slots() throws {
        let harness = PartitionHarness { $0.pushesAtOnce = 8 }
        for _ in 0..<40 { _ = try PushTests.device(harness) }
        harness.publish("a", to: "news")
        #expect(harness.jobs.count == 4)
        let (late, _) = try #require(harness.register(in: 1))
        let apns = APNsAddress(isSandbox: false, bundleID: "org.a", token: [1]).packed
        _ = harness.change(.subscribe, "late", [late])
        _ = harness.request(
            .setTransport(late, by: .backend, Transport(kind: .apns, address: apns)), of: late.partition)
        harness.publish("b", to: "late")
        #expect(harness.takeJobs() == ["a", "a", "a", "a", "b"])
        var served = 0
        for _ in 0..<200 where served < 36 {
            for number in harness.partitions[1].pushes.sendings.keys.sorted() {
                harness.send(.pushed(PushReport(number: number, .done)), to: late.partition)
            }
            let jobs = harness.takeJobs()
            #expect(jobs.count <= 4 && jobs.allSatisfy { $0 == "a" })
            served += jobs.count
            if jobs.isEmpty { harness.pass(seconds: 1) }
        }
        #expect(served == 36)
    }

    @Test("a service's devices whose bodies are read have slots, and leave the others as many")
    func readingSlots() throws {
        let harness = PartitionHarness { $0.pushesAtOnce = 8 }
        for _ in 0..<20 { _ = try PushTests.device(harness) }
        let (late, _) = try #require(harness.register(in: 1))
        _ = harness.change(.subscribe, "late", [late])
        let token = Transport(kind: .fcm, address: FCMAddress(token: "token").packed)
        _ = harness.request(.setTransport(late, by: .backend, token), of: late.partition)
        for number in 0..<20 { harness.publish("\(number)", to: "news") }
        harness.publish("b", to: "late")
        _ = harness.takeJobs()
        harness.holdsReads = true
        try harness.succeedFromSnapshot(1)
        var table = harness.partitions[1].pushes
        #expect(table.underWay == 5 && table.slots.byOrigin.values.sorted() == [1, 4])
        harness.releaseReads()
        table = harness.partitions[1].pushes
        #expect(harness.takeJobs().sorted() == ["0", "0", "0", "0", "b"])
        #expect(table.slots.byOrigin.values.sorted() == [1, 4])
        #expect(harness.partitions[1].brokenInvariant(isWhole: true) == nil)
    }

    @Test("three services of one project take turns at the slots that the project has")
    func turns() throws {
        let harness = PartitionHarness { $0.pushesAtOnce = 8 }
        for number in 0..<90 {
            let (device, _) = try #require(harness.register(in: 1))
            _ = harness.change(.subscribe, "news", [device])
            let app = APNsAddress(isSandbox: false, bundleID: "org.app\(number % 3)", token: [1]).packed
            let transport = Transport(kind: .apns, address: app)
            _ = harness.request(.setTransport(device, by: .backend, transport), of: device.partition)
        }
        harness.publish("a", to: "news")
        var served: [PushOrigin: Int] = [:]
        for round in 0..<400 where served.values.reduce(0, +) < 90 {
            let table = harness.partitions[1].pushes
            #expect(table.sendings.count <= 6 && table.slots.byOrigin.values.allSatisfy { $0 <= 4 })
            guard let number = table.sendings.keys.min(), let sending = table.sendings[number] else {
                harness.pass(seconds: 1)
                continue
            }
            served[sending.origin, default: 0] += 1
            harness.send(.pushed(PushReport(number: number, .done)), to: PartitionID(1))
            guard round == 60 else { continue }
            #expect(served.count == 3 && served.values.allSatisfy { $0 >= 12 }, "\(served)")
        }
        #expect(served.values.allSatisfy { $0 == 30 } && served.count == 3)
    }

    @Test("devices that a service refuses alone do not stand before those whose message was not tried")
    func refusedAlone() throws {
        let harness = PartitionHarness { $0.pushesAtOnce = 8 }
        for _ in 0..<8 { _ = try PushTests.device(harness) }
        harness.publish("a", to: "news")
        var refused: Set<DeviceIndex> = []
        for (partition, job) in harness.takeAllJobs() {
            refused.insert(job.device)
            harness.answer(job, of: partition, .later(after: .seconds(60), isFailure: true))
        }
        for (partition, job) in harness.takeAllJobs() {
            harness.answer(job, of: partition, .closed(for: .seconds(90)))
        }
        #expect(harness.takeAllJobs().isEmpty)
        harness.pass(seconds: 61)
        harness.pass(seconds: 40)
        #expect(harness.jobs.count == 1)
        for _ in 0..<4 {
            for (partition, job) in harness.takeAllJobs() {
                #expect(!refused.contains(job.device))
                harness.answer(job, of: partition, .closed(for: .seconds(10)))
            }
            harness.pass(seconds: 11)
        }
    }
}
