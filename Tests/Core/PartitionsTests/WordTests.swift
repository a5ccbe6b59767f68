import Model
import Testing

@testable import Partitions

/// What a partition makes of words that a device is gone (rule: one-word-ends-nothing).
@Suite("The word of a push service that a device is gone")
struct WordTests {
    private static let witness = PushWitness(era: 1, since: .zero)
    private static let doubted = PushReport.Result.doubted(after: .seconds(10), witness)
    private static let day: Int64 = 86_400

    private func services(_ setting: UInt64) -> [ProjectNumber: PushServices] {
        var services = PushServices()
        (services.web, services.fcm) = (true, true)
        services.settings = [.web: setting, .fcm: setting]
        return [PartitionHarness.project: services]
    }

    /// A partition that knows its project's services, with a device for which a message is at the sender.
    private func world(
        _ change: (inout PartitionOptions) -> Void = { _ in }
    ) throws -> (harness: PartitionHarness, device: Registration, credential: DeviceMAC) {
        let harness = PartitionHarness(change)
        harness.pushServices = services(1)
        let (device, credential) = try PushTests.device(harness)
        harness.publish("a", to: "news")
        return (harness, device, credential)
    }

    private func set(_ harness: PartitionHarness, _ setting: UInt64) {
        harness.send(.pushesChanged(services(setting)), to: PartitionID(1))
    }

    private func stored(_ harness: PartitionHarness, _ device: Registration) -> StoredTransport? {
        harness.partitions[1].state.transports[device.index.rawValue]?.first
    }

    private func isUnregistered(_ harness: PartitionHarness, _ device: Registration) -> Bool {
        let reply = harness.request(
            .sendToDevice(nil, device, harness.envelope("s")), of: device.partition)
        if case .refused(.unregistered) = reply { return true } else { return false }
    }

    private func check(_ harness: PartitionHarness) {
        if let broken = harness.partitions[1].brokenInvariant(isWhole: true) { Issue.record("\(broken)") }
    }

    @Test("holds the message where nothing confirms it, and the next try shows its witness")
    func held() throws {
        let (harness, device, _) = try world()
        try PushTests.answer(harness, WordTests.doubted)
        #expect(stored(harness, device)?.mark?.state == .doubted)
        #expect(!isUnregistered(harness, device))
        harness.pass(seconds: 1)
        #expect(harness.takeJobs() == ["a"])
        harness.pass(seconds: 10)
        let (_, job) = try #require(harness.jobs.last)
        #expect(job.witness == WordTests.witness && job.tries == 1)
        harness.answer(job, of: device.partition, .done, outcome: .accepted)
        #expect(stored(harness, device)?.mark == nil)
        harness.settle()
        #expect(harness.jobs.last?.job.witness == nil)
        check(harness)
    }

    @Test("that is confirmed ends the device's address, which keeps its bytes")
    func confirmed() throws {
        let (harness, device, _) = try world()
        try PushTests.answer(harness, WordTests.doubted)
        harness.pass(seconds: 11)
        try PushTests.answer(harness, .gone)
        let known = try #require(stored(harness, device))
        #expect(known.isGone && known.transport == PushTests.web)
        #expect(isUnregistered(harness, device))
        check(harness)
    }

    @Test("counts no more when the device tells the same address, and when a message is taken after all")
    func broughtBack() throws {
        let (harness, device, _) = try world()
        try PushTests.answer(harness, .gone)
        #expect(isUnregistered(harness, device))
        _ = harness.request(.setTransport(device, by: .backend, PushTests.web), of: device.partition)
        #expect(stored(harness, device)?.mark == nil && !isUnregistered(harness, device))
        harness.settle()
        #expect(harness.jobs.last?.job.generation == stored(harness, device)?.generation)
        check(harness)
    }

    @Test("counts no more under other settings of the service, and under the same ones it does")
    func otherSettings() throws {
        for isByNewOwner in [false, true] {
            let (harness, device, _) = try world()
            try PushTests.answer(harness, .gone)
            set(harness, 1)
            harness.settle()
            #expect(stored(harness, device)?.isGone == true && isUnregistered(harness, device))
            if isByNewOwner {
                try harness.succeed(1)
                harness.pushServices = services(2)
                try harness.succeed(1)
            } else {
                set(harness, 2)
            }
            harness.settle()
            #expect(stored(harness, device)?.mark == nil && !isUnregistered(harness, device))
            #expect(harness.jobs.last?.job.transport == PushTests.web)
            check(harness)
        }
    }

    @Test("stays beside the address in the journal and in snapshots")
    func kept() throws {
        let (harness, device, _) = try world()
        try PushTests.answer(harness, WordTests.doubted)
        let mark = try #require(stored(harness, device)?.mark)
        harness.settle()
        try harness.succeed(1)
        #expect(stored(harness, device)?.mark == mark)
        try harness.succeedFromSnapshot(1)
        #expect(stored(harness, device)?.mark == mark)
        check(harness)
    }

    @Test("is believed a day later under the same settings, though the service has taken nothing")
    func dayLater() throws {
        for setting in [UInt64(1), 2] {
            let (harness, device, _) = try world()
            try PushTests.answer(harness, WordTests.doubted)
            harness.pass(seconds: WordTests.day - 60)
            try PushTests.answer(harness, WordTests.doubted)
            #expect(stored(harness, device)?.isGone == false)
            if setting != 1 { set(harness, setting) }
            harness.settle()
            harness.pass(seconds: 120)
            harness.publish("b", to: "news")
            try PushTests.answer(harness, WordTests.doubted)
            #expect(stored(harness, device)?.isGone == (setting == 1), "setting \(setting)")
            check(harness)
        }
    }

