import ArgumentParser
import COpenSSL
import Foundation

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

/// X.509 by libcrypto.
enum CertificateMaker {
    /// P-256.
    static func key() -> OpaquePointer? {
        guard let context = EVP_PKEY_CTX_new_id(EVP_PKEY_EC, nil) else { return nil }
        defer { EVP_PKEY_CTX_free(context) }
        var key: OpaquePointer?
        guard EVP_PKEY_keygen_init(context) == 1,
            EVP_PKEY_CTX_set_ec_paramgen_curve_nid(context, NID_X9_62_prime256v1) == 1,
            EVP_PKEY_keygen(context, &key) == 1
        else { return nil }
        return key
    }

    static func isAddress(_ name: String) -> Bool {
        var v4 = in_addr()
        var v6 = in6_addr()
        return inet_pton(AF_INET, name, &v4) == 1 || inet_pton(AF_INET6, name, &v6) == 1
    }

    static func make(
        subject: String, key: OpaquePointer, issuer: OpaquePointer?, signer: OpaquePointer, days: Int,
        extensions: [(nid: Int32, value: String)]
    ) throws -> OpaquePointer {
        guard let certificate = X509_new() else { throw ClientError("libcrypto made no certificate") }
        X509_set_version(certificate, 2)
        var serial = [UInt8](repeating: 0, count: 16)
        RAND_bytes(&serial, Int32(serial.count))
        serial[0] &= 0x7F
        let number = BN_bin2bn(serial, Int32(serial.count), nil)
        BN_to_ASN1_INTEGER(number, X509_get_serialNumber(certificate))
        BN_free(number)
        X509_gmtime_adj(X509_getm_notBefore(certificate), -3600)
        X509_gmtime_adj(X509_getm_notAfter(certificate), days * 86_400)
        X509_set_pubkey(certificate, key)
        let name = X509_get_subject_name(certificate)
        let text = Array(subject.utf8)
        X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_UTF8, text, Int32(text.count), -1, 0)
        X509_set_issuer_name(certificate, issuer.map { X509_get_subject_name($0) } ?? name)
        var context = X509V3_CTX()
        X509V3_set_ctx(&context, issuer ?? certificate, certificate, nil, nil, 0)
        for item in extensions {
            guard let built = X509V3_EXT_conf_nid(nil, &context, item.nid, item.value) else {
                X509_free(certificate)
                throw ClientError("\(item.value) cannot stand in a certificate")
            }
            X509_add_ext(certificate, built, -1)
            X509_EXTENSION_free(built)
        }
        guard X509_sign(certificate, signer, EVP_sha256()) > 0 else {
            X509_free(certificate)
            throw ClientError("libcrypto did not sign")
        }
        return certificate
    }

    static func pem(_ write: (OpaquePointer) -> Int32) throws -> String {
        guard let bio = BIO_new(BIO_s_mem()) else { throw ClientError("out of memory") }
        defer { BIO_free(bio) }
        guard write(bio) == 1 else { throw ClientError("libcrypto wrote no PEM") }
        var text: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 4096)
        while true {
            let count = BIO_read(bio, &buffer, Int32(buffer.count))
            guard count > 0 else { return String(decoding: text, as: UTF8.self) }
            text += buffer[..<Int(count)]
        }
    }
}
