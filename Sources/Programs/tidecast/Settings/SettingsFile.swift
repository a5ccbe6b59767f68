import ArgumentParser
import Foundation

// Mistakes in settings, with texts that name the place.

extension Settings {
    /// Checks the file's object. An unknown key is a mistake, not a comment.
    static func checkFile(_ path: String) throws {
        let data = Data(try secret(in: path).utf8)
        do {
            guard try JSONSerialization.jsonObject(with: data) is [String: Any] else {
                throw ValidationError("\(path) is not a JSON object: it holds another JSON value.")
            }
        } catch let error as NSError where error.domain == NSCocoaErrorDomain {
            let place = error.userInfo[NSDebugDescriptionErrorKey] as? String
            throw ValidationError("\(path) is not a JSON object: \(place ?? "\(error)")")
        }
        let kinds = try JSONDecoder().decode([String: JSONKind].self, from: data)
        for (key, kind) in kinds.sorted(by: { $0.key < $1.key }) {
            guard let setting = Setting.all.first(where: { $0.key == key }) else {
                let meant = Nearest.of(key, among: Setting.all.map(\.key)).map { " Did you mean \"\($0)\"?" }
                throw ValidationError("\(path): there is no setting \"\(key)\".\(meant ?? "")")
            }
            guard kind.rawValue != setting.kind.words else { continue }
            let example = key == Setting.listen.key ? ", such as [\"127.0.0.1:8787\"]" : ""
            throw ValidationError(
                "\(path): \"\(key)\" must be \(setting.kind.words)\(example), not \(kind.rawValue).")
        }
    }

    /// Variables that look like settings and are unknown. Kubernetes makes some for each service of this
    /// name.
    static func strangers(in environment: [String: String]) -> [String] {
        let known = Set(Setting.all.map(\.variable)).union(others)
        return environment.keys.filter { name in
            name.hasPrefix("TIDECAST_") && !known.contains(name) && !isOfService(name)
        }.sorted()
    }

    /// The setting's variable that a name may have meant.
    static func meant(by name: String) -> String? { Nearest.of(name, among: Setting.all.map(\.variable)) }

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
}

/// What kind of value a JSON value is; the words are those of `Setting.Kind`.
private enum JSONKind: String, Decodable {
    case flag = "true or false"
    case number = "a whole number"
    case list = "an array of texts"
    case text = "a text"
    case other = "another value"

    init(from decoder: any Decoder) throws {
        let value = try decoder.singleValueContainer()
        if (try? value.decode(Bool.self)) != nil {
            self = .flag
        } else if (try? value.decode(Int.self)) != nil {
            self = .number
        } else if (try? value.decode([String].self)) != nil {
            self = .list
        } else {
            self = (try? value.decode(String.self)) != nil ? .text : .other
        }
    }
}
