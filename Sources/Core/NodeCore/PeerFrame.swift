import Bytes
import Model
import Partitions
import Quotas
import Routing

/// A message of another process to this node's control side.
public enum PeerWord: Sendable {
    /// The tables of the engine have changed.
    case nudge
    /// An operator wants this node to leave in order and end.
    case leave
    /// A packet of membership.
    case gossip([UInt8])
    /// The process is about to give the partition to this node.
    case follow(PartitionID)
    /// The process has read the partition that it is to inherit.
    case followed(PartitionID)
}

/// A frame of another process, with its messages sorted by receiver.
public struct PeerFrame: Sendable {
    /// By loop.
    public private(set) var batches: [[LoopMessage]]
    public private(set) var words: [PeerWord] = []
    /// Why the frame cannot be read to its end. The messages before the mistake are good; the bytes behind it
    /// cannot be separated any more.
    public private(set) var mistake: DecodeError?
    /// Messages in the name of another process's gateway, which are left out (rule: owners-acknowledge).
    public private(set) var foreign = 0

    /// - Parameter after: the frame was sent after this moment.
    public init(_ bytes: [UInt8], from processID: ProcessID, after: MonotonicTime, _ map: NodeMap) {
        batches = Array(repeating: [], count: map.loopCount)
        var reader = ByteReader(bytes)
        do throws(DecodeError) {
            while !reader.isAtEnd {
                sort(try PeerMessage.decode(from: &reader), from: processID, after, map: map)
            }
        } catch {
            mistake = error
        }
    }

    private mutating func sort(
        _ message: PeerMessage, from processID: ProcessID, _ after: MonotonicTime, map: NodeMap
    ) {
        if let gateway = message.gateway, gateway.processID != processID {
            foreign += 1
            return
        }
        switch message {
        case .partition(let id, let event):
            guard map.contains(id) else { return }
            if let speaker = event.speaker {
                let word = event.sent(after: after)
                put(.peerEvent(processID: processID, of: speaker, to: id, word), map.loop(of: id))
            } else {
                put(.partition(id, event), map.loop(of: id))
            }
        case .request(let id, let epoch, let asked, let request, let left):
            let requestGuard = RequestGuard(epoch: epoch, deadline: Deadline(left: left, after: after))
            if map.contains(id) { put(.request(id, asked, request, requestGuard), map.loop(of: id)) }
        case .reply(let id, let reply): put(.reply(id, reply), id.gateway.loop)
        case .stream(let from, let to, let frame):
            if map.contains(from) { put(.peerStream(processID: processID, from: from, frame), to.loop) }
        case .quotaRequest(let request): put(.quotaRequest(request), map.loop(ofBuckets: request.project))
        case .quotaGrant(let grant):
            put(.peerGrant(processID: processID, grant), grant.spender.gateway.loop)
        case .quotaRefusal(let id, let refusal):
            put(.peerRefusal(processID: processID, id, refusal), id.gateway.loop)
        case .gap: for loop in batches.indices { put(.gap(from: processID), loop) }
        case .nudge: words.append(.nudge)
        case .leave: words.append(.leave)
        case .gossip(let packet): words.append(.gossip(packet))
        case .follow(let id): words.append(.follow(id))
        case .followed(let id): words.append(.followed(id))
        }
    }

    private mutating func put(_ message: LoopMessage, _ loop: Int) {
        if loop < batches.count { batches[loop].append(message) }
    }
}

extension PeerMessage {
    /// The gateway that asks, or whose stream the message is about. Each process speaks for its own alone.
    fileprivate var gateway: GatewayID? {
        switch self {
        case .partition(_, .stream(let command)): command.gateway
        case .request(_, _, let asked, _, _): asked.gateway
        case .quotaRequest(let request): request.spender.gateway
        default: nil
        }
    }
}
