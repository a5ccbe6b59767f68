import Membership
import Model
import Ownership
import Routing

/// The topics of gossip's entries, in the highest byte of their keys.
enum GossipTopic: UInt32 {
    /// A partition's owner, under the partition's number: the epoch is the version, the session the value.
    case owner = 1
    /// The catalog's version.
    case catalog = 2
    /// By how many milliseconds a node finds its clock ahead of the database's, under its session modulo
    /// 1,024. The session is the high part of the version.
    case clock = 3

    func key(_ number: UInt32 = 0) -> UInt32 { rawValue << 24 | number }
}

// The exchange between gossip and ownership.

extension ControlCore {
    func gossip(_ event: Membership.Event) {
        var wanted: [Membership.Effect] = []
        membership.handle(event, now: now, into: &wanted)
        for effect in wanted { carryOut(effect) }
    }

    private func carryOut(_ effect: Membership.Effect) {
        switch effect {
        case .datagram(let packet, let address): effects.append(.datagram(packet, to: address))
        case .stream(let packet, let session): effects.append(.say(.gossip(packet), to: [session.processID]))
        case .changed(let member):
            effects.append(.noted(.member(member)))
            if member.state == .dead || member.state == .alive {
                later(.suspected(member.session, member.state == .dead))
            }
            isViewStale = true
        case .isolated(let isAlone):
            effects.append(.noted(.isolated(isAlone)))
            later(.isolated(isAlone))
        case .learned(let entry): learned(entry)
        case .malformed(let reason): effects.append(.noted(.malformedGossip(reason)))
        case .refused(let reason): effects.append(.noted(.refusedGossip(reason)))
        case .wake(let at): effects.append(.wake(.gossip, at: at))
        }
    }

    private func learned(_ entry: Membership.GossipEntry) {
        switch GossipTopic(rawValue: entry.key >> 24) {
        case .owner:
            let number = entry.key & 0xFF_FFFF
            guard number < UInt32(PartitionID.countMax) else { return }
            let route = Ownership.Route(session: SessionID(entry.value), epoch: Epoch(entry.version))
            later(.heard(PartitionID(UInt16(number)), route))
        case .catalog: if entry.version > catalogVersion { later(.nudged) }
        case .clock: heardOfClock(version: entry.version, entry.value)
        case nil: break
        }
    }

    func publish(_ topic: GossipTopic, number: UInt32 = 0, version: UInt64, _ value: UInt64) {
        gossip(.publish(Membership.GossipEntry(key: topic.key(number), version: version, value: value)))
    }

    /// Gives gossip the sessions of the engine's table: new ones are seeds, and those that are missing are
    /// fenced.
    func tellGossip(_ members: [Ownership.Member]) {
        let rows = members.map {
            Membership.Row(
                session: $0.session, name: $0.name, address: $0.info.gossip, info: $0.info.encoded)
        }
        gossip(.table(rows))
    }
}
