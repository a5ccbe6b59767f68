import HTTPMessages

/// What a loop does with requests. Called on its loop only.
public protocol RequestHandler: AnyObject {
    /// The number of whose share of the loop's time a whole request takes: those of one share wait in one
    /// line, and each line has its turn. Asked where requests have to wait.
    func share(of request: HTTPRequest) -> UInt64
    /// The whole request is there, and its turn. Answer through `responder`, now or later, on the same event
    /// loop, at most once.
    func handle(_ request: HTTPRequest, _ responder: Responder)
    /// The header block is whole, and the body has more than a few bytes, or is waited for: may it come?
    func admit(_ request: HTTPRequest) -> BodyAdmission
    /// The client went away or gave up before an answer, or a stream has ended. At most once for each
    /// responder.
    func cancelled(_ responder: Responder)
    /// A stream that refused a chunk has room again.
    func drained(_ responder: Responder)
}

/// The connection that a responder belongs to, of whichever protocol.
protocol ResponderTransport: AnyObject {
    func respond(_ responder: Responder, _ response: HTTPResponse)
    /// Its request, which is whole and waits for its turn.
    func request(of responder: Responder) -> HTTPRequest?
    /// The turn of its request, which is whole, has come.
    func serve(_ responder: Responder)
    func openStream(_ responder: Responder, status: Int, fields: [(name: String, value: String)])
    /// A request of the share, whose body had so many bytes, is refused for a quota.
    func noteRefused(_ share: UInt64, bodyBytes: Int)
    /// Chunks were queued, or the stream was ended.
    func wake(_ responder: Responder)
    /// Who is at the other end.
    var peer: Peer { get }
}

/// One request's way back to its client. Confined to its event loop.
public final class Responder {
    /// Chunks that one stream may have queued, and their bytes. They are written when the turn is over in
    /// which they came: so much of a burst finds room here, however fast its client reads.
    public static let queueChunksMax = 1024
    public static let queueBytesMax = 256 << 10

    /// Places of chunks that are taken, of which the queue is rid at once.
    private static let compactedAtOnce = 64

    /// Free for the handler's use, both.
    public var userTag: UInt64 = 0
    public var userNote: UInt64 = 0
    /// Nanoseconds for which the whole request waited until it was handed to the handler.
    public internal(set) var waited: UInt64 = 0
    public internal(set) var isOpen = true

    /// Until it is closed, which every connection does to all that it has when it ends. A weak reference
    /// would make each use of the connection, wherever it is, several times as dear.
    private(set) var transport: (any ResponderTransport)?
    let streamID: Int32
    /// Among the open ones of its connection.
    var place = 0
    /// The request while it is being read; apart, because streams live long and have no use for it.
    var reading: IncomingRequest?
    /// The loop's second in which its first bytes came.
    var began = 0
    /// The header block is whole.
    var isHeaded = false
    /// The answer is sent, and the request is not wholly there.
    var isUnread = false
    /// The handler has the request.
    var isReceived = false
    /// Of the whole request's body.
    var bodyBytes: Int32 = 0
    /// The method was HEAD: the answer has no body.
    var isHead = false
    /// The session's second in which its answer was begun, or the last part of it that counts was sent.
    private(set) var movedAt = Responder.unknown
    /// Bytes that were sent since.
    private var sentSince: Int32 = 0
    /// A part of an answer that counts: whoever takes a byte now and then does not take it.
    static let partBytes = 16 << 10
    /// There was nothing to send before; the session puts its second in place of it.
    static let unknown = -1
    /// Whether there is something of the answer that is to be sent.
    var owes: Bool { state == .answered || state == .ending || hasQueued }
    var state: State = .waiting
    /// Whether a streaming answer has begun.
    public var hasBegun: Bool { state == .streaming || state == .ending }
    /// A whole answer, or what is queued of a stream.
    var body: [UInt8] = []
    var offset = 0
    /// The chunk that is being written; nearly always the only one, so that an idle stream keeps no array.
    private var first: SharedBytes?
    /// Those behind it; of those before `queueHead`, which are taken, nothing is kept.
    private var queue: [SharedBytes?] = []
    private var queueHead = 0
    private var queuedBytes = 0
    /// Chunks at the front that were there already when `keptBytes` was last asked.
    private var oldChunks = 0
    /// Of `keptBytes`, as its connection has counted them.
    var countedBytes = 0
    private var wasRefused = false
    /// nghttp2 asked for data when there was none.
    var isDeferred = false

