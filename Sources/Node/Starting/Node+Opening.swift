import Catalog
import Credentials
import EngineDriver
import Glibc
import Journal
import Logging
import Model
import NodeCore
import Ownership
import PostgresEngine
import SQLiteEngine

// Reads and creates what a node needs before it begins, on the engine's thread; in a cluster, on the home's.

extension Node {
    struct Opened: Sendable {
        var session: SessionID
        var partitions: [OwnedPartition]
        var contents: Catalog.Contents
        var formerQuotas: FormerQuotas
        var clockWitness: WallTime?
        var catalogVersion: [UInt8] = []
        var generation: UInt64 = 0
        /// See `Generation.Standing`.
        var life: [UInt8] = []
        /// The databases of a cluster, the home first; empty on a lone node.
        var databases: [DatabaseSettings] = []
    }

    /// Starts the engines' threads and opens the databases. The outcomes of rows go to the loops' mailboxes.
    static func openEngines(
        _ configuration: NodeConfiguration, _ boxes: MailboxTable, log: Logger,
        onFatal: @escaping @Sendable (String) -> Void
    ) throws -> (Engines, Opened) {
        let onResolved: @Sendable (Int, [Resolved]) -> Void = { boxes.post($1, to: $0) }
        let home = EngineThread(
            makeEngine: { try makeEngine(configuration, log) }, onFatal: onFatal, onResolved: onResolved)
        let opened: Opened
        do {
            opened = try home.wait { engine in try open(engine, configuration, log: log) }
        } catch {
            home.shutdown()
            throw error
        }
        let further = opened.databases.dropFirst().map { database in
            EngineThread(makeEngine: { database.engine() }, onFatal: onFatal, onResolved: onResolved)
        }
        let engines = Engines([home] + further)
        engines.use(opened.session)
        if configuration.cluster == nil {
            for partition in opened.partitions { engines.open(partition.id, next: partition.next) }
        }
        return (engines, opened)
    }

    private static func makeEngine(_ configuration: NodeConfiguration, _ log: Logger) throws -> any Engine {
        guard let cluster = configuration.cluster else {
            return try SQLiteEngine(folder: configuration.folder)
        }
        return try cluster.waitForEngine(configuration, log)
    }

    private static func open(
        _ engine: any Engine, _ configuration: NodeConfiguration, log: Logger
    ) throws -> Opened {
        if let engine = engine as? any ClusterEngine, let cluster = configuration.cluster {
            try patiently(log) {
                if let mistake = try DatabaseSpread.mistake(engine, named: cluster.databaseCount) {
                    throw NodeError(mistake)
                }
                try checkNameAndClock(engine, name: configuration.name)
            }
            try cluster.waitWhileCordoned(engine, configuration, log: log)
            let further = try cluster.reachFurther(log)
            return try patiently(log) {
                try openShared(engine, further, configuration: configuration, cluster: cluster, log: log)
            }
        }
        let existing = try engine.partitions()
        if existing.isEmpty {
            var random = SystemRandomNumberGenerator()
            let histories = (0..<configuration.partitionCount).map { _ in History(random.next()) }
            try engine.createPartitions(count: configuration.partitionCount, histories: histories)
        } else {
            try checkCount(existing.count, configuration)
        }
        try seal(engine, configuration, log: log)
        let session = try engine.beginSession(node: configuration.name)
        let contents = try Catalog.load(engine, Vault(configuration.secrets))
        let start = try LoneStart(
            session, of: engine, projects: Array(contents.directory.byNumber.keys), clock: Clock.now)
        return Opened(
            session: session, partitions: start.partitions, contents: contents,
            formerQuotas: start.formerQuotas, clockWitness: start.clockWitness)
    }

    /// Seals again the secrets that are stored in another form than this node writes.
    private static func seal(
        _ engine: any Engine, _ configuration: NodeConfiguration, log: Logger
    ) throws {
        let vault = Vault(configuration.secrets)
        guard vault.hasKeys, !configuration.isForOneCommand else { return }
        let author = AuditEntry.Author(name: "the server", source: "start of \(configuration.name)")
        let count = try Catalog.sealAnew(engine, vault, by: author, now: Clock.now().wall)
        guard count > 0 else { return }
        log.notice(
            "stored secrets were sealed again",
            metadata: ["count": "\(count)", "how": "\(vault.description)"])
    }

    /// A node seals nothing that a running node could not open.
    private static func checkKeys(_ engine: any ClusterEngine, _ configuration: NodeConfiguration) throws {
        var nodes: [String: [UInt64]] = [:]
        for row in try engine.sessions() where row.node != configuration.name {
            nodes[row.node] = Ownership.NodeInfo(decoding: row.info)?.secretsKeys
        }
        let vault = Vault(configuration.secrets)
        guard let refusal = vault.refusal(beside: nodes) else { return }
        // The likelier mistake is a wrong key, which does not open what is stored.
        _ = try Catalog.load(engine, vault)
        throw NodeError(refusal)
    }

    private static let joiningTriesMax = 20
    private static let pauseMicroseconds: UInt32 = 200_000

    /// Runs `body`, which must be safe to repeat, and runs it again if the database refuses at the moment.
    static func patiently<Result>(_ log: Logger, _ body: () throws -> Result) throws -> Result {
        for _ in 1..<joiningTriesMax {
            do {
                return try body()
            } catch EngineError.refused(let reason) {
                log.warning("the node could not join, and tries again", metadata: ["reason": "\(reason)"])
                usleep(pauseMicroseconds)
            }
        }
        return try body()
    }

