import CNghttp2

/// What the event streams of one connection keep in memory because their client does not read. Looked at once
/// a second: what passes through in between is on its way, however much it is.
struct KeptBytes {
    private var budget: ByteBudget

    init(_ shared: SharedBudget, for address: UInt64?, bytesMax: Int) {
        budget = ByteBudget(shared, for: address, bytesMax: bytesMax)
    }

    /// The streams that are to be ended: those that keep most, so that whoever reads a little more slowly for
    /// a moment does not pay for who does not read at all. They keep nothing any more.
    mutating func sweep(_ open: [Responder]) -> [Responder] {
        var keeping: [(responder: Responder, bytes: Int)] = []
        for responder in open where responder.mayKeep {
            let bytes = responder.keptBytes()
            count(responder, 0)
            if bytes > 0 { keeping.append((responder, bytes)) }
        }
        guard !keeping.isEmpty else { return [] }
        keeping.sort { $0.bytes < $1.bytes }
        // Whoever keeps least is counted first: what does not fit is of those that keep most.
        let fitting = keeping.prefix { count($0.responder, $0.bytes) }
        let ended = keeping.dropFirst(fitting.count).map(\.responder)
        for responder in ended { responder.letGo() }
        return ended
    }

    /// False where that is too much: then nothing is counted of it.
    @discardableResult
    private mutating func count(_ responder: Responder, _ bytes: Int) -> Bool {
        if responder.countedBytes > 0 { budget.give(responder.countedBytes) }
        responder.countedBytes = 0
        guard bytes > 0 else { return true }
        guard budget.take(bytes) else { return false }
        responder.countedBytes = bytes
        return true
    }

    mutating func closed(_ responder: Responder) { count(responder, 0) }

    /// The connection is gone.
    mutating func end() { budget.end() }
}

extension HTTP2Session {
    /// Once a second. True where streams were reset because too much of them is not read.
    func sweep() -> Bool {
        let ended = streams.sweep(open)
        for responder in ended { reset(responder.streamID, NGHTTP2_CANCEL) }
        return !ended.isEmpty
    }
}
