import Journal
import Model
import Ownership
import Partitions

/// What an heir has read of a partition before it is its own, as `FollowedPartition`.
struct Followed {
    var partition: Partition
    /// The newest record's payload.
    var last: [UInt8]?
}

extension SimulatedProcess {
    func fromPeer(_ life: UInt32, _ event: (SessionID) -> Ownership.Event) {
        if let member = members.first(where: { $0.session.life == life }) {
            tellOwnership(event(member.session))
        }
    }

    func follow(_ id: PartitionID) {
        loader.perform(.read) { database in
            try Loaded(id, from: database.engine)
        } then: { result in
            guard case .success(let loaded) = result else { return self.tellOwnership(.followFailed(id)) }
            self.post {
                guard self.partitions[Int(id.rawValue)] == nil,
                    let partition = loaded.fold(self.world.options, self.names)
                else { return }
                self.followed[id] = Followed(partition: partition, last: loaded.lastPayload)
            }
            self.tellOwnership(.followed(id))
        }
    }
}
