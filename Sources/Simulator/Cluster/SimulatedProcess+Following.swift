import Journal
import Model
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
            self.post {
                guard self.partitions[Int(id.rawValue)] == nil,
                    let partition = loaded.folded(self.world.options, self.names)
                else { return }
                self.followed[id] = FollowedPartition(partition: partition, mark: loaded.mark)
            }
            self.tellOwnership(.followed(id))
        }
    }

}

extension StoredPartition {
    /// `nil` where the records do not fit together.
    func folded(
        _ options: ClusterSimulation.Options, _ names: TopicNames, onto followed: Partition? = nil
    ) -> Partition? {
        let partition =
            followed
            ?? Partition(
                id: id, history: .init(UInt64(id.rawValue) + 7), options: options.partition, names: names,
                proofs: Proofs.shared)
        do {
            try fold(into: partition)
            return partition
        } catch {
            return nil
        }
    }
}
