import COpenSSL
import NIOCore

/// TLS over memory: ciphertext from and to the socket, plaintext from and to the rest of the pipeline.
public final class TLSHandler: ChannelDuplexHandler {
    public typealias InboundIn = ByteBuffer
    public typealias InboundOut = ByteBuffer
    public typealias OutboundIn = ByteBuffer
    public typealias OutboundOut = ByteBuffer

    public enum Side {
        case server
        /// If `host` is given, the server's certificate must name that host.
        case client(host: String?)
    }

    /// The most plaintext, in bytes, that goes to the pipeline at once.
    private static let readBytes = 16 << 10

    private let ssl: OpaquePointer
    private let incoming: OpaquePointer
    private var outgoing: OpaquePointer
    /// Called once, with the protocol that ALPN chose, or an empty text if the client offered none. Returns
    /// whether the caller will write within this turn, so that the end of the handshake leaves with that
    /// write.
    private let established: (ChannelHandlerContext, String) throws -> Bool
    private var isEstablished = false
    /// Whether the end of the handshake waits for the first write.
    private var isFlushedSoon = false
    /// Whether the socket failed.
    private var isLost = false
    private var waiting: [ByteBuffer] = []
    /// The promises of writes that are not yet with the socket. A caller that counts its unsent bytes must go
    /// on counting these.
    private var promises: [EventLoopPromise<Void>] = []

    private let isClient: Bool

    /// The object to which libssl's callbacks refer; the handler keeps it alive.
    private let kept: AnyObject

    /// One side of a connection between nodes, or the client's side of any connection. `nil` if libssl
    /// gives no memory.
    public convenience init?(
        _ tls: TLSContext, side: Side = .server,
        established: @escaping (ChannelHandlerContext, String) throws -> Void = { _, _ in }
    ) {
        self.init(SSL_new(tls.raw), side, kept: tls) { context, name in
            try established(context, name)
            return false
        }
    }

    /// The server's side of a connection with a client.
    public convenience init?(
        _ tls: ServerTLS, established: @escaping (ChannelHandlerContext, String) throws -> Bool
    ) {
        self.init(tls.connection(), .server, kept: tls, established: established)
    }

    private init?(
        _ ssl: OpaquePointer?, _ side: Side, kept: AnyObject,
        established: @escaping (ChannelHandlerContext, String) throws -> Bool
    ) {
        guard let ssl else { return nil }
        let (incoming, outgoing) = (BIO_new(BIO_s_mem()), BIO_new(BIO_s_mem()))
        guard let incoming, let outgoing else {
            BIO_free(incoming)
            BIO_free(outgoing)
            SSL_free(ssl)
            return nil
        }
        self.ssl = ssl
        self.incoming = incoming
        self.outgoing = outgoing
        self.kept = kept
        self.established = established
        SSL_set_bio(ssl, incoming, outgoing)
        switch side {
        case .server:
            isClient = false
            SSL_set_accept_state(ssl)
        case .client(let host):
            isClient = true
            SSL_set_connect_state(ssl)
            // Without the name libssl would take each certificate of the authorities.
            if let host, !TLSHandler.expect(host, ssl) { return nil }
        }
    }

