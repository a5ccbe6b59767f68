import ArgumentParser
import CommandOutput
import Configuration
import FCMAPI
import Foundation
import HTTPMessages
import Logging
import Node
import SystemPackage
import TLS

/// A server's settings, from its flags, the environment (`TIDECAST_…`) and a file, in this order of
/// precedence.
struct Settings {
    /// The file's keys; each is also a flag (`listenTls`: `--listen-tls`) and a variable
    /// (`TIDECAST_LISTEN_TLS`).
    static let keys: Set<String> = [
        "data", "listen", "listenTls", "listenMetrics", "cert", "key", "tokenUri", "partitions", "loops",
        "dev", "retryAfterOnSends", "topicPayloadBytes", "logLevel", "engine", "node", "roles", "peer",
        "gossip", "join", "weight", "zone", "insecurePeers", "peerCert", "peerKey", "peerCa",
        "allowSharedPeerCert",
        "furtherCert", "furtherKey",
        "furtherEngine", "engineFile", "publicUrl", "devAnywhere", "devHost", "connections",
        "connectionsPerAddress", "connectionsPerAddressSecond", "proxy",
        "addressRegistrationsPerMinute", "addressRegistrationsPerDay",
        "addressChangesPerMinute", "addressCallsPerMinute",
        "addressBadAssertionsPerMinute", "unreachableSeconds", "secretsKey", "secretsKeyFile", "looseModes",
    ]

    var folder = ""
    var logLevel = Logger.Level.info
    var configuration: NodeConfiguration
    /// Whether service-account files name this machine, for want of a public URL, though the server listens
    /// beyond it.
    private(set) var isLocalTokenURI = false

    /// `flags` holds the values of the command line.
    static func read(_ flags: Server, environment: [String: String]) async throws -> Settings {
        // A compose file that passes a variable on gives an empty one where its user gives none.
        let environment = environment.filter { !$0.value.isEmpty }
        try checkVariables(environment)
        let variables = EnvironmentVariablesProvider(environmentVariables: environment)
            .prefixKeys(with: "tidecast")
        guard let path = flags.config ?? environment["TIDECAST_CONFIG"] else {
            return try await resolve(
                flags, ConfigReader(provider: variables), environment: environment, file: nil)
        }
        try checkFile(path)
        let file: FileProvider<JSONSnapshot>
        do {
            file = try await FileProvider<JSONSnapshot>(filePath: FilePath(path))
        } catch {
            throw ValidationError("\(path): \(error)")
        }
        do {
            return try await resolve(
                flags, ConfigReader(providers: [variables, file]), environment: environment, file: path)
        } catch let error as ValidationError {
            throw error
        } catch {
            throw ValidationError("The environment or \(path): \(error)")
        }
    }

    private static func resolve(
        _ flags: Server, _ config: ConfigReader, environment: [String: String], file: String?
    ) async throws -> Settings {
        let folder = try await config.string(flags.data, "data")
        let engine = try await engineURL(flags, config)
        guard folder != nil || engine != nil else {
            throw ValidationError("--data FOLDER (or TIDECAST_DATA) is needed, or --engine for a cluster.")
        }
        guard engine != nil || flags.furtherEngine.isEmpty else {
            throw ValidationError("--further-engine needs --engine, which names the cluster's home database.")
        }
        var configuration = NodeConfiguration(folder: folder ?? "")
        var listen = flags.listen
        if listen.isEmpty {
            listen = try await config.fetchStringArray(forKey: "listen", default: ["127.0.0.1:8787"])
        }
        configuration.listen = try listen.map(Server.address)
        configuration.listenMetrics =
            try await config.string(flags.listenMetrics, "listenMetrics").map(Server.address)
        let isDevAnywhere = try await config.bool(flags.devAnywhere, "devAnywhere")
        let isDev = try await config.bool(flags.dev, "dev")
        configuration.isDev = isDev || isDevAnywhere
        configuration.isDevAnywhere = isDevAnywhere
        let partitions = try await config.int(flags.partitions, "partitions")
        configuration.partitionCount = partitions ?? (engine == nil ? 32 : 256)
        guard (1...4096).contains(configuration.partitionCount) else {
            throw ValidationError("--partitions must be from 1 to 4096, not \(configuration.partitionCount).")
        }
        if let loops = try await config.int(flags.loops, "loops") {
            guard (1...256).contains(loops) else {
                throw ValidationError("--loops must be from 1 to 256, not \(loops).")
            }
            configuration.loopCount = loops
        }
        configuration.retryAfterOnSends =
            try await config.bool(flags.retryAfterOnSends, "retryAfterOnSends")
        if let bytes = try await config.int(flags.topicPayloadBytes, "topicPayloadBytes") {
            guard (1...4096).contains(bytes) else {
                throw ValidationError("--topic-payload-bytes must be from 1 to 4096, not \(bytes).")
            }
            configuration.topicPayloadBytesMax = bytes
        }
        try await addBounds(flags, config, to: &configuration)
        let tokenURI = try await addTLS(flags, config, to: &configuration)
        if let engine {
            try await addCluster(flags, config, engine: engine, to: &configuration)
            try await addDatabases(flags, config, environment: environment, to: &configuration)
        } else {
            try await refuseCluster(flags, config)
        }
        configuration.insistsOnCount = partitions != nil
        configuration.allocatedBytes = { Allocator.allocatedBytes() }
        configuration.logLinesLost = { LogOutput.standardError.linesLost }
        configuration.devHosts = try await devHosts(flags, config, configuration: configuration)
        configuration.secrets = try await secrets(flags.secretsKeyFile, config)
        configuration.mayHaveLooseModes = try await config.bool(flags.looseModes, "looseModes")
        if !configuration.mayHaveLooseModes {
            try checkModes(configuration, try await secretFiles(flags, config, file: file))
        }
        var settings = Settings(folder: folder ?? "", configuration: configuration)
        settings.isLocalTokenURI = tokenURI == nil && configuration.isReachedFromElsewhere
        let level = try await config.fetchString(forKey: "logLevel", default: "info")
        guard let level = Logger.Level(rawValue: level) else {
            let words = Logger.Level.allCases.map(\.rawValue).joined(separator: ", ")
            throw ValidationError("TIDECAST_LOG_LEVEL must be one of \(words), not \"\(level)\".")
        }
        settings.logLevel = level
        return settings
    }

