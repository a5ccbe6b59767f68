import Bytes
import Model
import Partitions
import Routing

/// Acknowledgements of outboxes and answers about conditions that come late, twice, or from a process that
/// does not own the partition in whose name it speaks. Such a process also invents entries of outboxes
/// (rule: owners-acknowledge).
struct StrangeAnswers {
    private struct Heard {
        var event: PartitionEvent
        var to: PartitionID
        var by: ProcessID
    }
    /// True answers that were sent, the oldest replaced first.
    private var heard: [Heard] = []
    private var heardCount = 0
    private static let heardMax = 256
    /// No process of a run has an id as high.
    private static let firstStranger: UInt32 = 0xF0_0000

    /// A frame leaves a process. Something strange may follow.
    mutating func follow(_ bytes: [UInt8], from process: SimulatedProcess, _ world: ClusterSimulation) {
        guard world.options.strangeAnswersPerMille > 0 else { return }
        var reader = ByteReader(bytes)
        var (offers, invented): ([Heard], Heard?) = ([], nil)
        while !reader.isAtEnd, let message = try? PeerMessage.decode(from: &reader) {
            guard case .partition(let id, let event) = message else { continue }
            switch event {
            case .acknowledged, .told: remember(Heard(event: event, to: id, by: process.processID))
            case .offered(let frame):
                guard let all = frame.acknowledgement(by: id) else { continue }
                offers.append(Heard(event: .acknowledged(all), to: frame.from, by: process.processID))
                invented = Heard(event: .offered(invent(after: frame)), to: id, by: process.processID)
            default: continue
            }
        }
        guard world.chance(world.options.strangeAnswersPerMille) else { return }
        let draw = world.roll(4)
        if let offer = offers.last, draw < 2 {
            send(offer, by: stranger(world), world)
        } else if let invented, draw == 2 {
            send(invented, by: stranger(world), world)
        } else if !heard.isEmpty {
            let old = heard[Int(world.roll(UInt64(heard.count)))]
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

    private mutating func remember(_ answer: Heard) {
        if heard.count < StrangeAnswers.heardMax {
            heard.append(answer)
        } else {
            heard[heardCount % StrangeAnswers.heardMax] = answer
        }
        heardCount += 1
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
    private func send(_ answer: Heard, by processID: ProcessID, _ world: ClusterSimulation) {
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
