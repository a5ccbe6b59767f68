import Model

@testable import Partitions

// Devices that listen, and push services that answer.

extension PartitionHarness {
    func listen(
        _ registration: Registration, _ credential: DeviceMAC, stream: UInt64, resume: EventID? = nil
    ) {
        send(
            .stream(
                .attach(
                    StreamID(gateway: PartitionHarness.gateway, number: stream), registration,
                    by: .device(credential),
                    resume: resume)), to: registration.partition)
    }

    /// Returns the events that streams got, in order, and takes the frames off.
    func takeEvents() -> [String] {
        defer { frames = [] }
        var texts: [String] = []
        for frame in frames {
            switch frame {
            case .events(_, _, _, _, let deleted, let events):
                if deleted != nil { texts.append("deleted") }
                texts += events.map { String(decoding: $0.event, as: UTF8.self) }
            case .push(let push):
                for item in push.items {
                    item.targets.forEach { index in
                        if item.deleted.contains(index) { texts.append("deleted") }
                        texts.append(String(decoding: item.event, as: UTF8.self))
                    }
                }
            case .cutOff: break
            case .attached: texts.append("attached")
            case .replaced: texts.append("replaced")
            case .ended: texts.append("ended")
            case .refused: texts.append("refused")
            }
        }
        return texts
    }

    /// Lets the streams of the partition read the log, as a loop whose links have room.
    func readOn(_ partition: Partition, now: Instant, into effects: inout [PartitionEffect]) {
        guard !holdsStreams else { return }
        while partition.hasWaitingStreams {
            for gateway in partition.gatewaysInTurn() {
                _ = partition.readOn(at: gateway, bytes: .max, now: now, into: &effects)
            }
        }
    }

    /// Lets the streams of the first partition that wait for their turn read the log. Returns the bytes.
    func readOn(bytes: Int) -> Int {
        var effects: [PartitionEffect] = []
        var sent = 0
        for gateway in partitions[0].gatewaysInTurn() {
            sent += partitions[0].readOn(at: gateway, bytes: bytes, now: now, into: &effects)
        }
        partitions[0].flush(now: now, into: &effects)
        carryOut(effects, of: PartitionID(0))
        return sent
    }

    func answer(
        _ job: PushJob, of partition: PartitionID, _ result: PushReport.Result, outcome: PushOutcome? = nil
    ) {
        send(.pushed(PushReport(number: job.number, result, outcome: outcome)), to: partition)
    }
}
