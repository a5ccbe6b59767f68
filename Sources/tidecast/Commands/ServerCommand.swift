import ArgumentParser
import Foundation
import Logging
import Node
import ServiceLifecycle

struct Server: AsyncParsableCommand {
    static let configuration = CommandConfiguration(abstract: "Run a server.")

    @Option(help: "The data folder; made where it is not there.") var data: String?
    @Option(help: "Where to listen, HOST:PORT; may be repeated. HTTP/2 and HTTP/1.1 without TLS.") var listen:
        [String] = []
    @Option(help: "Where to listen with TLS, HOST:PORT.") var listenTls: String?
    @Option(help: "The certificate chain, PEM.") var cert: String?
    @Option(help: "The certificate's key, PEM.") var key: String?
    @Option(help: "What service-account files name as token URI.") var tokenUri: String?
    @Option(help: "Partitions of a new data folder; fixed once it is made.") var partitions = 32
    @Option(help: "Event loops; by default one for each core.") var loops: Int?
    @Flag(help: "Development: loopback only, any project, bearer \"owner\". Not for production.") var dev =
        false

    func run() async throws {
        let environment = ProcessInfo.processInfo.environment
        guard let folder = data ?? environment["TIDECAST_DATA"] else {
            throw ValidationError("--data FOLDER (or TIDECAST_DATA) is needed.")
        }
        var texts = listen
        if texts.isEmpty, let one = environment["TIDECAST_LISTEN"] { texts = [one] }
        if texts.isEmpty { texts = ["127.0.0.1:8787"] }
        var configuration = NodeConfiguration(folder: folder)
        configuration.listen = try texts.map(Server.address)
        configuration.isDev = dev
        configuration.partitionCount = partitions
        if let loops { configuration.loopCount = max(1, loops) }
        if let first = configuration.listen.first {
            configuration.tokenURI = tokenUri ?? "http://\(first.host):\(first.port)/token"
        }
        if let listenTls {
            guard let cert, let key else { throw ValidationError("--listen-tls needs --cert and --key.") }
            let address = try Server.address(listenTls)
            configuration.listenTLS = [(address, cert, key)]
            configuration.tokenURI = tokenUri ?? "https://\(address.host):\(address.port)/token"
        }
        if dev { try Server.checkLoopback(configuration.listen + configuration.listenTLS.map(\.address)) }
        var log = Logger(label: "tidecast") { _ in JSONLog() }
        log.logLevel = Logger.Level(rawValue: environment["TIDECAST_LOG_LEVEL"] ?? "info") ?? .info
        let logger = log
        let node = try Node(configuration, log: logger) { reason in
            logger.critical("stopping", metadata: ["reason": "\(reason)"])
            Foundation.exit(70)
        }
        if dev {
            logger.warning("DEVELOPMENT SERVER: anybody on this machine may do anything. Not for production.")
        }
        logger.info(
            "listening",
            metadata: ["ports": "\(node.ports.map(String.init).joined(separator: ","))", "data": "\(folder)"])
        let service = NodeService(node: node, log: logger)
        let group = ServiceGroup(
            configuration: ServiceGroupConfiguration(
                services: [.init(service: service)], gracefulShutdownSignals: [.sigterm, .sigint],
                logger: logger))
        try await group.run()
    }

    static func address(_ text: String) throws -> NodeConfiguration.Address {
        guard let colon = text.lastIndex(of: ":"), let port = Int(text[text.index(after: colon)...]),
            (0...65535).contains(port)
        else { throw ValidationError("\(text) is not HOST:PORT.") }
        var host = String(text[..<colon])
        if host.hasPrefix("["), host.hasSuffix("]") { host = String(host.dropFirst().dropLast()) }
        return .init(host: host, port: port)
    }

    private static func checkLoopback(_ addresses: [NodeConfiguration.Address]) throws {
        for address in addresses
        where !(address.host.hasPrefix("127.") || ["localhost", "::1"].contains(address.host)) {
            throw ValidationError("--dev listens on loopback only, not on \(address.host).")
        }
    }
}

/// The node as a service: runs until it is told to stop, then drains.
struct NodeService: Service {
    let node: Node
    let log: Logger

    func run() async throws {
        try? await gracefulShutdown()
        log.info("draining")
        await node.stop()
        log.info("stopped")
    }
}

/// One JSON object a line on standard error: no tokens, no payloads.
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
        fields["time"] = Date().formatted(.iso8601.time(includingFractionalSeconds: true))
        guard
            let data = try? JSONSerialization.data(
                withJSONObject: fields, options: [.sortedKeys, .withoutEscapingSlashes])
        else { return }
        FileHandle.standardError.write(data + Data([0x0A]))
    }
}
