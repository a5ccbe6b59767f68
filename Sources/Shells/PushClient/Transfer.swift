import CCurl
import Glibc
import Model
import PushScheduling

/// One request under way: libcurl's handle, and what its callbacks read and write. libcurl calls them on the
/// client's thread, in `curl_multi_perform`.
final class Transfer {
    let easy: UnsafeMutableRawPointer
    /// Whether the authorities are those of the system. A handle has one kind for its whole life, because a
    /// handle with given authorities must forget the system's folder.
    let trustsSystem: Bool
    private(set) var number: UInt64 = 0
    private(set) var key = OriginQueue<PushHTTPRequest>.Key(share: 0, origin: "")
    private let settings: PushClientSettings
    private let errorText = UnsafeMutablePointer<CChar>.allocate(capacity: Int(CURL_ERROR_SIZE))
    private var fieldList: UnsafeMutablePointer<curl_slist>?
    private var caPEM: String?
    private var mayDial: @Sendable ([UInt8]) -> Bool = { _ in false }
    private var mayLeave: @Sendable () throws -> Void = {}
    private var body: [UInt8] = []
    /// Bytes of the body that libcurl has read for the connection that it uses now.
    private var position = 0
    /// Whether libcurl has read any of the body.
    private var hasLeft = false
    private var refused: String?
    /// Why the request must not leave any more.
    private var withheld: (any Error)?
    private var head: AnswerHead
    private var answer: [UInt8] = []
    /// When the worker first saw the answer's whole header block.
    private var headSeenAt: MonotonicTime?

    init(trustsSystem: Bool, settings: PushClientSettings) throws(PushClientError) {
        guard let easy = curl_easy_init() else {
            throw PushClientError(description: "libcurl gives no handle")
        }
        self.easy = easy
        self.trustsSystem = trustsSystem
        self.settings = settings
        head = AnswerHead(bytesMax: settings.answerFieldBytesMax)
        errorText[0] = 0
        try prepare()
    }

    deinit {
        curl_easy_cleanup(easy)
        curl_slist_free_all(fieldList)
        errorText.deallocate()
    }

    /// Sets what all requests of the handle share.
    private func prepare() throws(PushClientError) {
        let numbers: [(CURLoption, Int)] = [
            (CURLOPT_NOSIGNAL, 1), (CURLOPT_POST, 1), (CURLOPT_FOLLOWLOCATION, 0),
            (CURLOPT_HTTP_VERSION, Int(CURL_HTTP_VERSION_2TLS)),
            (CURLOPT_SSLVERSION, Int(CURL_SSLVERSION_TLSv1_2)),
            (CURLOPT_SSL_VERIFYPEER, 1), (CURLOPT_SSL_VERIFYHOST, 2),
            // A request waits for a connection that is being made, and shares it, instead of making another.
            (CURLOPT_PIPEWAIT, 1),
            (CURLOPT_CONNECTTIMEOUT_MS, settings.connectMilliseconds),
            (CURLOPT_TIMEOUT_MS, settings.totalMilliseconds),
            (CURLOPT_MAXAGE_CONN, settings.idleSeconds),
            // A dead path is noticed although no request is under way.
            (CURLOPT_TCP_KEEPALIVE, 1),
            // Apple wants each new connection to resolve the name again.
            (CURLOPT_DNS_CACHE_TIMEOUT, 0),
            // A name that is still being resolved when its request ends must not hold the thread.
            (CURLOPT_QUICK_EXIT, 1),
            (CURLOPT_PATH_AS_IS, 1), (CURLOPT_DISALLOW_USERNAME_IN_URL, 1),
            (CURLOPT_UPLOAD_BUFFERSIZE, 16 << 10),
        ]
        for (option, value) in numbers { try check(tidecast_curl_set_long(easy, option, value)) }
        let texts = [
            (CURLOPT_PROTOCOLS_STR, "https"), (CURLOPT_REDIR_PROTOCOLS_STR, "https"),
            // Neither variables of the environment nor anything else sets a proxy.
            (CURLOPT_PROXY, ""), (CURLOPT_NOPROXY, "*"),
        ]
        for (option, value) in texts { try check(tidecast_curl_set_text(easy, option, value)) }
        // libcurl goes on trusting the system's folder beside the given authorities, unless it is removed.
        if !trustsSystem { try check(tidecast_curl_set_text(easy, CURLOPT_CAPATH, nil)) }
        try check(tidecast_curl_set_pointer(easy, CURLOPT_ERRORBUFFER, errorText))
        // libcurl keeps the handle no longer than this object does, which `deinit` sees to.
        let data = Unmanaged.passUnretained(self).toOpaque()
        for option in [
            CURLOPT_READDATA, CURLOPT_WRITEDATA, CURLOPT_HEADERDATA, CURLOPT_OPENSOCKETDATA,
            CURLOPT_PREREQDATA,
        ] {
            try check(tidecast_curl_set_pointer(easy, option, data))
        }
        // There is no function that rewinds the body. So libcurl repeats no request of which it has sent any
        // of the body, as it otherwise would if an open connection breaks.
        try check(tidecast_curl_set_mover(easy, CURLOPT_READFUNCTION, Transfer.read))
        try check(tidecast_curl_set_mover(easy, CURLOPT_WRITEFUNCTION, Transfer.write))
        try check(tidecast_curl_set_mover(easy, CURLOPT_HEADERFUNCTION, Transfer.readField))
        try check(tidecast_curl_set_dialler(easy, Transfer.dial))
        try check(tidecast_curl_set_starter(easy, Transfer.start))
    }

