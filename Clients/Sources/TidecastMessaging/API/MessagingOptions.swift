import Foundation

/// The server's address, and what the client may do.
public struct MessagingOptions: Sendable {
    /// The server's address, such as `https://push.example.com`. It may have a path.
    public var server: URL
    /// The project's id or number.
    public var project: String
    /// A key of the project for apps (`tidecast project key create PROJECT --kind device`); `nil` for a
    /// development server.
    public var apiKey: String?
    /// The folder for the client's state; `nil` for a folder of this program in the user's application
    /// support folder (on Linux `$XDG_DATA_HOME`).
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

    /// Throws `invalidRequest` if the address or the project is none.
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

    /// Throws `invalidRequest` if the credential would travel without TLS.
    func checkTransport() throws(MessagingError) {
        let host = (server.host ?? "").lowercased()
        let isHere = host == "localhost" || host.hasPrefix("127.") || ["::1", "[::1]"].contains(host)
        guard server.scheme?.lowercased() == "https" || isHere || isCleartextAllowed else {
            throw MessagingError(
                .invalidRequest,
                "\(server) has no TLS: write https, or set isCleartextAllowed in a laboratory.")
        }
    }

    /// The folder for the client's state if `folder` is `nil`:
    /// `~/.local/share/PROGRAM/tidecast-HOST-PROJECT`. Throws `storage` if the system names no folder.
    var defaultFolder: URL {
        get throws(MessagingError) {
            let found = FileManager.default.urls(for: .applicationSupportDirectory, in: .userDomainMask)
            guard let base = found.first else {
                throw MessagingError(.storage, "There is no folder for data: set MessagingOptions.folder.")
            }
            let port = server.port.map { "-\($0)" } ?? ""
            let path = server.path.split(separator: "/").map { "-\($0)" }.joined()
            return base.appendingPathComponent(ProcessInfo.processInfo.processName)
                .appendingPathComponent("tidecast-\(server.host ?? "")\(port)\(path)-\(project)")
        }
    }
}
