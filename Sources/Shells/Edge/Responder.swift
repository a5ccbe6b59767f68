import DequeModule
import HTTPMessages
import Model

/// A loop's handler of requests. The edge calls it on its loop only.
public protocol RequestHandler: AnyObject {
    /// The number of the share to which a whole request belongs. Requests of one share wait in one line, and
    /// the lines take turns. The edge asks only if requests have to wait.
    func share(of request: HTTPRequest) -> UInt64
    /// The request is whole, and its turn has come. The handler answers through `responder`, now or later, on
    /// the same event loop, at most once.
    func handle(_ request: HTTPRequest, _ responder: Responder)
    /// The header block is whole. The body is longer than `smallBodyBytes`, or the client waits for
    /// `100 Continue`: may the body come?
    func admit(_ request: HTTPRequest, from peer: () -> Peer) -> BodyAdmission
    /// The most bytes that the content of the request's body may have, if the body has a content coding.
    func contentBytesMax(of request: HTTPRequest) -> Int
    /// The client went away or gave up before an answer, or a streaming answer has ended. At most once for
    /// each responder.
    func cancelled(_ responder: Responder)
    /// A stream that refused a chunk has room again.
    func drained(_ responder: Responder)
    /// A message has come on the responder's WebSocket.
    func received(_ message: [UInt8], _ responder: Responder)
}

extension RequestHandler {
    /// A handler that answers immediately, and streams nothing, needs neither.
    public func cancelled(_ responder: Responder) {}
    public func drained(_ responder: Responder) {}
    /// A handler that opens no WebSocket gets no messages.
    public func received(_ message: [UInt8], _ responder: Responder) {}
}

/// The connection of a responder, in either protocol.
protocol ResponderTransport: AnyObject {
    func respond(_ responder: Responder, _ response: HTTPResponse)
    /// The responder's request, which is whole and waits for its turn.
    func request(of responder: Responder) -> HTTPRequest?
    /// The turn of the responder's request has come.
    func serve(_ responder: Responder)
    func openStream(_ responder: Responder, status: Int, fields: [(name: String, value: String)])
    /// Turns the connection into a WebSocket. False if the responder's request asks for none.
    func openSocket(_ responder: Responder, subprotocol: String?) -> Bool
    /// The handler refuses a request of the share for a quota. `bodyBytes`: the length of its body.
    func noteRefused(_ share: UInt64, bodyBytes: Int)
    /// The handler has queued chunks, or has ended the stream.
    func wake(_ responder: Responder)
    /// The connection's peer.
    var peer: Peer { get }
}

extension ResponderTransport {
    /// A stream of HTTP/2 carries no WebSocket here (RFC 8441 is not offered).
    func openSocket(_ responder: Responder, subprotocol: String?) -> Bool { false }
}

/// One request's way back to its client. Confined to its event loop.
public final class Responder {
    /// Bounds of a stream's queue, in chunks and in bytes. The edge writes chunks at the end of the turn in
    /// which they come, so a burst finds only this much room, however fast the client reads.
    public static let queueChunksMax = 1024
    public static let queueBytesMax = 256 << 10

    /// Both are free for the handler's use.
    public var userTag: UInt64 = 0
    public var userNote: UInt64 = 0
    /// How long the whole request waited before the handler got it.
    public internal(set) var waited = TimeSpan.zero
    public internal(set) var isOpen = true

    /// The connection, until this responder is closed. Each connection closes all its responders when it
    /// ends. A weak reference would make each use of the connection several times as expensive.
    private(set) var transport: (any ResponderTransport)?
    let streamID: Int32
    /// The index in the session's list of open responders.
    var index = 0
    /// The request until the handler gets it. A separate object, because streams live long and do not need
    /// it.
    var reading: IncomingRequest?
    /// The loop's second in which the request's first bytes came, or over HTTP/1.1 its whole header block.
    var began = 0
    /// The header block is whole.
    var isHeaded = false
    /// The answer is sent, and the request is not whole.
    var isUnread = false
    /// The request is whole. Only HTTP/2 sets this.
    var isReceived = false
    /// Bytes of the whole request's body, as the queue counts them.
    var bodyBytes: Int32 = 0
    /// The session counts the stream's memory. Only HTTP/2 sets this.
    var isCounted = false
    /// The method was HEAD: the answer has no body.
    var isHead = false
    /// The session's second in which the answer began, or in which its last part of `partBytes` was sent.
    private(set) var movedAt = Responder.unknown
    /// Bytes that were sent since `movedAt`.
    private var sentSince: Int32 = 0
    /// Bytes of a part that counts as progress. A client that takes a byte now and then makes no progress.
    static let partBytes = 16 << 10
    /// Nothing was to be sent. The session puts its second here when a chunk comes.
    static let unknown = -1
    /// Whether a part of the answer is still to be sent.
    var owes: Bool { state == .answered || state == .ending || hasQueued }
    var state: State = .waiting
    /// Whether a streaming answer has begun.
    public var hasBegun: Bool { state == .streaming || state == .ending }
    /// The body of a whole answer, and the offset in it or in a stream's first chunk.
    var body: [UInt8] = []
    var offset = 0
    /// The chunk that is being written. Nearly always it is the only one, so an idle stream keeps no array.
    private var first: SharedBytes?
    /// The chunks behind `first`.
    private var queue: Deque<SharedBytes> = []
    private var queuedBytes = 0
    /// Chunks at the front that were already there at the last call of `keptBytes`.
    private var oldChunks = 0
    /// The bytes of `keptBytes` that the connection has counted.
    var countedBytes = 0
    private var wasRefused = false
    /// libnghttp2 asked for data when there was none.
    var isDeferred = false

