import Bytes
import Model

// A gateway's requests and a partition's replies as they cross a network.

extension Request {
    private enum Tag: UInt8 {
        case register = 1
        case change, subscriptions, subscription, unregister, acknowledge, check, sendToTopic,
            sendToCondition, sendToDevice, members, topics, devices, setTransport, endTransport, device,
            pushes, unregisterUnused
    }

    public func encode(into out: inout ByteWriter) {
        switch self {
        case .register(let project, let limit, let nonce, let secret):
            out.u8(Tag.register.rawValue)
            out.varint(UInt64(project.rawValue))
            out.varint(limit)
            out.u32(nonce)
            out.u64(secret)
        case .change(let kind, let project, let topic, let devices, let authority):
            out.u8(Tag.change.rawValue)
            out.u8(kind == .subscribe ? 1 : 0)
            out.topic(project, topic)
            out.authority(authority)
            out.registrations(devices)
        case .subscriptions(let device, let authority):
            out.u8(Tag.subscriptions.rawValue)
            out.registration(device)
            out.authority(authority)
        case .subscription(let device, let topic, let authority):
            out.u8(Tag.subscription.rawValue)
            out.registration(device)
            out.string(topic.utf8)
            out.authority(authority)
        case .unregister(let device, let authority):
            out.u8(Tag.unregister.rawValue)
            out.registration(device)
            out.authority(authority)
        case .unregisterUnused(let device, let authority):
            out.u8(Tag.unregisterUnused.rawValue)
            out.registration(device)
            out.authority(authority)
        case .acknowledge(let device, let authority, let event):
            out.u8(Tag.acknowledge.rawValue)
            out.registration(device)
            out.authority(authority)
            out.eventID(event)
        case .check(let device, let authority):
            out.u8(Tag.check.rawValue)
            out.registration(device)
            out.authority(authority)
        case .sendToTopic(let key, let project, let topic, let message, let fanoutsMax):
            out.u8(Tag.sendToTopic.rawValue)
            out.requestKey(key)
            out.topic(project, topic)
            out.envelope(message)
            out.varint(fanoutsMax)
        case .sendToCondition(let key, let project, let condition, let message, let fanoutsMax):
            out.u8(Tag.sendToCondition.rawValue)
            out.requestKey(key)
            out.varint(UInt64(project.rawValue))
            out.condition(condition)
            out.envelope(message)
            out.varint(fanoutsMax)
        case .sendToDevice(let key, let device, let message):
            out.u8(Tag.sendToDevice.rawValue)
            out.requestKey(key)
            out.registration(device)
            out.envelope(message)
        case .members(let project, let topic):
            out.u8(Tag.members.rawValue)
            out.topic(project, topic)
        case .topics(let project, let after, let limit):
            out.u8(Tag.topics.rawValue)
            out.varint(UInt64(project.rawValue))
            out.varint(after)
            out.varint(limit)
        case .devices(let project, let after, let limit):
            out.u8(Tag.devices.rawValue)
            out.varint(UInt64(project.rawValue))
            out.varint(after)
            out.varint(limit)
        case .setTransport(let device, let authority, let transport):
            out.u8(Tag.setTransport.rawValue)
            out.registration(device)
            out.authority(authority)
            out.transport(transport)
        case .endTransport(let device, let authority, let kind):
            out.u8(Tag.endTransport.rawValue)
            out.registration(device)
            out.authority(authority)
            out.u8(kind.rawValue)
        case .device(let device, let authority):
            out.u8(Tag.device.rawValue)
            out.registration(device)
            out.authority(authority)
        case .pushes(let project, let message):
            out.u8(Tag.pushes.rawValue)
            out.varint(UInt64(project.rawValue))
            out.u64(message.time)
            out.u64(message.random)
        }
    }

