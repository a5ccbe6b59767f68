import Bytes
import Model

// A gateway's requests and a partition's replies as they cross a network.

extension Request {
    public func encode(into out: inout ByteWriter) {
        switch self {
        case .register(let project, let limit, let nonce, let secret):
            out.u8(1)
            out.varint(UInt64(project.rawValue))
            out.varint(limit)
            out.u32(nonce)
            out.u64(secret)
        case .change(let kind, let project, let topic, let devices, let authority):
            out.u8(kind == .subscribe ? 2 : 3)
            out.topic(project, topic)
            out.authority(authority)
            out.varint(devices.count)
            for device in devices { out.registration(device) }
        case .subscriptions(let device, let authority):
            out.u8(4)
            out.registration(device)
            out.authority(authority)
        case .unregister(let device, let authority):
            out.u8(5)
            out.registration(device)
            out.authority(authority)
        case .acknowledge(let device, let authority, let event):
            out.u8(6)
            out.registration(device)
            out.authority(authority)
            out.eventID(event)
        case .check(let device, let authority):
            out.u8(7)
            out.registration(device)
            out.authority(authority)
        default: encodeRest(into: &out)
        }
    }

    private func encodeRest(into out: inout ByteWriter) {
        switch self {
        case .sendToTopic(let key, let project, let topic, let message, let fanoutsMax):
            out.u8(message.times.areSame ? 8 : 17)
            out.requestKey(key)
            out.topic(project, topic)
            out.envelope(message)
            out.varint(fanoutsMax)
        case .sendToCondition(let key, let project, let condition, let message, let fanoutsMax):
            out.u8(message.times.areSame ? 9 : 18)
            out.requestKey(key)
            out.varint(UInt64(project.rawValue))
            out.condition(condition)
            out.envelope(message)
            out.varint(fanoutsMax)
        case .sendToDevice(let key, let device, let message):
            let isShared = SharedKey.share(of: message.collapseKey) != nil
            out.u8(message.times.areSame ? (isShared ? 22 : 10) : (isShared ? 23 : 19))
            out.requestKey(key)
            out.registration(device)
            out.envelope(message)
        case .members(let project, let topic):
            out.u8(11)
            out.topic(project, topic)
        case .topics(let project, let after, let limit):
            out.u8(12)
            out.varint(UInt64(project.rawValue))
            out.varint(after)
            out.varint(limit)
        case .devices(let project, let after, let limit):
            out.u8(13)
            out.varint(UInt64(project.rawValue))
            out.varint(after)
            out.varint(limit)
        case .setTransport(let device, let authority, let transport):
            out.u8(14)
            out.registration(device)
            out.authority(authority)
            out.transport(transport)
        case .endTransport(let device, let authority, let kind):
            out.u8(15)
            out.registration(device)
            out.authority(authority)
            out.u8(kind.rawValue)
        case .device(let device, let authority):
            out.u8(16)
            out.registration(device)
            out.authority(authority)
        case .pushes(let project, let message):
            out.u8(20)
            out.varint(UInt64(project.rawValue))
            out.u64(message.time)
            out.u64(message.random)
        case .subscription(let device, let topic, let authority):
            out.u8(21)
            out.registration(device)
            out.string(topic.utf8)
            out.authority(authority)
        default: preconditionFailure("every request is encoded in one of the two functions")
        }
    }

