import ArgumentParser
import Catalog
import Foundation
import Node

// The secret settings: they are in no command line, and in no file that others may read.

extension Settings {
    /// A file's first line that is not empty, or the whole file.
    static func secret(in path: String, isLine: Bool = false) throws -> String {
        do {
            let text = try text(in: path)
            return isLine ? line(text) : text
        } catch let error as ClientError {
            throw ValidationError("\(error).")
        }
    }

    /// The text of a file or a pipe, of at most 1 MiB. Foundation reads plain files only.
    private static func text(in path: String) throws -> String {
        func refused() -> ClientError {
            ClientError("\(path) cannot be read: \(String(cString: strerror(errno)))")
        }
        let descriptor = open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { throw refused() }
        defer { close(descriptor) }
        var bytes: [UInt8] = []
        var part = [UInt8](repeating: 0, count: 65_536)
        while bytes.count <= secretBytesMax {
            let count = Foundation.read(descriptor, &part, part.count)
            guard count >= 0 else { throw refused() }
            guard count > 0 else { break }
            bytes += part[..<count]
        }
        guard bytes.count <= secretBytesMax else { throw ClientError("\(path) has more than 1 MiB") }
        guard let text = String(validating: bytes, as: UTF8.self) else {
            throw ClientError("\(path) cannot be read: it is no text in UTF-8")
        }
        return text
    }

    private static let secretBytesMax = 1 << 20

    /// The first line that is not empty.
    static func line(_ text: String) -> String {
        text.split(whereSeparator: \.isNewline).first.map { $0.trimmingCharacters(in: .whitespaces) } ?? ""
    }

    /// The text of a command's secret file; refused if others could read or change it.
    static func privateText(in path: String) throws -> String {
        try demandPrivate(path, .file, environment: ProcessInfo.processInfo.environment)
        return try text(in: path)
    }

    /// Checks a database's URL, from any source. Errors show no part of the URL, which may hold a password.
    static func checkDatabase(_ url: String, flag: String, variable: String, isFlag: Bool) throws {
        switch ClusterConfiguration.look(url) {
        case .plain: return
        case .withPassword:
            guard isFlag else { return }
            let file = flag == "--engine" ? " or --engine-file" : ""
            throw ValidationError(
                "\(flag) shows the URL's password to every user of this machine in the list of processes:"
                    + " give the URL by \(variable)\(file).")
        case .malformed:
            throw ValidationError(
                "The value of \(flag) or \(variable) is not a database's URL, postgres://USER@HOST/NAME. In a"
                    + " password, write every character that is neither a letter nor a digit as %XX.")
        }
    }

    /// The keys under which the server's own secrets are sealed.
    static func secrets(_ values: SettingValues) throws -> SecretsKeys {
        let path = values.text(.secretsKeyFile), text = values.text(.secretsKey)
        guard path == nil || text == nil else {
            throw ValidationError("Give --secrets-key-file or TIDECAST_SECRETS_KEY, not both.")
        }
        guard let text = try text ?? path.map({ try secret(in: $0) }) else { return .none }
        do {
            return try SecretsKeys(text)
        } catch {
            throw ValidationError("\(path ?? "TIDECAST_SECRETS_KEY"): \(error).")
        }
    }

    /// The same for a command that opens a data folder itself. Its environment takes the place of a server's
    /// flags.
    static func secrets(_ environment: [String: String]) throws -> SecretsKeys {
        let path = environment["TIDECAST_SECRETS_KEY_FILE"]
        if let path { try demandPrivate(path, .file, environment: environment) }
        let text = try environment["TIDECAST_SECRETS_KEY"] ?? path.map { try secret(in: $0) }
        return try text.map { try SecretsKeys($0) } ?? .none
    }

    /// For commands, which have no flag for loose modes: only the environment allows them.
    static func demandPrivate(
        _ path: String, _ kind: FileModes.Kind, environment: [String: String]
    ) throws {
        guard environment["TIDECAST_LOOSE_MODES"] != "true" else { return }
        if let mistake = FileModes.mistake(path, kind, way: "TIDECAST_LOOSE_MODES=true") {
            throw ClientError(mistake)
        }
    }

    /// Refuses files and folders of secrets that others could read or change.
    static func checkModes(_ configuration: NodeConfiguration, _ files: [String]) throws {
        var secret = files + configuration.certificates.map(\.key)
        if let key = configuration.cluster?.peerTLS?.certificate.key { secret.append(key) }
        for path in secret {
            if let mistake = FileModes.mistake(path, .file) { throw ValidationError("\(mistake).") }
        }
        if let mistake = FileModes.mistake(configuration.folder, .folder) {
            throw ValidationError("\(mistake).")
        }
    }
}
