import ArgumentParser
import Catalog
import Configuration
import Foundation
import Node

// The secret settings: they stand in no command line, and in no file that others may read.

extension Settings {
    /// A file's first line that is not empty, or the whole file.
    static func secret(in path: String, isLine: Bool = false) throws -> String {
        guard let text = try? String(contentsOfFile: path, encoding: .utf8) else {
            throw ValidationError("\(path) cannot be read: \(String(cString: strerror(errno))).")
        }
        return isLine ? line(text) : text
    }

    /// The first line that is not empty.
    static func line(_ text: String) -> String {
        text.split(whereSeparator: \.isNewline).first.map { $0.trimmingCharacters(in: .whitespaces) } ?? ""
    }

    /// The text of a command's secret file; refused where others could read or change it.
    static func privateText(in path: String) throws -> String {
        try demandPrivate(path, .file, environment: ProcessInfo.processInfo.environment)
        let data: Data
        do { data = try Data(contentsOf: URL(fileURLWithPath: path)) } catch {
            throw ClientError("\(path) cannot be read: \(reason(error))")
        }
        guard let text = String(data: data, encoding: .utf8) else {
            throw ClientError("\(path) cannot be read: it is no text in UTF-8")
        }
        return text
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
    static func secrets(_ flag: String?, _ config: ConfigReader) async throws -> SecretsKeys {
        let path: String?
        if let flag { path = flag } else { path = try await config.fetchString(forKey: "secretsKeyFile") }
        let text = try await config.fetchString(forKey: "secretsKey")
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
