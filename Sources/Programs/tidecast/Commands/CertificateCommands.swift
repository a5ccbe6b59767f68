import ArgumentParser
import CommandOutput

// Certificates of nodes that were stolen.

extension Cluster {
    static let fingerprintHelp: ArgumentHelp =
        "The SHA-256 of the certificate: `openssl x509 -noout -fingerprint -sha256 -in FILE` prints it."

    struct Refuse: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Have all nodes refuse a node's certificate that was stolen.",
            discussion: "Connections with the certificate are cut at once. `accept` takes it back.")
        @OptionGroup(title: "Server Options") var connection: ServerOptions
        @Argument(help: Cluster.fingerprintHelp) var fingerprint: String
        @Flag(help: "Refuse it also where a node shows it now, which gives up its partitions then.")
        var force = false

        func run() throws {
            let answer = try connection.call(
                .POST, "/admin/cluster/refuse",
                body: ["certificate": fingerprint, "force": force ? "true" : "false"]
            ).object
            if connection.json { return try Output.json(answer) }
            let nodes = answer["nodes"] as? [String] ?? []
            try Output.line("refused: \(answer["certificate"] ?? fingerprint)")
            let cut = "cut off until they have another: \(nodes.joined(separator: ", "))"
            try Output.line(nodes.isEmpty ? "no node shows it now" : cut)
        }
    }

    struct Accept: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Let nodes take a certificate again that was refused.")
        @OptionGroup(title: "Server Options") var connection: ServerOptions
        @Argument(help: Cluster.fingerprintHelp) var fingerprint: String

        func run() throws {
            let answer = try connection.call(
                .POST, "/admin/cluster/accept", body: ["certificate": fingerprint]
            ).object
            if connection.json { return try Output.json(answer) }
            try Output.line("accepted: \(answer["certificate"] ?? fingerprint)")
        }
    }
}
