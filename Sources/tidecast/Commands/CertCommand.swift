import ArgumentParser
import Foundation
import TLS

struct Cert: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Certificates for your own network.", subcommands: [Make.self, Sign.self])

    struct Make: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract:
                "Make a private CA and a certificate for chosen names: ca.pem, server.pem, server.key."
        )
        @Option(help: "The folder for the files; made where it is not there.") var out: String
        @Option(parsing: .upToNextOption, help: "Host names and addresses of the server.") var name:
            [String] =
                []
        @Flag(help: "For the nodes of a cluster among each other.") var cluster = false
        @Option(
            parsing: .upToNextOption,
            help:
                "With --cluster: the names of nodes, each of which gets NODE.pem and NODE.key of its own. Without: peer.pem and peer.key, which all share."
        ) var node: [String] = []
        @Option(help: "Days for which the certificates hold; the CA holds for ten years at least.") var days =
            825
        @Flag(help: "Replace certificates that stand there; who trusted them trusts the new ones no more.")
        var force = false
        @OptionGroup var secret: Passphrase

        func validate() throws {
            guard cluster || !name.isEmpty else { throw ValidationError("--name HOST is needed.") }
            guard cluster || node.isEmpty else { throw ValidationError("--node goes with --cluster.") }
            try Cert.check(nodes: node)
        }

        func run() throws {
            let files = node.isEmpty ? [cluster ? "peer" : "server"] : node
            let folder = CertificateFolder(out)
            let kept = cluster ? ["ca.pem", "ca.key"] : ["ca.pem"]
            try folder.prepare(
                kept + files.flatMap { ["\($0).pem", "\($0).key"] }, force: force,
                because: "who trusts that authority would trust the new certificates no more")
            let passphrase = try secret.read()
            let authority = try CertificateAuthority(days: days)
            let authorityText = try authority.certificatePEM()
            // A server's CA key is thrown away: clients trust it for any name, and it signs nothing more.
            if cluster { try folder.writeKey(try authority.keyPEM(passphrase: passphrase), "ca.key") }
            try folder.write(authorityText, "ca.pem")
            for file in files {
                let use: CertificateAuthority.Use =
                    cluster ? .peer(node: node.isEmpty ? nil : file, hosts: name) : .server(hosts: name)
                let made = try authority.sign(use, days: days)
                try folder.writeKey(made.keyPEM, "\(file).key")
                try folder.write(made.certificatePEM + authorityText, "\(file).pem")
            }
            print(advice(files))
        }

        private func advice(_ files: [String]) -> String {
            let made = "ca.pem\(files.map { ", \($0).pem, \($0).key" }.joined()) are in \(out)"
            guard cluster else { return "\(made); clients must trust ca.pem" }
            let needed = node.isEmpty ? "all three" : "ca.pem and the two of its name"
            return "\(made); each node needs \(needed). ca.key is there too and signs more (`tidecast cert"
                + " sign`): who has it is believed by all, so keep it on no node"
        }
    }

    struct Sign: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract:
                "Make a certificate for each of some nodes, by the CA that `cert make` left: NODE.pem, NODE.key."
        )
        @Argument(help: "The names of nodes, as in --node.") var nodes: [String]
        @Option(help: "The folder with ca.pem and ca.key.") var authority: String
        @Option(help: "The folder for the files; else that of the CA.") var out: String?
        @Option(parsing: .upToNextOption, help: "Host names and addresses that stand in them too.") var name:
            [String] =
                []
        @Option(help: "Days for which the certificates hold.") var days = 825
        @Flag(help: "Replace certificates of these nodes that stand there.") var force = false
        @OptionGroup var secret: Passphrase

        func validate() throws { try Cert.check(nodes: nodes) }

        func run() throws {
            let key = "\(authority)/ca.key"
            try Settings.demandPrivate(key, .file, environment: ProcessInfo.processInfo.environment)
            let signer = try CertificateAuthority(
                certificateFile: "\(authority)/ca.pem", keyFile: key, passphrase: try secret.read())
            let folder = CertificateFolder(out ?? authority)
            let files = nodes.flatMap { ["\($0).pem", "\($0).key"] }
            try folder.prepare(
                files, force: force, because: "the nodes that show them may not have the new ones")
            let authorityText = try signer.certificatePEM()
            for node in nodes {
                let made = try signer.sign(.peer(node: node, hosts: name), days: days)
                try folder.writeKey(made.keyPEM, "\(node).key")
                try folder.write(made.certificatePEM + authorityText, "\(node).pem")
            }
            print("\(files.joined(separator: ", ")) are in \(folder.path)")
        }
    }

    /// The passphrase that encrypts the CA's key.
    struct Passphrase: ParsableArguments {
        static let variable = "TIDECAST_CA_PASSPHRASE"
        @Option(
            help:
                "A file whose first line encrypts ca.key; else TIDECAST_CA_PASSPHRASE; else it is not encrypted."
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
                throw ClientError("a passphrase has from 4 to 1,000 bytes")
            }
            return text
        }
    }

    /// Names of nodes become names of files.
    static func check(nodes: [String]) throws {
        for node in nodes {
            guard (1...200).contains(node.utf8.count), !node.contains("/"), !node.hasPrefix("."),
                node.utf8.allSatisfy({ $0 > 0x20 && $0 != 0x7F })
            else { throw ValidationError("\"\(node)\" is no name of a node that may be one of a file.") }
            guard node != "ca", node != "peer" else {
                throw ValidationError("A file of the name \(node).pem is another's: name the node otherwise.")
            }
        }
        guard Set(nodes).count == nodes.count else { throw ValidationError("A node is named twice.") }
    }
}

/// The folder to which certificates are written.
private struct CertificateFolder {
    let path: String

    init(_ path: String) { self.path = path }

    /// Makes the folder, and throws where a file would be replaced without `force`.
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
                    + " folder, or say --force")
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