    enum State { case waiting, answered, streaming, ending }

    init(transport: any ResponderTransport, streamID: Int32) {
        self.transport = transport
        self.streamID = streamID
    }

    /// Who has sent the request.
    public var peer: Peer { transport?.peer ?? .unknown }

    public func respond(_ response: HTTPResponse) {
        guard isOpen, state == .waiting else { return }
        state = .answered
        transport?.respond(self, response)
    }

    /// Answers what a quota refuses. Its share pays for it in time.
    public func refuse(_ response: HTTPResponse, of share: UInt64) {
        transport?.noteRefused(share, bodyBytes: Int(bodyBytes))
        respond(response)
    }

    /// Begins a streaming answer.
    public func openStream(status: Int, fields: [(name: String, value: String)]) {
        guard isOpen, state == .waiting else { return }
        state = .streaming
        transport?.openStream(self, status: status, fields: fields)
    }

    /// Queues a chunk. False where the queue is past its bound or the stream is closed: the chunk is not
    /// queued.
    public func write(_ chunk: SharedBytes) -> Bool {
        guard isOpen, state == .streaming else { return false }
        if queue.count - queueHead >= Responder.queueChunksMax || queuedBytes >= Responder.queueBytesMax {
            wasRefused = true
            return false
        }
        if first == nil {
            first = chunk
            movedAt = Responder.unknown
        } else {
            queue.append(chunk)
        }
        queuedBytes += chunk.bytes.count
        transport?.wake(self)
        return true
    }

    /// Ends the stream after what is queued.
    public func endStream() {
        guard isOpen, state == .streaming else { return }
        state = .ending
        transport?.wake(self)
    }

    func noteMoved(second: Int) {
        movedAt = second
        sentSince = 0
    }

    func noteSent(_ bytes: Int, second: Int) {
        let sent = Int(sentSince) + bytes
        guard sent >= Responder.partBytes else { return sentSince = Int32(sent) }
        noteMoved(second: second)
    }

    var hasQueued: Bool { first != nil }

    /// Copies up to `count` queued bytes to `target`.
    func take(_ target: UnsafeMutablePointer<UInt8>, _ count: Int) -> Int {
        var copied = 0
        while copied < count, let chunk = first {
            let size = min(count - copied, chunk.bytes.count - offset)
            chunk.bytes.withUnsafeBufferPointer { source in
                if let base = source.baseAddress {
                    (target + copied).update(from: base + offset, count: size)
                }
            }
            copied += size
            offset += size
            if offset == chunk.bytes.count { advance() }
        }
        queuedBytes -= copied
        return copied
    }

    private func advance() {
        offset = 0
        if oldChunks > 0 { oldChunks -= 1 }
        guard queueHead < queue.count else {
            first = nil
            return
        }
        first = queue[queueHead].take()
        queueHead += 1
        if queueHead == queue.count {
            queue = []
            queueHead = 0
        } else if queueHead > queue.count / 2, queueHead >= Responder.compactedAtOnce {
            queue.removeFirst(queueHead)
            queueHead = 0
        }
    }

    /// Whether it may keep something, or did when it was last asked.
    var mayKeep: Bool { hasQueued || countedBytes > 0 }

    /// Bytes that were queued when this was last asked, and still are, and that no other stream has queued.
    func keptBytes() -> Int {
        var bytes = 0
        if oldChunks > 0, isKnownUniquelyReferenced(&first) { bytes += first?.bytes.count ?? 0 }
        for place in queue.indices.dropFirst(queueHead).prefix(max(oldChunks, 1) - 1)
        where isKnownUniquelyReferenced(&queue[place]) {
            bytes += queue[place]?.bytes.count ?? 0
        }
        oldChunks = first == nil ? 0 : queue.count - queueHead + 1
        return bytes
    }

    /// Drops what is queued. Its stream is to be reset.
    func letGo() {
        first = nil
        queue = []
        (queueHead, queuedBytes, oldChunks, offset) = (0, 0, 0, 0)
    }

    /// Whether the handler is to be told that there is room again.
    func noteDrained() -> Bool {
        guard wasRefused, queue.count - queueHead < Responder.queueChunksMax / 2,
            queuedBytes < Responder.queueBytesMax / 2
        else { return false }
        wasRefused = false
        return true
    }

    func close() {
        isOpen = false
        transport = nil
        letGo()
        body = []
        reading = nil
    }
}