    public static func decode(from reader: inout ByteReader) throws(DecodeError) -> Request {
        let tag = try reader.u8()
        switch tag {
        case 1:
            return .register(
                project: try reader.project(), limit: try reader.int(), nonce: try reader.u32(),
                secret: try reader.u64())
        case 2, 3:
            let (project, topic) = try reader.topic()
            let authority = try reader.authority()
            var devices: [Registration] = []
            for _ in 0..<(try reader.count(max: WireLimits.countMax, elementBytesMin: 9)) {
                devices.append(try reader.registration())
            }
            return .change(
                tag == 2 ? .subscribe : .unsubscribe, project: project, topic: topic, devices: devices,
                by: authority)
        case 4: return .subscriptions(of: try reader.registration(), by: try reader.authority())
        case 5: return .unregister(try reader.registration(), by: try reader.authority())
        case 6:
            let device = try reader.registration()
            let authority = try reader.authority()
            guard let event = try reader.eventID() else { throw reader.fail("nothing to acknowledge") }
            return .acknowledge(device, by: authority, event)
        case 7: return .check(try reader.registration(), by: try reader.authority())
        default: return try decodeRest(tag, from: &reader)
        }
    }

    private static func decodeRest(_ tag: UInt8, from reader: inout ByteReader) throws(DecodeError) -> Request
    {
        switch tag {
        case 8, 17:
            let key = try reader.requestKey()
            let (project, topic) = try reader.topic()
            return .sendToTopic(
                key, project: project, topic, try reader.envelope(withEnds: tag == 17),
                fanoutsMax: try reader.int())
        case 9, 18:
            return .sendToCondition(
                try reader.requestKey(), project: try reader.project(), try reader.condition(),
                try reader.envelope(withEnds: tag == 18), fanoutsMax: try reader.int())
        case 10, 19, 22, 23:
            return .sendToDevice(
                try reader.requestKey(), try reader.registration(),
                try reader.envelope(withEnds: tag == 19 || tag == 23))
        case 11:
            let (project, topic) = try reader.topic()
            return .members(project: project, topic)
        case 12:
            return .topics(
                project: try reader.project(), after: try reader.varint(), limit: try reader.int())
        case 13:
            return .devices(
                project: try reader.project(), after: try reader.varint(), limit: try reader.int())
        case 14:
            return .setTransport(
                try reader.registration(), by: try reader.authority(), try reader.transport())
        case 15:
            return .endTransport(
                try reader.registration(), by: try reader.authority(), try reader.transportKind())
        case 16: return .device(try reader.registration(), by: try reader.authority())
        case 20:
            return .pushes(
                project: try reader.project(),
                of: MessageID(time: try reader.u64(), random: try reader.u64()))
        case 21:
            return .subscription(
                of: try reader.registration(), to: try reader.topicName(), by: try reader.authority())
        default: throw reader.fail("an unknown request \(tag)")
        }
    }
}

extension Reply {
    public func encode(into out: inout ByteWriter) {
        switch self {
        case .accepted(let id):
            out.u8(1)
            out.u64(id.time)
            out.u64(id.random)
        case .changes(let changes):
            out.u8(2)
            out.varint(changes.count)
            for change in changes { out.change(change) }
        case .subscriptions(let list):
            out.u8(3)
            out.subscriptions(list)
        case .reachable(let list, let kinds):
            out.u8(13)
            out.subscriptions(list)
            out.varint(kinds.count)
            for kind in kinds { out.u8(kind.rawValue) }
        case .registered(let index, let nonce, let secret):
            out.u8(4)
            out.varint(UInt64(index.rawValue))
            out.u32(nonce)
            out.u64(secret)
        case .full(let holding):
            out.u8(5)
            out.varint(holding)
        case .done: out.u8(6)
        case .members(let count):
            out.u8(7)
            out.varint(count)
        case .topics(let list, let next):
            out.u8(8)
            out.varint(list.count)
            for item in list {
                out.string(item.name.utf8)
                out.varint(item.members)
            }
            out.next(next)
        case .devices(let list, let next):
            out.u8(9)
            out.varint(list.count)
            for device in list { out.state(device) }
            out.next(next)
        case .device(let device, let transports, let pushes):
            out.u8(pushes.isEmpty ? 12 : 14)
            out.state(device)
            out.varint(transports.count)
            for one in transports { out.stored(one) }
            guard !pushes.isEmpty else { return }
            out.varint(pushes.count)
            for one in pushes { out.history(one) }
        case .pushes(let tallies):
            out.u8(15)
            out.tallies(tallies)
        case .refused(let refusal):
            out.u8(10)
            out.refusal(refusal)
        case .matching(let devices):
            out.u8(11)
            out.devices(devices)
        }
    }

