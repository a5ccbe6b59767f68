import Journal
import Model
import Ownership
import Partitions
import Routing

// Handover by following: an heir reads a partition while its owner still serves.

extension NodeLoop {
    /// Keeps what was read of a partition that this node may inherit.
    func follow(_ loaded: StoredPartition) {
        // Nothing rests on it yet: what cannot be folded is read again by the owner that this node becomes.
        guard partitions[loaded.id] == nil, let partition = try? fold(loaded, into: nil) else { return }
        followed[loaded.id] = FollowedPartition(partition: partition, mark: loaded.mark)
    }

    /// The partition is this node's now; what was read of it before waits for the rest.
    func inherit(_ id: PartitionID) -> StoredPartition.Mark? {
        let known = followed.removeValue(forKey: id)
        inherited[id] = known?.partition
        return known?.mark
    }

    func offer(_ partition: PartitionID, to life: UInt32) {
        say(.follow(partition), to: life)
        scheduleTurn()
    }

    func tellFollowed(_ partition: PartitionID, to life: UInt32) {
        say(.followed(partition), to: life)
        scheduleTurn()
    }
}

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
        boxes[0].post(.run { $0.offer(id, to: session.life) })
    }

    func tellFollowed(_ id: PartitionID, to session: SessionID) {
        boxes[0].post(.run { $0.tellFollowed(id, to: session.life) })
    }

    func follow(_ id: PartitionID) {
        let box = boxes[shared.loop(of: id)]
        lane(of: id).loader.perform({ engine in try StoredPartition(id, from: engine) }) { result in
            switch result {
            case .success(let loaded):
                box.post(
                    .run { loop in
                        loop.follow(loaded)
                        self.handle(.followed(id))
                    })
            case .failure: self.handle(.followFailed(id))
            }
        }
    }

    func unfollow(_ id: PartitionID) {
        boxes[shared.loop(of: id)].post(.run { $0.followed[id] = nil })
    }
}
