import Bytes
import Model
import Partitions
import Routing

/// Acknowledgements of outboxes and answers about conditions that come late, twice, or from a process that
/// does not own the partition in whose name it speaks. Such a process also invents entries of outboxes
/// (rule: owners-acknowledge).
struct StrangeAnswers {
    private struct Recorded {
        var event: PartitionEvent
        var to: PartitionID
        var by: ProcessID
    }
    /// True answers that were sent, the oldest replaced first.
    private var recorded: [Recorded] = []
    private var recordedCount = 0
    private static let recordedMax = 256
    /// No process of a run has an id as high.
    private static let firstStranger: UInt32 = 0xF0_0000

    /// A frame leaves a process. Something strange may follow.
    mutating func follow(_ bytes: [UInt8], from process: SimulatedProcess, _ world: ClusterSimulation) {
        guard world.options.strangeAnswersPerMille > 0 else { return }
        var reader = ByteReader(bytes)
        var (offers, invented): ([Recorded], Recorded?) = ([], nil)
        while !reader.isAtEnd, let message = try? PeerMessage.decode(from: &reader) {
            guard case .partition(let id, let event) = message else { continue }
            switch event {
            case .acknowledged, .told: remember(Recorded(event: event, to: id, by: process.processID))
            case .offered(let frame):
                guard let all = frame.acknowledgement(by: id) else { continue }
                offers.append(Recorded(event: .acknowledged(all), to: frame.from, by: process.processID))
                invented = Recorded(event: .offered(invent(after: frame)), to: id, by: process.processID)
            default: continue
            }
        }
        guard world.chance(world.options.strangeAnswersPerMille) else { return }
        let draw = world.roll(4)
        if let offer = offers.last, draw < 2 {
            send(offer, by: stranger(world), world)
        } else if let invented, draw == 2 {
            send(invented, by: stranger(world), world)
        } else if !recorded.isEmpty {
            let old = recorded[Int(world.roll(UInt64(recorded.count)))]
            send(old, by: world.roll(2) == 0 ? old.by : stranger(world), world)
        }
    }

    /// An entry that the sender never made, in the place of those that it offers.
    private func invent(after frame: OutboxFrame) -> OutboxFrame {
        var (invented, entry) = (frame, frame.entries[frame.entries.count - 1])
        entry.predecessor = frame.entries[0].predecessor
        entry.number = Sequence(entry.number.rawValue + 1000)
        invented.entries = [entry]
        return invented
    }

    private mutating func remember(_ answer: Recorded) {
        if recorded.count < StrangeAnswers.recordedMax {
            recorded.append(answer)
        } else {
            recorded[recordedCount % StrangeAnswers.recordedMax] = answer
        }
        recordedCount += 1
    }

    /// A process that never owns a partition: a gateway of the cluster, or one of no cluster.
    private func stranger(_ world: ClusterSimulation) -> ProcessID {
        let gateways = world.slots.filter { !$0.isShard }.compactMap(\.process).filter(\.isRunning)
        if !gateways.isEmpty, world.roll(2) == 0 {
            return gateways[Int(world.roll(UInt64(gateways.count)))].processID
        }
        return ProcessID(StrangeAnswers.firstStranger + UInt32(world.roll(1000)))
    }

    /// Hands the answer to the process that serves its partition now.
    private func send(_ answer: Recorded, by processID: ProcessID, _ world: ClusterSimulation) {
        let target = world.slots.compactMap(\.process).first { $0.isRunning && $0.serves(answer.to) }
        guard let target else { return }
        var writer = ByteWriter()
        PeerMessage.partition(answer.to, answer.event).encode(into: &writer)
        world.count("strange answers")
        world.after(world.roll(.seconds(2)), .arrived, process: target) {
            target.received(writer.bytes, from: processID, after: target.monotonic)
        }
    }
}
