import Bytes
import Model

/// One packet: its sender, its purpose, and news.
///
/// kind 1 · sender 8 · number 4 · for kinds that probe: target 8, and for `indirect` the target's address ·
/// in a datagram its mark (`DatagramMark`) · then updates to the end.
///
/// Each update has its kind and length in front, so a version that does not know an update passes over it.
struct Packet: Sendable {
    enum Kind: Hashable, Sendable {
        /// Asks whether the session is there. Session 0 asks any process at the address.
        case ping(SessionID)
        case ack
        /// Asks the receiver to probe a session for the sender.
        case indirect(SessionID, address: String)
        /// The sender probed for the receiver and has no answer yet; the sender itself is there.
        case nack
        /// Push-pull: the sender's full state. The receiver replies with its own.
        case sync
        case syncAnswer
    }

    static let addressBytesMax = 262

    var kind: Kind
    var sender: SessionID
    var number: UInt32

    static func begin(_ kind: Kind, from sender: SessionID, number: UInt32) -> ByteWriter {
        var out = ByteWriter(capacity: 128)
        switch kind {
        case .ping: out.u8(1)
        case .ack: out.u8(2)
        case .indirect: out.u8(3)
        case .nack: out.u8(4)
        case .sync: out.u8(5)
        case .syncAnswer: out.u8(6)
        }
        out.u64(sender.rawValue)
        out.u32(number)
        switch kind {
        case .ping(let target): out.u64(target.rawValue)
        case .indirect(let target, let address):
            out.u64(target.rawValue)
            out.string(address.utf8.prefix(addressBytesMax))
        case .ack, .nack, .sync, .syncAnswer: break
        }
        return out
    }

    /// Reads the head, and leaves the reader behind it.
    init(from reader: inout ByteReader) throws(DecodeError) {
        let tag = try reader.u8()
        sender = SessionID(try reader.u64())
        number = try reader.u32()
        switch tag {
        case 1: kind = .ping(SessionID(try reader.u64()))
        case 2: kind = .ack
        case 3:
            let target = SessionID(try reader.u64())
            kind = .indirect(target, address: try reader.text(max: Packet.addressBytesMax))
        case 4: kind = .nack
        case 5: kind = .sync
        case 6: kind = .syncAnswer
        default: throw reader.fail("a packet of an unknown kind \(tag)")
        }
    }
}

/// One piece of news.
enum Update: Sendable {
    case alive(Membership.Member)
    case suspect(SessionID, UInt32, by: SessionID)
    case dead(SessionID, UInt32, by: SessionID)
    case left(SessionID, UInt32)
    case entry(Membership.GossipEntry)

    static let nameBytesMax = 255
    static let infoBytesMax = 800

    var encoded: [UInt8] {
        var out = ByteWriter(capacity: 64)
        let kind: UInt8
        switch self {
        case .alive(let member):
            kind = 1
            out.u64(member.session.rawValue)
            out.u32(member.incarnation)
            out.string(member.name.utf8.prefix(Update.nameBytesMax))
            out.string(member.address.utf8.prefix(Packet.addressBytesMax))
            out.string(member.info.prefix(Update.infoBytesMax))
        case .suspect(let session, let incarnation, let accuser):
            kind = 2
            out.accusation(session, incarnation, by: accuser)
        case .dead(let session, let incarnation, let accuser):
            kind = 3
            out.accusation(session, incarnation, by: accuser)
        case .left(let session, let incarnation):
            kind = 4
            out.u64(session.rawValue)
            out.u32(incarnation)
        case .entry(let entry):
            kind = 5
            out.u32(entry.key)
            out.u64(entry.version)
            out.u64(entry.value)
        }
        var whole = ByteWriter(capacity: out.bytes.count + 3)
        whole.u8(kind)
        whole.string(out.bytes)
        return whole.bytes
    }

    /// `nil` for news of a kind that this version does not know.
    static func decode(from reader: inout ByteReader) throws(DecodeError) -> Update? {
        let kind = try reader.u8()
        var body = ByteReader(try reader.string(max: 2048))
        let update: Update
        switch kind {
        case 1:
            let session = SessionID(try body.u64())
            let incarnation = try body.u32()
            update = .alive(
                Membership.Member(
                    session: session, name: try body.text(max: Update.nameBytesMax),
                    address: try body.text(max: Packet.addressBytesMax),
                    info: try body.string(max: Update.infoBytesMax), incarnation: incarnation, state: .alive,
                    since: MonotonicTime.zero))
        case 2, 3:
            let session = SessionID(try body.u64())
            let incarnation = try body.u32()
            let accuser = SessionID(try body.u64())
            update =
                kind == 2
                ? .suspect(session, incarnation, by: accuser) : .dead(session, incarnation, by: accuser)
        case 4: update = .left(SessionID(try body.u64()), try body.u32())
        case 5:
            update = .entry(
                Membership.GossipEntry(key: try body.u32(), version: try body.u64(), value: try body.u64()))
        default: return nil
        }
        return update
    }
}

extension ByteWriter {
    fileprivate mutating func accusation(_ session: SessionID, _ incarnation: UInt32, by accuser: SessionID) {
        u64(session.rawValue)
        u32(incarnation)
        u64(accuser.rawValue)
    }
}

extension ByteReader {
    fileprivate mutating func text(max: Int) throws(DecodeError) -> String {
        String(decoding: try string(max: max), as: UTF8.self)
    }
}
