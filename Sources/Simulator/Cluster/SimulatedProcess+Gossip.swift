import Journal
import Membership
import Model
import Ownership
import Routing

// The process's gossip: packets over the simulated network, and word of it to `Ownership`, as `Gossip` and
// `Cluster+Gossip`.

extension SimulatedProcess {
    /// On the thread of the cluster's decisions.
    func gossip(_ event: Membership.Event) {
        var effects: [Membership.Effect] = []
        membership.handle(event, now: clock.monotonic, into: &effects)
        for effect in effects { carryOut(effect) }
    }

    private func carryOut(_ effect: Membership.Effect) {
        switch effect {
        case .datagram(let packet, let address): world.network.send(datagram: packet, from: self, to: address)
        case .stream(let packet, let session):
            let life = session.life
            loops[0].post(.order(.say(.gossip(packet), to: [life])))
        case .changed(let member):
            guard member.state == .dead || member.state == .alive else { return }
            tellOwnership(.suspected(member.session, member.state == .dead))
        case .isolated(let isAlone): tellOwnership(.isolated(isAlone))
        case .learned(let fact):
            guard fact.key < UInt32(PartitionID.countMax) else { return }
            let route = Ownership.Route(session: SessionID(fact.value), epoch: Epoch(fact.version))
            tellOwnership(.heard(PartitionID(UInt16(fact.key)), route))
        case .malformed: world.count("gossip that cannot be read")
        case .wake(let at): world.after(delay(to: at), .timer, self) { self.gossip(.woke) }
        }
    }

    func publish(_ id: PartitionID, _ epoch: Epoch) {
        gossip(
            .publish(
                Membership.Fact(
                    key: UInt32(id.rawValue), version: epoch.rawValue, value: session.rawValue)))
    }

    func tellGossip(_ members: [Ownership.Member]) {
        gossip(
            .table(
                members.map {
                    Membership.Row(
                        session: $0.session, name: $0.name, address: $0.info.gossip, info: $0.info.encoded)
                }))
    }
}
