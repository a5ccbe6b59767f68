import COpenSSL

/// A private authority, with the key that signs.
public final class CertificateAuthority {
    /// The purpose of a certificate.
    public enum Use {
        /// A listener that clients reach at these hosts and addresses.
        case server(hosts: [String])
        /// The node of that name in a cluster; any node of the cluster if `node` is `nil`.
        case peer(node: String?, hosts: [String])
    }

    /// Rounds of PBKDF2 with HMAC-SHA-256 for a key under a passphrase (RFC 8018 §6.2).
    static let rounds: Int32 = 600_000
    /// The shortest life of an authority in days: an authority should outlive the certificates that it signs.
    static let daysMin = 3650

    private let certificate: OpaquePointer
    private let key: OpaquePointer

    private init(_ certificate: OpaquePointer, _ key: OpaquePointer) {
        self.certificate = certificate
        self.key = key
    }

    deinit {
        X509_free(certificate)
        EVP_PKEY_free(key)
    }

    public convenience init(days: Int) throws(TLSError) {
        guard let key = CertificateMaker.key() else { throw TLSError(description: "libcrypto made no key") }
        do {
            let certificate = try CertificateMaker.make(
                subject: "Tidecast private CA", key: key, issuer: nil, signer: key,
                days: max(days, CertificateAuthority.daysMin),
                extensions: [
                    (NID_basic_constraints, "critical,CA:TRUE"),
                    (NID_key_usage, "critical,keyCertSign,cRLSign"),
                    (NID_subject_key_identifier, "hash"),
                ])
            self.init(certificate, key)
        } catch {
            EVP_PKEY_free(key)
            throw error as? TLSError ?? TLSError(description: "\(error)")
        }
    }

    /// Reads an authority from its files. `passphrase` opens an encrypted key.
    public convenience init(
        certificateFile: String, keyFile: String, passphrase: String?
    ) throws(TLSError) {
        let key = try PEMFile.key(try PEMFile.contents(of: keyFile), of: keyFile, passphrase: passphrase)
        let found: [OpaquePointer]
        do {
            found = try PEMFile.certificates(
                try PEMFile.contents(of: certificateFile), of: certificateFile)
        } catch {
            EVP_PKEY_free(key)
            throw error
        }
        // A file may hold several authorities while a cluster changes from one to the next.
        let own = found.first { X509_check_private_key($0, key) == 1 && X509_check_ca($0) == 1 }
        ERR_clear_error()
        for certificate in found where certificate != own { X509_free(certificate) }
        guard let own else {
            EVP_PKEY_free(key)
            throw TLSError(description: "\(keyFile) is not the key of an authority in \(certificateFile)")
        }
        self.init(own, key)
    }

    public func certificatePEM() throws -> String {
        try CertificateMaker.pem { PEM_write_bio_X509($0, certificate) }
    }

    /// The key, in clear text or under a passphrase (PKCS #8; PBES2 with AES-256 and PBKDF2, RFC 8018).
    public func keyPEM(passphrase: String?) throws -> String {
        try CertificateAuthority.keyPEM(key, passphrase)
    }

    /// Creates a key, and a certificate for that key that this authority signs.
    public func sign(_ use: Use, days: Int) throws -> (certificatePEM: String, keyPEM: String) {
        guard let own = CertificateMaker.key() else { throw TLSError(description: "libcrypto made no key") }
        defer { EVP_PKEY_free(own) }
        let subject: String
        let usage: String
        var names: [String] = []
        switch use {
        case .server(let hosts):
            (subject, usage) = (hosts.first ?? "localhost", "serverAuth")
            names = hosts.map(CertificateAuthority.alternativeName)
        case .peer(let node, let hosts):
            // A common name has 64 characters at most. Nodes compare the alternative name.
            subject = node.map { String($0.prefix(40)) } ?? "tidecast-node"
            usage = "serverAuth,clientAuth"
            if let node { names.append("URI:\(NodeCertificate.uri(of: node))") }
            names += hosts.map(CertificateAuthority.alternativeName)
        }
        let made = try CertificateMaker.make(
            subject: subject, key: own, issuer: certificate, signer: key, days: days,
            extensions: [
                (NID_basic_constraints, "critical,CA:FALSE"),
                (NID_key_usage, "critical,digitalSignature"),
                (NID_ext_key_usage, usage),
                (NID_authority_key_identifier, "keyid"),
            ] + (names.isEmpty ? [] : [(NID_subject_alt_name, names.joined(separator: ","))]))
        defer { X509_free(made) }
        return (
            try CertificateMaker.pem { PEM_write_bio_X509($0, made) },
            try CertificateAuthority.keyPEM(own, nil)
        )
    }

    private static func alternativeName(_ host: String) -> String {
        CertificateMaker.isAddress(host) ? "IP:\(host)" : "DNS:\(host)"
    }

    private static func keyPEM(_ key: OpaquePointer, _ passphrase: String?) throws -> String {
        guard let passphrase else {
            return try CertificateMaker.pem {
                PEM_write_bio_PKCS8PrivateKey($0, key, nil, nil, 0, nil, nil)
            }
        }
        guard let plain = EVP_PKEY2PKCS8(key) else {
            throw TLSError(description: "libcrypto gives no memory")
        }
        defer { PKCS8_PRIV_KEY_INFO_free(plain) }
        let secret = passphrase.utf8.map { CChar(bitPattern: $0) }
        let sealed = PKCS8_encrypt(
            NID_hmacWithSHA256, EVP_aes_256_cbc(), secret, Int32(secret.count), nil, 0, rounds, plain)
        guard let sealed else { throw TLSError(description: "libcrypto did not encrypt the key") }
        defer { X509_SIG_free(sealed) }
        return try CertificateMaker.pem { PEM_write_bio_PKCS8($0, sealed) }
    }
}
