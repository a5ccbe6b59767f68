import Glibc

/// The source of a pump's requests, which also takes the answers.
protocol RequestSource: AnyObject {
    /// The next request for a slot; nil if there is none.
    func next(_ index: Int) -> (head: RequestHead, body: [UInt8])?
    /// `body` is empty if the pump does not keep bodies.
    func answered(_ index: Int, status: Int, body: [UInt8])
}

/// A closed loop: each of connections × streams slots has one request under way, and its next request begins
/// when the answer has come.
final class RequestPump: StreamHandler {
    private let poller: Poller
    private unowned let source: any RequestSource
    private var connections: [HTTP2Connection] = []
    private let streams: Int
    private let keepsBodies: Bool
    private var bodies: [[UInt8]]
    private(set) var active = 0
    private(set) var latency = Histogram()
    private var counts = [Int](repeating: 0, count: 600)
    /// The first answer that was no success, for error texts.
    private(set) var firstRefusal: String?

    init(
        _ poller: Poller, to address: ServerAddress, connections count: Int, streams: Int, keepsBodies: Bool,
        source: any RequestSource
    ) throws {
        self.poller = poller
        self.source = source
        self.streams = streams
        self.keepsBodies = keepsBodies
        bodies = Array(repeating: [], count: count * streams)
        for _ in 0..<count {
            connections.append(try HTTP2Connection(poller, to: address, handler: self))
        }
    }

    var statuses: [Int: Int] {
        Dictionary(
            uniqueKeysWithValues: counts.enumerated().filter { $0.element > 0 }.map {
                ($0.offset, $0.element)
            })
    }
    var answers: Int { Int(latency.count) }

    func start() {
        // Connections in turn, so that no connection has sent all its requests before another.
        for stream in 0..<streams {
            for connection in connections.indices { ask(connection * streams + stream) }
        }
    }

    /// Forgets all counts: the warm-up is over.
    func forget() {
        latency = Histogram()
        for index in counts.indices { counts[index] = 0 }
    }

    func hangUp() {
        for connection in connections { connection.hangUp() }
    }

    private func ask(_ index: Int) {
        guard let request = source.next(index) else { return }
        active += 1
        connections[index / streams].request(request.head, body: request.body, tag: index)
    }

    func received(_ tag: Int, _ bytes: UnsafeRawBufferPointer) {
        if keepsBodies || firstRefusal == nil { bodies[tag].append(contentsOf: bytes) }
    }

    func ended(_ tag: Int, status: Int, began: UInt64, on connection: LoadConnection) {
        active -= 1
        latency.record(poller.now - began)
        counts[min(max(status, 0), 599)] += 1
        if !(200..<300).contains(status), firstRefusal == nil {
            firstRefusal = "HTTP \(status): \(String(decoding: bodies[tag].prefix(400), as: UTF8.self))"
        }
        source.answered(tag, status: status, body: keepsBodies ? bodies[tag] : [])
        bodies[tag].removeAll(keepingCapacity: true)
        if connection.isOpen { ask(tag) }
    }
}
