import HTTP2
import PushScheduling

/// What a session reports to its owner. A call comes from within `receive` or `produce`; the owner must not
/// end the session meanwhile.
protocol ClientSessionDelegate: AnyObject {
    /// The service allows so many streams at once from now on.
    func allowed(_ streams: Int)
    /// The service ends the connection (GOAWAY), with this debug data.
    func goneAway(_ debugData: [UInt8])
    /// Called once for each stream, unless `cancel` or `end` gave its outcome.
    func closed(_ stream: ClientStream, _ end: StreamEnd)
}

/// The client's side of one HTTP/2 connection, without a transport. A stream's tag is its `ClientStream`.
final class ClientSession: HTTP2Session {
    /// Bytes that a session may hold of a header block of the service are bounded by libnghttp2 (64 KiB).
    private static let fieldBytesMax: UInt32 = 16 << 10

    let settings: APNsClientSettings
    private unowned let delegate: any ClientSessionDelegate
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
        super.init(.client, settings: [(.headerBytesMax, ClientSession.fieldBytesMax)])
    }

    // MARK: Requests

    /// Begins a request. False if this connection can take none any more.
    func start(_ head: SentHead, body: [UInt8], ticket: ConnectionPools.Ticket) -> Bool {
        let stream = ClientStream(ticket: ticket, body: body)
        let tag = Unmanaged.passUnretained(stream).toOpaque()
        guard let id = head.withBlock({ request($0, body: tag, tag: tag) }) else { return false }
        stream.id = id
        stream.index = open.count
        open.append(stream)
        frames.addRequest()
        return true
    }

    /// Resets the stream of a request, and says how it ended. `nil` if no stream has the request.
    func cancel(
        _ ticket: ConnectionPools.Ticket, reason: String
    ) -> (stream: ClientStream, end: StreamEnd)? {
        guard isThere, let stream = open.first(where: { $0.ticket == ticket && !$0.isDone }) else {
            return nil
        }
        stream.isDone = true
        reset(stream.id, .cancel)
        return (stream, outcome(stream, reason: reason))
    }

    private func outcome(_ stream: ClientStream, reason: String) -> StreamEnd {
        if stream.isHeaded, let status = stream.status { return .answered(status: status) }
        return stream.hasLeft ? .lost(reason: reason) : .refused(reason: reason)
    }

    /// Frees the session. Returns the streams whose outcome nobody has, in no order.
    func end() -> [(stream: ClientStream, end: StreamEnd)] {
        free()
        let rest = open.filter { !$0.isDone }
        open = []
        return rest.map { ($0, outcome($0, reason: "the connection ended")) }
    }

    // MARK: Bytes

    /// False if the connection must be closed, after its pending bytes are written.
    func receive(_ bytes: UnsafeRawBufferPointer, second: UInt64) -> Bool {
        guard isThere, !isOver else { return false }
        frames.turn(to: second)
        do {
            try take(bytes)
        } catch {
            isOver = true
            failure = failure ?? "\(error)"
        }
        return !isOver
    }

    // MARK: Answers

    /// Counts a frame. Past its bound the session ends.
    override func frameBegins(_ head: HTTP2FrameHead) -> HTTP2Verdict {
        if frames.take() { return .goOn }
        failure = "the service floods the connection with frames"
        return .endSession
    }

    override func receivedInvalid(_ failure: HTTP2Failure) -> HTTP2Verdict {
        self.failure = "the service broke HTTP/2: \(failure)"
        return .goOn
    }

    override func received(_ frame: HTTP2Frame) -> HTTP2Verdict {
        switch frame.head.kind {
        case .settings where !frame.head.isAcknowledgement: delegate.allowed(streamsMax)
        case .goAway: delegate.goneAway(frame.debugData)
        case .headers:
            guard let stream = stream(frame.stream), let status = stream.status, !stream.isHeaded
            else { return .goOn }
            // An interim answer (1xx) has its own header block, which ends here.
            if status < 200 {
                stream.status = nil
                (stream.fields, stream.fieldBytes) = ([], 0)
            } else {
                stream.isHeaded = true
                finishEarly(stream, frame.head)
            }
        case .data:
            if let stream = stream(frame.stream) { finishEarly(stream, frame.head) }
        default: break
        }
        return .goOn
    }

    /// An answer that is whole before its request: the rest of the request is not wanted.
    private func finishEarly(_ stream: ClientStream, _ head: HTTP2FrameHead) {
        guard head.isEndOfStream, stream.isHeaded, stream.sent < stream.body.count else { return }
        finish(stream, outcome(stream, reason: ""))
    }

    /// Resets a stream whose outcome is known.
    private func finish(_ stream: ClientStream, _ end: StreamEnd) {
        guard isThere, !stream.isDone else { return }
        stream.isDone = true
        reset(stream.id, .cancel)
        delegate.closed(stream, end)
    }

    override func received(_ field: HTTP2Field, of frame: HTTP2Frame) -> HTTP2Verdict {
        // What follows the final header block are trailers.
        guard let stream = stream(frame.stream), !stream.isHeaded else { return .goOn }
        if let status = field.status {
            stream.status = status
            return .goOn
        }
        let (name, value) = (field.name, field.value)
        stream.fieldBytes += name.count + value.count
        guard stream.fieldBytes <= settings.answerFieldBytesMax else { return .goOn }
        stream.fields.append((String(decoding: name, as: UTF8.self), String(decoding: value, as: UTF8.self)))
        return .goOn
    }

    override func received(_ bytes: UnsafeBufferPointer<UInt8>, of id: Int32) {
        guard let stream = stream(id), !stream.isDone else { return }
        let room = settings.answerBodyBytesMax - stream.answer.count
        stream.answer += bytes.prefix(room)
        guard bytes.count > room else { return }
        // The beginning is enough, and the rest may be endless.
        finish(stream, outcome(stream, reason: "the answer is too long"))
    }

    override func read(
        _ body: UnsafeMutableRawPointer, into target: UnsafeMutableBufferPointer<UInt8>
    ) -> BodyPart {
        let stream = Unmanaged<ClientStream>.fromOpaque(body).takeUnretainedValue()
        return .next(of: stream.body, sent: &stream.sent, into: target)
    }

    override func sent(_ frame: HTTP2Frame) {
        if case .headers = frame.head.kind { stream(frame.stream)?.hasLeft = true }
    }

    override func closed(_ id: Int32, _ code: HTTP2ErrorCode) {
        guard let stream = stream(id) else { return }
        setTag(nil, of: id)
        let last = open.removeLast()
        if last !== stream {
            open[stream.index] = last
            last.index = stream.index
        }
        guard !stream.isDone else { return }
        stream.isDone = true
        if code == .refusedStream, !stream.isHeaded {
            delegate.closed(stream, .refused(reason: "the service refused the stream"))
        } else {
            delegate.closed(stream, outcome(stream, reason: "the stream was reset: \(code)"))
        }
    }

    private func stream(_ id: Int32) -> ClientStream? {
        tag(of: id).map { Unmanaged<ClientStream>.fromOpaque($0).takeUnretainedValue() }
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
