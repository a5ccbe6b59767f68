import Model

@testable import Partitions

// Devices that listen.

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
}
