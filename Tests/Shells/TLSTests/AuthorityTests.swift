import Foundation
import Testing

@testable import TLS

/// An authority that is kept in files, and the certificates that it signs for nodes.
@Suite("A private authority") struct AuthorityTests {
    private let folder: CertificateFolder

    init() throws { folder = try CertificateFolder() }

    private func keep(_ authority: CertificateAuthority, _ passphrase: String?) throws {
        try folder.write(try authority.certificatePEM(), to: "ca.pem")
        try folder.write(try authority.keyPEM(passphrase: passphrase), to: "ca.key")
    }

    private func read(_ passphrase: String?) throws(TLSError) -> CertificateAuthority {
        try CertificateAuthority(
            certificateFile: "\(folder.path)/ca.pem", keyFile: "\(folder.path)/ca.key", passphrase: passphrase
        )
    }

    @discardableResult
    private func sign(
        _ authority: CertificateAuthority, _ node: String?, as file: String
    ) throws -> PeerFiles {
        let made = try authority.sign(.peer(node: node, hosts: []), days: 2)
        try folder.write(made.certificatePEM, to: "\(file).pem")
        try folder.write(made.keyPEM, to: "\(file).key")
        return PeerFiles(
            certificateFile: "\(folder.path)/\(file).pem", keyFile: "\(folder.path)/\(file).key",
            authorityFile: "\(folder.path)/ca.pem")
    }

    @Test("signs more certificates after it was read from its files")
    func itSignsMoreLater() throws {
        try keep(CertificateAuthority(days: 2), nil)
        let later = try read(nil)
        #expect(try later.certificatePEM() == folder.text("ca.pem"))
        let files = try sign(later, "shard-1", as: "shard-1")
        #expect(try PeerTLS(files, node: "shard-1").isNamed)
    }

    @Test("has a key that opens with its passphrase alone")
    func passphrase() throws {
        try keep(CertificateAuthority(days: 2), "open sesame")
        #expect(try folder.text("ca.key").contains("BEGIN ENCRYPTED PRIVATE KEY"))
        _ = try read("open sesame")
        for (said, words) in [
            (nil, "is encrypted, and no passphrase was given"), ("open", "does not open with"),
        ] {
            #expect {
                _ = try read(said)
            } throws: {
                ("\($0)").contains(words)
            }
        }
    }

    @Test("is refused with another authority's key")
    func otherKey() throws {
        try keep(CertificateAuthority(days: 2), nil)
        try folder.write(try CertificateAuthority(days: 2).certificatePEM(), to: "ca.pem")
        #expect {
            _ = try read(nil)
        } throws: {
            ("\($0)").contains("is not the key of an authority in")
        }
    }

    @Test(
        "writes a node's name into the certificate, and no other node may use it",
        arguments: ["shard-1", "a b", "ä,URI:tidecast:node:x", "%41", String(repeating: "n", count: 200)])
    func nodeName(_ name: String) throws {
        try keep(CertificateAuthority(days: 2), nil)
        let files = try sign(read(nil), name, as: "node")
        #expect(try PeerTLS(files, node: name).isNamed)
        #expect {
            _ = try PeerTLS(files, node: "x")
        } throws: {
            ("\($0)").contains("is the certificate of \(NodeCertificate.encoded(name)), and this node is x")
        }
    }

    @Test("encodes each name in a way of its own")
    func encodings() {
        #expect(NodeCertificate.encoded("Shard-1.a_b~") == "Shard-1.a_b~")
        #expect(NodeCertificate.encoded("a b%/ä") == "a%20b%25%2F%C3%A4")
        #expect(NodeCertificate.uri(of: "a") == "tidecast:node:a")
    }

    /// Host names name no node: certificates that all nodes share may have them.
    @Test("names no node in a certificate that all nodes share")
    func sharedByAll() throws {
        let authority = try CertificateAuthority(days: 2)
        try keep(authority, nil)
        let made = try authority.sign(.peer(node: nil, hosts: ["shard-1", "10.0.0.1"]), days: 2)
        try folder.write(made.certificatePEM, to: "peer.pem")
        try folder.write(made.keyPEM, to: "peer.key")
        let files = PeerFiles(
            certificateFile: "\(folder.path)/peer.pem", keyFile: "\(folder.path)/peer.key",
            authorityFile: "\(folder.path)/ca.pem")
        #expect(try !PeerTLS(files, node: "anybody").isNamed)
    }

    @Test("has new files that a node takes, and bad ones that it does not")
    func newFiles() throws {
        let authority = try CertificateAuthority(days: 2)
        try keep(authority, nil)
        let files = try sign(authority, nil, as: "node")
        let tls = try PeerTLS(files, node: "a")
        let first = tls.context
        #expect(tls.look() == nil)
        func outcome(_ news: CertificateNews?) -> String {
            switch news?.outcome {
            case nil: "none"
            case .taken?: "taken"
            case .unchanged?: "unchanged"
            case .refused(let reason)?: reason
            }
        }
        #expect(outcome(tls.look(isAsked: true)) == "unchanged")
        try sign(authority, "a", as: "node")
        // The node takes files that did not change between two looks.
        #expect(outcome(tls.look()) == "none" && !tls.isNamed)
        #expect(outcome(tls.look()) == "taken" && tls.isNamed && tls.context !== first)
        let second = tls.context
        try sign(authority, "b", as: "node")
        #expect(outcome(tls.look(isAsked: true)).contains("is the certificate of b, and this node is a"))
        try folder.write("no PEM", to: "ca.pem")
        try sign(authority, "a", as: "node")
        #expect(outcome(tls.look(isAsked: true)).contains("ca.pem"))
        #expect(tls.context === second)
        // A second authority changes the file ca.pem alone.
        try folder.write(
            try authority.certificatePEM() + CertificateAuthority(days: 2).certificatePEM(), to: "ca.pem")
        #expect(outcome(tls.look(isAsked: true)) == "taken")
    }
}