    /// A certificate names an IP address as an address, not as a DNS name, and a client sends the server only
    /// names (RFC 6066 §3). False if libssl gives no memory.
    private static func expect(_ host: String, _ ssl: OpaquePointer) -> Bool {
        if X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), host) == 1 { return true }
        ERR_clear_error()
        return tidecast_SSL_set_server_name(ssl, host) == 1 && SSL_set1_host(ssl, host) == 1
    }

    public func channelActive(context: ChannelHandlerContext) {
        context.fireChannelActive()
        if isClient { _ = handshake(context) }
    }

    deinit { SSL_free(ssl) }

    public func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        let bytes = unwrapInboundIn(data)
        bytes.withUnsafeReadableBytes { raw in
            _ = BIO_write(incoming, raw.baseAddress, Int32(clamping: raw.count))
        }
        let isFirst = !isEstablished
        if isFirst, !handshake(context) { return }
        read(context)
        if !isFirst || !isFlushedSoon { drain(context) }
    }

    /// True when the handshake is complete.
    private func handshake(_ context: ChannelHandlerContext) -> Bool {
        let result = SSL_do_handshake(ssl)
        if result != 1 {
            drain(context)
            let error = SSL_get_error(ssl, result)
            if error != SSL_ERROR_WANT_READ, error != SSL_ERROR_WANT_WRITE {
                let reason = TLSContext.reason() + verdict
                ERR_clear_error()
                context.fireErrorCaught(TLSError(description: "the TLS handshake failed: \(reason)"))
                context.close(promise: nil)
            }
            return false
        }
        isEstablished = true
        var name: UnsafePointer<UInt8>?
        var length: UInt32 = 0
        SSL_get0_alpn_selected(ssl, &name, &length)
        let chosen = String(decoding: UnsafeBufferPointer(start: name, count: Int(length)), as: UTF8.self)
        do {
            isFlushedSoon = try established(context, chosen)
        } catch {
            context.close(promise: nil)
            return false
        }
        for buffer in waiting { encrypt(buffer) }
        waiting = []
        if !isFlushedSoon { drain(context) }
        return true
    }

    /// Why libssl did not take the other side's certificate, in parentheses; empty if it took it.
    private var verdict: String {
        let code = SSL_get_verify_result(ssl)
        return code == Int(X509_V_OK) ? "" : " (\(String(cString: X509_verify_cert_error_string(code))))"
    }

    /// 32 bytes that both ends of this connection know and no other connection has: `tls-exporter` (RFC
    /// 9266). `nil` before the handshake is complete.
    public var channelBinding: [UInt8]? {
        guard isEstablished else { return nil }
        let label = Array("EXPORTER-Channel-Binding".utf8)
        var out = [UInt8](repeating: 0, count: 32)
        let made = label.withUnsafeBufferPointer { label in
            label.withMemoryRebound(to: CChar.self) { label in
                SSL_export_keying_material(ssl, &out, out.count, label.baseAddress, label.count, nil, 0, 1)
            }
        }
        return made == 1 ? out : nil
    }

    /// The nodes that the other side's certificate names, as `NodeCertificate.encoded` writes them; empty for
    /// a certificate that all nodes share. `nil` before the handshake is complete.
    public var peerNodes: [String]? {
        guard isEstablished else { return nil }
        return SSL_get0_peer_certificate(ssl).map(NodeCertificate.nodes) ?? []
    }

    /// The SHA-256 of each form of the other side's certificate that would be taken
    /// (`X509Fingerprint.forms`), the shown form first; empty without a certificate, and before the handshake
    /// is complete.
    public var peerFingerprints: [[UInt8]] {
        guard isEstablished, let shown = SSL_get0_peer_certificate(ssl) else { return [] }
        let chain = SSL_get0_verified_chain(ssl)
        let issuer = chain.flatMap { OPENSSL_sk_value($0, min(1, OPENSSL_sk_num($0) - 1)) }
        return X509Fingerprint.forms(of: shown, issuer: issuer.map { OpaquePointer($0) })
    }

    private func read(_ context: ChannelHandlerContext) {
        // If nothing waits, libssl would only ask for more. A ciphertext is longer than its plaintext, so
        // `waiting` bytes are room enough.
        while true {
            let waiting = BIO_ctrl_pending(incoming) + Int(SSL_pending(ssl))
            guard waiting > 0 else { return }
            let room = min(waiting, TLSHandler.readBytes)
            var plain = context.channel.allocator.buffer(capacity: room)
            var result: Int32 = 0
            plain.writeWithUnsafeMutableBytes(minimumWritableBytes: room) { raw in
                result = SSL_read(ssl, raw.baseAddress, Int32(clamping: raw.count))
                return max(0, Int(result))
            }
            guard result > 0 else {
                let error = SSL_get_error(ssl, result)
                if error != SSL_ERROR_WANT_READ, error != SSL_ERROR_WANT_WRITE {
                    ERR_clear_error()
                    context.close(promise: nil)
                }
                return
            }
            context.fireChannelRead(wrapInboundOut(plain))
        }
    }

    public func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
        let buffer = unwrapOutboundIn(data)
        if isEstablished { encrypt(buffer) } else { waiting.append(buffer) }
        if let promise { promises.append(promise) }
    }

    private func encrypt(_ buffer: ByteBuffer) {
        buffer.withUnsafeReadableBytes { raw in
            var offset = 0
            while offset < raw.count {
                let count = Int32(clamping: raw.count - offset)
                let written = SSL_write(ssl, raw.baseAddress.map { $0 + offset }, count)
                guard written > 0 else { return ERR_clear_error() }
                offset += Int(written)
            }
        }
    }

    public func channelInactive(context: ChannelHandlerContext) {
        failPromises()
        context.fireChannelInactive()
    }

    /// A write that came after the connection broke, in the same turn, fails as well.
    public func handlerRemoved(context: ChannelHandlerContext) { failPromises() }

    private func failPromises() {
        let lost = promises
        promises = []
        for promise in lost { promise.fail(ChannelError.ioOnClosedChannel) }
    }

    /// After an error of the socket `close` sends no closing alert, because nobody would receive the alert.
    public func errorCaught(context: ChannelHandlerContext, error: any Error) {
        isLost = true
        context.fireErrorCaught(error)
    }

    public func flush(context: ChannelHandlerContext) { drain(context) }

    /// Writes all pending ciphertext to the socket in one piece.
    private func drain(_ context: ChannelHandlerContext) {
        let pending = BIO_ctrl_pending(outgoing)
        guard pending > 0 else { return }
        var cipher = context.channel.allocator.buffer(capacity: pending)
        cipher.writeWithUnsafeMutableBytes(minimumWritableBytes: pending) { raw in
            max(0, Int(BIO_read(outgoing, raw.baseAddress, Int32(clamping: pending))))
        }
        if pending > TLSHandler.keptBytesMax, isEstablished { replaceOutgoing() }
        guard isEstablished, !promises.isEmpty else {
            return context.writeAndFlush(wrapOutboundOut(cipher), promise: nil)
        }
        let sent = promises
        promises = []
        let written = context.eventLoop.makePromise(of: Void.self)
        written.futureResult.whenComplete { result in for promise in sent { promise.completeWith(result) } }
        context.writeAndFlush(wrapOutboundOut(cipher), promise: written)
    }

    /// The most bytes of buffer that a connection keeps for later writes.
    private static let keptBytesMax = 32 << 10

    /// A memory BIO never gives memory back, and this one has grown past `keptBytesMax`.
    private func replaceOutgoing() {
        guard let fresh = BIO_new(BIO_s_mem()) else { return }
        SSL_set0_wbio(ssl, fresh)
        outgoing = fresh
    }

    public func close(context: ChannelHandlerContext, mode: CloseMode, promise: EventLoopPromise<Void>?) {
        if isEstablished, !isLost, mode != .input {
            SSL_shutdown(ssl)
            drain(context)
        }
        context.close(mode: mode, promise: promise)
    }
}
