import Journal
import Model
import NodeCore
import Partitions

// Jobs of the engines for a loop's partitions. The answers come back to the loop's mailbox.

extension NodeLoop {
    /// The most rows that a call of the engine deletes, so that appends never wait long behind the call.
    private static let trimSlice = 500

    private var mailbox: Mailbox { mailboxes[number] }

    func confirm(_ id: PartitionID, _ token: UInt64) {
        let mailbox = mailbox
        let session = shared.session
        shared.engines[id].perform({ engine in try engine.isAlive(session) }) { result in
            switch result {
            case .success(true): mailbox.post(.partition(id, .confirmed(token)))
            // Records in flight may be in the journal, or may still go in.
            case .success(false):
                mailbox.post(.lost(id, mayHaveAppended: true, reason: "the session was fenced"))
            case .failure: mailbox.post(.engine(.confirmFailed(id, token: token)))
            }
        }
    }

    func read(_ id: PartitionID, _ sequences: [Sequence], bytesMax: Int, token: UInt64) {
        let mailbox = mailbox
        let log = log
        shared.engines[id].perform(isLarge: true) { engine in
            try engine.readBodies(id, of: sequences, bytesMax: bytesMax)
        } then: { result in
            switch result {
            case .success(let records): mailbox.post(.partition(id, .records(records, token: token)))
            case .failure(let error):
                log.error(
                    "bodies could not be read",
                    metadata: ["partition": "\(id.rawValue)", "error": "\(error)"])
                mailbox.post(.engine(.readFailed(id, sequences, bytesMax: bytesMax, token: token)))
            }
        }
    }

    func writeSnapshot(_ id: PartitionID, _ covering: Sequence, part: SnapshotPart, token: UInt64) {
        let mailbox = mailbox
        let session = shared.session
        let log = log
        shared.engines[id].perform(isLarge: true) { engine in
            try engine.writeSnapshot(session: session, partition: id, covering: covering, part: part)
        } then: { result in
            switch result {
            case .success(let upload):
                mailbox.post(.partition(id, .snapshotPart(upload: upload, token: token)))
            case .failure(let error):
                log.error(
                    "a snapshot was not written",
                    metadata: ["partition": "\(id.rawValue)", "error": "\(error)"])
                mailbox.post(.partition(id, .snapshotFailed(token: token)))
            }
        }
    }

    func trim(_ id: PartitionID, below: Sequence, keeping: [Sequence]) {
        let mailbox = mailbox
        let session = shared.session
        let log = log
        shared.engines[id].perform({ engine in
            try engine.trim(
                session: session, partition: id, below: below, keeping: keeping, limit: NodeLoop.trimSlice)
        }) { result in
            switch result {
            case .success(let left): mailbox.post(.engine(.trimmed(id, left: left)))
            case .failure(let error):
                log.error(
                    "the journal was not trimmed",
                    metadata: ["partition": "\(id.rawValue)", "error": "\(error)"])
                mailbox.post(.engine(.trimFailed(id)))
            }
        }
    }

    /// On a node of its own: reads a partition from the journal.
    func load(_ id: PartitionID, _ epoch: Epoch) {
        let mailbox = mailbox
        let log = log
        shared.engines[id].perform({ engine in try StoredPartition(id, from: engine) }) { result in
            switch result {
            case .success(let loaded): mailbox.post(.engine(.loaded(loaded, epoch, quotas: [:])))
            case .failure(let error):
                log.error(
                    "a partition could not be read",
                    metadata: ["partition": "\(id.rawValue)", "error": "\(error)"])
                mailbox.post(.engine(.loadFailed(id, epoch, of: error)))
            }
        }
    }
}