    /// A front that answers 404 to everything may do so for longer than a day.
    @Test("is not believed a day later if the service says so of several devices")
    func severalDaysLater() throws {
        let (harness, device, _) = try world()
        let word = PushReport.Result.doubted(after: .seconds(10), WordTests.witness, isAlone: false)
        try PushTests.answer(harness, word)
        for _ in 0..<3 {
            harness.pass(seconds: WordTests.day)
            harness.publish("b", to: "news")
            try PushTests.answer(harness, word)
        }
        #expect(stored(harness, device)?.mark?.state == .doubted)
        check(harness)
    }

    @Test("is not believed because a clock that leapt makes a day of minutes")
    func leaptClock() throws {
        let (harness, device, _) = try world()
        try PushTests.answer(harness, WordTests.doubted)
        harness.now.wall = WallTime(
            milliseconds: harness.now.wall.milliseconds + 3 * WordTests.day * 1000)
        harness.pass(seconds: 120)
        harness.publish("b", to: "news")
        try PushTests.answer(harness, WordTests.doubted)
        #expect(stored(harness, device)?.mark?.state == .doubted)
        check(harness)
    }

    /// The clock of a process that begins may be days ahead, and is believed for a while.
    @Test("is not believed because the next owner's clock is days ahead, before it has heard so for an hour")
    func nextOwner() throws {
        let (harness, device, _) = try world()
        try PushTests.answer(harness, WordTests.doubted)
        harness.settle()
        harness.now.wall = WallTime(
            milliseconds: harness.now.wall.milliseconds + 3 * WordTests.day * 1000)
        try harness.succeedFromSnapshot(1)
        set(harness, 1)
        for seconds in [Int64(600), 60, 3600] {
            #expect(stored(harness, device)?.mark?.state == .doubted && !isUnregistered(harness, device))
            harness.pass(seconds: seconds)
            harness.publish("b", to: "news")
            try PushTests.answer(harness, WordTests.doubted)
        }
        #expect(stored(harness, device)?.isGone == true)
        check(harness)
    }

    @Test("leaves the address of a device that listens unused, and other settings use it again")
    func listens() throws {
        let (harness, device, credential) = try world()
        harness.listen(device, credential, stream: 1)
        try PushTests.answer(harness, .gone)
        #expect(stored(harness, device)?.mark?.state == .unused && !isUnregistered(harness, device))
        check(harness)
        set(harness, 2)
        #expect(stored(harness, device)?.mark == nil)
        check(harness)
    }

    @Test("leads to another address of the device meanwhile")
    func another() throws {
        let (harness, device, _) = try world()
        let token = Transport(kind: .fcm, address: Array("token".utf8))
        _ = harness.request(.setTransport(device, by: .backend, token), of: device.partition)
        try PushTests.answer(harness, WordTests.doubted)
        harness.settle()
        #expect(harness.jobs.last?.job.transport == token)
        check(harness)
    }

    @Test("is held where too many devices of a project would be gone in a day, and counts the next day")
    func brake() throws {
        for (few, share) in [(2, 10), (1, 2)] {
            let (harness, first, _) = try world { ($0.goneFew, $0.goneShare) = (few, share) }
            var devices = [first]
            for _ in 0..<4 { devices.append(try PushTests.device(harness).device) }
            harness.publish("b", to: "news")
            func end() {
                for (partition, job) in harness.takeAllJobs() { harness.answer(job, of: partition, .gone) }
                harness.settle()
            }
            func gone() -> Int { devices.count { stored(harness, $0)?.isGone == true } }
            end()
            #expect(gone() == 2)
            try harness.succeed(1)
            harness.settle()
            end()
            #expect(gone() == 2)
            harness.pass(seconds: WordTests.day)
            harness.publish("c", to: "news")
            end()
            #expect(gone() == 4)
            check(harness)
        }
    }

    @Test("counts no more for many devices under other settings, some in each step")
    func manyOutdated() throws {
        let count = Partition.outdatedAtOnce + 10
        let (harness, _, _) = try world { $0.goneFew = count }
        for _ in 1..<count { _ = try PushTests.device(harness) }
        harness.publish("b", to: "news")
        while case let jobs = harness.takeAllJobs(), !jobs.isEmpty {
            for (partition, job) in jobs { harness.answer(job, of: partition, .gone) }
        }
        func marked() -> Int { harness.partitions[1].state.transports.marked(.web).count }
        #expect(marked() == count)
        set(harness, 2)
        #expect(marked() == 10)
        harness.settle()
        #expect(marked() == 0)
        check(harness)
    }

    @Test("is the first one again where more devices are doubted than a partition can tell")
    func manyDoubts() throws {
        let (harness, device, _) = try world()
        try PushTests.answer(harness, WordTests.doubted)
        #expect(harness.partitions[1].pushes.doubts.count == 1)
        for index in 0..<UInt32(Partition.doubtsMax) {
            harness.partitions[1].pushes.doubts.update(
                1000 + index,
                default: Doubt(kind: .web, generation: 1, witness: WordTests.witness, since: .zero),
                keysMax: Partition.doubtsMax
            ) { _ in }
        }
        harness.pass(seconds: 11)
        #expect(harness.jobs.last?.job.tries == 1 && harness.jobs.last?.job.witness == nil)
        #expect(stored(harness, device)?.mark?.state == .doubted)
        check(harness)
    }

    @Test("says nothing of another address that the device tells")
    func newAddress() throws {
        let (harness, device, _) = try world()
        try PushTests.answer(harness, WordTests.doubted)
        _ = harness.request(
            .setTransport(device, by: .backend, Transport(kind: .web, address: [9])), of: device.partition)
        harness.settle()
        #expect(stored(harness, device)?.mark == nil && harness.jobs.last?.job.witness == nil)
        check(harness)
    }
}
