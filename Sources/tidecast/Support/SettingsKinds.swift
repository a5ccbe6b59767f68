import ArgumentParser
import Foundation
import Node

// Values of a wrong kind, in the file of settings and in the environment.

extension Settings {
    private static let lists: Set<String> = [
        "listen", "furtherCert", "furtherKey", "furtherEngine", "join", "devHost", "proxy",
    ]
    private static let numbers: Set<String> = [
        "partitions", "loops", "topicPayloadBytes", "weight", "connections", "connectionsPerAddress",
        "connectionsPerAddressSecond", "addressRegistrationsPerMinute", "addressRegistrationsPerDay",
        "addressChangesPerMinute", "addressCallsPerMinute", "addressBadAssertionsPerMinute",
        "unreachableSeconds",
    ]
    private static let flags: Set<String> = [
        "dev", "devAnywhere", "retryAfterOnSends", "insecurePeers", "allowSharedPeerCert", "looseModes",
    ]

    /// What kind of value a JSON value is.
    private enum Kind: String, Decodable {
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

        init(of key: String) {
            if lists.contains(key) {
                self = .list
            } else if numbers.contains(key) {
                self = .number
            } else {
                self = flags.contains(key) ? .flag : .text
            }
        }
    }

    static func checkKinds(_ data: Data, in path: String) throws {
        guard let object = try? JSONDecoder().decode([String: Kind].self, from: data) else { return }
        for (key, kind) in object.sorted(by: { $0.key < $1.key }) {
            let wanted = Kind(of: key)
            guard kind != wanted else { continue }
            let example = key == "listen" ? ", such as [\"127.0.0.1:8787\"]" : ""
            throw ValidationError(
                "\(path): \"\(key)\" must be \(wanted.rawValue)\(example), not \(kind.rawValue).")
        }
    }

    static func checkVariables(_ environment: [String: String]) throws {
        for key in numbers.sorted() {
            let name = variable(key)
            guard let text = environment[name], Int(text) == nil else { continue }
            throw ValidationError("\(name) must be a whole number, not \"\(text)\".")
        }
    }
}

extension NodeConfiguration {
    /// Where the server listens.
    var hosts: [String] { (listen + listenTLS).map(\.host) }

    /// Whether backends on other machines reach this server.
    var isReachedFromElsewhere: Bool {
        !isDev && cluster?.isGateway ?? true && !hosts.allSatisfy(Server.isLoopback)
    }
}
