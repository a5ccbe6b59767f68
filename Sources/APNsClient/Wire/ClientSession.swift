import CNghttp2
import PushScheduling

/// What a session tells its owner. A call comes from within `receive` or `produce`; the owner must not end
/// the session meanwhile.
protocol ClientSessionDelegate: AnyObject {
    /// The service allows so many streams at once from now on.
    func allowed(_ streams: Int)
    /// The service ends the connection (GOAWAY), with this debug data.
    func goneAway(_ debugData: [UInt8])
    /// Called once for each stream, unless `cancel` or `end` gave its outcome.
    func closed(_ stream: ClientStream, _ end: StreamEnd)
}

/// The client's side of HTTP/2 on one connection: a session of libnghttp2, without I/O.
final class ClientSession {
    /// Bytes that a session may hold of a header block of the service are bounded by libnghttp2 (64 KiB).
    private static let fieldBytesMax: UInt32 = 16 << 10

    let settings: APNsClientSettings
    private unowned let delegate: any ClientSessionDelegate
    private var session: OpaquePointer?
    private var open: [ClientStream] = []
    private var frames: FrameBudget
    /// What the service did wrong, in words. The session may outlive that: an error of one stream is its
    /// stream's alone.
    private(set) var failure: String?
    private var isOver = false

    /// `second`: of a clock that never goes back.
    init(delegate: any ClientSessionDelegate, settings: APNsClientSettings, second: UInt64) {
        self.delegate = delegate
        self.settings = settings
        frames = FrameBudget(settings, second: second)
        nghttp2_session_client_new2(
            &session, ClientSession.callbacks, Unmanaged.passUnretained(self).toOpaque(),
            ClientSession.options)
        var entries = [
            nghttp2_settings_entry(
                settings_id: Int32(NGHTTP2_SETTINGS_ENABLE_PUSH.rawValue), value: 0),
            nghttp2_settings_entry(
                settings_id: Int32(NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE.rawValue),
                value: ClientSession.fieldBytesMax),
        ]
        nghttp2_submit_settings(session, UInt8(NGHTTP2_FLAG_NONE.rawValue), &entries, entries.count)
    }

    deinit { nghttp2_session_del(session) }

    // MARK: Requests

    /// Begins a request. False where this connection can take none any more.
    func start(_ head: SentHead, body: [UInt8], ticket: ConnectionPools.Ticket) -> Bool {
        guard let session else { return false }
        let stream = ClientStream(ticket: ticket, body: body)
        let pointer = Unmanaged.passUnretained(stream).toOpaque()
        var provider = nghttp2_data_provider()
        provider.source.ptr = pointer
        provider.read_callback = ClientSession.readBody
        let id = head.withVector { vector, count in
            // Without a priority: Apple ignores priorities.
            nghttp2_submit_request(session, nil, vector, count, &provider, pointer)
        }
        guard id > 0 else { return false }
        stream.id = id
        stream.index = open.count
        open.append(stream)
        frames.addRequest()
        return true
    }

    /// Resets the stream of a request, and says how it ended. `nil` where no stream has the request.
    func cancel(
        _ ticket: ConnectionPools.Ticket, reason: String
    ) -> (stream: ClientStream, end: StreamEnd)? {
        guard let session, let stream = open.first(where: { $0.ticket == ticket && !$0.isDone }) else {
            return nil
        }
        stream.isDone = true
        nghttp2_submit_rst_stream(
            session, UInt8(NGHTTP2_FLAG_NONE.rawValue), stream.id, NGHTTP2_CANCEL.rawValue)
        return (stream, outcome(stream, reason: reason))
    }

    private func outcome(_ stream: ClientStream, reason: String) -> StreamEnd {
        if stream.isHeaded, let status = stream.status { return .answered(status: status) }
        return stream.hasLeft ? .lost(reason: reason) : .refused(reason: reason)
    }

    func ping() {
        guard let session else { return }
        nghttp2_submit_ping(session, UInt8(NGHTTP2_FLAG_NONE.rawValue), nil)
    }

    /// Says goodbye: `produce` gives the last bytes.
    func terminate() {
        guard let session else { return }
        nghttp2_session_terminate_session(session, NGHTTP2_NO_ERROR.rawValue)
    }

    /// Frees the session. Returns the streams whose outcome nobody has, in no order.
    func end() -> [(stream: ClientStream, end: StreamEnd)] {
        nghttp2_session_del(session)
        session = nil
        let rest = open.filter { !$0.isDone }
        open = []
        return rest.map { ($0, outcome($0, reason: "the connection ended")) }
    }

    // MARK: Bytes

    /// False where the connection must be closed, after its pending bytes are written.
    func receive(_ bytes: UnsafeRawBufferPointer, second: UInt64) -> Bool {
        guard let session, !isOver else { return false }
        frames.turn(to: second)
        let taken = nghttp2_session_mem_recv(
            session, bytes.bindMemory(to: UInt8.self).baseAddress, bytes.count)
        if taken == bytes.count { return true }
        isOver = true
        if failure == nil { note(failure: ClientSession.text(Int32(clamping: taken))) }
        return false
    }

