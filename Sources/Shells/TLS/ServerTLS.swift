import COpenSSL
import Glibc
import Synchronization

/// The outcome of one look at a certificate's files.
public struct CertificateNews: Sendable {
    public enum Outcome: Sendable {
        /// New handshakes use the new certificate.
        case taken
        /// The files hold what is in use already.
        case unchanged
        /// The new files cannot be used, and the old certificate stays in use.
        case refused(reason: String)
    }
    public var files: CertificateFiles
    public var outcome: Outcome
}

/// The server's side of TLS: the certificate for the name that a client asks for, and ALPN for `h2` and
/// `http/1.1`. A running server reads certificates again; open connections keep the old ones.
public final class ServerTLS: Sendable {
    private struct Source {
        var files: CertificateFiles
        var watch: CertificateWatch
        var certificate: ServerCertificate
    }

    private let sources: Mutex<[Source]>
    private let choice: CertificateChoice

    /// Reads all pairs of files, at least one. The first pair is for clients that ask for no name, or for a
    /// name that no certificate has. With keys for `tickets`, a client's session resumes at every process
    /// that has the same keys; without them no session resumes.
    public convenience init(_ files: [CertificateFiles], tickets: TicketKeyring?) throws(TLSError) {
        try self.init(files, tickets: tickets) { Int64(time(nil)) }
    }

    init(
        _ files: [CertificateFiles], tickets: TicketKeyring?, now: @escaping @Sendable () -> Int64
    ) throws(TLSError) {
        choice = CertificateChoice(tickets.map { TicketKeys($0, now: now) })
        guard !files.isEmpty else { throw TLSError(description: "a listener with TLS needs a certificate") }
        var sources: [Source] = []
        for files in files {
            let watch = CertificateWatch(read: files.stamps)
            sources.append(
                Source(files: files, watch: watch, certificate: try ServerTLS.read(files, choice)))
        }
        choice.certificates.withLock { $0 = sources.map(\.certificate) }
        self.sources = Mutex(sources)
    }

    /// Derives the keys of session tickets from another secret. Tickets under the old secret are refused.
    public func change(secret: [UInt8]) { choice.tickets?.change(secret: secret) }

    private static func read(
        _ files: CertificateFiles, _ choice: CertificateChoice
    ) throws(TLSError) -> ServerCertificate {
        try ServerCertificate(files) { context in choice.prepare(context) }
    }

    /// In the order of the settings.
    public var certificates: [(files: CertificateFiles, certificate: ServerCertificate)] {
        sources.withLock { $0.map { ($0.files, $0.certificate) } }
    }

    /// Reads the files that have changed and no longer change, or all files if an operator asks.
    ///
    /// - Parameter mistake: Why the server must not use a key's file, as a sentence.
    public func look(
        isAsked: Bool = false, mistake: (_ keyFile: String) -> String? = { _ in nil }
    ) -> [CertificateNews] {
        sources.withLock { sources in
            var news: [CertificateNews] = []
            for index in sources.indices {
                let files = sources[index].files
                // The stamps are from before the read, so the next look notices a write during the read.
                let stamps = files.stamps
                if isAsked {
                    sources[index].watch.noteRead(stamps)
                } else if !sources[index].watch.look(stamps) {
                    continue
                }
                do throws(TLSError) {
                    if let mistake = mistake(files.key) { throw TLSError(description: mistake) }
                    let next = try ServerTLS.read(files, choice)
                    let isNew = next.digest != sources[index].certificate.digest
                    if isNew { sources[index].certificate = next }
                    if isNew || isAsked {
                        news.append(CertificateNews(files: files, outcome: isNew ? .taken : .unchanged))
                    }
                } catch {
                    news.append(
                        CertificateNews(files: files, outcome: .refused(reason: error.description)))
                }
            }
            choice.certificates.withLock { $0 = sources.map(\.certificate) }
            return news
        }
    }

    /// The libssl state of one connection. The caller may use it for as long as this `ServerTLS` lives.
    func connection() -> OpaquePointer? {
        guard let first = choice.first else { return nil }
        return withExtendedLifetime(first) { SSL_new(first.context.raw) }
    }
}

/// Answers libssl's callbacks, which get a connection's context and nothing else.
final class CertificateChoice: Sendable {
    let certificates = Mutex<[ServerCertificate]>([])
    let tickets: TicketKeys?

    init(_ tickets: TicketKeys?) { self.tickets = tickets }

    var first: ServerCertificate? { certificates.withLock { $0.first } }

    private func certificate(for host: String) -> ServerCertificate? {
        certificates.withLock { all in
            all.isEmpty ? nil : all[CertificateNames.choice(for: host, among: all.map(\.names))]
        }
    }

    private var isOne: Bool { certificates.withLock { $0.count == 1 } }

