import Journal
import Model
import NodeCore
import Ownership
import Partitions

extension SimulatedProcess {
    func fromPeer(_ life: UInt32, _ event: (SessionID) -> Ownership.Event) {
        if let member = members.first(where: { $0.session.life == life }) {
            tellOwnership(event(member.session))
        }
    }

    func follow(_ id: PartitionID) {
        loader.perform(.read) { database in
            try StoredPartition(id, from: database.engine)
        } then: { result in
            guard case .success(let loaded) = result else { return self.tellOwnership(.followFailed(id)) }
            self.loop(of: id).post(.engine(.followed(loaded)))
        }
    }
}
