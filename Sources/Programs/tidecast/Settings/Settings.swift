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
    var folder = ""
    var logLevel = Logger.Level.info
    var configuration: NodeConfiguration
    /// Whether service-account files name this machine, for lack of a public URL, though the server listens
    /// beyond it.
    private(set) var isLocalTokenURI = false

    /// `server` holds the values of the command line.
    static func read(_ server: Server, environment: [String: String]) async throws -> Settings {
        // A compose file that passes a variable on gives an empty one if its user gives none.
        let environment = environment.filter { !$0.value.isEmpty }
        let variables = EnvironmentVariablesProvider(environmentVariables: environment)
            .prefixKeys(with: "tidecast")
        var providers: [any ConfigProvider] = [variables]
        let path = server.config ?? environment["TIDECAST_CONFIG"]
        if let path {
            try checkFile(path)
            do {
                providers.append(try await FileProvider<JSONSnapshot>(filePath: FilePath(path)))
            } catch {
                throw ValidationError("\(path): \(error)")
            }
        }
        let values = try await SettingValues(
            server, ConfigReader(providers: providers), environment: environment)
        return try resolve(values, file: path)
    }

    private static func resolve(
        _ values: SettingValues, file: String?
    ) throws -> Settings {
        let folder = values.text(.data)
        let engine = try engineURL(values)
        guard folder != nil || engine != nil else {
            throw ValidationError("--data FOLDER (or TIDECAST_DATA) is needed, or --engine for a cluster.")
        }
        guard engine != nil || values.list(.furtherEngine).isEmpty else {
            throw ValidationError("--further-engine needs --engine, which names the cluster's home database.")
        }
        var configuration = NodeConfiguration(folder: folder ?? "")
        let listen = values.list(.listen)
        configuration.listen = try (listen.isEmpty ? [Setting.listen.byDefault] : listen).map(Server.address)
        configuration.listenMetrics = try values.text(.listenMetrics).map(Server.address)
        let isDevAnywhere = values.isOn(.devAnywhere)
        let isDev = values.isOn(.dev)
        configuration.isDev = isDev || isDevAnywhere
        configuration.isDevAnywhere = isDevAnywhere
        let partitions = values.number(.partitions)
        configuration.partitionCount = partitions ?? (engine == nil ? 32 : 256)
        if let loops = values.number(.loops) { configuration.loopCount = loops }
        try addBounds(values, to: &configuration)
        let tokenURI = try addTLS(values, to: &configuration)
        if let engine {
            try addCluster(values, engine: engine, to: &configuration)
            try addDatabases(values, to: &configuration)
        } else {
            try refuseCluster(values)
        }
        configuration.insistsOnCount = partitions != nil
        configuration.allocatedBytes = { Allocator.allocatedBytes() }
        configuration.logLinesLost = { LogOutput.standardError.linesLost }
        configuration.devHosts = devHosts(values, configuration: configuration)
        configuration.secrets = try secrets(values)
        configuration.mayHaveLooseModes = values.isOn(.looseModes)
        if !configuration.mayHaveLooseModes {
            try checkModes(configuration, try secretFiles(values, file: file))
        }
        var settings = Settings(folder: folder ?? "", configuration: configuration)
        settings.isLocalTokenURI = tokenURI == nil && configuration.isReachedFromElsewhere
        let level = values.text(.logLevel) ?? "info"
        guard let level = Logger.Level(rawValue: level) else {
            let words = Logger.Level.allCases.map(\.rawValue).joined(separator: ", ")
            throw ValidationError("TIDECAST_LOG_LEVEL must be one of \(words), not \"\(level)\".")
        }
        settings.logLevel = level
        return settings
    }

    /// Refuses settings of a cluster's node without `--engine`: such a server would serve on its own.
    private static func refuseCluster(_ values: SettingValues) throws {
        let said = [Setting.node, .peer, .roles, .gossip, .peerCert].first { values.text($0) != nil }
        guard let said else { return }
        throw ValidationError("\(said.flag) is for a node of a cluster, and needs --engine.")
    }

    /// Every host name that the settings give this server.
    private static func devHosts(_ values: SettingValues, configuration: NodeConfiguration) -> [String] {
        let urls = [configuration.tokenURI, values.text(.publicUrl) ?? ""]
        return values.list(.devHost) + urls.compactMap { URL(string: $0)?.host }
            + (configuration.listen + configuration.listenTLS).map(\.host)
    }

    private static func addBounds(
        _ values: SettingValues, to configuration: inout NodeConfiguration
    ) throws {
        configuration.connectionsMax = values.number(.connections)
        configuration.connectionsPerAddressMax = values.number(.connectionsPerAddress)
        configuration.connectionsPerAddressSecond = values.number(.connectionsPerAddressSecond)
        if let seconds = values.number(.unreachableSeconds) {
            configuration.unreachableMax = seconds == 0 ? nil : .seconds(UInt64(seconds))
        }
        if let bytes = values.number(.snapshotBytes) { configuration.snapshotBytes = bytes }
        if let seconds = values.number(.snapshotSeconds) {
            configuration.snapshotAge = .seconds(UInt64(seconds))
        }
        var limits = ClientLimits.Settings()
        limits.registrationsPerMinute = values.number(.addressRegistrationsPerMinute)
        limits.registrationsPerDay = values.number(.addressRegistrationsPerDay)
        limits.changesPerMinute = values.number(.addressChangesPerMinute)
        limits.callsPerMinute = values.number(.addressCallsPerMinute)
        limits.badAssertionsPerMinute = values.number(.addressBadAssertionsPerMinute)
        limits.proxies = try values.list(.proxy).map { text in
            guard let range = AddressRange(text: text) else {
                throw ValidationError("--proxy must be ADDRESS or ADDRESS/BITS, not \(text).")
            }
            return range
        }
        configuration.clientLimits = limits
    }

    /// The database's URL: as it was given, or the first line of the named file.
    private static func engineURL(_ values: SettingValues) throws -> String? {
        var url = values.text(.engine)
        if url == nil, let path = values.text(.engineFile) {
            url = try secret(in: path, isLine: true)
            guard url != "" else {
                throw ValidationError("--engine-file \(path) is empty: write the database's URL into it.")
            }
        }
        if let url {
            try checkDatabase(
                url, flag: "--engine", variable: "TIDECAST_ENGINE", isFlag: values.isOnCommandLine(.engine))
        }
        return url
    }

    /// Files that others must not read. The settings file may hold a URL with a password, or a key.
    private static func secretFiles(
        _ values: SettingValues, file: String?
    ) throws -> [String] {
        var files: [String] = []
        if !values.isOnCommandLine(.engine), let path = values.text(.engineFile) {
            files.append(path)
        }
        if let path = values.text(.secretsKeyFile) { files.append(path) }
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
        _ values: SettingValues, engine: String, to configuration: inout NodeConfiguration
    ) throws {
        guard var name = values.text(.node), (1...200).contains(name.utf8.count)
        else {
            throw ValidationError("A node of a cluster needs --node NAME of 1 to 200 bytes, or --node auto.")
        }
        guard let peer = values.text(.peer) else {
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
        let roles = values.text(.roles) ?? "gateway,shard"
        let words = Set(roles.split(separator: ",").map(String.init))
        guard !words.isEmpty, words.isSubset(of: ["gateway", "shard"]) else {
            throw ValidationError("--roles must be gateway, shard or gateway,shard, not \"\(roles)\".")
        }
        cluster.isShard = words.contains("shard")
        cluster.isGateway = words.contains("gateway")
        if let weight = values.number(.weight) { cluster.weight = UInt8(weight) }
        cluster.gossip = try values.text(.gossip).map(Server.address)
        cluster.seeds = values.list(.join)
        for seed in cluster.seeds { _ = try Server.address(seed) }
        cluster.zone = values.text(.zone) ?? ""
        if let certificate = values.text(.peerCert) {
            guard let key = values.text(.peerKey),
                let authority = values.text(.peerCa)
            else { throw ValidationError("--peer-cert needs --peer-key and --peer-ca.") }
            cluster.peerTLS = PeerFiles(
                certificateFile: certificate, keyFile: key, authorityFile: authority)
        }
        cluster.allowsSharedPeerCert = values.isOn(.allowSharedPeerCert)
        let isPrivate = values.isOn(.insecurePeers)
        guard cluster.peerTLS != nil || isPrivate || Server.isLoopback(cluster.peer.host) else {
            throw ValidationError(
                "Nodes on several machines need certificates: --peer-cert, --peer-key and --peer-ca, made with"
                    + " `tidecast cert make --cluster`; or --insecure-peers where the network is private.")
        }
        configuration.cluster = cluster
    }

    private static func addDatabases(
        _ values: SettingValues, to configuration: inout NodeConfiguration
    ) throws {
        let further = values.list(.furtherEngine)
        guard further.count < ClusterConfiguration.databasesMax else {
            throw ValidationError(
                "A cluster has at most \(ClusterConfiguration.databasesMax) databases, the home included:"
                    + " --further-engine names \(further.count).")
        }
        for url in further {
            try checkDatabase(
                url, flag: "--further-engine", variable: "TIDECAST_FURTHER_ENGINE",
                isFlag: values.isOnCommandLine(.furtherEngine))
        }
        configuration.cluster?.further = further
        guard let other = values.text(.adoptFrom) else { return }
        guard let life = ClusterConfiguration.identity(other) else {
            throw ValidationError("--adopt-from must be 32 hexadecimal digits, as the refusal names them.")
        }
        configuration.cluster?.adopted = life
    }

    /// Returns the token URI that was given, by itself or by a public URL.
    private static func addTLS(
        _ values: SettingValues, to configuration: inout NodeConfiguration
    ) throws -> String? {
        var tokenURI = values.text(.tokenUri)
        if let tokenURI { _ = try PublicURL.checked(tokenURI, "--token-uri") }
        if let url = values.text(.publicUrl) {
            let base = try PublicURL.checked(url, "--public-url")
            tokenURI = tokenURI ?? "\(base)/token"
        }
        if let first = configuration.listen.first {
            configuration.tokenURI = tokenURI ?? PublicURL.token("http", first)
        }
        let chains = values.list(.furtherCert), keys = values.list(.furtherKey)
        guard chains.count == keys.count else {
            throw ValidationError(
                "Each --further-cert needs a --further-key: there are \(chains.count) and \(keys.count).")
        }
        guard let listen = values.text(.listenTls) else {
            guard chains.isEmpty else { throw ValidationError("--further-cert needs --listen-tls.") }
            return tokenURI
        }
        guard let cert = values.text(.cert),
            let key = values.text(.key)
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
