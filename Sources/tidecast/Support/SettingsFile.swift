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
            let reason = (error as NSError).userInfo[NSUnderlyingErrorKey] as? POSIXError
            throw ValidationError("\(path) cannot be read: \(Settings.words(reason?.code.rawValue)).")
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
            throw ValidationError("\(path): there is no setting \"\(key)\".")
        }
    }

    private static func words(_ code: Int32?) -> String {
        code.map { String(cString: strerror($0)) } ?? "no reason was given"
    }

    /// Variables that look like settings and are unknown. Kubernetes makes some for each service of this
    /// name.
    static func strangers(in environment: [String: String]) -> [String] {
        let known = Set(keys.map(variable)).union(others)
        return environment.keys.filter { name in
            name.hasPrefix("TIDECAST_") && !known.contains(name) && !isOfService(name)
        }.sorted()
    }

    /// Variables that are read elsewhere, or by the files in `deploy`.
    private static let others: Set<String> = [
        "TIDECAST_CONFIG", "TIDECAST_FAILPOINT", "TIDECAST_SERVER", "TIDECAST_TOKEN", "TIDECAST_TOKEN_FILE",
        "TIDECAST_CREDENTIAL", "TIDECAST_API_KEY", "TIDECAST_BENCH", "TIDECAST_TESTS",
        "TIDECAST_CA_PASSPHRASE",
    ]

    private static func isOfService(_ name: String) -> Bool {
        name.contains("_SERVICE_HOST") || name.contains("_SERVICE_PORT") || name.hasPrefix("TIDECAST_PORT")
            || name.contains("_PORT_")
    }

    /// For example `TIDECAST_LISTEN_TLS` for `listenTls`.
    private static func variable(_ key: String) -> String {
        key.reduce("TIDECAST_") { $1.isUppercase ? "\($0)_\($1)" : $0 + $1.uppercased() }
    }
}
