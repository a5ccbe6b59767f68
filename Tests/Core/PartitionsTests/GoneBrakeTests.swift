import Model
import Testing

@testable import Partitions

/// The brake on devices that push services end, for a project and a day (rule: one-word-ends-nothing).
@Suite("The brake on gone addresses")
struct GoneBrakeTests {
    /// One loop that has all partitions of a process.
    private final class Process: GoneBrake {
        var tally = GoneTally()
        func take(_ ask: GoneAsk) -> GoneTally.Verdict { tally.take(ask) }
    }

    private static func ask(
        _ partition: UInt16, project: UInt32 = 1, day: UInt16 = 10, loop: Int = 0, devices: Int = 20,
        few: Int = 3
    ) -> GoneAsk {
        GoneAsk(
            project: ProjectNumber(project), partition: PartitionID(partition), day: Day(day), found: 0,
            loop: loop, devices: devices, few: few, share: 10)
    }

    private func marks(_ tally: inout GoneTally, _ asks: [GoneAsk]) -> Int {
        asks.count { if case .mark = tally.take($0) { true } else { false } }
    }

    @Test("holds for a project, however many partitions its devices are spread over")
    func spread() throws {
        let harness = PartitionHarness(count: 8)
        let process = Process()
        harness.brake = process
        var devices: [Registration] = []
        for number in 0..<20 {
            let (device, _) = try #require(harness.register(in: UInt16(number % 8)))
            _ = harness.change(.subscribe, "news", [device])
            _ = harness.request(.setTransport(device, by: .backend, PushTests.web), of: device.partition)
            devices.append(device)
        }
        func gone() -> Int {
            devices.count {
                let partition = harness.partitions[Int($0.partition.rawValue)]
                return partition.state.transports[$0.index.rawValue]?.first?.isGone == true
            }
        }
        func end(_ text: String) {
            harness.publish(text, to: "news")
            for (partition, job) in harness.takeAllJobs() { harness.answer(job, of: partition, .gone) }
            harness.settle()
        }
        end("a")
        #expect(gone() == 3)
        // A process that begins finds the marks in the journals.
        process.tally = GoneTally()
        for number in 0..<8 {
            try harness.succeed(number)
            let day = harness.now.wall.day
            let partition = harness.partitions[number]
            process.tally.note(partition.goneMarks(on: day), of: partition.id, on: day)
        }
        harness.settle()
        end("b")
        #expect(gone() == 3)
    }

    @Test("permits a tenth of the project's devices on the loops that have asked")
    func tenth() {
        var tally = GoneTally()
        let asks = (0..<60).map {
            GoneBrakeTests.ask(UInt16($0), loop: $0 % 2, devices: $0 % 2 == 0 ? 100 : 150)
        }
        #expect(marks(&tally, asks) == 25)
        #expect(marks(&tally, [GoneBrakeTests.ask(1, project: 2), GoneBrakeTests.ask(1, day: 11)]) == 2)
        #expect(marks(&tally, asks) == 0)
    }

    @Test("counts a day on while the clocks of partitions show different days")
    func days() {
        var tally = GoneTally()
        let asks = (0..<40).map { GoneBrakeTests.ask(UInt16($0), day: $0 % 2 == 0 ? 10 : 11) }
        #expect(marks(&tally, asks) == 6)
    }

    @Test("counts what several owners of a partition find once")
    func found() {
        var tally = GoneTally()
        let found = [ProjectNumber(1): 2]
        for _ in 0..<2 { tally.note(found, of: PartitionID(1), on: Day(10)) }
        #expect(marks(&tally, (0..<5).map { GoneBrakeTests.ask($0) }) == 1)
    }

    @Test("says once a day and project that answers are held")
    func told() {
        var tally = GoneTally()
        let firsts = (0..<9).count {
            if case .hold(isFirst: true) = tally.take(GoneBrakeTests.ask(UInt16($0))) { true } else { false }
        }
        #expect(firsts == 1)
    }
}
