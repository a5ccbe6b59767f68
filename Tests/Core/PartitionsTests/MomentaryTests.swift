import Model
import Testing

@testable import Partitions

/// Messages with a time to live of 0 at a push service: one attempt, now or never.
@Suite("Now or never at push services")
struct MomentaryTests {
    private static let web = Transport(kind: .web, address: Array("endpoint and keys".utf8))
    private static let times = TimesToLive(stream: 3600, web: 0, apns: 3600, fcm: 3600)

    private static func device(_ harness: PartitionHarness) throws -> (Registration, DeviceMAC) {
        let (device, credential) = try #require(harness.register(in: 1))
        _ = harness.change(.subscribe, "news", [device])
        _ = harness.request(.setTransport(device, by: .backend, web), of: device.partition)
        return (device, credential)
    }

    private static func lawsHold(_ harness: PartitionHarness) {
        _ = harness.partitions[1].brokenInvariant(isWhole: true).map { Issue.record("\($0)") }
    }

    @Test("one attempt is made, and none follows it, whatever the service says")
    func once() throws {
        for result in [PushReport.Result.later(after: .zero, isFailure: true), .gone, .done] {
            let harness = PartitionHarness()
            let (device, _) = try MomentaryTests.device(harness)
            harness.publish("a", to: "news", ttl: 0)
            let (partition, job) = try #require(harness.jobs.first)
            #expect(job.isMomentary && job.expires == harness.now.wall)
            #expect(harness.waitingCount(1, device.index.rawValue) == 0, "nothing is stored")
            harness.answer(job, of: partition, result)
            harness.pass(seconds: 10)
            harness.pass(seconds: 3600)
            try harness.succeed(1)
            #expect(harness.takeJobs() == ["a"])
            MomentaryTests.lawsHold(harness)
        }
    }

    @Test("an attempt waits until the message is durable")
    func durable() throws {
        let harness = PartitionHarness()
        _ = try MomentaryTests.device(harness)
        harness.holdsAppends = true
        harness.publish("a", to: "news", ttl: 0)
        #expect(harness.takeJobs() == [])
        harness.holdsAppends = false
        harness.releaseAppends()
        #expect(harness.takeJobs() == ["a"])
    }

    @Test("a device that listens gets the message on its stream, and no attempt")
    func listening() throws {
        let harness = PartitionHarness()
        let (device, credential) = try MomentaryTests.device(harness)
        harness.listen(device, credential, stream: 1)
        _ = harness.takeEvents()
        harness.publish("a", to: "news", ttl: 0)
        #expect(harness.takeEvents() == ["a"])
        harness.pass(seconds: 10)
        #expect(harness.takeJobs() == [])
    }

    @Test("what the service takes leaves the log, and what it does not take waits for the stream")
    func streamsWait() throws {
        let harness = PartitionHarness()
        let (device, credential) = try MomentaryTests.device(harness)
        for text in ["a", "b"] { harness.publish(text, to: "news", times: MomentaryTests.times) }
        let jobs = harness.takeAllJobs()
        #expect(jobs.map(\.job.isMomentary) == [true, true])
        harness.answer(jobs[0].job, of: jobs[0].partition, .later(after: .nanoseconds(1), isFailure: true))
        harness.answer(jobs[1].job, of: jobs[1].partition, .done)
        harness.settle()
        #expect(harness.takeJobs() == [])
        harness.listen(device, credential, stream: 1)
        #expect(harness.takeEvents() == ["attached", "a"])
    }

    @Test("an address that an attempt finds gone ends, unless the device has told another")
    func gone() throws {
        let harness = PartitionHarness()
        let (device, _) = try MomentaryTests.device(harness)
        harness.publish("a", to: "news", ttl: 0)
        let former = try #require(harness.jobs.last)
        let other = Transport(kind: .web, address: [7])
        _ = harness.request(.setTransport(device, by: .backend, other), of: device.partition)
        harness.answer(former.job, of: former.partition, .gone)
        let stored = { harness.partitions[1].state.transports[device.index.rawValue] }
        #expect(stored()?.map(\.isGone) == [false])
        harness.publish("b", to: "news", ttl: 0)
        let present = try #require(harness.jobs.last)
        harness.answer(present.job, of: present.partition, .gone)
        harness.settle()
        #expect(stored()?.map(\.isGone) == [true])
    }

    @Test("a service gets at most half of the slots, and attempts begin within half a minute or never")
    func slots() throws {
        let harness = PartitionHarness { $0.pushesAtOnce = 4 }
        for _ in 0..<6 { _ = try MomentaryTests.device(harness) }
        harness.publish("now", to: "news", ttl: 0)
        #expect(harness.jobs.count == 2)
        harness.publish("later", to: "news")
        #expect(harness.takeJobs() == ["now", "now", "later", "later"])
        harness.pass(seconds: 31)
        let numbers = harness.partitions[1].pushes.momentary.attempts.keys.sorted()
        for number in numbers {
            harness.send(.pushed(PushReport(number: number, .done)), to: PartitionID(1))
        }
        #expect(harness.takeJobs().filter { $0 == "now" } == [])
        #expect(harness.partitions[1].pushes.momentary.load == MomentaryPushes.Load())
        MomentaryTests.lawsHold(harness)
    }

