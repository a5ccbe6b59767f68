import Catalog
import EngineDriver
import Journal
import Logging
import Model
import NodeCore
import Ownership

// Calls of the databases for a node's part in the cluster. Each database has its own threads, so that a
// database that does not answer delays only the partitions in it.

/// The threads that call one database, each over its own connection; `Engines` has the journals'.
struct DatabaseConnections: Sendable {
    let number: Int
    /// See `DatabaseCall.Line`.
    let lease: EngineThread
    let control: EngineThread
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

    subscript(_ line: DatabaseCall.Line) -> EngineThread? {
        switch line {
        case .lease: lease
        case .control: control
        case .loader: loader
        case .journal: nil
        }
    }

    func shutdown() {
        lease.shutdown()
        control.shutdown()
        loader.shutdown()
    }
}

extension Cluster {
    /// From any thread.
    func call(_ call: DatabaseCall) {
        let caller = caller
        if case .poll(let info, let asked) = call { return poll(info, asked: asked) }
        databaseConnections[call.database(shared.map)][call.line]?.perform(isLarge: call.isLarge) { engine in
            try call.perform(on: engine, for: caller, clock: Clock.now)
        } then: { result in
            self.shared.take(call.answer(result), boxes: self.boxes)
        }
    }

    private var caller: DatabaseCall.Caller { DatabaseCall.Caller(session: shared.session, node: name) }

    /// Renews the lease, and reads the catalog if it has changed. On the event loop.
    private func poll(_ info: Ownership.NodeInfo, asked: MonotonicTime) {
        var described = info
        described.stalled = Ownership.NodeInfo.Stalled(shared.stalledOutboxes.all)
        described.certificate = ownCertificates.first
        compareCertificate()
        described.stalledConditions = Ownership.NodeInfo.Stalled(shared.stalledConditions.all)
        let (caller, known, vault) = (caller, catalogVersion, shared.administrator.vault)
        let call = DatabaseCall.poll(described, asked: asked)
        databaseConnections[0].lease.perform({ engine in
            let answer = try call.perform(on: engine, for: caller, clock: Clock.now)
            let version = try engine.get(.setting, key: Catalog.versionKey) ?? []
            return (answer, version == known ? nil : try Catalog.load(engine, vault))
        }) { result in
            if case .success(let (_, contents)) = result {
                self.shared.renewedAt.store(asked.nanoseconds, ordering: .relaxed)
                if let contents { self.apply(contents) }
            }
            self.shared.take(call.answer(result.map(\.0)), boxes: self.boxes)
        }
    }

    private func apply(_ contents: Catalog.Contents) {
        let version = contents.version ?? []
        perform { self.catalogVersion = version }
        tell(.catalog(version: Catalog.number(of: version)))
        shared.administrator.apply(contents)
        // The message to leave may have been lost, or have gone to an earlier process of this node.
        if contents.cordoned.contains(name) { NodeShared.endInOrder() }
    }
}

extension NodeShared {
    /// Passes a database's answer on to the control side or to a loop, and reports a failure to operators.
    func take(_ answer: DatabaseAnswer, boxes: [Mailbox]) {
        for event in answer.events { cluster?.tell(event) }
        guard let (partition, message) = answer.message else { return }
        if let (line, error) = answer.complaint {
            log.error("\(line)", metadata: ["partition": "\(partition.rawValue)", "error": "\(error)"])
        }
        boxes[loop(of: partition)].post(message)
    }
}
