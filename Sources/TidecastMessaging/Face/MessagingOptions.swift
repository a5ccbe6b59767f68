import Foundation

/// Where the server is, and what the client may do.
public struct MessagingOptions: Sendable {
    /// The server's address, such as `https://push.example.com`. It may have a path.
    public var server: URL
    /// The project's id or number.
    public var project: String
    /// A key of the project for apps (`tidecast project key create PROJECT --kind device`); `nil` for a
    /// development server.
    public var apiKey: String?
    /// Where the client keeps its state; `nil` for the keychain and the app's defaults on Apple's systems,
    /// and elsewhere for a folder of this program in `$XDG_STATE_HOME`.
    public var folder: URL?
    /// The bundle id for Apple's push service; `nil` for the program's own.
    public var bundleID: String?
    /// Whether messages that Apple's push service has taken come on `messages` too, until the app has handled
    /// them there. Apple keeps one notification of an app for a phone that is off, so an app that must see
    /// every message wants that. An app that only shows notifications and never listens sets `false`: its
    /// messages are delivered when Apple's service has them.
    public var keepsMessages = true
    /// Whether the credential may travel without TLS to a host other than this one.
    public var isCleartextAllowed = false
    /// Gets sentences for developers, such as that the state cannot be stored. Any queue.
    public var log: @Sendable (String) -> Void = { _ in }

    /// Throws `invalidRequest` where the address or the project is none.
    public init(server: String, project: String, apiKey: String? = nil) throws {
        guard let url = URL(string: server), ["http", "https"].contains(url.scheme?.lowercased() ?? ""),
            !(url.host ?? "").isEmpty, url.query == nil, url.fragment == nil, url.user == nil
        else {
            throw MessagingError(
                .invalidRequest, "\"\(server)\" is not the address of a server: write https://HOST[:PORT].")
        }
        self.server = url
        guard !project.isEmpty, project.utf8.allSatisfy(MessagingOptions.isInProject) else {
            throw MessagingError(.invalidRequest, "\"\(project)\" is not the id of a project.")
        }
        self.project = project
        guard apiKey?.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7F }) ?? true else {
            throw MessagingError(.invalidRequest, "The API key has a character that no key has.")
        }
        self.apiKey = apiKey
    }

    private static func isInProject(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            UInt8(ascii: "0")...UInt8(ascii: "9"):
            true
        default: "-_.".utf8.contains(byte)
        }
    }

    /// Throws `invalidRequest` where the credential would travel without TLS.
    func checkTransport() throws(MessagingError) {
        let host = (server.host ?? "").lowercased()
        let isHere = host == "localhost" || host.hasPrefix("127.") || ["::1", "[::1]"].contains(host)
        guard server.scheme?.lowercased() == "https" || isHere || isCleartextAllowed else {
            throw MessagingError(
                .invalidRequest,
                "\(server) has no TLS: write https, or set isCleartextAllowed in a laboratory.")
        }
    }

    /// Names the server and the project in a folder or an entry of the keychain.
    var account: String {
        let port = server.port.map { "-\($0)" } ?? ""
        let path = server.path.split(separator: "/").map { "-\($0)" }.joined()
        return "\(server.host ?? "")\(port)\(path)-\(project)"
    }

    func makeStorage() throws -> any Storage {
        if let folder { return try FileStorage(folder: folder) }
        #if canImport(Security) && canImport(Darwin)
            return AppleStorage(account: account)
        #else
            let environment = ProcessInfo.processInfo.environment
            let base =
                environment["XDG_STATE_HOME"].flatMap { $0.hasPrefix("/") ? URL(fileURLWithPath: $0) : nil }
                ?? FileManager.default.homeDirectoryForCurrentUser.appendingPathComponent(".local/state")
            let program = base.appendingPathComponent(ProcessInfo.processInfo.processName)
            return try FileStorage(folder: program.appendingPathComponent("tidecast-\(account)"))
        #endif
    }
}
