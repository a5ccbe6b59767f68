import ArgumentParser
import CommandOutput
import Foundation
import Logging
import NIOHTTP1
import Node
import Synchronization

/// The server to which a command sends its requests.
struct ServerOptions: ParsableArguments {
    @Option(help: "The data folder. The command asks its server, or opens the folder where no server runs.")
    var data: String?
    @Option(help: "The URL of a server, such as http://127.0.0.1:8787.")
    var server: String?
    @Option(
        help: "The certificate authority of an https server, PEM; or TIDECAST_CA. By default the system's.")
    var ca: String?
    @Option(help: .hidden)
    var token: String?
    @Option(
        help: "A file whose first line is the token for --server; or TIDECAST_TOKEN_FILE, or TIDECAST_TOKEN.")
    var tokenFile: String?
    @Flag(help: "Print JSON for programs.")
    var json = false

    func validate() throws {
        guard folder == nil || address == nil else {
            throw ValidationError(
                data == nil
                    ? "TIDECAST_DATA and TIDECAST_SERVER are both set: give --data FOLDER or --server URL."
                    : "Give one of --data and --server, not both.")
        }
        guard folder != nil || address != nil else {
            throw ValidationError("Name the server by --data FOLDER or --server URL.")
        }
        guard token == nil else {
            throw ValidationError(
                "--token would show the token to everybody on this machine, in the list of processes: give it"
                    + " by TIDECAST_TOKEN or --token-file.")
        }
        guard address != nil || tokenFile == nil else {
            throw ValidationError("--token-file is for --server.")
        }
    }

    /// Takes `--ca` away if the server is named by its data folder: a command may have another use for the
    /// file.
    mutating func takeUnusedAuthority() -> String? {
        guard address == nil else { return nil }
        defer { ca = nil }
        return ca
    }

    static func variable(_ name: String) -> String? {
        ProcessInfo.processInfo.environment[name].flatMap { $0.isEmpty ? nil : $0 }
    }

    /// A flag overrides both variables.
    private var folder: String? { data ?? (server == nil ? ServerOptions.variable("TIDECAST_DATA") : nil) }
    private var address: String? {
        server ?? (data == nil ? ServerOptions.variable("TIDECAST_SERVER") : nil)
    }

    private func bearer() throws -> String? {
        if tokenFile == nil, let token = ServerOptions.variable("TIDECAST_TOKEN") { return token }
        guard let tokenFile = tokenFile ?? ServerOptions.variable("TIDECAST_TOKEN_FILE") else { return nil }
        let token = Settings.line(try Settings.privateText(in: tokenFile))
        guard !token.isEmpty else { throw ClientError("\(tokenFile) is empty") }
        return token
    }

    func client(mayMakeFolder: Bool = false) throws -> Client {
        if let server = address {
            let token = try bearer()
            guard let url = URL(string: server), let host = url.host,
                url.scheme == "http" || url.scheme == "https"
            else { throw ClientError("\(server) is not an http:// or https:// URL") }
            if url.scheme == "https" {
                let authority = ca ?? ServerOptions.variable("TIDECAST_CA")
                return Client(
                    endpoint: .secureURL(host: host, port: url.port ?? 443, authorityFile: authority),
                    token: token)
            }
            guard !(token?.hasPrefix("tco_") ?? false) || ServerOptions.isLoopback(host) else {
                throw ClientError(
                    "an operator's token would cross the network in clear text: use an https:// URL")
            }
            return Client(endpoint: .url(host: host, port: url.port ?? 80), token: token)
        }
        guard ca == nil else { throw ValidationError("--ca is for --server.") }
        guard let folder else { throw ClientError("no server was named: give --data FOLDER or --server URL") }
        let socket = AdminSocket.path(in: folder)
        if let mistake = AdminSocket.mistake(in: folder) { throw ClientError(mistake) }
        if try !ServerOptions.isListening(socket) {
            // Otherwise a mistyped folder would get an empty database, and would look empty.
            guard mayMakeFolder || Node.hasData(in: folder) || Node.process(using: folder) != nil else {
                throw ClientError("\(folder) has no data; only `server` and `project create` begin with none")
            }
            try ServerOptions.startOwnServer(folder)
        }
        return Client(endpoint: .socket(path: socket), token: nil)
    }

    private static func isLoopback(_ host: String) -> Bool {
        // A name such as 127.example.com is no address.
        let isAddress = host.allSatisfy { $0.isASCII && $0.isNumber || $0 == "." }
        return host == "localhost" || host == "::1" || host == "[::1]"
            || isAddress && host.hasPrefix("127.")
    }

    func call(
        _ method: HTTPMethod, _ path: String, body: [String: Any]? = nil, mayMakeFolder: Bool = false
    ) throws -> Client.Response {
        try client(mayMakeFolder: mayMakeFolder).call(method, path, body: body)
    }

    /// All pages of a listing.
    func pages(_ path: String, of field: String) throws -> [[String: Any]] {
        var all: [[String: Any]] = []
        var token = ""
        let client = try client()
        repeat {
            let query = token.isEmpty ? "" : "?pageToken=\(token.segment)"
            let page = try client.call(.GET, path + query).object
            all += page[field] as? [[String: Any]] ?? []
            token = page["nextPageToken"] as? String ?? ""
        } while !token.isEmpty
        return all
    }

    private static func startOwnServer(_ folder: String) throws {
        if let process = Node.process(using: folder) {
            throw ClientError(
                "the server of \(folder) (pid \(process)) is starting or ending, and takes no commands now:"
                    + " try again in a moment")
        }
        try OwnServer.start(folder)
    }

    /// Whether a server runs in the folder of this socket. Throws if this user may not ask the server.
    private static func isListening(_ path: String) throws -> Bool {
        var status = stat()
        // `stat` sees nothing in a folder that others may not enter; the request below finds that out.
        guard stat(path, &status) == 0 || errno == EACCES else { return false }
        do {
            _ = try Client(endpoint: .socket(path: path), token: nil).call(.GET, "/healthz")
            return true
        } catch let error as ClientError where [ENOENT, ECONNREFUSED].contains(error.connectError) {
            return false
        } catch let error as ClientError where [EACCES, EPERM].contains(error.connectError) {
            throw ClientError(
                "\(path) belongs to another user: run the command as that user, or with --server and a token")
        }
    }
}

/// The project that a command is about.
struct ProjectOption: ParsableArguments {
    @Option(name: .customLong("project"), help: "The project's id; or TIDECAST_PROJECT.") var named: String?

    func validate() throws {
        guard found != nil else {
            throw ValidationError("Name the project by --project ID, or by TIDECAST_PROJECT.")
        }
    }

    private var found: String? { named ?? ServerOptions.variable("TIDECAST_PROJECT") }
    var id: String { found ?? "" }
}

/// A node that the command runs in the folder, because no server runs there. Ends with the command.
enum OwnServer {
    private static let node = Mutex<Node?>(nil)

    static func start(_ folder: String) throws {
        var configuration = NodeConfiguration(folder: folder)
        configuration.loopCount = 1
        configuration.isForOneCommand = true
        var log = Logger(label: "tidecast")
        log.logLevel = .error
        let environment = ProcessInfo.processInfo.environment
        try Settings.demandPrivate(folder, .folder, environment: environment)
        configuration.secrets = try Settings.secrets(environment)
        let opened = try Node(configuration, log: log) { reason in
            Output.note("tidecast: \(reason)\n")
            exit(70)
        }
        node.withLock { $0 = opened }
    }

    static func end() async { await node.withLock { $0 }?.end() }
}