    private func check(_ code: CURLcode) throws(PushClientError) {
        guard code == CURLE_OK else {
            throw PushClientError(description: "libcurl: \(String(cString: curl_easy_strerror(code)))")
        }
    }

    /// Makes the request's fields and body. An error means that the request does not leave.
    func load(_ request: PushHTTPRequest, key: OriginQueue<PushHTTPRequest>.Key) throws {
        let prepared = try request.prepare()
        guard 1...settings.sentBytesMax ~= prepared.body.count else {
            throw PushClientError(
                description:
                    "the body has \(prepared.body.count) bytes; 1 to \(settings.sentBytesMax) can be sent")
        }
        number = request.number
        self.key = key
        mayDial = request.mayDial
        mayLeave = request.mayLeave
        withheld = nil
        body = prepared.body
        position = 0
        hasLeft = false
        refused = nil
        head = AnswerHead(bytesMax: settings.answerFieldBytesMax)
        answer = []
        headSeenAt = nil
        errorText[0] = 0
        try setFields(prepared.fields)
        if let pem = request.caPEM, pem != caPEM {
            try check(tidecast_curl_set_bytes(easy, CURLOPT_CAINFO_BLOB, pem, pem.utf8.count))
            caPEM = pem
        }
        try check(tidecast_curl_set_text(easy, CURLOPT_URL, request.url))
        try check(tidecast_curl_set_offset(easy, CURLOPT_POSTFIELDSIZE_LARGE, curl_off_t(body.count)))
    }

    private func setFields(_ fields: [(String, String)]) throws(PushClientError) {
        curl_slist_free_all(fieldList)
        fieldList = nil
        // A name without a value takes a field out that libcurl would set itself.
        var lines = ["Accept:", "Expect:"]
        if !fields.contains(where: { $0.0.lowercased() == "content-type" }) { lines.append("Content-Type:") }
        for (name, value) in fields {
            if let mistake = SentField.mistake(name: name, value: value, isHTTP2: false) {
                throw PushClientError(description: mistake)
            }
            // libcurl's form of a field without a value.
            lines.append(value.isEmpty ? "\(name);" : "\(name): \(value)")
        }
        for line in lines {
            guard let list = curl_slist_append(fieldList, line) else {
                throw PushClientError(description: "libcurl gives no memory")
            }
            fieldList = list
        }
        try check(tidecast_curl_set_pointer(easy, CURLOPT_HTTPHEADER, fieldList))
    }

