import Journal
import Model
import Ownership
import Partitions
import Routing

/// What an heir has read of a partition before it is its own, and how to see later whether that still holds:
/// nothing was sure to be durable when it was read.
struct FollowedPartition {
    struct Mark: Sendable {
        var applied: Sequence
        /// Of the newest record; `nil` where nothing stands behind the snapshot, which is written of durable
        /// records only.
        var digest: UInt64?
    }
    var partition: Partition
    var mark: Mark
}

extension Recovery {
    /// What came behind the mark, or everything, where what was read then does not stand there any more.
    static func load(
        _ id: PartitionID, behind mark: FollowedPartition.Mark?, from engine: any Engine
    ) throws -> LoadedPartition {
        guard let mark else { return try load(id, from: engine) }
        if let digest = mark.digest {
            let rows = try engine.read(id, rows: [mark.applied])
            guard let row = rows.first, Checksum.of(row.payload) == digest else {
                return try load(id, from: engine)
            }
        }
        var loaded = LoadedPartition(id: id, snapshot: nil, records: [], isTail: true)
        do {
            try readRecords(&loaded, from: mark.applied.next, engine)
        } catch RecoveryError.gap {
            // Trimmed meanwhile, behind a newer snapshot.
            return try load(id, from: engine)
        }
        return loaded
    }
}

extension NodeLoop {
    /// Keeps what was read of a partition that this node may inherit.
    func follow(_ loaded: LoadedPartition) {
        // Nothing rests on it yet: what cannot be folded is read again by the owner that this node becomes.
        guard partitions[loaded.id] == nil, let partition = try? fold(loaded, into: nil) else { return }
        followed[loaded.id] = FollowedPartition(
            partition: partition,
            mark: .init(applied: partition.applied, digest: loaded.lastDigest))
    }

    /// The partition is this node's now; what was read of it before waits for the rest.
    func inherit(_ id: PartitionID) -> FollowedPartition.Mark? {
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
        eventLoop.execute {
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
        lane(of: id).loader.perform({ engine in try Recovery.load(id, from: engine) }) { result in
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
