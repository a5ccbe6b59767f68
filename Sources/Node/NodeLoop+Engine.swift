import Journal
import Model
import Partitions

// Jobs of the engine for partitions: bodies are read, snapshots are written.

extension NodeLoop {
    func read(_ id: PartitionID, _ sequences: [Sequence], _ token: UInt64) {
        let mailbox = mailboxes[number]
        let log = log
        shared.engines[id].perform({ engine in
            try engine.read(id, rows: sequences).map { row in
                (
                    sequence: row.sequence,
                    body: try RecordCodec.decode(row.payload, expecting: id, row.sequence).body
                )
            }
        }) { result in
            switch result {
            case .success(let records): mailbox.post(.partition(id, .records(records, token: token)))
            case .failure(let error):
                log.error(
                    "bodies could not be read",
                    metadata: ["partition": "\(id.rawValue)", "error": "\(error)"])
                // The stream that waits for them hears nothing else until then.
                mailbox.post(.run { $0.readAgain(id, sequences, token) })
            }
        }
    }

    private func readAgain(_ id: PartitionID, _ sequences: [Sequence], _ token: UInt64) {
        eventLoop.assumeIsolated().scheduleTask(in: .milliseconds(500)) {
            if self.partitions[id] != nil { self.read(id, sequences, token) }
        }
    }

    func writeSnapshot(_ id: PartitionID, _ covering: Sequence, _ bytes: [UInt8]) {
        let mailbox = mailboxes[number]
        let session = shared.session
        let log = log
        shared.engines[id].perform({ engine in
            try engine.writeSnapshot(session: session, partition: id, covering: covering, bytes: bytes)
        }) { result in
            switch result {
            case .success: mailbox.post(.partition(id, .snapshotWritten(covering: covering)))
            case .failure(let error):
                log.error(
                    "a snapshot was not written",
                    metadata: ["partition": "\(id.rawValue)", "error": "\(error)"])
                mailbox.post(.partition(id, .snapshotFailed))
            }
        }
    }
}
