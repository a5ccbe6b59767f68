import Journal
import Model
import Partitions
import Routing

// Effects of partitions, and the journal behind them.

extension SimulatedProcess {
    func carryOut(of id: PartitionID) {
        guard !effects.isEmpty else { return }
        var batch: [PartitionEffect] = []
        swap(&batch, &effects)
        for effect in batch { carryOut(effect, of: id) }
    }

    private func carryOut(_ effect: PartitionEffect, of id: PartitionID) {
        switch effect {
        case .append(let sequence, let body): append(id, sequence, body)
        case .reply(let request, let reply): answer(request, reply.value)
        case .offer(let to, let frame): send(.offered(frame.value), to: to)
        case .acknowledge(let to, let said): send(.acknowledged(said.value), to: to)
        case .ask(let of, let question): send(.asked(question.value), to: of)
        case .tell(let to, let answer): send(.told(answer.value), to: to)
        case .stream(let gateway, let frame): tellStream(gateway, frame.value, from: id)
        case .confirm(let token): confirm(id, token)
        case .readRecords(let sequences, let token): read(id, sequences, token)
        case .writeSnapshot(let covering, let bytes): writeSnapshot(id, covering, bytes)
        case .trim(let below, let keeping): trim(id, below, keeping)
        case .wake(let at): wake(at: at) { self.queue.append(.partition(id, .woke)) }
        case .notice(let notice): world.violate("5.1", "partition \(id.rawValue): \(notice)")
        case .fingerprintsDiffer(let with):
            world.violate("G1", "partitions \(id.rawValue) and \(with.rawValue) differ in their members")
        }
    }

    private func append(_ id: PartitionID, _ sequence: Sequence, _ body: [UInt8]) {
        guard let partition = partitions[Int(id.rawValue)] else { return }
        let header = RecordHeader(
            partition: id, sequence: sequence, epoch: epochs[Int(id.rawValue)], history: partition.history)
        if let payload = try? RecordCodec.encode(header: header, body: body) {
            rows.append(Row(partition: id, sequence: sequence, payload: payload))
        } else {
            queue.append(.lost(id, mayHaveAppended: false))
        }
    }

    // MARK: The appender, as `EngineThread` drives it

    func onAppender(_ event: Appender.Event) {
        var effects: [Appender.Effect] = []
        appender.on(event, into: &effects)
        for effect in effects {
            switch effect {
            case .resolved(let resolved): post { self.resolve(resolved) }
            case .append(let batch, let rows): submit(batch, rows)
            case .look(let partition, let sequence): look(partition, sequence)
            }
        }
    }

    private func submit(_ batch: BatchID, _ rows: [Row]) {
        let session = session
        let database = world.database
        let offer = {
            self.journal.put(.append) { fate in
                let outcome = database.append(session: session, batch: batch, rows: rows, fate)
                return {
                    if case .rows = outcome { self.doubts = 0 }
                    self.onAppender(.finished(outcome))
                }
            }
        }
        // A repeat waits a little.
        guard appender.isInDoubt else { return offer() }
        let pause = min(.milliseconds(10) << min(doubts, 10), UInt64.milliseconds(500))
        doubts += 1
        world.after(pause, .timer, self) { offer() }
    }

    private func look(_ partition: PartitionID, _ sequence: Sequence) {
        journal.perform(.read) {
            try $0.engine.look(partition, sequence)
        } then: { result in
            switch result {
            case .success(let batch): self.onAppender(.looked(partition, sequence, batch))
            case .failure:
                self.world.after(.milliseconds(50), .timer, self) { self.look(partition, sequence) }
            }
        }
    }

    private func resolve(_ resolved: [Resolved]) {
        for one in resolved {
            switch one.resolution {
            case .durable: queue.append(.partition(one.partition, .appended(one.sequence)))
            case .fenced: queue.append(.lost(one.partition, mayHaveAppended: true))
            case .taken, .refused: queue.append(.lost(one.partition, mayHaveAppended: false))
            }
        }
    }

    // MARK: Jobs

    private func confirm(_ id: PartitionID, _ token: UInt64) {
        let session = session
        journal.perform(.read) {
            try $0.engine.isAlive(session)
        } then: { result in
            self.post {
                switch result {
                case .success(true): self.queue.append(.partition(id, .confirmed(token)))
                case .success(false), .failure: self.queue.append(.lost(id, mayHaveAppended: true))
                }
            }
        }
    }

    private func read(_ id: PartitionID, _ sequences: [Sequence], _ token: UInt64) {
        journal.perform(.read) { database in
            try database.engine.read(id, rows: sequences).map { row in
                (
                    sequence: row.sequence,
                    body: try RecordCodec.decode(row.payload, expecting: id, row.sequence).body
                )
            }
        } then: { result in
            switch result {
            case .success(let records):
                self.post { self.queue.append(.partition(id, .records(records, token: token))) }
            case .failure:
                self.world.after(.milliseconds(500), .timer, self) {
                    if self.partitions[Int(id.rawValue)] != nil { self.read(id, sequences, token) }
                }
            }
        }
    }

    private func writeSnapshot(_ id: PartitionID, _ covering: Sequence, _ bytes: [UInt8]) {
        let session = session
        journal.perform(.write) { database in
            try database.engine.writeSnapshot(
                session: session, partition: id, covering: covering, bytes: bytes)
        } then: { result in
            self.post {
                switch result {
                case .success: self.queue.append(.partition(id, .snapshotWritten(covering: covering)))
                case .failure: self.queue.append(.partition(id, .snapshotFailed))
                }
            }
        }
    }

    private func trim(_ id: PartitionID, _ below: Sequence, _ keeping: [Sequence]) {
        let session = session
        journal.perform(.write) { database in
            try database.engine.trim(
                session: session, partition: id, below: below, keeping: keeping, limit: 500)
        } then: { result in
            if let left = try? result.get(), left > 0 { self.trim(id, below, keeping) }
        }
    }
}