    public static func decode(from reader: inout ByteReader) throws(DecodeError) -> Request {
        let byte = try reader.u8()
        guard let tag = Tag(rawValue: byte) else { throw reader.fail("an unknown request \(byte)") }
        switch tag {
        case .register:
            return .register(
                project: try reader.project(), limit: try reader.int(), nonce: try reader.u32(),
                secret: try reader.u64())
        case .change:
            let kind: ChangeKind = try reader.flag() ? .subscribe : .unsubscribe
            let (project, topic) = try reader.topic()
            let authority = try reader.authority()
            return .change(
                kind, project: project, topic: topic, devices: try reader.registrations(), by: authority)
        case .subscriptions:
            return .subscriptions(of: try reader.registration(), by: try reader.authority())
        case .subscription:
            return .subscription(
                of: try reader.registration(), to: try reader.topicName(), by: try reader.authority())
        case .unregisterUnused:
            return .unregisterUnused(try reader.registration(), by: try reader.authority())
        case .unregister: return .unregister(try reader.registration(), by: try reader.authority())
        case .acknowledge:
            let (device, authority) = (try reader.registration(), try reader.authority())
            guard let event = try reader.eventID() else { throw reader.fail("nothing to acknowledge") }
            return .acknowledge(device, by: authority, event)
        case .check: return .check(try reader.registration(), by: try reader.authority())
        case .sendToTopic:
            let key = try reader.requestKey()
            let (project, topic) = try reader.topic()
            return .sendToTopic(
                key, project: project, topic, try reader.envelope(), fanoutsMax: try reader.int())
        case .sendToCondition:
            return .sendToCondition(
                try reader.requestKey(), project: try reader.project(), try reader.condition(),
                try reader.envelope(), fanoutsMax: try reader.int())
        case .sendToDevice:
            return .sendToDevice(
                try reader.requestKey(), try reader.registration(), try reader.envelope())
        case .members:
            let (project, topic) = try reader.topic()
            return .members(project: project, topic)
        case .topics:
            return .topics(
                project: try reader.project(), after: try reader.varint(), limit: try reader.int())
        case .devices:
            return .devices(
                project: try reader.project(), after: try reader.varint(), limit: try reader.int())
        case .setTransport:
            return .setTransport(
                try reader.registration(), by: try reader.authority(), try reader.transport())
        case .endTransport:
            return .endTransport(
                try reader.registration(), by: try reader.authority(), try reader.transportKind())
        case .device: return .device(try reader.registration(), by: try reader.authority())
        case .pushes:
            return .pushes(
                project: try reader.project(),
                of: MessageID(time: try reader.u64(), random: try reader.u64()))
        }
    }
}

extension Reply {
    private enum Tag: UInt8 {
        case accepted = 1
        case changes, subscriptions, reachable, registered, full, done, members, topics, devices, device,
            pushes, refused, matching
    }

    public func encode(into out: inout ByteWriter) {
        switch self {
        case .accepted(let id):
            out.u8(Tag.accepted.rawValue)
            out.u64(id.time)
            out.u64(id.random)
        case .changes(let changes):
            out.u8(Tag.changes.rawValue)
            out.varint(changes.count)
            for change in changes { out.change(change) }
        case .subscriptions(let list):
            out.u8(Tag.subscriptions.rawValue)
            out.subscriptions(list)
        case .reachable(let list, let kinds):
            out.u8(Tag.reachable.rawValue)
            out.subscriptions(list)
            out.varint(kinds.count)
            for kind in kinds { out.u8(kind.rawValue) }
        case .registered(let index, let nonce, let secret):
            out.u8(Tag.registered.rawValue)
            out.varint(UInt64(index.rawValue))
            out.u32(nonce)
            out.u64(secret)
        case .full(let holding):
            out.u8(Tag.full.rawValue)
            out.varint(holding)
        case .done: out.u8(Tag.done.rawValue)
        case .members(let count):
            out.u8(Tag.members.rawValue)
            out.varint(count)
        case .topics(let list, let next):
            out.u8(Tag.topics.rawValue)
            out.topics(list)
            out.next(next)
        case .devices(let list, let next):
            out.u8(Tag.devices.rawValue)
            out.varint(list.count)
            for device in list { out.state(device) }
            out.next(next)
        case .device(let device, let transports, let pushes):
            out.u8(Tag.device.rawValue)
            out.state(device)
            out.varint(transports.count)
            for one in transports { out.stored(one) }
            out.varint(pushes.count)
            for one in pushes { out.history(one) }
        case .pushes(let tallies):
            out.u8(Tag.pushes.rawValue)
            out.tallies(tallies)
        case .refused(let refusal):
            out.u8(Tag.refused.rawValue)
            out.refusal(refusal)
        case .matching(let devices):
            out.u8(Tag.matching.rawValue)
            out.devices(devices)
        }
    }

