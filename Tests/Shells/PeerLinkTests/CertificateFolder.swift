import Foundation
import TLS

/// The certificate of an authority, and those of nodes that it signs.
struct CertificateFolder {
    let path = FileManager.default.temporaryDirectory.path + "/tidecast-peers-\(UUID().uuidString)"
    private let authority: CertificateAuthority

    init() throws {
        try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
        authority = try CertificateAuthority(days: 2)
        try write(try authority.certificatePEM(), "ca.pem")
    }

    private func write(_ text: String, _ file: String) throws {
        try text.write(toFile: "\(path)/\(file)", atomically: false, encoding: .utf8)
    }

    /// The TLS of a node whose certificate names `named`; `nil` for a certificate that all nodes share.
    func tls(_ named: String?) throws -> PeerTLS {
        let file = named ?? "peer"
        let made = try authority.sign(.peer(node: named, hosts: []), days: 2)
        try write(made.certificatePEM, "\(file).pem")
        try write(made.keyPEM, "\(file).key")
        return try PeerTLS(
            PeerFiles(
                certificateFile: "\(path)/\(file).pem", keyFile: "\(path)/\(file).key",
                authorityFile: "\(path)/ca.pem"), node: named ?? "any")
    }

    func remove() { try? FileManager.default.removeItem(atPath: path) }
}
