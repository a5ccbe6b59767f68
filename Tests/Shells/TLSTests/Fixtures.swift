import COpenSSL
import Foundation
import Testing

@testable import TLS

/// A folder of certificates, removed with this object.
final class CertificateFolder {
    let path: String

    init() throws {
        path = FileManager.default.temporaryDirectory.path + "/tidecast-tls-\(UUID().uuidString)"
        try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
    }

    deinit { try? FileManager.default.removeItem(atPath: path) }

    /// Makes a certificate for `hosts`, signed by itself. The same name again gives another certificate with
    /// another key.
    ///
    /// This process makes it: a child process would hold, for a moment, locks and listeners of other tests.
    @discardableResult
    func make(_ name: String, for hosts: [String]) throws -> CertificateFiles {
        let key = try #require(CertificateMaker.key())
        defer { EVP_PKEY_free(key) }
        let names = hosts.map { "DNS:\($0)" }.joined(separator: ",")
        let certificate = try CertificateMaker.make(
            subject: name, key: key, issuer: nil, signer: key, days: 2,
            extensions: [(NID_subject_alt_name, names)])
        defer { X509_free(certificate) }
        try write(CertificateMaker.pem { PEM_write_bio_X509($0, certificate) }, to: "\(name).pem")
        try write(
            CertificateMaker.pem { PEM_write_bio_PKCS8PrivateKey($0, key, nil, nil, 0, nil, nil) },
            to: "\(name).key")
        return files(name)
    }

    /// Writes the key of `name` under a passphrase into `file`.
    func encrypt(_ name: String, to file: String) throws {
        let bio = try #require(BIO_new_file("\(path)/\(name).key", "r"))
        defer { BIO_free(bio) }
        let key = try #require(PEM_read_bio_PrivateKey(bio, nil, nil, nil))
        defer { EVP_PKEY_free(key) }
        let text = try CertificateMaker.pem {
            PEM_write_bio_PKCS8PrivateKey($0, key, EVP_aes_128_cbc(), "x", 1, nil, nil)
        }
        try write(text, to: file)
    }

    func files(_ name: String) -> CertificateFiles {
        CertificateFiles(chain: "\(path)/\(name).pem", key: "\(path)/\(name).key")
    }

    func text(_ file: String) throws -> String {
        try String(contentsOfFile: "\(path)/\(file)", encoding: .utf8)
    }

    /// Writes in place: the file stays the same file.
    func write(_ text: String, to file: String) throws {
        try text.write(toFile: "\(path)/\(file)", atomically: false, encoding: .utf8)
    }

    func remove(_ file: String) throws { try FileManager.default.removeItem(atPath: "\(path)/\(file)") }

    func makeFolder(_ name: String) throws {
        try FileManager.default.createDirectory(atPath: "\(path)/\(name)", withIntermediateDirectories: false)
    }

    func move(_ file: String, to other: String) throws {
        try #require(rename("\(path)/\(file)", "\(path)/\(other)") == 0)
    }

    func link(_ file: String, to target: String) throws {
        try FileManager.default.createSymbolicLink(
            atPath: "\(path)/\(file)", withDestinationPath: target)
    }

    /// Puts the pair `name` where `other` was, in place.
    func copy(_ name: String, over other: String) throws {
        for kind in ["pem", "key"] { try write(try text("\(name).\(kind)"), to: "\(other).\(kind)") }
    }
}

/// A client and a server in one process, which hand each other their bytes.
struct Handshake {
    struct Options {
        var name: String?
        var version: Int32?
        var suites: String?
        /// Cipher suites of TLS 1.3.
        var newSuites: String?
        /// A session of an earlier handshake.
        var session: ClientSession?
    }

    /// A handshake that succeeded, as the client saw it.
    struct Result {
        var suite: String
        var commonName: String
        var isResumed: Bool
        /// The session, with the server's ticket for the next handshake.
        var session: ClientSession?
        var allowsEarlyData: Bool
    }

    static func run(_ server: ServerTLS, _ options: Options = Options()) throws -> Result? {
        let context = try #require(SSL_CTX_new(TLS_client_method()))
        defer { SSL_CTX_free(context) }
        let client = try #require(SSL_new(context))
        defer { SSL_free(client) }
        if let name = options.name { tidecast_SSL_set_server_name(client, name) }
        if let version = options.version {
            tidecast_SSL_set_proto_version(client, version)
        }
        if let suites = options.suites { #expect(SSL_set_cipher_list(client, suites) == 1) }
        if let suites = options.newSuites { #expect(SSL_set_ciphersuites(client, suites) == 1) }
        if let session = options.session { #expect(SSL_set_session(client, session.raw) == 1) }
        let other = try #require(server.connection())
        defer { SSL_free(other) }
        let (toServer, toClient) = (try #require(BIO_new(BIO_s_mem())), try #require(BIO_new(BIO_s_mem())))
        BIO_up_ref(toServer)
        BIO_up_ref(toClient)
        SSL_set_bio(client, toClient, toServer)
        SSL_set_bio(other, toServer, toClient)
        SSL_set_connect_state(client)
        SSL_set_accept_state(other)
        defer { ERR_clear_error() }
        var isDone = (client: false, server: false)
        for _ in 0..<10 {
            isDone.client = SSL_do_handshake(client) == 1
            isDone.server = SSL_do_handshake(other) == 1
        }
        guard isDone.client, isDone.server else { return nil }
        // Tickets of TLS 1.3 come behind the handshake.
        var byte: UInt8 = 0
        _ = SSL_read(client, &byte, 1)
        let subject = SSL_get0_peer_certificate(client).map { certificate -> String in
            var text = [CChar](repeating: 0, count: 256)
            X509_NAME_get_text_by_NID(X509_get_subject_name(certificate), NID_commonName, &text, 256)
            return String(decoding: text.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
        }
        // A connection that ends without a shutdown would spoil the session.
        SSL_shutdown(client)
        let session = SSL_get1_session(client).flatMap { ClientSession($0) }
        return Result(
            suite: String(cString: SSL_CIPHER_get_name(SSL_get_current_cipher(client))),
            commonName: subject ?? "", isResumed: SSL_session_reused(client) == 1, session: session,
            allowsEarlyData: session.map { SSL_SESSION_get_max_early_data($0.raw) > 0 } ?? false)
    }
}

/// The session that a client keeps to resume.
final class ClientSession {
    let raw: OpaquePointer

    /// `nil` where no ticket came: such a session cannot be resumed.
    init?(_ raw: OpaquePointer) {
        self.raw = raw
        guard SSL_SESSION_has_ticket(raw) == 1 else { return nil }
    }

    deinit { SSL_SESSION_free(raw) }
}