    /// Appends the next frames to be written, until there are `limit` bytes.
    func produce(limit: Int, _ append: (UnsafeBufferPointer<UInt8>) -> Void) {
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

    var wantsToWrite: Bool { session.map { nghttp2_session_want_write($0) != 0 } ?? false }

    var wantsToGoOn: Bool {
        guard let session else { return false }
        return nghttp2_session_want_read(session) != 0 || nghttp2_session_want_write(session) != 0
    }

    // MARK: libnghttp2's callbacks

    func note(failure text: String) { failure = text }

    static func text(_ code: Int32) -> String { String(cString: nghttp2_strerror(code)) }

    /// Counts a frame. Past its bound the error ends the session.
    func frameBegins() -> Int32 {
        if frames.take() { return 0 }
        note(failure: "the service floods the connection with frames")
        return Int32(NGHTTP2_ERR_CALLBACK_FAILURE.rawValue)
    }

    func frame(_ frame: nghttp2_frame) -> Int32 {
        let isPlain = frame.hd.flags & UInt8(NGHTTP2_FLAG_ACK.rawValue) == 0
        switch UInt32(frame.hd.type) {
        case NGHTTP2_SETTINGS.rawValue where isPlain:
            guard let session else { return 0 }
            let streams = nghttp2_session_get_remote_settings(
                session, NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS)
            delegate.allowed(Int(streams))
        case NGHTTP2_GOAWAY.rawValue:
            let data = UnsafeBufferPointer(
                start: frame.goaway.opaque_data, count: frame.goaway.opaque_data_len)
            delegate.goneAway(Array(data))
        case NGHTTP2_HEADERS.rawValue:
            guard let stream = stream(frame.hd.stream_id), let status = stream.status, !stream.isHeaded
            else { return 0 }
            // An interim answer (1xx) has a header block of its own, which ends here.
            if status < 200 {
                stream.status = nil
                (stream.fields, stream.fieldBytes) = ([], 0)
            } else {
                stream.isHeaded = true
                finishEarly(stream, frame.hd)
            }
        case NGHTTP2_DATA.rawValue:
            if let stream = stream(frame.hd.stream_id) { finishEarly(stream, frame.hd) }
        default: break
        }
        return 0
    }

    /// An answer that is whole before its request: the rest of the request is not wanted.
    private func finishEarly(_ stream: ClientStream, _ head: nghttp2_frame_hd) {
        let isEnd = head.flags & UInt8(NGHTTP2_FLAG_END_STREAM.rawValue) != 0
        guard isEnd, stream.isHeaded, stream.sent < stream.body.count else { return }
        finish(stream, outcome(stream, reason: ""))
    }

    /// Resets a stream whose outcome is known.
    private func finish(_ stream: ClientStream, _ end: StreamEnd) {
        guard let session, !stream.isDone else { return }
        stream.isDone = true
        nghttp2_submit_rst_stream(
            session, UInt8(NGHTTP2_FLAG_NONE.rawValue), stream.id, NGHTTP2_CANCEL.rawValue)
        delegate.closed(stream, end)
    }

    func header(_ id: Int32, _ name: UnsafeBufferPointer<UInt8>, value: UnsafeBufferPointer<UInt8>) -> Int32 {
        // What follows the final header block are trailers.
        guard let stream = stream(id), !stream.isHeaded else { return 0 }
        if name.first == UInt8(ascii: ":") {
            // libnghttp2 has seen to it that this is `:status`, with three digits.
            stream.status = value.reduce(0) { $0 * 10 + Int($1 &- 48) }
            return 0
        }
        stream.fieldBytes += name.count + value.count
        guard stream.fieldBytes <= settings.answerFieldBytesMax else { return 0 }
        stream.fields.append((String(decoding: name, as: UTF8.self), String(decoding: value, as: UTF8.self)))
        return 0
    }

    func data(_ id: Int32, _ bytes: UnsafeBufferPointer<UInt8>) -> Int32 {
        guard let stream = stream(id), !stream.isDone else { return 0 }
        let room = settings.answerBodyBytesMax - stream.answer.count
        stream.answer += bytes.prefix(room)
        guard bytes.count > room else { return 0 }
        // The beginning is enough, and the rest may be endless.
        finish(stream, outcome(stream, reason: "the answer is too long"))
        return 0
    }

    func left(_ id: Int32) { stream(id)?.hasLeft = true }

    func streamClosed(_ id: Int32, code: UInt32) -> Int32 {
        guard let session, let stream = stream(id) else { return 0 }
        nghttp2_session_set_stream_user_data(session, id, nil)
        let last = open.removeLast()
        if last !== stream {
            open[stream.index] = last
            last.index = stream.index
        }
        guard !stream.isDone else { return 0 }
        stream.isDone = true
        let name = String(cString: nghttp2_http2_strerror(code))
        if code == NGHTTP2_REFUSED_STREAM.rawValue, !stream.isHeaded {
            delegate.closed(stream, .refused(reason: "the service refused the stream"))
        } else {
            delegate.closed(stream, outcome(stream, reason: "the stream was reset: \(name)"))
        }
        return 0
    }

    private func stream(_ id: Int32) -> ClientStream? {
        guard let session, let data = nghttp2_session_get_stream_user_data(session, id) else { return nil }
        return Unmanaged<ClientStream>.fromOpaque(data).takeUnretainedValue()
    }
}

/// How many frames the service may still send. Its answers need a few each.
struct FrameBudget {
    private let settings: APNsClientSettings
    private var left: Int
    private var second: UInt64

    init(_ settings: APNsClientSettings, second: UInt64) {
        self.settings = settings
        self.second = second
        left = settings.framesAtOnce
    }

    private var most: Int { settings.framesAtOnce + settings.framesPerRequest * settings.streamsMax }

    mutating func turn(to next: UInt64) {
        guard next > second else { return }
        let seconds = Int(clamping: min(next - second, 3600))
        if left < settings.framesAtOnce {
            left = min(settings.framesAtOnce, left + seconds * settings.framesPerSecond)
        }
        second = next
    }

    mutating func addRequest() { left = min(most, left + settings.framesPerRequest) }

    mutating func take() -> Bool {
        left -= 1
        return left >= 0
    }
}
