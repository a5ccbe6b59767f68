import CNghttp2

/// One HTTP/2 connection without a transport (RFC 9113): bytes in, bytes out, by libnghttp2.
///
/// A subclass overrides the calls of libnghttp2, which come from within `take` and `produce`. They must not
/// free the session.
open class HTTP2Session {
    public enum Role { case client, server }

    private var session: OpaquePointer?

    /// - Parameters:
    ///   - settings: the first SETTINGS frame. A client's says that it takes no pushed requests.
    ///   - window: the connection's receive window in bytes; `nil` for 65,535.
    public init(
        _ role: Role, options: HTTP2Options = .usual, settings: [(HTTP2Setting, UInt32)] = [],
        window: Int32? = nil
    ) {
        let owner = Unmanaged.passUnretained(self).toOpaque()
        switch role {
        case .client:
            nghttp2_session_client_new2(&session, HTTP2Session.callbacks, owner, options.pointer)
            submit(settings: [(.enablePush, 0)] + settings)
        case .server:
            nghttp2_session_server_new2(&session, HTTP2Session.callbacks, owner, options.pointer)
            submit(settings: settings)
        }
        if let window { nghttp2_session_set_local_window_size(session, noFlags, 0, window) }
    }

    /// Frees libnghttp2's memory, without a call of `closed` for the open streams.
    public final func free() {
        nghttp2_session_del(session)
        session = nil
    }

    deinit { free() }

    // MARK: Calls of libnghttp2

    /// A frame's header has come.
    open func frameBegins(_ head: HTTP2FrameHead) -> HTTP2Verdict { .goOn }
    /// A frame is whole. HEADERS come after their block's fields.
    open func received(_ frame: HTTP2Frame) -> HTTP2Verdict { .goOn }
    /// A frame has come that breaks the protocol. Most such frames end their stream or the session.
    open func receivedInvalid(_ failure: HTTP2Failure) -> HTTP2Verdict { .goOn }
    /// A frame of a type has come that libnghttp2 does not know. Only with `HTTP2Options.takesUnknownFrames`.
    open func receivedUnknown(_ head: HTTP2FrameHead) -> HTTP2Verdict { .skipFrame }
    open func blockBegins(_ frame: HTTP2Frame) -> HTTP2Verdict { .goOn }
    open func received(_ field: HTTP2Field, of frame: HTTP2Frame) -> HTTP2Verdict { .goOn }
    open func received(_ bytes: UnsafeBufferPointer<UInt8>, of stream: Int32) {}
    open func sent(_ frame: HTTP2Frame) {}
    open func closed(_ stream: Int32, _ code: HTTP2ErrorCode) {}
    /// Copies the next bytes of a body, at most as many as `target` has room for.
    open func read(
        _ body: UnsafeMutableRawPointer, into target: UnsafeMutableBufferPointer<UInt8>
    ) -> BodyPart { .last(0) }
}

extension HTTP2Session {
    /// Whether the session is not freed.
    public var isThere: Bool { session != nil }

    // MARK: Bytes

    /// Takes the peer's bytes. If that fails, the connection must be closed after its pending bytes are
    /// written.
    public func take(_ bytes: UnsafeRawBufferPointer) throws(HTTP2Failure) {
        let start = bytes.bindMemory(to: UInt8.self).baseAddress
        let taken = session.map { nghttp2_session_mem_recv($0, start, bytes.count) } ?? 0
        if taken != bytes.count { throw HTTP2Failure(code: Int32(clamping: taken)) }
    }

    /// Appends the next frames to be written, until there are `limit` bytes.
    public func produce(limit: Int = .max, _ append: (UnsafeBufferPointer<UInt8>) -> Void) {
        guard let session else { return }
        var produced = 0
        while produced < limit {
            var data: UnsafePointer<UInt8>?
            let count = nghttp2_session_mem_send(session, &data)
            guard count > 0, let data else { return }
            append(UnsafeBufferPointer(start: data, count: count))
            produced += count
        }
    }

    public var wantsToWrite: Bool { session.map { nghttp2_session_want_write($0) != 0 } ?? false }