    /// Why the server ends a WebSocket (RFC 6455 §7.4).
    private(set) var closeCode: UInt16 = 0

    enum State { case waiting, answered, streaming, ending }

    init(transport: any ResponderTransport, streamID: Int32) {
        self.transport = transport
        self.streamID = streamID
    }

    /// The peer that has sent the request.
    public var peer: Peer { transport?.peer ?? .unknown }

    public func respond(_ response: HTTPResponse) {
        guard isOpen, state == .waiting else { return }
        state = .answered
        transport?.respond(self, response)
    }

    /// Answers a request that a quota refuses. The request's share pays for the refusal in time.
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

    /// Queues a chunk. Returns false, and queues nothing, if the queue is past its bound or the stream is
    /// closed.
    public func write(_ chunk: SharedBytes) -> Bool {
        guard hasRoom() else { return false }
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

    /// Whether the queue takes a chunk. If it does not, the handler learns when there is room again.
    public func hasRoom() -> Bool {
        guard isOpen, state == .streaming else { return false }
        if queue.count >= Responder.queueChunksMax || queuedBytes >= Responder.queueBytesMax {
            wasRefused = true
            return false
        }
        return true
    }

    /// Ends the stream after its queued chunks.
    public func endStream() {
        guard isOpen, state == .streaming else { return }
        state = .ending
        transport?.wake(self)
    }

    /// Goes on as a WebSocket (RFC 6455): each chunk is a message of text, and the handler gets the client's
    /// messages. False if the request asks for no WebSocket, or asks in a wrong form; the handler must
    /// then answer.
    public func openSocket(subprotocol: String?) -> Bool {
        guard isOpen, state == .waiting,
            transport?.openSocket(self, subprotocol: subprotocol) ?? false
        else { return false }
        state = .streaming
        return true
    }

    /// Ends a WebSocket after its queued messages, with a code of RFC 6455 §7.4.
    public func endSocket(code: UInt16) {
        closeCode = code
        endStream()
    }

    /// The connection of the responder goes on in another protocol.
    func move(to transport: any ResponderTransport) { self.transport = transport }

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

    /// Copies queued bytes, as many as `target` has room for.
    func read(into target: UnsafeMutableBufferPointer<UInt8>) -> Int {
        var copied = 0
        while copied < target.count, let chunk = first {
            let size = min(target.count - copied, chunk.bytes.count - offset)
            chunk.bytes.withUnsafeBufferPointer { source in
                if let base = source.baseAddress, let target = target.baseAddress {
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

    /// Takes the whole first chunk.
    func takeChunk() -> SharedBytes? {
        guard let chunk = first else { return nil }
        queuedBytes -= chunk.bytes.count
        advance()
        return chunk
    }

    private func advance() {
        offset = 0
        if oldChunks > 0 { oldChunks -= 1 }
        guard !queue.isEmpty else { return first = nil }
        first = queue.removeFirst()
        if queue.isEmpty { queue = [] }
    }

    /// Whether the stream may keep bytes, or kept some at the last count.
    var mayKeep: Bool { hasQueued || countedBytes > 0 }

    /// Bytes of chunks that were queued at the last call, are still queued, and are in no other stream's
    /// queue.
    func keptBytes() -> Int {
        var bytes = 0
        if oldChunks > 0, isKnownUniquelyReferenced(&first) { bytes += first?.bytes.count ?? 0 }
        for index in queue.indices.prefix(max(oldChunks, 1) - 1)
        where isKnownUniquelyReferenced(&queue[index]) {
            bytes += queue[index].bytes.count
        }
        oldChunks = first == nil ? 0 : queue.count + 1
        return bytes
    }

    /// Drops the queued chunks. The caller must reset the stream.
    func letGo() {
        first = nil
        queue = []
        (queuedBytes, oldChunks, offset) = (0, 0, 0)
    }

    /// Whether the handler must learn that the queue has room again.
    func noteDrained() -> Bool {
        guard wasRefused, queue.count < Responder.queueChunksMax / 2,
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