    /// Each context of a listener refers to this object without keeping it. Safe: `ServerTLS` keeps this
    /// object, and each connection keeps its `ServerTLS`.
    func prepare(_ context: TLSContext) {
        let raw = context.raw
        tidecast_SSL_CTX_set_app_data(raw, Unmanaged.passUnretained(self).toOpaque())
        let name = Array("tidecast".utf8)
        SSL_CTX_set_session_id_context(raw, name, UInt32(name.count))
        SSL_CTX_set_alpn_select_cb(raw, CertificateChoice.selectProtocol, nil)
        tidecast_SSL_CTX_set_server_name_callback(raw, CertificateChoice.selectCertificate)
        SSL_CTX_set_ciphersuites(raw, CertificateChoice.suites)
        tidecast_SSL_CTX_prefer_own_suites(raw)
        // The client's ticket holds the session, and the server keeps nothing of it. There is no early data,
        // because an attacker could replay it.
        tidecast_SSL_CTX_set_session_cache_mode(raw, Int(SSL_SESS_CACHE_OFF))
        SSL_CTX_set_max_early_data(raw, 0)
        SSL_CTX_set_recv_max_early_data(raw, 0)
        guard tickets != nil else {
            SSL_CTX_set_num_tickets(raw, 0)
            tidecast_SSL_CTX_set_no_ticket(raw)
            return
        }
        SSL_CTX_set_num_tickets(raw, CertificateChoice.ticketCount)
        SSL_CTX_set_timeout(raw, Int(TicketKeyring.periodSeconds))
        SSL_CTX_set_tlsext_ticket_key_evp_cb(raw, CertificateChoice.prepareTicket)
    }

    /// The suites of TLS 1.3, in the server's order. SHA-256 goes first, because hashing the handshake with
    /// it costs least. A client that puts ChaCha20 first has no hardware for AES, and gets ChaCha20.
    private static let suites =
        "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256"

    /// Tickets after a full handshake of TLS 1.3. A device has one connection, and a resumption gives a new
    /// ticket.
    private static let ticketCount = 1

    static func of(_ ssl: OpaquePointer?) -> CertificateChoice? {
        guard let ssl, let context = SSL_get_SSL_CTX(ssl), let data = tidecast_SSL_CTX_get_app_data(context)
        else { return nil }
        return Unmanaged<CertificateChoice>.fromOpaque(data).takeUnretainedValue()
    }

    private static let prepareTicket:
        @convention(c) (
            OpaquePointer?, UnsafeMutablePointer<UInt8>?, UnsafeMutablePointer<UInt8>?, OpaquePointer?,
            OpaquePointer?, Int32
        ) -> Int32 = { ssl, name, iv, cipher, seal, isNew in
            guard let tickets = CertificateChoice.of(ssl)?.tickets, let name, let iv, let cipher, let seal
            else { return -1 }
            return tickets.prepare(name: name, iv: iv, cipher, seal, isNew: isNew == 1)
        }

    /// A client that asks for a name gets that name's certificate (RFC 6066 §3).
    private static let selectCertificate:
        @convention(c) (OpaquePointer?, UnsafeMutablePointer<Int32>?, UnsafeMutableRawPointer?) -> Int32 = {
            ssl, _, _ in
            guard let choice = CertificateChoice.of(ssl),
                let name = SSL_get_servername(ssl, TLSEXT_NAMETYPE_host_name)
            else { return SSL_TLSEXT_ERR_NOACK }
            guard !choice.isOne else { return SSL_TLSEXT_ERR_OK }
            if let certificate = choice.certificate(for: String(cString: name)) {
                SSL_set_SSL_CTX(ssl, certificate.context.raw)
            }
            return SSL_TLSEXT_ERR_OK
        }

    /// Refuses a client that offers no protocol of this server (RFC 7301 §3.2). `h2` goes before `http/1.1`.
    private static let selectProtocol:
        @convention(c) (
            OpaquePointer?, UnsafeMutablePointer<UnsafePointer<UInt8>?>?, UnsafeMutablePointer<UInt8>?,
            UnsafePointer<UInt8>?, UInt32, UnsafeMutableRawPointer?
        ) -> Int32 = { _, out, outLength, client, clientLength, _ in
            guard let out, let outLength, let client else { return SSL_TLSEXT_ERR_ALERT_FATAL }
            var index = 0
            var choice: (start: UnsafePointer<UInt8>, length: UInt8)?
            while index < Int(clientLength) {
                let length = client[index]
                let start = client + index + 1
                guard index + 1 + Int(length) <= Int(clientLength) else { return SSL_TLSEXT_ERR_ALERT_FATAL }
                let name = UnsafeBufferPointer(start: start, count: Int(length))
                if name.elementsEqual("h2".utf8) {
                    choice = (start, length)
                    break
                }
                if name.elementsEqual("http/1.1".utf8) { choice = (start, length) }
                index += 1 + Int(length)
            }
            guard let choice else { return SSL_TLSEXT_ERR_ALERT_FATAL }
            out.pointee = choice.start
            outLength.pointee = choice.length
            return SSL_TLSEXT_ERR_OK
        }
}
