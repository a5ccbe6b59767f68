import Bytes
import Model
import Partitions
import Quotas

/// The messages between two processes of a cluster.
public enum PeerMessage: Sendable {
    /// Anything but a request.
    case partition(PartitionID, PartitionEvent)
    /// To the owner in `epoch`. `left`: the milliseconds that an owner had for the request when the gateway
    /// wrote it.
    case request(PartitionID, Epoch, RequestID, Request, left: UInt32)
    case reply(RequestID, Reply)
    case stream(from: PartitionID, to: GatewayID, StreamFrame)
    case quotaRequest(QuotaRequest)
    case quotaGrant(QuotaGrant)
    case quotaRefusal(RequestID, QuotaRefusal)
    /// The tables of the engine have changed: look.
    case nudge
    /// An operator wants the process to leave in order and end.
    case leave
    /// A packet of membership that is too large, or too important, for a datagram.
    case gossip([UInt8])
    /// A gap notice: frames between the two processes were lost. The receiver asks again for the answers that
    /// it waits for, and attaches its streams again.
    case gap
    /// The receiver is about to inherit the partition, and should read it.
    case follow(PartitionID)
    /// The sender has read the partition.
    case followed(PartitionID)

    private static let gossipBytesMax = 4 << 20

    public func encode(into out: inout ByteWriter) {
        switch self {
        case .partition(let partition, let event):
            out.u8(1)
            out.u16(partition.rawValue)
            event.encode(into: &out)
        case .reply(let id, let reply):
            out.u8(2)
            out.u32(id.gateway.rawValue)
            out.varint(id.number)
            reply.encode(into: &out)
        case .stream(let from, let to, let frame):
            out.u8(3)
            out.u16(from.rawValue)
            out.u32(to.rawValue)
            frame.encode(into: &out)
        case .quotaRequest(let request):
            out.u8(4)
            request.encode(into: &out)
        case .quotaGrant(let grant):
            out.u8(5)
            grant.encode(into: &out)
        case .quotaRefusal(let id, let refusal):
            out.u8(6)
            out.u32(id.gateway.rawValue)
            out.varint(id.number)
            out.u8(refusal.kind.rawValue)
            out.varint(refusal.limit)
            out.varint(refusal.retryDelay.nanoseconds)
        case .nudge: out.u8(7)
        case .leave: out.u8(8)
        case .gossip(let packet):
            out.u8(9)
            out.string(packet)
        case .gap: out.u8(10)
        case .follow(let partition):
            out.u8(11)
            out.u16(partition.rawValue)
        case .followed(let partition):
            out.u8(12)
            out.u16(partition.rawValue)
        case .request(let partition, let epoch, let id, let request, let left):
            out.u8(13)
            out.u16(partition.rawValue)
            out.varint(epoch.rawValue)
            out.u32(left)
            out.u32(id.gateway.rawValue)
            out.varint(id.number)
            request.encode(into: &out)
        }
    }

    public static func decode(from reader: inout ByteReader) throws(DecodeError) -> PeerMessage {
        let tag = try reader.u8()
        switch tag {
        case 1: return .partition(try partition(&reader), try PartitionEvent.decode(from: &reader))
        case 2: return .reply(try request(&reader), try Reply.decode(from: &reader))
        case 3:
            return .stream(
                from: try partition(&reader), to: GatewayID(try reader.u32()),
                try StreamFrame.decode(from: &reader))
        case 4: return .quotaRequest(try QuotaRequest(from: &reader))
        case 5: return .quotaGrant(try QuotaGrant(from: &reader))
        case 6:
            let id = try request(&reader)
            guard let kind = QuotaKind(rawValue: try reader.u8()) else {
                throw reader.fail("an unknown quota")
            }
            return .quotaRefusal(
                id,
                QuotaRefusal(
                    kind: kind, limit: try reader.varint(), retryDelay: .nanoseconds(try reader.varint())))
        case 7: return .nudge
        case 8: return .leave
        case 9: return .gossip(try reader.string(max: gossipBytesMax))
        case 10: return .gap
        case 11: return .follow(try partition(&reader))
        case 12: return .followed(try partition(&reader))
        case 13:
            let partition = try partition(&reader)
            let epoch = Epoch(try reader.varint())
            let left = try reader.u32()
            return .request(
                partition, epoch, try request(&reader), try Request.decode(from: &reader), left: left)
        default: throw reader.fail("a message of an unknown kind \(tag)")
        }
    }

    private static func partition(_ reader: inout ByteReader) throws(DecodeError) -> PartitionID {
        let value = try reader.u16()
        guard value < UInt16(PartitionID.countMax) else {
            throw reader.fail("a partition of more than 12 bits")
        }
        return PartitionID(value)
    }

    private static func request(_ reader: inout ByteReader) throws(DecodeError) -> RequestID {
        RequestID(gateway: GatewayID(try reader.u32()), number: try reader.varint())
    }
}
