import Journal
import Model
import NodeCore
import Ownership
import Partitions

// Handover by following: an heir reads a partition while its owner still serves.

extension Cluster {
    /// Another process says that it is about to give the partition to this one.
    func offered(_ id: PartitionID, by life: UInt32) {
        fromPeer(life) { .offered(id, by: $0) }
    }

    func isFollowed(_ id: PartitionID, by life: UInt32) {
        fromPeer(life) { .isFollowed(id, by: $0) }
    }

    private func fromPeer(_ life: UInt32, _ event: @escaping @Sendable (SessionID) -> Ownership.Event) {
        perform {
            guard let member = self.members.first(where: { $0.session.life == life }) else { return }
            self.handle(event(member.session))
        }
    }

    func offer(_ id: PartitionID, to session: SessionID) {
        boxes[0].post(.order(.say(.follow(id), to: [session.life])))
    }

    func tellFollowed(_ id: PartitionID, to session: SessionID) {
        boxes[0].post(.order(.say(.followed(id), to: [session.life])))
    }

    func follow(_ id: PartitionID) {
        let box = boxes[shared.loop(of: id)]
        lane(of: id).loader.perform({ engine in try StoredPartition(id, from: engine) }) { result in
            switch result {
            case .success(let loaded): box.post(.engine(.followed(loaded)))
            case .failure: self.handle(.followFailed(id))
            }
        }
    }

    func unfollow(_ id: PartitionID) {
        boxes[shared.loop(of: id)].post(.order(.unfollow(id)))
    }
}
