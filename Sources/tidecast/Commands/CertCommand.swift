import ArgumentParser
import COpenSSL
import Foundation
import TLS

struct Cert: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Certificates for your own network.", subcommands: [Make.self])

    struct Make: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Make a private CA and a certificate for chosen names: ca.pem, server.pem, server.key.")
        @Option(help: "The folder for the files; made where it is not there.") var out: String
        @Option(parsing: .upToNextOption, help: "Host names and addresses of the server.") var name:
            [String] =
                []
        @Flag(
            help: "For the nodes of a cluster among each other: ca.pem, peer.pem, peer.key, the same for all."
        )
        var cluster = false
        @Option(help: "Days for which the certificates hold.") var days = 825
        @Flag(help: "Replace certificates that stand there; who trusted them trusts the new ones no more.")
        var force = false

        func validate() throws {
            guard cluster || !name.isEmpty else { throw ValidationError("--name HOST is needed.") }
        }

        func run() throws {
            let file = cluster ? "peer" : "server"
            try prepare(["ca.pem", "\(file).pem", "\(file).key"])
            guard let authority = CertificateMaker.key(), let key = CertificateMaker.key() else {
                throw ClientError("libcrypto made no key")
            }
            defer {
                EVP_PKEY_free(authority)
                EVP_PKEY_free(key)
            }
            let ca = try CertificateMaker.make(
                subject: "Tidecast private CA", key: authority, issuer: nil, signer: authority, days: days,
                extensions: [
                    (NID_basic_constraints, "critical,CA:TRUE"),
                    (NID_key_usage, "critical,keyCertSign,cRLSign"),
                    (NID_subject_key_identifier, "hash"),
                ])
            defer { X509_free(ca) }
            let names = name.map { CertificateMaker.isAddress($0) ? "IP:\($0)" : "DNS:\($0)" }
            let server = try CertificateMaker.make(
                subject: name.first ?? (cluster ? "tidecast-node" : "localhost"), key: key, issuer: ca,
                signer: authority, days: days,
                extensions: [
                    (NID_basic_constraints, "critical,CA:FALSE"),
                    (NID_key_usage, "critical,digitalSignature"),
                    (NID_ext_key_usage, cluster ? "serverAuth,clientAuth" : "serverAuth"),
                    (NID_authority_key_identifier, "keyid"),
                ] + (names.isEmpty ? [] : [(NID_subject_alt_name, names.joined(separator: ","))]))
            defer { X509_free(server) }
            let caText = try CertificateMaker.pem { PEM_write_bio_X509($0, ca) }
            let serverText = try CertificateMaker.pem { PEM_write_bio_X509($0, server) }
            let keyText = try CertificateMaker.pem {
                PEM_write_bio_PKCS8PrivateKey($0, key, nil, nil, 0, nil, nil)
            }
            try write(caText, "ca.pem", 0o644)
            try write(serverText + caText, "\(file).pem", 0o644)
            try write(keyText, "\(file).key", 0o600)
            let advice = cluster ? "each node needs all three" : "clients must trust ca.pem"
            print("ca.pem, \(file).pem and \(file).key are in \(out); \(advice)")
        }

        private func prepare(_ files: [String]) throws {
            do {
                try FileManager.default.createDirectory(atPath: out, withIntermediateDirectories: true)
            } catch {
                throw ClientError("\(out) cannot be made: \(String(cString: strerror(errno)))")
            }
            let there = files.filter { FileManager.default.fileExists(atPath: "\(out)/\($0)") }
            guard force || there.isEmpty else {
                throw ClientError(
                    "\(there.joined(separator: ", ")) in \(out) would be replaced, and who trusts that authority"
                        + " would trust the new certificates no more: name another folder, or say --force")
            }
        }

        private func write(_ text: String, _ file: String, _ mode: Int) throws {
            guard
                FileManager.default.createFile(
                    atPath: "\(out)/\(file)", contents: Data(text.utf8), attributes: [.posixPermissions: mode]
                )
            else { throw ClientError("\(out)/\(file) cannot be written") }
        }
    }
}
