import Catalog
import Edge
import FCMAPI
import Glibc
import Listener
import Logging
import NodeCore
import Partitions
import SQLiteEngine
import TLS

/// The steps that undo a start that fails, the last step first. Without them, threads and connections
/// of a node that failed to start would go on while the process ends. Objects to which a step refers must
/// live until all steps are done.
struct Begun {
    private var steps: [() -> Void] = []

    mutating func undo(_ step: @escaping () -> Void) { steps.append(step) }

    mutating func undoAll() {
        for step in steps.reversed() { step() }
        steps = []
    }
}

extension Node {
    /// Reads all certificates that the settings name, and returns the node's own for its links. Throws for
    /// one that cannot be used, before anything begins or waits for a database.
    @discardableResult
    package static func openCertificates(_ configuration: NodeConfiguration) throws -> PeerTLS? {
        for files in configuration.certificates { _ = try ServerCertificate(files) }
        return try configuration.cluster?.peerTLS.map { try PeerTLS($0, node: configuration.name) }
    }

    static func makeShared(
        _ configuration: NodeConfiguration, _ engines: Engines, opened: Opened, log: Logger,
        onFatal: @escaping @Sendable (String) -> Void
    ) -> NodeShared {
        let administrator = Administrator(
            opened.contents, engine: engines.home,
            map: NodeMap(partitionCount: opened.partitions.count, databaseCount: engines.all.count),
            defaultTokenURI: configuration.tokenURI, log: log)
        var options = PartitionOptions(partitionCount: opened.partitions.count)
        options.recordBytesMax = 1 << 20
        options.generation = opened.generation
        options.unreachableMax = configuration.isForOneCommand ? nil : configuration.unreachableMax
        options.snapshotBytesMin = configuration.snapshotBytes
        options.snapshotAge = configuration.snapshotAge
        options.databaseCount = engines.all.count
        return NodeShared(
            partitions: opened.partitions, loopCount: configuration.loopCount, session: opened.session,
            engines: engines, options: options, administrator: administrator,
            formerQuotas: opened.formerQuotas, clockWitness: opened.clockWitness,
            isClustered: configuration.cluster != nil, isForOneCommand: configuration.isForOneCommand,
            pushConnections: Gates.plan(configuration, limit: Descriptors.raise()).pushes, log: log,
            onFatal: onFatal)
    }

    static func apiSettings(_ configuration: NodeConfiguration, _ opened: Opened) -> APISettings {
        var settings = APISettings()
        settings.isDev = configuration.isDev
        settings.emulator = configuration.isDev ? Emulator() : nil
        settings.devHosts = DevHosts(
            names: configuration.devHosts, takesAddresses: configuration.isDevAnywhere)
        settings.clients = ClientLimits(
            configuration.clientLimits, salt: SystemRandomNumberGenerator.seed())
        settings.partitionCount = opened.partitions.count
        settings.tokenURIs = opened.contents.tokenURIs.union([configuration.tokenURI])
        #if DEBUG
            settings.hasAnswerFailpoint =
                getenv("TIDECAST_FAILPOINT").map { String(cString: $0) } == "send.answers"
        #endif
        return settings
    }

    /// The process that has the data folder open; `nil` if none has.
    public static func process(using folder: String) -> String? { SQLiteEngine.process(using: folder) }

    /// Whether the folder has a server's database.
    public static func hasData(in folder: String) -> Bool {
        access(folder + "/" + SQLiteEngine.fileName, F_OK) == 0
    }

    /// Opens the ports and closes them again. A start that cannot have its ports then ends before it creates
    /// a data folder. A node of a cluster creates none.
    static func checkPorts(_ configuration: NodeConfiguration, _ log: Logger) throws {
        if configuration.cluster == nil, let mistake = AdminSocket.mistake(in: configuration.folder) {
            throw NodeError(mistake)
        }
        guard configuration.cluster == nil, !configuration.listeners.isEmpty else { return }
        try StartupListener(configuration, reason: "the server starts", log).close()
    }

    /// The folder of a node of a cluster has its admin socket only. The lock keeps other nodes out, and
    /// commands that find no socket yet and would take the folder for that of a stopped server.
    static func holdFolder(of configuration: NodeConfiguration) throws -> FolderLock? {
        let folder = configuration.folder
        guard configuration.cluster != nil, !folder.isEmpty else { return nil }
        mkdir(folder, 0o700)
        // Without a folder to write in the node serves without a socket, and says so.
        return access(folder, W_OK) == 0 ? try FolderLock(folder: folder) : nil
    }

    /// Opens the listeners, and returns their ports.
    static func listen(
        _ edge: Edge, _ configuration: NodeConfiguration, certificates: CertificateKeeper?
    ) throws -> [Int] {
        var ports: [Int] = []
        for address in configuration.listen {
            ports.append(try edge.listen(host: address.host, port: address.port))
        }
        for address in configuration.listenTLS {
            guard let tls = certificates?.tls else { continue }
            ports.append(try edge.listen(host: address.host, port: address.port, tls: tls))
        }
        return ports
    }

    /// Returns the port; `nil` without an address.
    static func listen(_ edge: Edge, at address: NodeConfiguration.Address?) throws -> Int? {
        guard let address else { return nil }
        return try edge.listen(host: address.host, port: address.port)
    }

    /// Opens the admin socket. A node of a cluster serves without one. On a lone node the folder also holds
    /// the data, so a socket that cannot be created there is a reason not to start.
    static func listenForOperators(_ admin: Edge, _ configuration: NodeConfiguration, log: Logger) throws {
        guard !configuration.folder.isEmpty else { return }
        if let mistake = AdminSocket.mistake(in: configuration.folder) {
            return log.warning(
                "there is no admin socket: the command line cannot reach this node by its folder",
                metadata: ["reason": "\(mistake)"])
        }
        do {
            try admin.listen(
                unixDomainSocketPath: AdminSocket.path(in: configuration.folder), mode: 0o600)
        } catch let error as ListenError where configuration.cluster != nil {
            log.warning(
                "there is no admin socket: the command line cannot reach this node by its folder",
                metadata: ["path": "\(error.address)", "reason": "\(error.reason)"])
        }
    }
}