    @Test("a message that is too old when it comes is not attempted")
    func old() throws {
        for (seconds, jobs) in [(30, []), (29, ["a"])] as [(Int64, [String])] {
            let harness = PartitionHarness()
            _ = try MomentaryTests.device(harness)
            harness.away = [PartitionID(1)]
            harness.publish("a", to: "news", ttl: 0)
            harness.now.monotonic = harness.now.monotonic + .seconds(UInt64(seconds))
            harness.now.wall = WallTime(milliseconds: harness.now.wall.milliseconds + seconds * 1000)
            harness.away = []
            harness.fireTimers()
            #expect(harness.takeJobs() == jobs, "\(seconds)")
        }
    }

    @Test("attempts past their bounds are left out")
    func bounds() throws {
        let harness = PartitionHarness {
            ($0.pushesAtOnce, $0.momentaryMax, $0.momentaryBytesMax) = (2, 5, 6)
        }
        for _ in 0..<6 { _ = try MomentaryTests.device(harness) }
        let load = { harness.partitions[1].pushes.momentary.load }
        harness.publish("long", to: "news", ttl: 0)
        let first = MomentaryPushes.Load(attempts: 4, bytes: 4)
        #expect(load() == first, "a project has three quarters of the room")
        harness.publish("long", to: "news", ttl: 0)
        #expect(load() == first, "there is no room for its bytes")
        harness.publish("b", to: "news", ttl: 0)
        #expect(load() == first, "there is no room for an attempt")
        MomentaryTests.lawsHold(harness)
        var texts: [String] = []
        for round in 0..<8 {
            for (partition, job) in harness.takeAllJobs() {
                texts.append(String(decoding: job.event, as: UTF8.self))
                harness.answer(job, of: partition, .done)
            }
            if round == 0 { harness.publish("b", to: "news", ttl: 0) }
        }
        #expect(texts == ["long", "long", "long", "long", "b"])
        #expect(load() == MomentaryPushes.Load())
        MomentaryTests.lawsHold(harness)
    }

    @Test("what the sender has no room for waits its turn, and nothing of it is lost")
    func sentBack() throws {
        let harness = PartitionHarness { $0.pushesAtOnce = 4 }
        for _ in 0..<6 { _ = try MomentaryTests.device(harness) }
        harness.publish("now", to: "news", ttl: 0)
        for (partition, job) in harness.takeAllJobs() {
            harness.answer(job, of: partition, .closed(for: .milliseconds(500)))
        }
        #expect(harness.takeJobs() == [], "the sender asked for half a second")
        MomentaryTests.lawsHold(harness)
        harness.pass(seconds: 1)
        var devices: [DeviceIndex] = []
        for _ in 0..<6 {
            for (partition, job) in harness.takeAllJobs() {
                devices.append(job.device)
                harness.answer(job, of: partition, .done)
            }
        }
        #expect(devices.count == 6 && Set(devices.map(\.rawValue)).count == 6, "each device once: \(devices)")
        MomentaryTests.lawsHold(harness)
    }

    @Test("a project's slow service holds up no other project, and messages that wait hold up no attempt")
    func otherProjects() throws {
        let harness = PartitionHarness { $0.pushesAtOnce = 4 }
        let projects = [ProjectNumber(1), ProjectNumber(2)]
        for project in projects {
            for _ in 0..<4 {
                let (device, _) = try #require(harness.register(in: 1, project: project))
                let told = Request.setTransport(device, by: .backend, MomentaryTests.web)
                _ = harness.request(told, of: PartitionID(1))
                _ = harness.change(.subscribe, "news", [device])
            }
            harness.publish("kept", to: "news", project: project)
        }
        #expect(harness.takeJobs() == ["kept", "kept", "kept", "kept"])
        harness.publish("slow", to: "news", ttl: 0, project: projects[0])
        harness.publish("now", to: "news", ttl: 0, project: projects[1])
        #expect(harness.takeJobs() == ["slow", "slow", "now", "now"])
        MomentaryTests.lawsHold(harness)
    }

    @Test("a message whose time on streams is over when it comes is still attempted")
    func lateOnStreams() throws {
        let harness = PartitionHarness()
        let (device, _) = try MomentaryTests.device(harness)
        var message = harness.envelope("a", times: TimesToLive(stream: 1, web: 0, apns: 0, fcm: 0))
        message.sent = WallTime(milliseconds: harness.now.wall.milliseconds - 1100)
        _ = harness.request(.sendToDevice(nil, device, message), of: device.partition)
        #expect(harness.takeJobs() == ["a"])
    }

    @Test("a service that is left alone gets no further attempt")
    func closedService() throws {
        let harness = PartitionHarness()
        _ = try MomentaryTests.device(harness)
        harness.publish("now", to: "news", ttl: 0)
        let (partition, job) = try #require(harness.jobs.last)
        harness.answer(job, of: partition, .closed(for: .seconds(60)))
        _ = harness.takeJobs()
        harness.pass(seconds: 10)
        harness.pass(seconds: 51)
        #expect(harness.takeJobs() == [])
        #expect(harness.partitions[1].pushes.momentary.load == MomentaryPushes.Load())
        MomentaryTests.lawsHold(harness)
    }
}
