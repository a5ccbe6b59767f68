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
    // The table of settings says what each one means, and `SettingValues` reads them by name.
    @Option(help: Setting.data.help) var data: String?
    @Option(help: Setting.listen.help) var listen: [String] = []
    @Option(help: Setting.listenTls.help) var listenTls: String?
    @Option(help: Setting.listenMetrics.help) var listenMetrics: String?
    @Option(help: Setting.cert.help) var cert: String?
    @Option(help: Setting.key.help) var key: String?
    @Option(help: Setting.furtherCert.help) var furtherCert: [String] = []
    @Option(help: Setting.furtherKey.help) var furtherKey: [String] = []
    @Option(help: Setting.publicUrl.help) var publicUrl: String?
    @Option(help: Setting.tokenUri.help) var tokenUri: String?
    @Option(help: Setting.proxy.help) var proxy: [String] = []
    @Option(help: Setting.partitions.help) var partitions: Int?
    @Option(help: Setting.loops.help) var loops: Int?
    @Option(help: Setting.connections.help) var connections: Int?
    @Option(help: Setting.connectionsPerAddress.help) var connectionsPerAddress: Int?
    @Option(help: Setting.connectionsPerAddressSecond.help) var connectionsPerAddressSecond: Int?
    @Option(help: Setting.addressRegistrationsPerMinute.help) var addressRegistrationsPerMinute: Int?
    @Option(help: Setting.addressRegistrationsPerDay.help) var addressRegistrationsPerDay: Int?
    @Option(help: Setting.addressChangesPerMinute.help) var addressChangesPerMinute: Int?
    @Option(help: Setting.addressCallsPerMinute.help) var addressCallsPerMinute: Int?
    @Option(help: Setting.addressBadAssertionsPerMinute.help) var addressBadAssertionsPerMinute: Int?
    @Option(help: Setting.unreachableSeconds.help) var unreachableSeconds: Int?
    @Option(help: Setting.snapshotBytes.help) var snapshotBytes: Int?
    @Option(help: Setting.snapshotSeconds.help) var snapshotSeconds: Int?
    @Option(help: Setting.engine.help) var engine: String?
    @Option(help: Setting.engineFile.help) var engineFile: String?
    @Option(help: Setting.furtherEngine.help) var furtherEngine: [String] = []
    @Option(help: Setting.adoptFrom.help) var adoptFrom: String?
    @Option(help: Setting.node.help) var node: String?
    @Option(help: Setting.roles.help) var roles: String?
    @Option(help: Setting.peer.help) var peer: String?
    @Option(help: Setting.gossip.help) var gossip: String?
    @Option(help: Setting.join.help) var join: [String] = []
    @Option(help: Setting.weight.help) var weight: Int?
    @Option(help: Setting.zone.help) var zone: String?
    @Option(help: Setting.peerCert.help) var peerCert: String?
    @Option(help: Setting.peerKey.help) var peerKey: String?
    @Option(help: Setting.peerCa.help) var peerCa: String?
    @Flag(help: Setting.allowSharedPeerCert.help) var allowSharedPeerCert = false
    @Flag(help: Setting.insecurePeers.help) var insecurePeers = false
    @Flag(help: Setting.dev.help) var dev = false
    @Flag(help: Setting.devAnywhere.help) var devAnywhere = false
    @Option(help: Setting.devHost.help) var devHost: [String] = []
    @Option(help: Setting.secretsKeyFile.help) var secretsKeyFile: String?
    @Flag(help: Setting.looseModes.help) var looseModes = false

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

/// The node as a service: runs until a signal stops it, then drains.
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
