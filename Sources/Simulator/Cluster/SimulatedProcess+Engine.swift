import Journal
import Model
import NodeCore
import Partitions
import Routing

// The engine's side of a process: group commit, and jobs whose answers go to the partition's loop.

extension SimulatedProcess {
    func report(_ resolved: [Resolved]) {
        for one in resolved { loop(of: one.partition).post(.resolved(one)) }
    }

    /// Each database has a queue and a batch in flight of its own.
    func submit(_ rows: [Row]) {
        world.checkBounds(of: rows)
        for (number, connections) in databaseConnections.enumerated() {
            let part = rows.filter { map.database(of: $0.partition) == number }
            if !part.isEmpty { connections.journal.submit(part) }
        }
    }

    // MARK: Jobs

    func confirm(_ id: PartitionID, _ token: UInt64) {
        let session = session
        connections(of: id).journal.perform(.read) {
            try $0.engine.isAlive(session)
        } then: { result in
            switch result {
            case .success(true): self.loop(of: id).post(.partition(id, .confirmed(token)))
            case .success(false):
                self.loop(of: id).post(.lost(id, mayHaveAppended: true, reason: "fenced"))
            case .failure: self.loop(of: id).post(.engine(.confirmFailed(id, token: token)))
            }
        }
    }

    func read(_ id: PartitionID, _ sequences: [Sequence], bytesMax: Int, token: UInt64) {
        connections(of: id).journal.perform(.read, isLarge: true) { database in
            try database.engine.readBodies(id, of: sequences, bytesMax: bytesMax)
        } then: { result in
            switch result {
            case .success(let records):
                self.loop(of: id).post(.partition(id, .records(records, token: token)))
            case .failure:
                let failed = EngineAnswer.readFailed(id, sequences, bytesMax: bytesMax, token: token)
                self.loop(of: id).post(.engine(failed))
            }
        }
    }

    func writeSnapshot(_ id: PartitionID, _ covering: Sequence, part: SnapshotPart, token: UInt64) {
        let session = session
        connections(of: id).journal.perform(.write, isLarge: true) { database in
            try database.engine.writeSnapshot(
                session: session, partition: id, covering: covering, part: part)
        } then: { result in
            switch result {
            case .success(let upload):
                self.loop(of: id).post(.partition(id, .snapshotPart(upload: upload, token: token)))
            case .failure: self.loop(of: id).post(.partition(id, .snapshotFailed(token: token)))
            }
        }
    }

    func trim(_ id: PartitionID, _ below: Sequence, keeping: [Sequence]) {
        let session = session
        connections(of: id).journal.perform(.write) { database in
            try database.engine.trim(
                session: session, partition: id, below: below, keeping: keeping, limit: 500)
        } then: { result in
            switch result {
            case .success(let left): self.loop(of: id).post(.engine(.trimmed(id, left: left)))
            case .failure: self.loop(of: id).post(.engine(.trimFailed(id)))
            }
        }
    }
}
