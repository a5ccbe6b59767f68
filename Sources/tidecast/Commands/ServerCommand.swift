import ArgumentParser
import CommandOutput
import Foundation
import Logging
import Node
import ServiceLifecycle
import UnixSignals

struct Server: AsyncParsableCommand {
    static let configuration = CommandConfiguration(abstract: "Run a server.")

    @Option(help: "A file of settings, a JSON object. Flags and the environment override it.") var config:
        String?
    @Option(help: "The data folder; the server makes a missing one.") var data: String?
    @Option(help: "Where to listen, HOST:PORT; may be repeated. HTTP/2 and HTTP/1.1 without TLS.") var listen:
        [String] = []
    @Option(help: "Where to listen with TLS, HOST:PORT.") var listenTls: String?
    @Option(help: "Where scrapers read /metrics, and probes /healthz and /readyz, HOST:PORT; without TLS.")
    var listenMetrics: String?
    @Option(help: "The certificate chain, PEM.") var cert: String?
    @Option(help: "The certificate's key, PEM.") var key: String?
    @Option(
        help: "A further certificate chain, for clients that ask for its names; may be repeated.")
    var furtherCert: [String] = []
    @Option(help: "The key of the further certificate in the same place; may be repeated.")
    var furtherKey: [String] = []
    @Option(
        help: "The URL at which clients reach this server or its proxy, http:// or https://.")
    var publicUrl: String?
    @Option(help: "The token URI in service-account files; by default /token at --public-url.")
    var tokenUri: String?
    @Option(help: "Partitions of a new data folder, 32 by default; fixed once it is made.") var partitions:
        Int?
    @Option(help: "Event loops; by default one for each core.") var loops: Int?
    @Flag(help: "Send Retry-After with refused sends too; some SDKs then block their caller.")
    var retryAfterOnSends = false
    @Option(help: "Payload bytes of messages to topics, 4096 by default; FCM's error page says 2048.")
    var topicPayloadBytes: Int?
    @Option(help: "Connections of clients; by default as many as the process's descriptors allow.")
    var connections: Int?
    @Option(help: "Connections of one address, 0 for no bound; by default a quarter of all.")
    var connectionsPerAddress: Int?
    @Option(help: "New connections a second of one address, 500 by default; 0 for no bound.")
    var connectionsPerAddressSecond: Int?
    @Option(help: "A proxy whose X-Forwarded-For counts, ADDRESS[/BITS]; may be repeated.")
    var proxy: [String] = []
    @Option(help: "Registrations a minute with an app's key from one address, 600 by default; 0: no bound.")
    var addressRegistrationsPerMinute: Int?
    @Option(help: "Registrations a day with an app's key from one address, 10,000 by default; 0: no bound.")
    var addressRegistrationsPerDay: Int?
    @Option(help: "Subscription changes a minute of devices from one address, 3,000 by default; 0: no bound.")
    var addressChangesPerMinute: Int?
    @Option(help: "Other calls a minute of clients of one address, 12,000 by default; 0: no bound.")
    var addressCallsPerMinute: Int?
    @Option(help: "Refused assertions a minute from one address, 120 by default; 0: no bound.")
    var addressBadAssertionsPerMinute: Int?
    @Option(help: "Seconds after which a device ends whose addresses are gone, a week by default; 0: never.")
    var unreachableSeconds: Int?
    @Option(help: "The PostgreSQL database of this node's cluster, postgres://…") var engine: String?
    @Option(
        help: "A further database over which the partitions of a new cluster are spread; may be repeated.")
    var furtherEngine: [String] = []
    @Option(help: "A file that holds the value of --engine, so that no password is in a command line.")
    var engineFile: String?
    @Option(
        help:
            "This node's name in its cluster; auto is the host's name. No other living node may have it."
    )
    var node: String?
    @Option(help: "gateway, shard, or gateway,shard (the default).") var roles: String?
    @Option(help: "This node's address for other nodes, HOST:PORT; auto:PORT for the host's name.")
    var peer: String?
    @Option(help: "Where this node receives gossip (UDP), HOST:PORT; by default at --peer.")
    var gossip: String?
    @Option(help: "A node to gossip with first, HOST:PORT; may be repeated. The database names all others.")
    var join: [String] = []
    @Option(help: "This node's share of the partitions relative to other nodes, 1 to 64.") var weight: Int?
    @Option(help: "The zone that the node is in.") var zone: String?
    @Option(help: "The certificate chain that this node shows to other nodes, PEM.") var peerCert: String?
    @Option(help: "The key of that certificate, PEM.") var peerKey: String?
    @Option(help: "The authority that signed the certificates of all nodes, PEM.") var peerCa: String?
    @Flag(
        help:
            "Accept nodes whose certificate names no node, though this node's certificate names this node."
    )
    var allowSharedPeerCert = false
    @Flag(help: "Let nodes speak without TLS beyond this machine; only where the network is private.")
    var insecurePeers = false
    @Option(help: "A file with the key under which the server's own keys are sealed in its database.")
    var secretsKeyFile: String?
    @Flag(help: "Accept key files and folders of any mode; only where the machine has no other users.")
    var looseModes = false
    @Flag(help: "Development: loopback only, any project, bearer \"owner\". Not for production.") var dev =
        false
    @Flag(help: "As --dev, on any address: every client may do anything. Only on a private network.")
    var devAnywhere = false
    @Option(help: "A host that a development server accepts in Host and Origin; may be repeated.")
    var devHost: [String] = []

