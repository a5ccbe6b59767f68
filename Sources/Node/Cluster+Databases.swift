import Catalog
import EngineDriver
import Journal
import Logging
import Model
import NodeCore
import Ownership
import Partitions
import SQLiteEngine

// Calls of the databases for a node's part in the cluster. Each database has threads of its own, so that a
// database that does not answer delays only the partitions in it.

/// The threads that call one database, each over a connection of its own.
struct DatabaseConnections: Sendable {
    let number: Int
    /// Renews the lease and reads the tables, and does nothing else. Other nodes judge by the lease whether
    /// this node lives, so the lease must not wait for anything else that this node asks for
    /// (rule: lease-waits-for-nothing).
    let lease: EngineThread
    /// Takes, releases and fences, one after the other. Each may wait long for its commit.
    let control: EngineThread
    /// Reads whole partitions.
    let loader: EngineThread

    init(_ database: DatabaseSettings, onFatal: @escaping @Sendable (String) -> Void) {
        func thread(silence milliseconds: Int? = nil) -> EngineThread {
            EngineThread(
                makeEngine: { database.engine(silence: milliseconds) }, onFatal: onFatal,
                onResolved: { _, _ in })
        }
        number = database.number
        // A renewal fails after 4 s without a byte, so that the node knows that its lease was not renewed.
        lease = thread(silence: 4000)
        control = thread(silence: 4000)
        loader = thread()
    }

    static func clusterEngine(_ engine: any Engine) throws(EngineError) -> any ClusterEngine {
        guard let engine = engine as? any ClusterEngine else {
            throw .refused("this engine cannot store a cluster")
        }
        return engine
    }

    func shutdown() {
        lease.shutdown()
        control.shutdown()
        loader.shutdown()
    }
}

extension Cluster {
    private func connections(of partition: PartitionID) -> DatabaseConnections {
        databaseConnections[shared.map.database(of: partition)]
    }

    /// On the event loop.
    func poll(_ info: Ownership.NodeInfo) {
        let session = shared.session
        let asked = Clock.monotonic()
        var told = info
        told.stalled = Ownership.NodeInfo.Stalled(shared.stalledOutboxes.all)
        told.certificate = ownCertificates.first
        compareCertificate()
        told.stalledConditions = Ownership.NodeInfo.Stalled(shared.stalledConditions.all)
        let described = told
        let (known, vault) = (catalogVersion, shared.administrator.vault)
        databaseConnections[0].lease.perform({ engine in
            let engine = try DatabaseConnections.clusterEngine(engine)
            let poll = try Ownership.Poll(renewing: session, info: described, of: engine)
            let read = Clock.monotonic()
            if let theirs = try engine.wallClock() {
                self.tell(.clockRead(ClockReading(asked: read, own: Clock.now(), theirs: theirs)))
            }
            let version = try engine.get(.setting, key: Catalog.versionKey) ?? []
            return (poll, version == known ? nil : try Catalog.load(engine, vault))
        }) { result in
            switch result {
            case .success(let (poll, contents)):
                self.shared.renewedAt.store(asked.nanoseconds, ordering: .relaxed)
                if let contents { self.apply(contents) }
                self.tell(.polled(poll, asked: asked))
            case .failure(EngineError.fenced): self.tellOwnership(.sessionDead)
            case .failure(let error): self.tellOwnership(.pollFailed("\(error)"))
            }
        }
    }

    private func apply(_ contents: Catalog.Contents) {
        let version = contents.version ?? []
        perform { self.catalogVersion = version }
        tell(.catalog(version: Catalog.number(of: version)))
        shared.administrator.apply(contents)
        // The message to leave may have been lost, or have gone to a former process of this node.
        if contents.cordoned.contains(name) { NodeShared.endInOrder() }
    }

