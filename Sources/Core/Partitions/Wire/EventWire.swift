import Bytes
import Model

// Events for a partition from other nodes, and its frames to gateways, as they cross a network.

extension PartitionEvent {
    /// Whether the event may come from another node; the other events are the shell's own. A request travels
    /// with its deadline, as a separate message (`PeerMessage.request`).
    public var mayTravel: Bool {
        switch self {
        case .request, .offered, .acknowledged, .asked, .told, .stream: true
        case .appended, .postponed, .crowded, .confirmed, .records, .snapshotPart, .snapshotFailed, .pushed,
            .pushesChanged, .keyRefused, .woke:
            false
        }
    }

    /// The partition in whose owner's name the event speaks: entries of an outbox or their acknowledgement, a
    /// question about a condition or its answer. `nil` for other events.
    public var speaker: PartitionID? {
        switch self {
        case .offered(let frame): frame.from
        case .acknowledged(let said): said.from
        case .asked(let question): question.asker
        case .told(let answer): answer.partition
        default: nil
        }
    }

    /// Must be called only for events that may travel, and never for requests.
    public func encode(into out: inout ByteWriter) {
        switch self {
        case .offered(let frame):
            out.u8(1)
            out.frame(frame)
        case .acknowledged(let said):
            out.u8(2)
            out.varint(UInt64(said.from.rawValue))
            out.u64(said.history.rawValue)
            out.varint(said.generation)
            out.varint(said.mark.rawValue)
            out.u64(said.fingerprint)
        case .asked(let question):
            out.u8(3)
            out.varint(UInt64(question.asker.rawValue))
            out.ticket(question.ticket)
            out.varint(UInt64(question.project.rawValue))
            out.condition(question.condition)
        case .told(let answer):
            out.u8(4)
            out.ticket(answer.ticket)
            out.varint(UInt64(answer.partition.rawValue))
            out.devices(answer.devices)
        case .stream(let command):
            out.u8(5)
            command.encode(into: &out)
        case .request, .appended, .postponed, .crowded, .confirmed, .records, .snapshotPart, .snapshotFailed,
            .pushed, .pushesChanged, .keyRefused, .woke:
            preconditionFailure("a request, or an event that concerns one node alone")
        }
    }

    public static func decode(from reader: inout ByteReader) throws(DecodeError) -> PartitionEvent {
        let kind = try reader.u8()
        switch kind {
        case 1: return .offered(try reader.frame())
        case 2:
            return .acknowledged(
                OutboxAcknowledgement(
                    from: try reader.partition(), history: History(try reader.u64()),
                    generation: try reader.varint(), mark: try reader.sequence(),
                    fingerprint: try reader.u64()))
        case 3:
            return .asked(
                ConditionQuestion(
                    asker: try reader.partition(), ticket: try reader.ticket(),
                    project: try reader.project(), condition: try reader.condition()))
        case 4:
            return .told(
                ConditionAnswer(
                    ticket: try reader.ticket(), partition: try reader.partition(),
                    devices: try reader.devices()))
        case 5: return .stream(try StreamCommand.decode(from: &reader))
        default: throw reader.fail("an unknown event")
        }
    }
}

extension ByteWriter {
    fileprivate mutating func frame(_ frame: OutboxFrame) {
        varint(UInt64(frame.from.rawValue))
        u64(frame.history.rawValue)
        varint(frame.generation)
        varint(frame.cuts.count)
        for cut in frame.cuts {
            varint(cut.generation)
            varint(cut.kept.rawValue)
        }
        varint(frame.floor.rawValue)
        u8(frame.denied == nil ? 0 : 1)
        if let denied = frame.denied {
            u64(denied.history.rawValue)
            varint(denied.generation)
            varint(denied.number.rawValue)
        }
        u64(UInt64(bitPattern: frame.clock.milliseconds))
        varint(frame.entries.count)
        for entry in frame.entries { self.entry(entry) }
    }
}

extension ByteReader {
    fileprivate mutating func frame() throws(DecodeError) -> OutboxFrame {
        var frame = OutboxFrame(
            from: try partition(), history: History(try u64()), generation: try varint(),
            clock: WallTime(milliseconds: 0), entries: [])
        for _ in 0..<(try count(max: PartitionState.FormerGeneration.countMax)) {
            let generation = try varint()
            frame.cuts.append(.init(generation: generation, kept: Sequence(try varint())))
        }
        frame.floor = try sequence()
        if try flag() {
            frame.denied = ToldMark(
                history: History(try u64()), generation: try varint(), number: try sequence())
        }
        frame.clock = try wallTime()
        for _ in 0..<(try count(max: WireLimits.countMax, elementBytesMin: 11)) {
            frame.entries.append(try entry())
        }
        return frame
    }
}

extension StreamCommand {
    /// The gateway loop that the stream is of.
    public var gateway: GatewayID {
        switch self {
        case .attach(let stream, _, _, _), .detach(let stream, _), .fellBehind(let stream, _, _),
            .caughtUp(let stream, _):
            stream.gateway
        case .processed(let gateway, _): gateway
        }
    }
}

