import COpenSSL

/// The certificate that a side of TLS connections shows, and the authorities that it trusts. TLS 1.2 and
/// later.
// Safe: libssl counts references and locks a context by itself, and the code here changes a context only
// before other threads have it.
public final class TLSContext: @unchecked Sendable {
    let raw: OpaquePointer

    /// The suites of TLS 1.2: ephemeral keys and authenticated encryption only (RFC 9325 §4.2). All suites of
    /// TLS 1.3 are of this kind. SHA-256 goes first, because it costs least.
    private static let suites =
        "ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-RSA-AES128-GCM-SHA256:ECDHE-ECDSA-AES256-GCM-SHA384:"
        + "ECDHE-RSA-AES256-GCM-SHA384:ECDHE-ECDSA-CHACHA20-POLY1305:ECDHE-RSA-CHACHA20-POLY1305"

    init() throws(TLSError) {
        guard let context = SSL_CTX_new(TLS_method()) else {
            throw TLSError(description: "libssl gives no context")
        }
        raw = context
        tidecast_SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION)
        guard SSL_CTX_set_cipher_list(context, TLSContext.suites) == 1 else {
            throw TLSError(description: "libssl has none of \(TLSContext.suites)")
        }
        // The chain is what the file holds. Otherwise libssl would search for a chain in each handshake.
        _ = tidecast_SSL_CTX_set_mode(
            context,
            Int(
                SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER
                    | SSL_MODE_NO_AUTO_CHAIN))
    }

    /// Both sides of connections between the nodes of a cluster. Each side shows a certificate, and trusts
    /// only the cluster's own authorities.
    convenience init(
        _ pair: borrowing CertificatePair, authorityFile: String
    ) throws(TLSError) {
        try self.init()
        // Both ends are Tidecast nodes and have TLS 1.3, in which each connection has its own exporter (RFC
        // 9266 §4.2).
        tidecast_SSL_CTX_set_min_proto_version(raw, TLS1_3_VERSION)
        try show(pair)
        try trust(authorityFile)
        SSL_CTX_set_verify(raw, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nil)
        // Nodes do not resume sessions: each handshake shows a certificate, which may be refused by then.
        SSL_CTX_set_num_tickets(raw, 0)
        let name = Array("tidecast-peer".utf8)
        SSL_CTX_set_session_id_context(raw, name, UInt32(name.count))
    }

    /// The client's side: trusts the authorities of the system, or those of a file.
    public convenience init(authorityFile: String?) throws(TLSError) {
        try self.init()
        if let authorityFile {
            try trust(authorityFile)
        } else {
            SSL_CTX_set_default_verify_paths(raw)
        }
        SSL_CTX_set_verify(raw, SSL_VERIFY_PEER, nil)
    }

    /// The client's side: trusts the authorities of the system, or those of a PEM text, and offers protocols
    /// (ALPN, RFC 7301), the preferred one first.
    public convenience init(authorityPEM: String?, protocols: [String]) throws(TLSError) {
        try self.init()
        if let authorityPEM {
            try trust(pem: authorityPEM)
        } else {
            SSL_CTX_set_default_verify_paths(raw)
        }
        SSL_CTX_set_verify(raw, SSL_VERIFY_PEER, nil)
        var names: [UInt8] = []
        for name in protocols { names += [UInt8(clamping: name.utf8.count)] + name.utf8 }
        // Unlike all other functions of libssl this one returns 0 if it succeeds.
        guard SSL_CTX_set_alpn_protos(raw, names, UInt32(names.count)) == 0 else {
            throw TLSError(description: "libssl does not offer \(protocols.joined(separator: ", "))")
        }
    }

    private func trust(pem: String) throws(TLSError) {
        let authorities = try PEMFile.certificates(Array(pem.utf8), of: "the PEM of the authorities")
        defer { for authority in authorities { X509_free(authority) } }
        for authority in authorities {
            guard X509_STORE_add_cert(SSL_CTX_get_cert_store(raw), authority) == 1 else {
                throw TLSError(description: "an authority cannot be used (\(TLSContext.reason()))")
            }
        }
    }

    private func trust(_ file: String) throws(TLSError) {
        _ = try PEMFile.contents(of: file)
        guard SSL_CTX_load_verify_file(raw, file) == 1 else {
            throw TLSError(description: "\(file): no authority can be read (\(TLSContext.reason()))")
        }
    }

    /// Sets the chain and the key that this side shows.
    func show(_ pair: borrowing CertificatePair) throws(TLSError) {
        if let mistake = pair.mistake { throw mistake }
        ERR_clear_error()
        guard SSL_CTX_use_certificate(raw, pair.certificates[0]) == 1,
            SSL_CTX_use_PrivateKey(raw, pair.key) == 1,
            pair.certificates.dropFirst().allSatisfy({ tidecast_SSL_CTX_add1_chain_cert(raw, $0) == 1 })
        else {
            throw TLSError(
                description: "\(pair.files.chain) cannot be used with its key (\(TLSContext.reason()))")
        }
    }

    deinit { SSL_CTX_free(raw) }

    static func reason() -> String {
        let code = ERR_get_error()
        guard code != 0, let text = ERR_reason_error_string(code) else { return "no reason given" }
        return String(cString: text)
    }
}
