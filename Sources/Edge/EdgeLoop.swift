import Glibc
import NIOCore

/// A connection that the loop can flush at the end of a turn.
protocol Flushable: AnyObject {
    func flush()
}

/// One loop's part of the edge: the handler, the connections, and the requests that wait.
///
/// The loop writes each connection once a turn, however many of its requests and streams have new bytes.
final class EdgeLoop {
    let eventLoop: any EventLoop
    let handler: any RequestHandler
    let configuration: EdgeConfiguration
    let counters: EdgeCounters
    let budgets: EdgeBudgets
    let connections = ConnectionSet()
    let pool = RequestPool()
    /// The connections that have something to write, in the order in which they were marked.
    private var dirty: [any Flushable] = []
    private var flushed = 0
    private var isScheduled = false
    /// The bytes of the connection that is being written. All connections use one buffer in turn: a socket
    /// keeps the last buffer that it was given, and with a buffer of its own it would keep that memory.
    private var written = ByteBuffer()
    /// Whole requests that wait for their turn.
    var queue: FairQueue<Responder>
    /// Connections that the loop does not read because too much of a share waits, by share.
    var paused: [UInt64: [any PausableConnection]] = [:]
    var serving = NextTurn.none
    /// Turns that were planned. Only the last plan counts.
    var plans: UInt64 = 0
    /// The counts of `queue` that the counters have already.
    var told = FairQueueCounts()
    private var dateSecond: Int = -1
    private var dateText = ""

    init(
        eventLoop: any EventLoop, handler: any RequestHandler, configuration: EdgeConfiguration,
        counters: EdgeCounters, budgets: EdgeBudgets
    ) {
        self.eventLoop = eventLoop
        self.handler = handler
        self.configuration = configuration
        self.counters = counters
        self.budgets = budgets
        queue = FairQueue(configuration.fairness)
    }

    /// Whether connections must begin nothing new.
    private(set) var isDraining = false

    func drain() {
        isDraining = true
        connections.drainAll()
    }

    /// Seconds of the loop's coarse clock. All deadlines of the edge count in them.
    private(set) var second = 0

    /// Looks at all deadlines once a second.
    func beginSweeping() {
        eventLoop.assumeIsolated().scheduleTask(in: .seconds(1)) {
            self.second += 1
            self.connections.sweep(self.second)
            self.beginSweeping()
        }
    }

    /// The time in the form of the `date` field (RFC 9110 §5.6.7), made once a second.
    var date: String {
        let second = time(nil)
        if second != dateSecond {
            dateSecond = second
            dateText = HTTPDate.text(second)
        }
        return dateText
    }

    /// Fills an empty buffer and gives it to a socket. Where the socket takes all bytes at once, as nearly
    /// always, the next buffer has the same memory.
    func write(_ fill: (inout ByteBuffer) -> Void, to send: (ByteBuffer) -> Void) {
        if written.capacity > configuration.pendingBytesMax * 2 {
            written = ByteBuffer()
        } else {
            written.clear()
        }
        fill(&written)
        if written.readableBytes > 0 { send(written) }
    }

    /// The connection must remember that it is marked, so that it is in the list once.
    func markDirty(_ connection: any Flushable) {
        dirty.append(connection)
        scheduleFlush()
    }

    /// Plans the flush that ends this turn of reading.
    func scheduleFlush() {
        guard !isScheduled else { return }
        isScheduled = true
        eventLoop.assumeIsolated().execute { self.flush() }
    }

    /// Writes some connections, and then lets the loop read sockets before it goes on. So requests do not
    /// wait for thousands of writes. A message for all connections that comes meanwhile leaves together with
    /// the message before it, on each connection that is not yet written.
    private func flush() {
        queue.endReading()
        let end = min(flushed + EdgeLoop.flushedAtOnceMax, dirty.count)
        while flushed < end {
            dirty[flushed].flush()
            flushed += 1
        }
        if flushed == dirty.count {
            dirty.removeAll(keepingCapacity: flushed <= EdgeLoop.flushedAtOnceMax)
            flushed = 0
            isScheduled = false
        } else {
            if flushed > dirty.count / 2 {
                dirty.removeFirst(flushed)
                flushed = 0
            }
            eventLoop.assumeIsolated().execute { self.flush() }
        }
    }