extension StreamCommand {
    func encode(into out: inout ByteWriter) {
        switch self {
        case .attach(let id, let device, let authority, let resume):
            out.u8(1)
            out.streamID(id)
            out.registration(device)
            out.authority(authority)
            out.eventID(resume)
        case .detach(let id, let device):
            out.u8(2)
            out.streamID(id)
            out.varint(UInt64(device.rawValue))
        case .fellBehind(let id, let device, let written):
            out.u8(3)
            out.streamID(id)
            out.varint(UInt64(device.rawValue))
            out.position(written)
        case .caughtUp(let id, let device):
            out.u8(4)
            out.streamID(id)
            out.varint(UInt64(device.rawValue))
        case .processed(let gateway, let frame):
            out.u8(5)
            out.u32(gateway.rawValue)
            out.varint(frame)
        }
    }

    static func decode(from reader: inout ByteReader) throws(DecodeError) -> StreamCommand {
        switch try reader.u8() {
        case 1:
            return .attach(
                try reader.streamID(), try reader.registration(), by: try reader.authority(),
                resume: try reader.eventID())
        case 2: return .detach(try reader.streamID(), DeviceIndex(try reader.deviceIndex()))
        case 3:
            return .fellBehind(
                try reader.streamID(), DeviceIndex(try reader.deviceIndex()), written: try reader.position())
        case 4: return .caughtUp(try reader.streamID(), DeviceIndex(try reader.deviceIndex()))
        case 5: return .processed(GatewayID(try reader.u32()), frame: try reader.varint())
        default: throw reader.fail("an unknown word about a stream")
        }
    }
}

extension StreamFrame {
    public func encode(into out: inout ByteWriter) {
        switch self {
        case .attached(let id, let device, let epoch, let from):
            out.about(1, id, of: device)
            out.varint(epoch.rawValue)
            out.position(from)
        case .replaced(let id, let device): out.about(2, id, of: device)
        case .ended(let id, let device): out.about(3, id, of: device)
        case .refused(let id, let refusal):
            out.u8(4)
            out.streamID(id)
            out.refusal(refusal)
        case .events(let id, let device, let epoch, let after, let deleted, let events):
            out.about(5, id, of: device)
            out.varint(epoch.rawValue)
            out.position(after)
            out.position(deleted)
            out.varint(events.count)
            for event in events {
                out.position(event.position)
                out.string(event.event)
            }
        case .cutOff(let cut):
            out.u8(7)
            out.varint(cut.epoch.rawValue)
            out.varint(cut.number)
            out.position(cut.position)
            out.devices(cut.devices)
        case .push(let push):
            out.u8(6)
            out.varint(push.epoch.rawValue)
            out.varint(push.number)
            out.varint(push.items.count)
            for item in push.items {
                out.position(item.position)
                out.string(item.event)
                out.devices(item.targets)
                out.devices(item.deleted)
            }
        }
    }

    public static func decode(from reader: inout ByteReader) throws(DecodeError) -> StreamFrame {
        switch try reader.u8() {
        case 1:
            return .attached(
                try reader.streamID(), DeviceIndex(try reader.deviceIndex()), Epoch(try reader.varint()),
                from: try reader.position())
        case 2: return .replaced(try reader.streamID(), DeviceIndex(try reader.deviceIndex()))
        case 3: return .ended(try reader.streamID(), DeviceIndex(try reader.deviceIndex()))
        case 4: return .refused(try reader.streamID(), try reader.refusal())
        case 5:
            let id = try reader.streamID()
            let device = DeviceIndex(try reader.deviceIndex())
            let epoch = Epoch(try reader.varint())
            let after = try reader.position()
            let deleted = try reader.optionalPosition()
            var events: [Event] = []
            for _ in 0..<(try reader.count(max: WireLimits.countMax, elementBytesMin: 2)) {
                events.append(
                    Event(
                        position: try reader.position(),
                        event: try reader.string(max: WireLimits.eventBytesMax)))
            }
            return .events(id, device, epoch, after: after, deleted: deleted, events)
        case 6:
            let epoch = Epoch(try reader.varint())
            let number = try reader.varint()
            var items: [PushItem] = []
            for _ in 0..<(try reader.count(max: WireLimits.countMax, elementBytesMin: 4)) {
                items.append(
                    PushItem(
                        position: try reader.position(),
                        event: try reader.string(max: WireLimits.eventBytesMax),
                        targets: try reader.devices(), deleted: try reader.devices()))
            }
            return .push(Push(epoch: epoch, number: number, items: items))
        case 7:
            return .cutOff(
                CutOff(
                    epoch: Epoch(try reader.varint()), number: try reader.varint(),
                    position: try reader.position(), devices: try reader.devices()))
        default: throw reader.fail("an unknown frame")
        }
    }
}

extension ByteWriter {
    fileprivate mutating func about(_ tag: UInt8, _ id: StreamID, of device: DeviceIndex) {
        u8(tag)
        streamID(id)
        varint(UInt64(device.rawValue))
    }
}
