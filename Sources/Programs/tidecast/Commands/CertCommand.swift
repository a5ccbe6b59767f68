import ArgumentParser
import CommandOutput
import FCMAPI
import Foundation
import TLS

struct Cert: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Make certificates for your own network.", subcommands: [Make.self, Sign.self])

    struct Make: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract:
                "Make a private CA and a certificate for chosen names: ca.pem, server.pem, server.key."
        )
        @Option(help: "The folder for the files; the command makes a missing one.") var out: String
        @Option(parsing: .upToNextOption, help: "Host names and addresses of the server.") var name:
            [String] =
                []
        @Flag(help: "Also for the names of Google's that its SDKs ask (docs/admin-sdks.md).") var google =
            false
        @Flag(help: "For the nodes of a cluster among each other.") var cluster = false
        @Option(
            parsing: .upToNextOption,
            help:
                "With --cluster: names of nodes, for a NODE.pem each; by default one peer.pem for all."
        ) var node: [String] = []
        @Option(help: "Days for which the certificates are valid; the CA is valid for ten years or more.")
        var days =
            825
        @Flag(help: "Replace existing certificates. Clients that trust the former CA refuse the new ones.")
        var force = false
        @OptionGroup var secret: Passphrase

        func validate() throws {
            guard cluster || google || !name.isEmpty else {
                throw ValidationError("--name HOST or --google is needed.")
            }
            guard !(cluster && google) else {
                throw ValidationError("--google is for the server's certificate, not for --cluster.")
            }
            guard cluster || node.isEmpty else { throw ValidationError("--node needs --cluster.") }
            try Cert.check(nodes: node)
            try Cert.check(days: days)
        }

        func run() throws {
            let files = node.isEmpty ? [cluster ? "peer" : "server"] : node
            let hosts = google ? name + DevHosts.google.sorted() : name
            let folder = CertificateFolder(out)
            let kept = cluster ? ["ca.pem", "ca.key"] : ["ca.pem"]
            try folder.prepare(
                kept + files.flatMap { ["\($0).pem", "\($0).key"] }, force: force,
                because: "clients and nodes that trust that CA would refuse the new certificates")
            let passphrase = try secret.read()
            let authority = try CertificateAuthority(days: days)
            let authorityText = try authority.certificatePEM()
            // A server's CA key is thrown away: clients trust it for any name, and it signs nothing more.
            if cluster { try folder.writeKey(try authority.keyPEM(passphrase: passphrase), "ca.key") }
            try folder.write(authorityText, "ca.pem")
            for file in files {
                let use: CertificateAuthority.Use =
                    cluster ? .peer(node: node.isEmpty ? nil : file, hosts: name) : .server(hosts: hosts)
                let made = try authority.sign(use, days: days)
                try folder.writeKey(made.keyPEM, "\(file).key")
                try folder.write(made.certificatePEM + authorityText, "\(file).pem")
            }
            try Output.line(advice(files))
        }

        private func advice(_ files: [String]) -> String {
            let made = "ca.pem\(files.map { ", \($0).pem, \($0).key" }.joined()) are in \(out)"
            guard cluster else { return "\(made); clients must trust ca.pem" }
            let needed = node.isEmpty ? "all three" : "ca.pem and the two files of its name"
            return "\(made). Each node needs \(needed). ca.key in that folder signs more certificates"
                + " (`tidecast cert sign`). Nodes believe everybody who has ca.key: keep it on no node"
        }
    }

    struct Sign: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract:
                "Make NODE.pem and NODE.key for each named node, signed by the CA of `cert make`."
        )
        @Argument(help: "The names of nodes, as in --node.") var nodes: [String]
        @Option(help: "The folder with ca.pem and ca.key.") var authority: String
        @Option(help: "The folder for the files; by default the CA's folder.") var out: String?
        @Option(parsing: .upToNextOption, help: "Further host names and addresses in the certificates.")
        var name: [String] =
            []
        @Option(help: "Days for which the certificates are valid.") var days = 825
        @Flag(help: "Replace existing certificates of these nodes.") var force = false
        @OptionGroup var secret: Passphrase

        func validate() throws {
            try Cert.check(nodes: nodes)
            try Cert.check(days: days)
        }

        func run() throws {
            let key = "\(authority)/ca.key"
            try Settings.demandPrivate(key, .file, environment: ProcessInfo.processInfo.environment)
            let signer = try CertificateAuthority(
                certificateFile: "\(authority)/ca.pem", keyFile: key, passphrase: try secret.read())
            let folder = CertificateFolder(out ?? authority)
            let files = nodes.flatMap { ["\($0).pem", "\($0).key"] }
            try folder.prepare(
                files, force: force, because: "nodes may still use the former files")
            let authorityText = try signer.certificatePEM()
            for node in nodes {
                let made = try signer.sign(.peer(node: node, hosts: name), days: days)
                try folder.writeKey(made.keyPEM, "\(node).key")
                try folder.write(made.certificatePEM + authorityText, "\(node).pem")
            }
            try Output.line("\(files.joined(separator: ", ")) are in \(folder.path)")
        }
    }

    /// The passphrase that encrypts the CA's key.
    struct Passphrase: ParsableArguments {
        static let variable = "TIDECAST_CA_PASSPHRASE"
        @Option(
            help:
                "A file whose first line is ca.key's passphrase; else TIDECAST_CA_PASSPHRASE; else none."
        )
        var passphraseFile: String?

        func read() throws -> String? {
            let text: String
            if let passphraseFile {
                text = String(try Settings.privateText(in: passphraseFile).prefix { !$0.isNewline })
            } else if let said = ProcessInfo.processInfo.environment[Self.variable] {
                text = said
            } else {
                return nil
            }
            guard (4...1000).contains(text.utf8.count) else {
                throw ClientError("the passphrase must have 4 to 1,000 bytes, not \(text.utf8.count)")
            }
            return text
        }
    }

    static func check(days: Int) throws {
        guard (1...36_500).contains(days) else {
            throw ValidationError("--days must be 1 to 36500, and is \(days).")
        }
    }

    /// Names of nodes become names of files.
    static func check(nodes: [String]) throws {
        for node in nodes {
            guard (1...200).contains(node.utf8.count), !node.contains("/"), !node.hasPrefix("."),
                node.utf8.allSatisfy({ $0 > 0x20 && $0 != 0x7F })
            else {
                throw ValidationError(
                    "The node's name \"\(node)\" cannot name files: it must have 1 to 200 bytes, no slash, no"
                        + " space, no control character and no leading dot.")
            }
            guard node != "ca", node != "peer" else {
                throw ValidationError("\(node).pem is the name of another file: give the node another name.")
            }
        }
        guard Set(nodes).count == nodes.count else { throw ValidationError("A node is named twice.") }
    }
}

/// The folder to which certificates are written.
private struct CertificateFolder {
    let path: String

    init(_ path: String) { self.path = path }

    /// Creates the folder, and throws if a file would be replaced without `force`.
    func prepare(_ files: [String], force: Bool, because reason: String) throws {
        do {
            try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
        } catch {
            throw ClientError("\(path) cannot be made: \(String(cString: strerror(errno)))")
        }
        let there = files.filter { FileManager.default.fileExists(atPath: "\(path)/\($0)") }
        guard force || there.isEmpty else {
            throw ClientError(
                "\(there.joined(separator: ", ")) in \(path) would be replaced, and \(reason): name another"
                    + " folder, or give --force")
        }
    }

    func write(_ text: String, _ file: String) throws {
        guard
            FileManager.default.createFile(
                atPath: "\(path)/\(file)", contents: Data(text.utf8), attributes: [.posixPermissions: 0o644])
        else { throw ClientError("\(path)/\(file) cannot be written") }
    }

    /// Writes a file that has mode 0600 from its first byte on.
    func writeKey(_ text: String, _ file: String) throws {
        try PrivateFile("\(path)/\(file)", replacing: true).finish(text)
    }
}