    /// Refuses settings of a cluster's node without `--engine`: such a server would serve on its own.
    private static func refuseCluster(_ flags: Server, _ config: ConfigReader) async throws {
        let said = [
            ("--node", try await config.string(flags.node, "node")),
            ("--peer", try await config.string(flags.peer, "peer")),
            ("--roles", try await config.string(flags.roles, "roles")),
            ("--gossip", try await config.string(flags.gossip, "gossip")),
            ("--peer-cert", try await config.string(flags.peerCert, "peerCert")),
        ]
        guard let flag = said.first(where: { $0.1 != nil })?.0 else { return }
        throw ValidationError("\(flag) is for a node of a cluster, and needs --engine.")
    }

    /// Every host name that the settings give this server.
    private static func devHosts(
        _ flags: Server, _ config: ConfigReader, configuration: NodeConfiguration
    ) async throws -> [String] {
        var hosts = flags.devHost
        if hosts.isEmpty { hosts = try await config.fetchStringArray(forKey: "devHost", default: []) }
        let urls = [configuration.tokenURI, try await config.string(flags.publicUrl, "publicUrl") ?? ""]
        hosts += urls.compactMap { URL(string: $0)?.host }
        return hosts + (configuration.listen + configuration.listenTLS).map(\.host)
    }

    private static func addBounds(
        _ flags: Server, _ config: ConfigReader, to configuration: inout NodeConfiguration
    ) async throws {
        configuration.connectionsMax = try await config.int(flags.connections, "connections")
        guard configuration.connectionsMax ?? 1 > 0 else {
            throw ValidationError("--connections must be at least 1.")
        }
        configuration.connectionsPerAddressMax =
            try await config.int(flags.connectionsPerAddress, "connectionsPerAddress")
        guard configuration.connectionsPerAddressMax ?? 0 >= 0 else {
            throw ValidationError("--connections-per-address must not be negative; 0 means no bound.")
        }
        configuration.connectionsPerAddressSecond =
            try await config.int(flags.connectionsPerAddressSecond, "connectionsPerAddressSecond")
        guard
            (0...NodeConfiguration.connectionsPerSecondMax).contains(
                configuration.connectionsPerAddressSecond ?? 0)
        else {
            throw ValidationError(
                "--connections-per-address-second must be from 0 to 1000000; 0 means no bound.")
        }
        if let seconds = try await config.int(flags.unreachableSeconds, "unreachableSeconds") {
            guard (0...NodeConfiguration.unreachableSecondsMax).contains(seconds) else {
                let most = NodeConfiguration.unreachableSecondsMax
                throw ValidationError("--unreachable-seconds must be from 0, for no end, to \(most).")
            }
            configuration.unreachableMax = seconds == 0 ? nil : .seconds(UInt64(seconds))
        }
        configuration.clientLimits = try await clientLimits(flags, config)
    }

