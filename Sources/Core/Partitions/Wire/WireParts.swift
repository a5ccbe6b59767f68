import Bytes
import Model

// The parts of what partitions and gateways say to each other over a network.

extension ByteWriter {
    mutating func registration(_ device: Registration) {
        varint(UInt64(device.project.rawValue))
        varint(UInt64(device.partition.rawValue))
        varint(UInt64(device.index.rawValue))
        u32(device.nonce)
        u8(device.key)
        proof(device.suffix)
    }

    mutating func proof(_ proof: DeviceMAC?) {
        u8(proof == nil ? 0 : 1)
        if let proof {
            u64(proof.high)
            u64(proof.low)
        }
    }

    mutating func authority(_ authority: Authority) {
        switch authority {
        case .backend: proof(nil)
        case .device(let shown): proof(shown)
        }
    }

    mutating func streamID(_ id: StreamID) {
        u32(id.gateway.rawValue)
        varint(id.number)
        varint(UInt64(id.attachment))
    }

    mutating func eventID(_ id: EventID?) {
        u8(id == nil ? 0 : 1)
        if let id {
            varint(id.position.rawValue)
            u16(id.history)
        }
    }

    mutating func position(_ position: Position?) { varint(position?.rawValue ?? 0) }

    mutating func text(_ text: String) { string(text.utf8) }

    mutating func refusal(_ refusal: PartitionRefusal) {
        switch refusal {
        case .unregistered: u8(1)
        case .invalidToken: u8(2)
        case .wrongCredential: u8(3)
        case .tooManyTopics: u8(4)
        case .tooManyFanouts(let limit):
            u8(5)
            varint(limit)
        case .indicesUsedUp: u8(6)
        case .unavailable(let reason):
            u8(7)
            text(String(reason.prefix(WireLimits.textBytesMax / 4)))
        case .unknown: u8(8)
        case .moved: u8(9)
        case .handedOver: u8(10)
        case .pushKeyRefused: u8(11)
        }
    }

    mutating func change(_ change: DeviceChange) {
        switch change {
        case .changed(let day):
            u8(1)
            u16(day.rawValue)
        case .unchanged(let day):
            u8(day == nil ? 2 : 3)
            if let day { u16(day.rawValue) }
        case .refused(let refusal):
            u8(4)
            self.refusal(refusal)
        }
    }
}

/// Bounds of what comes over a network.
enum WireLimits {
    static let textBytesMax = 1024
    static let eventBytesMax = 1 << 20
    /// Elements of a list. The bytes of the elements bound the list anyway.
    static let countMax = 1 << 24
}

extension ByteReader {
    mutating func registration() throws(DecodeError) -> Registration {
        let project = try project()
        let partition = try partition()
        let index = DeviceIndex(try deviceIndex())
        let nonce = try u32()
        let key = try u8()
        return Registration(
            project: project, partition: partition, index: index, nonce: nonce, key: key, suffix: try proof())
    }

    mutating func flag() throws(DecodeError) -> Bool {
        switch try u8() {
        case 0: return false
        case 1: return true
        default: throw fail("neither yes nor no")
        }
    }

    mutating func proof() throws(DecodeError) -> DeviceMAC? {
        try flag() ? DeviceMAC(high: try u64(), low: try u64()) : nil
    }

    mutating func authority() throws(DecodeError) -> Authority {
        try proof().map { .device($0) } ?? .backend
    }

    mutating func streamID() throws(DecodeError) -> StreamID {
        let (gateway, number) = (GatewayID(try u32()), try varint())
        guard let attachment = UInt32(exactly: try varint()) else { throw fail("a stream told too often") }
        return StreamID(gateway: gateway, number: number, attachment: attachment)
    }

    mutating func eventID() throws(DecodeError) -> EventID? {
        try flag() ? EventID(position: try position(), history: try u16()) : nil
    }

    mutating func optionalPosition() throws(DecodeError) -> Position? {
        let position = try position()
        return position == .zero ? nil : position
    }

    mutating func text() throws(DecodeError) -> String {
        String(decoding: try string(max: WireLimits.textBytesMax), as: UTF8.self)
    }

    mutating func topicName() throws(DecodeError) -> TopicName {
        TopicName(checked: try string(max: TopicName.lengthMax))
    }

    /// A number that fits into an `Int`.
    mutating func int() throws(DecodeError) -> Int {
        let value = try varint()
        guard value <= UInt64(Int.max) else { throw fail("a number of more than 63 bits") }
        return Int(value)
    }

    mutating func refusal() throws(DecodeError) -> PartitionRefusal {
        switch try u8() {
        case 1: return .unregistered
        case 2: return .invalidToken
        case 3: return .wrongCredential
        case 4: return .tooManyTopics
        case 5: return .tooManyFanouts(limit: try int())
        case 6: return .indicesUsedUp
        case 7: return .unavailable(try text())
        case 8: return .unknown
        case 9: return .moved
        case 10: return .handedOver
        case 11: return .pushKeyRefused
        default: throw fail("an unknown refusal")
        }
    }

    mutating func change() throws(DecodeError) -> DeviceChange {
        switch try u8() {
        case 1: return .changed(Day(try u16()))
        case 2: return .unchanged(nil)
        case 3: return .unchanged(Day(try u16()))
        case 4: return .refused(try refusal())
        default: throw fail("an unknown change")
        }
    }
}