    /// Opens the databases of a cluster, while other nodes may do the same. The node takes partitions later,
    /// one by one, and keeps no other node out meanwhile. What a cluster has once is written only if it is
    /// absent, or by compare-and-set.
    private static func openShared(
        _ engine: any ClusterEngine, _ further: [PostgresEngine?], configuration: NodeConfiguration,
        cluster: ClusterConfiguration, log: Logger
    ) throws -> Opened {
        var databases = [try cluster.database(0)]
        let histories: [History]
        if further.isEmpty {
            histories = try settleOne(engine, configuration, cluster: cluster)
        } else {
            let spread = try DatabaseSpread.settle(
                engine, further: further, partitions: configuration.partitionCount)
            histories = spread.histories
            try checkCount(histories.count, configuration)
            for number in 1...further.count {
                var database = try cluster.database(number)
                database.options.identity = try spread.identity(number)
                databases.append(database)
            }
        }
        let pause = StartPause(configuration, log)
        defer { pause.close() }
        var generation = try settle(
            engine, further, databases: databases, of: configuration, pause: pause, log: log)
        for number in databases.indices.dropFirst() {
            databases[number].options.knownPast = generation.pasts[number]
        }
        try claim(
            further, of: &databases, for: engine, standing: &generation, succeeding: cluster.adopted,
            pause: pause, log: log)
        try checkKeys(engine, configuration)
        try seal(engine, configuration, log: log)
        let contents = try Catalog.load(engine, Vault(configuration.secrets))
        guard !contents.cordoned.contains(configuration.name) else {
            throw NodeError(
                "\(configuration.name) was drained while it started, and stays out of the cluster until"
                    + " `tidecast cluster uncordon \(configuration.name)`")
        }
        for other in further {
            if let last = try other?.lastSession() { try engine.skipSessions(through: last) }
        }
        // The node may have waited for long since it compared its clock.
        try checkClock(engine)
        let session = try engine.beginSession(node: configuration.name)
        guard try Generation.confirms(generation, engine) else {
            throw Generation.overtaken
        }
        return Opened(
            session: session,
            partitions: histories.enumerated().map { index, history in
                OwnedPartition(
                    id: PartitionID(UInt16(index)), history: history, epoch: Epoch(0), next: .zero)
            }, contents: contents, formerQuotas: FormerQuotas(),
            clockWitness: try ClockWitness.claim(from: engine, now: Clock.now()),
            catalogVersion: contents.version ?? [], generation: generation.number,
            life: generation.life, databases: databases)
    }

    /// The generation and the life with which the node begins.
    private static func settle(
        _ engine: any ClusterEngine, _ further: [PostgresEngine?], databases: [DatabaseSettings],
        of configuration: NodeConfiguration, pause: StartPause, log: Logger
    ) throws -> Generation.Standing {
        let generation = try Generation.settled(
            engine, name: configuration.name, now: { Clock.monotonic() },
            pause: {
                for (database, engine) in zip(databases.dropFirst(), further) {
                    if let engine { database.options.claims.look(at: engine) }
                }
                try pause.wait($0, for: "the node looks whether another one renews its lease")
            }
        ) {
            try Generation.current(engine, databases: databases.count) {
                var pasts: [Int: EnginePast] = [:]
                for (index, engine) in further.enumerated() {
                    if let past = try engine?.past() { pasts[index + 1] = past }
                }
                return pasts
            }
        }
        if !generation.fenced.isEmpty {
            log.notice(
                "no other node lives: their sessions are fenced, and the cluster begins again",
                metadata: ["fenced": "\(generation.fenced.joined(separator: ","))"])
        }
        for loss in generation.losses {
            log.error(
                "the database failed over, was restored or was replaced: its last records may be lost",
                metadata: [
                    "database": "\(loss.database + 1)",
                    "timeline": "\(loss.former.timeline) to \(loss.now.timeline)",
                    "system": "\(loss.former.system) to \(loss.now.system)",
                    "oid": "\(loss.former.database) to \(loss.now.database)",
                    "generation": "\(generation.number)",
                ])
        }
        return generation
    }

    /// Creates the partitions of a cluster on one database, or finds them, and returns their histories.
    private static func settleOne(
        _ engine: any ClusterEngine, _ configuration: NodeConfiguration, cluster: ClusterConfiguration
    ) throws -> [History] {
        let count = configuration.partitionCount
        let existing = try engine.partitions()
        if existing.isEmpty {
            var random = SystemRandomNumberGenerator()
            try engine.createPartitions(
                count: count, histories: (0..<count).map { _ in History(random.next()) })
        } else {
            try checkCount(existing.count, configuration)
        }
        // Another node may have begun just now to spread the cluster over several databases.
        if let mistake = try DatabaseSpread.mistake(engine, named: 1) { throw NodeError(mistake) }
        return try engine.partitions().map(\.history)
    }

    private static func checkCount(_ existing: Int, _ configuration: NodeConfiguration) throws {
        guard configuration.insistsOnCount, existing != configuration.partitionCount else { return }
        let whose = configuration.cluster == nil ? "the data folder" : "the cluster"
        throw NodeError(
            "\(whose) has \(existing) partitions, and their number never changes: leave out"
                + " --partitions, or give \(existing)")
    }
}