    private static func clientLimits(
        _ flags: Server, _ config: ConfigReader
    ) async throws -> ClientLimits.Settings {
        var limits = ClientLimits.Settings()
        limits.registrationsPerMinute =
            try await config.int(flags.addressRegistrationsPerMinute, "addressRegistrationsPerMinute")
        limits.registrationsPerDay =
            try await config.int(flags.addressRegistrationsPerDay, "addressRegistrationsPerDay")
        limits.changesPerMinute =
            try await config.int(flags.addressChangesPerMinute, "addressChangesPerMinute")
        limits.callsPerMinute =
            try await config.int(flags.addressCallsPerMinute, "addressCallsPerMinute")
        limits.badAssertionsPerMinute =
            try await config.int(flags.addressBadAssertionsPerMinute, "addressBadAssertionsPerMinute")
        for (flag, limit) in [
            ("registrations-per-minute", limits.registrationsPerMinute),
            ("registrations-per-day", limits.registrationsPerDay),
            ("changes-per-minute", limits.changesPerMinute),
            ("calls-per-minute", limits.callsPerMinute),
            ("bad-assertions-per-minute", limits.badAssertionsPerMinute),
        ] {
            guard (0...ClientLimits.Settings.countMax).contains(limit ?? 0) else {
                let most = ClientLimits.Settings.countMax
                throw ValidationError("--address-\(flag) must be from 0, for no bound, to \(most).")
            }
        }
        var proxies = flags.proxy
        if proxies.isEmpty { proxies = try await config.fetchStringArray(forKey: "proxy", default: []) }
        limits.proxies = try proxies.map { text in
            guard let range = AddressRange(text: text) else {
                throw ValidationError("--proxy must be ADDRESS or ADDRESS/BITS, not \(text).")
            }
            return range
        }
        return limits
    }

    /// The database's URL: as it was given, or the first line of the named file.
    private static func engineURL(_ flags: Server, _ config: ConfigReader) async throws -> String? {
        var url = try await config.string(flags.engine, "engine")
        if url == nil, let path = try await config.string(flags.engineFile, "engineFile") {
            url = try secret(in: path, isLine: true)
            guard url != "" else {
                throw ValidationError("--engine-file \(path) is empty: write the database's URL into it.")
            }
        }
        if let url {
            try checkDatabase(
                url, flag: "--engine", variable: "TIDECAST_ENGINE", isFlag: flags.engine != nil)
        }
        return url
    }

    /// Files that others must not read. The settings file may hold a URL with a password, or a key.
    private static func secretFiles(
        _ flags: Server, _ config: ConfigReader, file: String?
    ) async throws -> [String] {
        var files: [String] = []
        if flags.engine == nil, let path = try await config.string(flags.engineFile, "engineFile") {
            files.append(path)
        }
        if let path = try await config.string(flags.secretsKeyFile, "secretsKeyFile") { files.append(path) }
        guard let file, let data = FileManager.default.contents(atPath: file),
            let object = try? JSONSerialization.jsonObject(with: data) as? [String: Any]
        else { return files }
        let urls =
            [object["engine"] as? String].compactMap { $0 } + (object["furtherEngine"] as? [String] ?? [])
        let isSecret = urls.contains { ClusterConfiguration.look($0) == .withPassword }
        if isSecret || object["secretsKey"] != nil { files.append(file) }
        return files
    }

    private static func addCluster(
        _ flags: Server, _ config: ConfigReader, engine: String, to configuration: inout NodeConfiguration
    ) async throws {
        guard var name = try await config.string(flags.node, "node"), (1...200).contains(name.utf8.count)
        else {
            throw ValidationError("A node of a cluster needs --node NAME of 1 to 200 bytes, or --node auto.")
        }
        guard let peer = try await config.string(flags.peer, "peer") else {
            throw ValidationError("A node of a cluster needs --peer HOST:PORT, its address for other nodes.")
        }
        guard ["postgres://", "postgresql://"].contains(where: engine.hasPrefix) else {
            throw ValidationError("--engine must be the URL of a PostgreSQL database, postgres://….")
        }
        var peerAddress = try Server.address(peer)
        if peerAddress.host == HostName.auto { peerAddress.host = try HostName.own() }
        if name == HostName.auto { name = try HostName.nodeName(of: try HostName.own(), HostName.reverse) }
        configuration.name = name
        var cluster = ClusterConfiguration(url: engine, peer: peerAddress)
        let roles = try await config.string(flags.roles, "roles") ?? "gateway,shard"
        let words = Set(roles.split(separator: ",").map(String.init))
        guard !words.isEmpty, words.isSubset(of: ["gateway", "shard"]) else {
            throw ValidationError("--roles must be gateway, shard or gateway,shard, not \"\(roles)\".")
        }
        cluster.isShard = words.contains("shard")
        cluster.isGateway = words.contains("gateway")
        if let weight = try await config.int(flags.weight, "weight") {
            guard (1...64).contains(weight) else {
                throw ValidationError("--weight must be from 1 to 64, not \(weight).")
            }
            cluster.weight = UInt8(weight)
        }
        cluster.gossip = try await config.string(flags.gossip, "gossip").map(Server.address)
        cluster.seeds = flags.join
        if cluster.seeds.isEmpty {
            cluster.seeds = try await config.fetchStringArray(forKey: "join", default: [])
        }
        for seed in cluster.seeds { _ = try Server.address(seed) }
        cluster.zone = try await config.string(flags.zone, "zone") ?? ""
        if let certificate = try await config.string(flags.peerCert, "peerCert") {
            guard let key = try await config.string(flags.peerKey, "peerKey"),
                let authority = try await config.string(flags.peerCa, "peerCa")
            else { throw ValidationError("--peer-cert needs --peer-key and --peer-ca.") }
            cluster.peerTLS = PeerFiles(
                certificateFile: certificate, keyFile: key, authorityFile: authority)
        }
        cluster.allowsSharedPeerCert = try await config.bool(
            flags.allowSharedPeerCert, "allowSharedPeerCert")
        let isPrivate = try await config.bool(flags.insecurePeers, "insecurePeers")
        guard cluster.peerTLS != nil || isPrivate || Server.isLoopback(cluster.peer.host) else {
            throw ValidationError(
                "Nodes on several machines need certificates: --peer-cert, --peer-key and --peer-ca, made with"
                    + " `tidecast cert make --cluster`; or --insecure-peers where the network is private.")
        }
        configuration.cluster = cluster
    }

