/// Many open streams to one server, over as few or as many connections as wanted, and their messages.
///
/// Stream `i` is on connection `i % connections`.
final class StreamFleet: StreamHandler, RedisHandler {
    private let poller: Poller
    private let target: Target
    private var connections: [LoadConnection] = []
    private var scanners: [EventScanner]
    private var numbers: [Int] = []
    private(set) var open = 0
    private(set) var broken = 0
    private(set) var refusals: [Int: Int] = [:]
    /// Called for each message, with its stream and its number.
    var onMessage: (Int, Int) -> Void = { _, _ in }

    /// The requests that open streams.
    struct Streams {
        var path: (Int) -> String = { _ in "" }
        var credential: (Int) -> String? = { _ in nil }
    }

    init(_ poller: Poller, _ target: Target, streams: Int) {
        self.poller = poller
        self.target = target
        scanners = Array(repeating: EventScanner(), count: streams)
    }

    var others: Int { scanners.reduce(0) { $0 + $1.others } }
    var bytesRead: Int { connections.reduce(0) { $0 + $1.bytesRead } }

    /// Opens streams and waits until the server has answered all of them.
    func open(_ range: Range<Int>, over count: Int, _ streams: Streams) throws {
        for stream in range {
            try open(stream, over: count, streams)
            // A few at a time, so that the server's queue of new connections does not overflow.
            if stream % 32 == 31 {
                poller.turn(milliseconds: 0)
                poller.run(seconds: 5) { open + broken >= stream - 512 }
            }
        }
        poller.run(seconds: 60) { open + broken >= range.upperBound }
        guard open == range.upperBound else {
            throw LoadError("only \(open) of \(range.upperBound) streams are open; refusals: \(refusals)")
        }
    }

    private func open(_ stream: Int, over count: Int, _ streams: Streams) throws {
        let path = streams.path(stream)
        var fields: [(String, String)] = [("accept", "text/event-stream, application/json")]
        if let credential = streams.credential(stream) {
            fields.append(("authorization", "Bearer \(credential)"))
        }
        let index = stream % count
        switch target.kind {
        case .nchanHTTP1:
            connections.append(
                try HTTP1Connection(
                    poller, to: target.address, path: path, fields: fields, tag: stream, handler: self))
        case .redis:
            let connection = try RedisConnection(poller, to: target.address, tag: stream, handler: self)
            connections.append(connection)
            connection.command(["SUBSCRIBE", path])
        default:
            if index == connections.count {
                connections.append(try HTTP2Connection(poller, to: target.address, handler: self))
            }
            let head = RequestHead("GET", path, authority: target.address.authority, fields: fields)
            (connections[index] as? HTTP2Connection)?.request(head, body: [], tag: stream)
        }
    }

    func hangUp() {
        for connection in connections { connection.hangUp() }
    }

    func opened(_ tag: Int, status: Int) {
        if status == 200 { open += 1 } else { refusals[status, default: 0] += 1 }
    }

    func received(_ tag: Int, _ bytes: UnsafeRawBufferPointer) {
        scanners[tag].scan(bytes, into: &numbers)
        guard !numbers.isEmpty else { return }
        for number in numbers { onMessage(tag, number) }
        numbers.removeAll(keepingCapacity: true)
    }

    func ended(_ tag: Int, status: Int, began: UInt64, on connection: LoadConnection) { broken += 1 }

    func replied(_ tag: Int, payload: UnsafeRawBufferPointer?, isError: Bool, on connection: RedisConnection)
    {
        guard let payload else {
            if isError { refusals[0, default: 0] += 1 } else { open += 1 }
            return
        }
        onMessage(tag, EventScanner.number(in: payload) ?? EventScanner.unnumbered)
    }

    func redisLost(_ tag: Int) { broken += 1 }
}
