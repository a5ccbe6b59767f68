/// The bytes that the event streams of a connection keep in memory because their client does not read. The
/// edge counts them once a second: bytes that come and go between two counts are on their way to the client,
/// however many they are.
struct KeptBytes {
    private var budget: ByteBudget

    init(_ shared: SharedBudget, for address: UInt64?, bytesMax: Int) {
        budget = ByteBudget(shared, for: address, bytesMax: bytesMax)
    }

    /// Returns the streams that must end, and drops what they have queued. They are the streams that keep
    /// most, so that a client that is slow for a moment does not pay for a client that does not read at all.
    mutating func sweep(_ open: [Responder]) -> [Responder] {
        var keeping: [(responder: Responder, bytes: Int)] = []
        for responder in open where responder.mayKeep {
            let bytes = responder.keptBytes()
            count(responder, 0)
            if bytes > 0 { keeping.append((responder, bytes)) }
        }
        guard !keeping.isEmpty else { return [] }
        keeping.sort { $0.bytes < $1.bytes }
        // Counts the smallest streams first, so that the largest are those that do not fit.
        let fitting = keeping.prefix { count($0.responder, $0.bytes) }
        let ended = keeping.dropFirst(fitting.count).map(\.responder)
        for responder in ended { responder.letGo() }
        return ended
    }

    /// Returns false, and counts nothing of the responder, if its bytes are too many.
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

extension ServerSession {
    /// Runs once a second. Returns true if it has reset streams of which too much is unread.
    func sweep() -> Bool {
        let ended = streams.sweep(open)
        for responder in ended { reset(responder.streamID, .cancel) }
        return !ended.isEmpty
    }
}
