import Model
import Testing

@testable import NodeCore
@testable import Partitions

/// Messages of now or never from the partitions of a loop, through the loop's limiter.
@Suite("A fan-out of now or never")
struct MomentaryFanoutTests {
    private static let origin = PushOrigin(ProjectNumber(1), Transport(kind: .web, address: [1]))
    private static let slots = 8

    /// Partitions' attempts, and the limiter that they share.
    private final class World {
        var partitions: [MomentaryPushes]
        var limiter: PushLimiter
        var now = MonotonicTime(.seconds(100))
        var sent: [UInt64] = []
        var accepted: Set<String> = []
        private var lastNumber: UInt64 = 0

        init(partitions count: Int, devices: UInt32, _ bounds: PushBounds) {
            partitions = Array(repeating: MomentaryPushes(), count: count)
            limiter = PushLimiter(bounds, random: SeededGenerator(seed: 1))
            let message = MomentaryPushes.Message(
                position: Position(1), record: Sequence(1), event: [1], sent: WallTime(milliseconds: 0),
                kinds: .all, kept: DeviceSet(), until: now.advanced(by: .seconds(30)))
            for index in partitions.indices {
                partitions[index].add(
                    message, of: ProjectNumber(1), for: [(MomentaryFanoutTests.origin, Array(0..<devices))],
                    most: .init(attempts: 1 << 16, bytes: 1 << 16))
            }
        }

        /// Each partition begins what it may, and then the service takes what was on its way.
        func step() {
            for index in partitions.indices { begin(index) }
            now = now.advanced(by: .milliseconds(50))
            let taken = sent
            sent = []
            for number in taken {
                var effects: [PushLimiter.Effect] = []
                limiter.answered(number, .accepted, now: now, into: &effects)
                carryOut(effects)
            }
        }

        private func begin(_ index: Int) {
            partitions[index].wake(now)
            while let next = partitions[index].next(of: MomentaryFanoutTests.slots, now) {
                lastNumber += 1
                let sending = PushTable.Sending(
                    index: next.index, position: Position(1), origin: next.origin, generation: 1)
                partitions[index].begin(next, sending, number: lastNumber)
                let job = PushJob(
                    number: lastNumber, project: ProjectNumber(1), device: DeviceIndex(next.index),
                    transport: Transport(kind: .web, address: [1]), registered: WallTime(milliseconds: 0),
                    generation: 1, event: [1], expires: WallTime(milliseconds: 0), tries: 0)
                var effects: [PushLimiter.Effect] = []
                limiter.submit(job, of: PartitionID(UInt16(index)), now: now, into: &effects)
                carryOut(effects)
            }
        }

        private func carryOut(_ effects: [PushLimiter.Effect]) {
            for effect in effects {
                switch effect {
                case .send(let request): sent.append(request.number)
                case .report(let partition, let report): hear(report, Int(partition.rawValue))
                case .noted, .keyRefused, .doubted: break
                }
            }
        }

        private func hear(_ report: PushReport, _ index: Int) {
            guard let attempt = partitions[index].ended(report.number) else { return }
            if let wait = report.untriedFor {
                partitions[index].giveBack(attempt, until: now.advanced(by: wait))
            } else {
                partitions[index].wasMade(attempt)
                let isNew = accepted.insert("\(index) \(attempt.sending.index)").inserted
                if !isNew { Issue.record("a device of \(index) got the message twice") }
            }
            let most = MomentaryPushes.Load(attempts: 1 << 16, bytes: 1 << 16)
            if let broken = partitions[index].brokenInvariant(most: most) { Issue.record("\(broken)") }
        }
    }

    @Test("reaches each device of a service that is well, however little room there is", arguments: 1...6)
    func whole(partitions: Int) {
        var bounds = PushBounds()
        (bounds.atOnce, bounds.waitingMax) = (4, 2)
        let world = World(partitions: partitions, devices: 20, bounds)
        for _ in 0..<590 { world.step() }
        #expect(world.accepted.count == partitions * 20)
    }
}