    func readTable(_ connections: DatabaseConnections, look: UInt64, registers: Bool) {
        let (session, node, database) = (shared.session, name, connections.number)
        connections.lease.perform({ engine in
            let engine = try DatabaseConnections.clusterEngine(engine)
            if registers { try engine.register(session, node: node) }
            // No node judges by this lease. The renewal shows whether the database is still what it was.
            try engine.renewLease(session, info: [])
            return try engine.partitions()
        }) { result in
            switch result {
            case .success(let rows): self.tell(.tableRead(database: database, look: look, rows))
            // A later process of this node has superseded this one, or the database has forgotten this
            // session.
            case .failure(EngineError.fenced): self.tellOwnership(.sessionDead)
            case .failure(let error):
                self.tell(.tableFailed(database: database, look: look, "\(error)"))
            }
        }
    }

    func fence(_ session: SessionID, at counter: UInt64) {
        databaseConnections[0].control.perform({ engine in
            try DatabaseConnections.clusterEngine(engine).fence(session, at: counter)
        }) { result in
            switch result {
            case .success(true): self.tell(.fenced(session))
            case .success(false): self.tell(.fenceFailed(session, nil))
            case .failure(let error): self.tell(.fenceFailed(session, "\(error)"))
            }
        }
    }

    /// Asks the home whether the row's former owner lives.
    func ask(_ row: PartitionRow, _ former: SessionID) {
        databaseConnections[0].control.perform({ engine in try engine.isAlive(former) }) { result in
            switch result {
            case .success(let isAlive): self.tell(.former(row, former, isAlive: isAlive))
            case .failure(let error): self.tell(.notTaken(row.id, "\(error)"))
            }
        }
    }

    func takeOver(_ row: PartitionRow, markingDead former: SessionID?) {
        let session = shared.session
        connections(of: row.id).control.perform({ engine in
            if let former { try engine.fence(former) }
            return try PartitionTransfer.takeOver(row, by: session, of: engine)?.epoch
        }) { result in
            switch result {
            case .success(let epoch): self.tellOwnership(.taken(row.id, epoch))
            case .failure(let error): self.tell(.notTaken(row.id, "\(error)"))
            }
        }
    }

    /// Reads a partition for the loop on which it lives: the records behind the mark, or everything.
    func load(_ id: PartitionID, _ epoch: Epoch, behind mark: StoredPartition.Mark?) {
        let box = boxes[shared.loop(of: id)]
        connections(of: id).loader.perform({ engine in
            try PartitionTransfer.load(id, epoch, behind: mark, from: engine)
        }) { result in
            switch result {
            case .success(let loaded):
                if let error = loaded.unreadableQuotas {
                    self.log.error(
                        "the stored buckets of quotas cannot be read: the buckets begin empty",
                        metadata: ["partition": "\(id.rawValue)", "error": "\(error)"])
                }
                box.post(.engine(.loaded(loaded.partition, epoch, quotas: loaded.quotas)))
            case .failure(let error):
                self.log.error(
                    "a partition could not be read",
                    metadata: ["partition": "\(id.rawValue)", "error": "\(error)"])
                box.post(.engine(.loadFailed(id, epoch, of: error)))
            }
        }
    }

    /// Reads a partition while another node owns it.
    func follow(_ id: PartitionID) {
        let box = boxes[shared.loop(of: id)]
        connections(of: id).loader.perform({ engine in try StoredPartition(id, from: engine) }) { result in
            switch result {
            case .success(let loaded): box.post(.engine(.followed(loaded)))
            case .failure: self.tellOwnership(.followFailed(id))
            }
        }
    }

    /// Gives up the row of a partition whose machine has ended and of which nothing is in flight. Keeps what
    /// is left in the buckets of its projects for the next owner.
    func gaveUp(_ id: PartitionID, _ epoch: Epoch, left quotas: [ProjectNumber: [UInt64]]) {
        let session = shared.session
        connections(of: id).control.perform({ engine in
            let engine = try DatabaseConnections.clusterEngine(engine)
            try PartitionTransfer.giveUp(id, epoch, left: quotas, by: session, of: engine)
        }) { result in
            switch result {
            case .success: self.tellOwnership(.released(id))
            case .failure: self.tellOwnership(.releaseFailed(id))
            }
        }
    }
}