    /// Connections that are written in one go: a few milliseconds of writes.
    private static let flushedAtOnceMax = 256
}

/// The part of a connection that its loop calls.
protocol EdgeConnection: AnyObject {
    /// Finishes the requests that are under way, and begins nothing new.
    func drain()
    /// Closes the connection, or a stream of it, if a deadline has passed.
    func sweep(_ second: Int)
}

/// The open connections of one loop.
final class ConnectionSet {
    private var connections: [ObjectIdentifier: any EdgeConnection] = [:]

    func insert(_ connection: any EdgeConnection) { connections[ObjectIdentifier(connection)] = connection }
    /// Replaces a table that a burst of connections has left far too large.
    func remove(_ connection: any EdgeConnection) {
        connections[ObjectIdentifier(connection)] = nil
        guard connections.capacity > ConnectionSet.keptCapacity, connections.count < connections.capacity / 8
        else { return }
        connections = Dictionary(uniqueKeysWithValues: connections.map { ($0.key, $0.value) })
    }
    /// The capacity of a table that is never replaced.
    private static let keptCapacity = 1024
    var count: Int { connections.count }
    var capacity: Int { connections.capacity }
    func drainAll() { for connection in connections.values { connection.drain() } }
    func sweep(_ second: Int) { for connection in connections.values { connection.sweep(second) } }
}

/// The deadlines of one connection, in seconds of the loop's coarse clock.
struct ConnectionDeadlines {
    let configuration: EdgeConfiguration
    private let opened: Int
    /// The second since which no request is open; `nil` while one is.
    private var idleSince: Int?
    /// The second since which the client has not read the written bytes.
    private var stuckSince: Int?

    /// `second`: when the connection began.
    init(_ configuration: EdgeConfiguration, second: Int) {
        self.configuration = configuration
        opened = second
        idleSince = second
    }

    /// Notes the connection's state, and returns true where the connection must be closed. `heading`: when
    /// the oldest request began whose header block is not whole; `receiving`: the same for a body.
    mutating func isOver(_ second: Int, open: Int, heading: Int?, receiving: Int?, stuck: Bool) -> Bool {
        idleSince = open > 0 ? nil : idleSince ?? second
        stuckSince = stuck ? stuckSince ?? second : nil
        if !hadRequest, second - opened > configuration.handshakeSeconds { return true }
        if let idleSince, second - idleSince > configuration.idleSeconds { return true }
        if let heading, second - heading > configuration.handshakeSeconds { return true }
        if let receiving, second - receiving > configuration.bodySeconds { return true }
        if let stuckSince, second - stuckSince > configuration.stuckSeconds { return true }
        return false
    }

    /// Whether one stream's request or answer has taken too long. Only the stream ends: behind a balancer the
    /// connection may carry other clients' streams.
    func isOver(_ second: Int, stream: Responder) -> Bool {
        if stream.owes { return second - stream.movedAt > configuration.stuckSeconds }
        let isReading = !stream.isReceived && stream.reading != nil
        return isReading && second - stream.began > configuration.bodySeconds
    }

    /// Whether a request has begun on this connection.
    var hadRequest = false
}

enum HTTPDate {
    /// IMF-fixdate: `Sun, 06 Nov 1994 08:49:37 GMT`.
    static func text(_ second: Int) -> String {
        var time = time_t(second)
        var parts = tm()
        gmtime_r(&time, &parts)
        var buffer = [CChar](repeating: 0, count: 64)
        let count = strftime(&buffer, buffer.count, "%a, %d %b %Y %H:%M:%S GMT", &parts)
        return String(decoding: buffer.prefix(count).map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }
}