    /// Lets go of the request. The handle may be used again.
    func clear() {
        mayDial = { _ in false }
        mayLeave = {}
        (body, answer) = ([], [])
    }

    /// Whether the answer's header block has been whole for longer than `rest`, since a call of
    /// this function first saw that.
    func isCut(_ now: MonotonicTime, after rest: TimeSpan) -> Bool {
        guard head.status != nil else { return false }
        let seenAt = headSeenAt ?? now
        headSeenAt = seenAt
        return now.since(seenAt) >= rest
    }

    func result(_ code: CURLcode) -> PushHTTPAnswer.Result {
        let text = String(cString: errorText)
        return result(text.isEmpty ? String(cString: curl_easy_strerror(code)) : text)
    }

    /// `reason`: why there is no answer, if there is none.
    func result(_ reason: String) -> PushHTTPAnswer.Result {
        // A status is an answer, also if the body was too long or broke off.
        if let status = head.status {
            return .answered(status: status, fields: head.fields, body: answer)
        }
        if let withheld, !hasLeft { return .notPrepared(withheld) }
        // No service has the whole request before libcurl has read the body.
        return .failed(reason: hasLeft ? reason : refused ?? reason, mayHaveArrived: hasLeft)
    }

    // MARK: - libcurl's callbacks

    private static func of(_ data: UnsafeMutableRawPointer?) -> Transfer? {
        data.map { Unmanaged<Transfer>.fromOpaque($0).takeUnretainedValue() }
    }

    private static let read: tidecast_curl_mover = { target, size, count, data in
        guard let target, let transfer = Transfer.of(data) else { return Int(CURL_READFUNC_ABORT) }
        let length = min(size * count, transfer.body.count - transfer.position)
        transfer.body.withUnsafeBytes { bytes in
            UnsafeMutableRawBufferPointer(start: target, count: length)
                .copyMemory(
                    from: UnsafeRawBufferPointer(
                        rebasing: bytes[transfer.position..<transfer.position + length]))
        }
        transfer.position += length
        transfer.hasLeft = true
        return length
    }

    private static let write: tidecast_curl_mover = { bytes, size, count, data in
        guard let bytes, let transfer = Transfer.of(data) else { return 0 }
        let room = transfer.settings.answerBodyBytesMax - transfer.answer.count
        transfer.answer += UnsafeRawBufferPointer(start: bytes, count: min(size * count, room))
        // A number other than that of the given bytes ends the transfer.
        return min(size * count, room)
    }

    private static let readField: tidecast_curl_mover = { bytes, size, count, data in
        guard let bytes, let transfer = Transfer.of(data) else { return 0 }
        transfer.head.read(UnsafeRawBufferPointer(start: bytes, count: size * count))
        return size * count
    }

    /// Before the request leaves on a connection. The connection may have been open already, or may follow a
    /// connection that broke before any of the body was sent.
    private static let start: curl_prereq_callback = { data, address, _, _, _ in
        guard let address, let transfer = Transfer.of(data) else { return CURL_PREREQFUNC_ABORT }
        transfer.position = 0
        guard let bytes = DialledAddress.bytes(text: address), transfer.mayDial(bytes) else {
            transfer.refused = "the address \(String(cString: address)) is refused"
            return CURL_PREREQFUNC_ABORT
        }
        do {
            try transfer.mayLeave()
        } catch {
            transfer.withheld = error
            return CURL_PREREQFUNC_ABORT
        }
        return CURL_PREREQFUNC_OK
    }

    private static let dial: curl_opensocket_callback = { data, _, address in
        guard let address, let transfer = Transfer.of(data) else { return CURL_SOCKET_BAD }
        guard let bytes = DialledAddress.bytes(address), transfer.mayDial(bytes) else {
            transfer.refused = "the address \(DialledAddress.text(address)) is refused"
            return CURL_SOCKET_BAD
        }
        let type = address.pointee.socktype | Int32(SOCK_CLOEXEC.rawValue)
        return socket(address.pointee.family, type, address.pointee.protocol)
    }
}
