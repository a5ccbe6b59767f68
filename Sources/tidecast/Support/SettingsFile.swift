import ArgumentParser
import Foundation
import Node

// Mistakes in settings, with texts that name the place.

extension Settings {
    /// Checks the file's object. An unknown key is a mistake, not a comment.
    static func checkFile(_ path: String) throws {
        let data: Data
        do {
            data = try Data(contentsOf: URL(fileURLWithPath: path))
        } catch {
            throw ValidationError("\(path) cannot be read: \(reason(error)).")
        }
        let object: Any
        do {
            object = try JSONSerialization.jsonObject(with: data)
        } catch {
            let place = (error as NSError).userInfo[NSDebugDescriptionErrorKey] as? String
            throw ValidationError("\(path) is not a JSON object: \(place ?? "\(error)")")
        }
        guard let object = object as? [String: Any] else {
            throw ValidationError("\(path) is not a JSON object: it holds another JSON value.")
        }
        for key in object.keys.sorted() where !keys.contains(key) {
            let meant = Nearest.of(key, among: keys).map { " Did you mean \"\($0)\"?" } ?? ""
            throw ValidationError("\(path): there is no setting \"\(key)\".\(meant)")
        }
        try checkKinds(data, in: path)
    }

    /// Why Foundation could not read a file, in the system's words.
    static func reason(_ error: any Error) -> String {
        let reason = (error as NSError).userInfo[NSUnderlyingErrorKey] as? POSIXError
        return reason.map { String(cString: strerror($0.code.rawValue)) } ?? "no reason was given"
    }

    /// Variables that look like settings and are unknown. Kubernetes makes some for each service of this
    /// name.
    static func strangers(in environment: [String: String]) -> [String] {
        let known = Set(keys.map(variable)).union(others)
        return environment.keys.filter { name in
            name.hasPrefix("TIDECAST_") && !known.contains(name) && !isOfService(name)
        }.sorted()
    }

    /// The setting's variable that a name may have meant.
    static func meant(by name: String) -> String? { Nearest.of(name, among: keys.map(variable)) }

    /// Variables that are read elsewhere, or by the files in `deploy`.
    private static let others: Set<String> = [
        "TIDECAST_CONFIG", "TIDECAST_FAILPOINT", "TIDECAST_SERVER", "TIDECAST_TOKEN", "TIDECAST_TOKEN_FILE",
        "TIDECAST_CREDENTIAL", "TIDECAST_API_KEY", "TIDECAST_BENCH", "TIDECAST_TESTS",
        "TIDECAST_CA_PASSPHRASE", "TIDECAST_CA",
        "TIDECAST_PROJECT", "TIDECAST_CLUSTER", "TIDECAST_NETWORK", "TIDECAST_BIND", "TIDECAST_NAMES",
        "TIDECAST_FILES", "TIDECAST_VERSION", "TIDECAST_GATEWAYS", "TIDECAST_SHARDS", "TIDECAST_SANITIZE",
        "TIDECAST_TEST_PORTS",
    ]

    private static func isOfService(_ name: String) -> Bool {
        name.contains("_SERVICE_HOST") || name.contains("_SERVICE_PORT") || name.hasPrefix("TIDECAST_PORT")
            || name.contains("_PORT_")
    }

    /// For example `TIDECAST_LISTEN_TLS` for `listenTls`.
    static func variable(_ key: String) -> String {
        key.reduce("TIDECAST_") { $1.isUppercase ? "\($0)_\($1)" : $0 + $1.uppercased() }
    }
}