    /// In the environment semicolons separate the URLs, because a URL may contain commas.
    private static func addDatabases(
        _ flags: Server, _ config: ConfigReader, environment: [String: String],
        to configuration: inout NodeConfiguration
    ) async throws {
        var further = flags.furtherEngine
        if further.isEmpty, let text = environment["TIDECAST_FURTHER_ENGINE"] {
            further = text.split(separator: ";").map(String.init)
        } else if further.isEmpty {
            further = try await config.fetchStringArray(forKey: "furtherEngine", default: [])
        }
        guard further.count < ClusterConfiguration.databasesMax else {
            throw ValidationError(
                "A cluster has at most \(ClusterConfiguration.databasesMax) databases, the home included:"
                    + " --further-engine names \(further.count).")
        }
        for url in further {
            try checkDatabase(
                url, flag: "--further-engine", variable: "TIDECAST_FURTHER_ENGINE",
                isFlag: !flags.furtherEngine.isEmpty)
        }
        configuration.cluster?.further = further
    }

    /// Returns the token URI that was given, by itself or by a public URL.
    private static func addTLS(
        _ flags: Server, _ config: ConfigReader, to configuration: inout NodeConfiguration
    ) async throws -> String? {
        var tokenURI = try await config.string(flags.tokenUri, "tokenUri")
        if let url = try await config.string(flags.publicUrl, "publicUrl") {
            let base = try PublicURL.checked(url)
            tokenURI = tokenURI ?? "\(base)/token"
        }
        if let first = configuration.listen.first {
            configuration.tokenURI = tokenURI ?? PublicURL.token("http", first)
        }
        var chains = flags.furtherCert
        if chains.isEmpty { chains = try await config.fetchStringArray(forKey: "furtherCert", default: []) }
        var keys = flags.furtherKey
        if keys.isEmpty { keys = try await config.fetchStringArray(forKey: "furtherKey", default: []) }
        guard chains.count == keys.count else {
            throw ValidationError(
                "Each --further-cert needs a --further-key: there are \(chains.count) and \(keys.count).")
        }
        guard let listen = try await config.string(flags.listenTls, "listenTls") else {
            guard chains.isEmpty else { throw ValidationError("--further-cert needs --listen-tls.") }
            return tokenURI
        }
        guard let cert = try await config.string(flags.cert, "cert"),
            let key = try await config.string(flags.key, "key")
        else { throw ValidationError("--listen-tls needs --cert and --key.") }
        let address = try Server.address(listen)
        configuration.listenTLS = [address]
        configuration.certificates = zip([cert] + chains, [key] + keys).map {
            CertificateFiles(chain: $0, key: $1)
        }
        configuration.tokenURI = tokenURI ?? PublicURL.token("https", address)
        return tokenURI
    }
}

extension ConfigReader {
    /// A flag's value, or else the setting's.
    fileprivate func string(_ flag: String?, _ key: ConfigKey) async throws -> String? {
        if let flag { return flag }
        return try await fetchString(forKey: key)
    }

    fileprivate func int(_ flag: Int?, _ key: ConfigKey) async throws -> Int? {
        if let flag { return flag }
        return try await fetchInt(forKey: key)
    }

    fileprivate func bool(_ flag: Bool, _ key: ConfigKey) async throws -> Bool {
        if flag { return true }
        return try await fetchBool(forKey: key, default: false)
    }
}
