import Journal
import Membership
import Model
import NodeCore
import Ownership
import PeerLink

/// What a node needs to gossip.
struct GossipSettings {
    var address: NodeConfiguration.Address
    /// Addresses to try first.
    var seeds: [String]
    var cluster: [UInt8]
    var key: [UInt8]
    var seed: UInt64
}

// What gossip and ownership tell each other. On the cluster's event loop.

extension Cluster {
    /// A datagram of this cluster. On the event loop.
    func heard(_ packet: [UInt8], _ from: String) {
        shared.counters.gossipReceived.add(1, ordering: .relaxed)
        gossip?.handle(.datagram(packet, from: from))
    }

    /// A datagram that is none of this cluster's: counted, and told once a minute for each reason.
    func refused(_ reason: String, _ from: String) {
        shared.counters.gossipRefused.add(1, ordering: .relaxed)
        let now = Clock.monotonic()
        if let last = refusalsTold[reason], now.since(last) < .seconds(60) { return }
        refusalsTold[reason] = now
        log.warning("gossip was refused", metadata: ["reason": "\(reason)", "from": "\(from)"])
    }

    /// From any thread.
    func heardOverLink(_ packet: [UInt8]) {
        perform { self.gossip?.handle(.stream(packet)) }
    }

    func carryOut(_ effect: Membership.Effect) {
        switch effect {
        case .stream(let packet, let session):
            let life = session.life
            boxes[0].post(.order(.say(.gossip(packet), to: [life])))
        case .changed(let member):
            if member.state == .dead || member.state == .alive {
                handle(.suspected(member.session, member.state == .dead))
            }
            publishView()
        case .isolated(let isAlone): handle(.isolated(isAlone))
        case .learned(let fact): learned(fact)
        case .datagram, .malformed, .wake: break
        }
    }

    private func learned(_ fact: Membership.Fact) {
        switch Gossip.Topic(rawValue: fact.key >> 24) {
        case .owner:
            let number = fact.key & 0xFF_FFFF
            guard number < UInt32(PartitionID.countMax) else { return }
            let route = Ownership.Route(session: SessionID(fact.value), epoch: Epoch(fact.version))
            handle(.heard(PartitionID(UInt16(number)), route))
        case .catalog:
            if fact.version > Catalog.number(of: catalogVersion) { handle(.nudged) }
        case nil: break
        }
    }

    func publish(_ topic: Gossip.Topic, number: UInt32 = 0, version: UInt64, _ value: UInt64) {
        let fact = Membership.Fact(key: topic.key(number), version: version, value: value)
        gossip?.handle(.publish(fact))
    }

    /// The engine's table is a list of seeds, and of those that are fenced.
    func tellGossip(_ members: [Ownership.Member]) {
        let rows = members.map {
            Membership.Row(
                session: $0.session, name: $0.name, address: $0.info.gossip, info: $0.info.encoded)
        }
        gossip?.handle(.table(rows))
    }
}