    public static func decode(from reader: inout ByteReader) throws(DecodeError) -> Reply {
        let tag = try reader.u8()
        switch tag {
        case 1: return .accepted(MessageID(time: try reader.u64(), random: try reader.u64()))
        case 2:
            var changes: [DeviceChange] = []
            for _ in 0..<(try reader.count(max: WireLimits.countMax)) { changes.append(try reader.change()) }
            return .changes(changes)
        case 3:
            return .subscriptions(try reader.subscriptions())
        case 13:
            let list = try reader.subscriptions()
            var kinds: [Transport.Kind] = []
            for _ in 0..<(try reader.count(max: Transport.Kind.allCases.count)) {
                kinds.append(try reader.transportKind())
            }
            return .reachable(list, by: kinds)
        case 4:
            return .registered(
                index: DeviceIndex(try reader.deviceIndex()), nonce: try reader.u32(),
                secret: try reader.u64())
        case 5: return .full(holding: try reader.int())
        case 6: return .done
        case 7: return .members(try reader.varint())
        case 8:
            var list: [(name: TopicName, members: UInt64)] = []
            for _ in 0..<(try reader.count(max: WireLimits.countMax, elementBytesMin: 2)) {
                list.append((try reader.topicName(), try reader.varint()))
            }
            return .topics(list, next: try reader.next())
        case 9:
            var list: [DeviceState] = []
            for _ in 0..<(try reader.count(max: WireLimits.countMax, elementBytesMin: 9)) {
                list.append(try reader.state())
            }
            return .devices(list, next: try reader.next())
        case 12, 14:
            let device = try reader.state()
            var transports: [StoredTransport] = []
            for _ in 0..<(try reader.count(max: Transport.Kind.allCases.count, elementBytesMin: 11)) {
                transports.append(try reader.stored())
            }
            var pushes: [PushHistory] = []
            guard tag == 14 else { return .device(device, transports) }
            for _ in 0..<(try reader.count(max: Transport.Kind.allCases.count, elementBytesMin: 4)) {
                pushes.append(try reader.history())
            }
            return .device(device, transports, pushes: pushes)
        case 15: return .pushes(try reader.tallies())
        case 10: return .refused(try reader.refusal())
        case 11: return .matching(try reader.devices())
        default: throw reader.fail("an unknown reply")
        }
    }
}

extension ByteWriter {
    fileprivate mutating func subscriptions(_ list: [(topic: TopicName, since: Day)]) {
        varint(list.count)
        for item in list {
            string(item.topic.utf8)
            u16(item.since.rawValue)
        }
    }

    fileprivate mutating func state(_ device: DeviceState) {
        varint(UInt64(device.index.rawValue))
        u32(device.nonce)
        u16(device.lastSeen.rawValue)
        varint(device.topicCount)
        varint(device.waitingCount)
    }

    fileprivate mutating func next(_ next: UInt64?) {
        u8(next == nil ? 0 : 1)
        if let next { varint(next) }
    }
}

extension ByteReader {
    fileprivate mutating func subscriptions() throws(DecodeError) -> [(topic: TopicName, since: Day)] {
        var list: [(topic: TopicName, since: Day)] = []
        for _ in 0..<(try count(max: WireLimits.countMax, elementBytesMin: 3)) {
            list.append((try topicName(), Day(try u16())))
        }
        return list
    }

    fileprivate mutating func state() throws(DecodeError) -> DeviceState {
        DeviceState(
            index: DeviceIndex(try deviceIndex()), nonce: try u32(), lastSeen: Day(try u16()),
            topicCount: try int(), waitingCount: try int())
    }

    fileprivate mutating func next() throws(DecodeError) -> UInt64? { try flag() ? try varint() : nil }
}