    func run() async throws {
        let settings = try await Settings.read(self, environment: ProcessInfo.processInfo.environment)
        let configuration = settings.configuration
        try checkDevelopment(configuration)
        var log = Logger(label: "tidecast") { _ in JSONLog() }
        log.logLevel = settings.logLevel
        let logger = log
        for name in Settings.strangers(in: ProcessInfo.processInfo.environment) {
            var about: Logger.Metadata = ["variable": "\(name)"]
            if let meant = Settings.meant(by: name) { about["meant"] = "\(meant)?" }
            logger.warning("an environment variable names no setting", metadata: about)
        }
        // While the server starts or waits there is nothing to hand over. As the first process of a container
        // it would not end without this handler.
        signal(SIGTERM) { _ in _exit(0) }
        // SIGHUP asks for certificates to be read, and the start reads them anyway.
        signal(SIGHUP) { _ in }
        Allocator.giveBackInTime()
        let node = try Node(configuration, log: logger) { reason in
            logger.critical("stopping", metadata: ["reason": "\(reason)"])
            // At once: other threads still use what `exit` would free, libcrypto's tables first.
            _exit(70)
        }
        if configuration.isDev {
            let who = configuration.isDevAnywhere ? "who reaches this port" : "on this machine"
            logger.warning("DEVELOPMENT SERVER: anybody \(who) may do anything. Not for production.")
        }
        var places: Logger.Metadata = [
            "ports": "\(node.ports.map(String.init).joined(separator: ","))",
            "hosts": "\(configuration.hosts.joined(separator: ","))",
            "data": "\(settings.folder)",
        ]
        if let port = node.metricsPort { places["metrics"] = "\(port)" }
        logger.info("listening", metadata: places)
        if settings.isLocalTokenURI {
            logger.warning(
                "service-account files name a token URI that works on this machine only: give --public-url",
                metadata: ["tokenUri": "\(configuration.tokenURI)"])
        }
        Allocator.keepUntilTheEnd(node)
        let service = NodeService(node: node, log: logger)
        let group = ServiceGroup(
            configuration: ServiceGroupConfiguration(
                services: [.init(service: service), .init(service: ReadingAnew(node: node))],
                gracefulShutdownSignals: [.sigterm, .sigint],
                logger: logger))
        try await group.run()
    }

    static func address(_ text: String) throws -> NodeConfiguration.Address {
        guard let colon = text.lastIndex(of: ":"), let port = Int(text[text.index(after: colon)...]),
            (0...65535).contains(port)
        else { throw ValidationError("\(text) is not HOST:PORT, with a port from 0 to 65535.") }
        var host = String(text[..<colon])
        guard !host.isEmpty else { throw ValidationError("\(text) has no host: give HOST:PORT.") }
        if host.hasPrefix("["), host.hasSuffix("]") { host = String(host.dropFirst().dropLast()) }
        return .init(host: host, port: port)
    }

    static func isLoopback(_ host: String) -> Bool {
        host.hasPrefix("127.") || ["localhost", "::1"].contains(host)
    }

    func checkDevelopment(_ configuration: NodeConfiguration) throws {
        guard configuration.isDev, !configuration.isDevAnywhere else { return }
        let addresses = configuration.listen + configuration.listenTLS
        for address in addresses where !Server.isLoopback(address.host) {
            throw ValidationError(
                "--dev listens on loopback only, not on \(address.host). Where the network is private, as in a"
                    + " container whose port is published on 127.0.0.1, use --dev-anywhere.")
        }
    }
}

/// The node as a service: runs until it is told to stop, then drains.
struct NodeService: Service {
    let node: Node
    let log: Logger

    func run() async throws {
        try? await gracefulShutdown()
        log.info("the node drains")
        await node.stop()
        log.info("the node has stopped")
    }
}

/// Reads the certificates again after each SIGHUP.
struct ReadingAnew: Service {
    let node: Node

    func run() async throws {
        for await _ in await UnixSignalsSequence(trapping: .sighup).cancelOnGracefulShutdown() {
            node.readCertificates()
        }
    }
}

/// One JSON object on each line of standard error: no tokens, no payloads.
struct JSONLog: LogHandler {
    var logLevel = Logger.Level.info
    var metadata: Logger.Metadata = [:]

    subscript(metadataKey key: String) -> Logger.Metadata.Value? {
        get { metadata[key] }
        set { metadata[key] = newValue }
    }

    func log(event: LogEvent) {
        var fields: [String: String] = [:]
        for (key, value) in metadata { fields[key] = "\(value)" }
        for (key, value) in event.metadata ?? [:] { fields[key] = "\(value)" }
        fields["level"] = "\(event.level)"
        fields["message"] = "\(event.message)"
        fields["time"] = Date().formatted(
            .iso8601.year().month().day().time(includingFractionalSeconds: true).timeZone(separator: .omitted)
        )
        guard
            let data = try? JSONSerialization.data(
                withJSONObject: fields, options: [.sortedKeys, .withoutEscapingSlashes])
        else { return }
        LogOutput.standardError.write(data + [0x0A])
    }
}
