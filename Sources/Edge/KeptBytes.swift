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
        var grown: [(responder: Responder, bytes: Int)] = []
        for responder in open where responder.hasQueued || responder.countedBytes > 0 {
            let bytes = responder.keptBytes()
            if bytes > responder.countedBytes {
                grown.append((responder, bytes))
            } else {
                count(responder, bytes)
            }
        }
        var ended: [Responder] = []
        for (responder, bytes) in grown where !ended.contains(where: { $0 === responder }) {
            while !budget.take(bytes - responder.countedBytes) {
                let most = open.max { $0.countedBytes < $1.countedBytes }
                let last = most.flatMap { $0.countedBytes > bytes ? $0 : nil } ?? responder
                count(last, 0)
                last.letGo()
                ended.append(last)
                if last === responder { break }
            }
            if ended.last !== responder { responder.countedBytes = bytes }
        }
        return ended
    }

    private mutating func count(_ responder: Responder, _ bytes: Int) {
        guard responder.countedBytes != bytes else { return }
        budget.give(responder.countedBytes - bytes)
        responder.countedBytes = bytes
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