    public static func decode(from reader: inout ByteReader) throws(DecodeError) -> Reply {
        let byte = try reader.u8()
        guard let tag = Tag(rawValue: byte) else { throw reader.fail("an unknown reply \(byte)") }
        switch tag {
        case .accepted: return .accepted(MessageID(time: try reader.u64(), random: try reader.u64()))
        case .changes:
            var changes: [DeviceChange] = []
            for _ in 0..<(try reader.count(max: WireLimits.countMax)) { changes.append(try reader.change()) }
            return .changes(changes)
        case .subscriptions: return .subscriptions(try reader.subscriptions())
        case .reachable:
            let list = try reader.subscriptions()
            var kinds: [Transport.Kind] = []
            let count = try reader.count(max: Transport.Kind.allCases.count)
            for _ in 0..<count { kinds.append(try reader.transportKind()) }
            return .reachable(list, by: kinds)
        case .registered:
            return .registered(
                index: DeviceIndex(try reader.deviceIndex()), nonce: try reader.u32(),
                secret: try reader.u64())
        case .full: return .full(holding: try reader.int())
        case .done: return .done
        case .members: return .members(try reader.varint())
        case .topics: return .topics(try reader.topics(), next: try reader.next())
        case .devices:
            var list: [DeviceState] = []
            let count = try reader.count(max: WireLimits.countMax, elementBytesMin: 9)
            for _ in 0..<count { list.append(try reader.state()) }
            return .devices(list, next: try reader.next())
        case .device: return try device(&reader)
        case .pushes: return .pushes(try reader.tallies())
        case .refused: return .refused(try reader.refusal())
        case .matching: return .matching(try reader.devices())
        }
    }

    private static func device(_ reader: inout ByteReader) throws(DecodeError) -> Reply {
        let device = try reader.state()
        let kinds = Transport.Kind.allCases.count
        var transports: [StoredTransport] = []
        for _ in 0..<(try reader.count(max: kinds, elementBytesMin: 11)) {
            transports.append(try reader.stored())
        }
        var pushes: [PushHistory] = []
        for _ in 0..<(try reader.count(max: kinds, elementBytesMin: 4)) {
            pushes.append(try reader.history())
        }
        return .device(device, transports, pushes: pushes)
    }
}

extension ByteWriter {
    fileprivate mutating func registrations(_ list: [Registration]) {
        varint(list.count)
        for device in list { registration(device) }
    }

    fileprivate mutating func topics(_ list: [(name: TopicName, members: UInt64)]) {
        varint(list.count)
        for item in list {
            string(item.name.utf8)
            varint(item.members)
        }
    }

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
    fileprivate mutating func registrations() throws(DecodeError) -> [Registration] {
        var list: [Registration] = []
        for _ in 0..<(try count(max: WireLimits.countMax, elementBytesMin: 9)) {
            list.append(try registration())
        }
        return list
    }

    fileprivate mutating func topics() throws(DecodeError) -> [(name: TopicName, members: UInt64)] {
        var list: [(name: TopicName, members: UInt64)] = []
        for _ in 0..<(try count(max: WireLimits.countMax, elementBytesMin: 2)) {
            list.append((try topicName(), try varint()))
        }
        return list
    }

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
