import COpenSSL

/// Why a certificate or key cannot be used.
public struct TLSError: Error, CustomStringConvertible, Sendable {
    public var description: String
}

/// What one side of TLS connections shows and trusts. TLS 1.2 and later.
// Safe: libssl counts references and locks a context by itself; nothing here changes it after `init`.
public final class TLSContext: @unchecked Sendable {
    let raw: OpaquePointer

    private init() throws(TLSError) {
        guard let context = SSL_CTX_new(TLS_method()) else {
            throw TLSError(description: "libssl gives no context")
        }
        raw = context
        tidecast_SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION)
        _ = tidecast_SSL_CTX_set_mode(
            context,
            Int(
                SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER
            ))
    }

    /// A listener for clients: a certificate chain and its key, ALPN for `h2` and `http/1.1`. Reads PEM
    /// files; the error says which and why.
    public convenience init(certificateFile: String, keyFile: String) throws(TLSError) {
        try self.init()
        try show(certificateFile, keyFile)
        let name = Array("tidecast".utf8)
        SSL_CTX_set_session_id_context(raw, name, UInt32(name.count))
        SSL_CTX_set_alpn_select_cb(raw, TLSContext.selectProtocol, nil)
    }

    /// Both sides of connections between the nodes of a cluster: each shows a certificate, and believes only
    /// one of the cluster's own authority.
    public convenience init(
        peerCertificateFile: String, keyFile: String, authorityFile: String
    ) throws(TLSError) {
        try self.init()
        try show(peerCertificateFile, keyFile)
        try trust(authorityFile)
        SSL_CTX_set_verify(raw, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nil)
        let name = Array("tidecast-peer".utf8)
        SSL_CTX_set_session_id_context(raw, name, UInt32(name.count))
    }

    /// A client of servers: believes the system's authorities, or one of a file.
    public convenience init(authorityFile: String?) throws(TLSError) {
        try self.init()
        if let authorityFile {
            try trust(authorityFile)
        } else {
            SSL_CTX_set_default_verify_paths(raw)
        }
        SSL_CTX_set_verify(raw, SSL_VERIFY_PEER, nil)
    }

    private func trust(_ file: String) throws(TLSError) {
        guard SSL_CTX_load_verify_file(raw, file) == 1 else {
            throw TLSError(description: "\(file): no authority can be read (\(TLSContext.reason()))")
        }
    }

    private func show(_ certificateFile: String, _ keyFile: String) throws(TLSError) {
        let context = raw
        guard SSL_CTX_use_certificate_chain_file(context, certificateFile) == 1 else {
            throw TLSError(
                description: "\(certificateFile): no certificate chain can be read (\(TLSContext.reason()))")
        }
        guard SSL_CTX_use_PrivateKey_file(context, keyFile, SSL_FILETYPE_PEM) == 1 else {
            throw TLSError(description: "\(keyFile): no private key can be read (\(TLSContext.reason()))")
        }
        guard SSL_CTX_check_private_key(context) == 1 else {
            throw TLSError(description: "\(keyFile) is not the key of the certificate in \(certificateFile)")
        }
    }

    deinit { SSL_CTX_free(raw) }

    static func reason() -> String {
        let code = ERR_get_error()
        guard code != 0, let text = ERR_reason_error_string(code) else { return "no reason given" }
        return String(cString: text)
    }

    /// The protocols in the server's order, each with its length in front (RFC 7301 §3.1).
    private static let offered: [UInt8] = [2] + Array("h2".utf8) + [8] + Array("http/1.1".utf8)

    /// A client that offers only what is not spoken here is refused (RFC 7301 §3.2).
    private static let selectProtocol:
        @convention(c) (
            OpaquePointer?, UnsafeMutablePointer<UnsafePointer<UInt8>?>?, UnsafeMutablePointer<UInt8>?,
            UnsafePointer<UInt8>?, UInt32, UnsafeMutableRawPointer?
        ) -> Int32 = { _, out, outLength, client, clientLength, _ in
            guard let out, let outLength, let client else { return SSL_TLSEXT_ERR_ALERT_FATAL }
            var place = 0
            var choice: (start: UnsafePointer<UInt8>, length: UInt8)?
            while place < Int(clientLength) {
                let length = client[place]
                let start = client + place + 1
                guard place + 1 + Int(length) <= Int(clientLength) else { return SSL_TLSEXT_ERR_ALERT_FATAL }
                let name = UnsafeBufferPointer(start: start, count: Int(length))
                if name.elementsEqual("h2".utf8) {
                    choice = (start, length)
                    break
                }
                if name.elementsEqual("http/1.1".utf8) { choice = (start, length) }
                place += 1 + Int(length)
            }
            guard let choice else { return SSL_TLSEXT_ERR_ALERT_FATAL }
            out.pointee = choice.start
            outLength.pointee = choice.length
            return SSL_TLSEXT_ERR_OK
        }
}