    /// False if the connection is over and can be closed.
    public var wantsToGoOn: Bool {
        session.map { nghttp2_session_want_read($0) != 0 || nghttp2_session_want_write($0) != 0 } ?? false
    }

    // MARK: Streams

    /// Begins a request. Returns its stream; `nil` if the connection takes no more requests.
    ///
    /// - Parameters:
    ///   - body: what `read` gets; `nil` for no body.
    ///   - tag: what `tag(of:)` returns while the stream is open.
    public func request(
        _ head: HeaderBlock, body: UnsafeMutableRawPointer?, tag: UnsafeMutableRawPointer?
    ) -> Int32? {
        guard let session else { return nil }
        let stream = withProvider(of: body) {
            nghttp2_submit_request(session, nil, head.vector, head.count, $0, tag)
        }
        return stream > 0 ? stream : nil
    }

    /// Answers a request. `body`: what `read` gets; `nil` for no body.
    public func respond(_ stream: Int32, _ head: HeaderBlock, body: UnsafeMutableRawPointer?) {
        guard let session else { return }
        withProvider(of: body) { _ = nghttp2_submit_response(session, stream, head.vector, head.count, $0) }
    }

    /// Sends an interim answer (RFC 9110 §15.2).
    public func respondInterim(_ stream: Int32, _ head: HeaderBlock) {
        nghttp2_submit_headers(session, noFlags, stream, nil, head.vector, head.count, nil)
    }

    /// A body has more, after `read` has returned `later`.
    public func resume(_ stream: Int32) {
        if let session { nghttp2_session_resume_data(session, stream) }
    }

    public func reset(_ stream: Int32, _ code: HTTP2ErrorCode) {
        if let session { nghttp2_submit_rst_stream(session, noFlags, stream, code.rawValue) }
    }

    /// What the subclass has set for an open stream.
    public func tag(of stream: Int32) -> UnsafeMutableRawPointer? {
        session.flatMap { nghttp2_session_get_stream_user_data($0, stream) }
    }

    public func setTag(_ tag: UnsafeMutableRawPointer?, of stream: Int32) {
        if let session { nghttp2_session_set_stream_user_data(session, stream, tag) }
    }

    // MARK: The connection

    public func submit(settings: [(HTTP2Setting, UInt32)]) {
        let entries = settings.map { nghttp2_settings_entry(settings_id: $0.0.rawValue, value: $0.1) }
        nghttp2_submit_settings(session, noFlags, entries, entries.count)
    }

    /// Streams that the peer lets this side have open at once.
    public var streamsMax: Int {
        let setting = NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS
        return session.map { Int(nghttp2_session_get_remote_settings($0, setting)) } ?? 0
    }

    public func ping() {
        if let session { nghttp2_submit_ping(session, noFlags, nil) }
    }

    /// Says GOAWAY: the peer may send the requests of streams after `last` again (RFC 9113 §6.8). Open
    /// streams go on. `last`: `nil` for the last stream that this side has begun to serve.
    public func goAway(last: Int32? = nil, debugData: [UInt8] = []) {
        guard let session else { return }
        nghttp2_submit_goaway(
            session, noFlags, last ?? nghttp2_session_get_last_proc_stream_id(session),
            HTTP2ErrorCode.noError.rawValue, debugData, debugData.count)
    }

    /// Says GOAWAY and ends the open streams. `produce` gives the last bytes.
    public func terminate(_ code: HTTP2ErrorCode = .noError) {
        if let session { nghttp2_session_terminate_session(session, code.rawValue) }
    }
}

private let noFlags = UInt8(NGHTTP2_FLAG_NONE.rawValue)

private func withProvider<Result>(
    of body: UnsafeMutableRawPointer?, _ submit: (UnsafePointer<nghttp2_data_provider>?) -> Result
) -> Result {
    guard let body else { return submit(nil) }
    var provider = nghttp2_data_provider()
    provider.source.ptr = body
    provider.read_callback = HTTP2Session.readBody
    return submit(&provider)
}
