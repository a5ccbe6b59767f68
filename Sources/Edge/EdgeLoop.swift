import Glibc
import NIOCore

/// What can be flushed at the end of a turn.
protocol Flushable: AnyObject {
    func flush()
}

/// One loop's side of the edge: its handler, and the connections that have something to write.
///
/// A connection is written once a turn, however many of its requests and streams have news.
final class EdgeLoop {
    let eventLoop: any EventLoop
    let handler: any RequestHandler
    let configuration: EdgeConfiguration
    let counters: EdgeCounters
    let budgets: EdgeBudgets
    let connections = ConnectionSet()
    let pool = RequestPool()
    /// The connections that have something to write, in the order in which they came to have it.
    private var dirty: [any Flushable] = []
    private var flushed = 0
    private var isScheduled = false
    /// What one connection writes next, used by all in turn: a socket keeps the buffer that it was given
    /// last.
    private var written = ByteBuffer()
    /// Requests that are whole and wait for their turn.
    var queue: FairQueue<Responder>
    /// Connections that are not read because too much of a share waits, by the share.
    var paused: [UInt64: [any PausableConnection]] = [:]
    var serving = NextTurn.none
    /// Turns that were planned; the last one counts.
    var plans: UInt64 = 0
    /// What was told to the counters of `queue`.
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

    /// Whether no connection is to begin anything new.
    private(set) var isDraining = false

    func drain() {
        isDraining = true
        connections.drainAll()
    }

    /// Seconds of the loop's coarse clock, on which deadlines are kept.
    private(set) var second = 0

    /// Once a second: what is past a deadline is closed.
    func beginSweeping() {
        eventLoop.assumeIsolated().scheduleTask(in: .seconds(1)) {
            self.second += 1
            self.connections.sweep(self.second)
            self.beginSweeping()
        }
    }

    /// The time as the `date` field has it (RFC 9110 §5.6.7), made once a second.
    var date: String {
        let second = time(nil)
        if second != dateSecond {
            dateSecond = second
            dateText = HTTPDate.text(second)
        }
        return dateText
    }

    /// Hands out an empty buffer to fill and to give to a socket. Where the socket took all at once, which is
    /// nearly always, the next one has the same memory.
    func write(_ fill: (inout ByteBuffer) -> Void, to send: (ByteBuffer) -> Void) {
        if written.capacity > configuration.pendingBytesMax * 2 {
            written = ByteBuffer()
        } else {
            written.clear()
        }
        fill(&written)
        if written.readableBytes > 0 { send(written) }
    }

    /// `connection` says itself that it is in the list, so that it is there once.
    func markDirty(_ connection: any Flushable) {
        dirty.append(connection)
        scheduleFlush()
    }

    /// The end of this turn of reading: then connections are written.
    func scheduleFlush() {
        guard !isScheduled else { return }
        isScheduled = true
        eventLoop.assumeIsolated().execute { self.flush() }
    }

    /// Writes some connections and lets the loop look at what has come in meanwhile, before it goes on. News
    /// for all connections that comes while the last news is on its way goes out together with it on all
    /// those that were not yet written, and requests do not wait for thousands of writes.
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

    /// A few milliseconds of writes.
    private static let flushedAtOnceMax = 256
}

/// What the loop asks of each connection.
protocol EdgeConnection: AnyObject {
    /// Finish what is under way, begin nothing new.
    func drain()
    /// Close if a deadline has passed.
    func sweep(_ second: Int)
}

/// The open connections of one loop.
final class ConnectionSet {
    private var connections: [ObjectIdentifier: any EdgeConnection] = [:]

    func insert(_ connection: any EdgeConnection) { connections[ObjectIdentifier(connection)] = connection }
    /// A table that was made for a storm goes with it.
    func remove(_ connection: any EdgeConnection) {
        connections[ObjectIdentifier(connection)] = nil
        guard connections.capacity > ConnectionSet.keptPlaces, connections.count < connections.capacity / 8
        else { return }
        connections = Dictionary(uniqueKeysWithValues: connections.map { ($0.key, $0.value) })
    }
    /// Of a table that may stay as it is.
    private static let keptPlaces = 1024
    var count: Int { connections.count }
    var capacity: Int { connections.capacity }
    func drainAll() { for connection in connections.values { connection.drain() } }
    func sweep(_ second: Int) { for connection in connections.values { connection.sweep(second) } }
}

/// The deadlines of one connection, in seconds of the loop's coarse clock.
struct ConnectionDeadlines {
    let configuration: EdgeConfiguration
    private let opened: Int
    /// Since when no request is open; `nil` while one is.
    private var idleSince: Int?
    /// Since when the client has not read what was written to it.
    private var stuckSince: Int?

    /// `second`: when the connection began.
    init(_ configuration: EdgeConfiguration, second: Int) {
        self.configuration = configuration
        opened = second
        idleSince = second
    }

    /// Tells the state of now; true where the connection is to be closed.
    /// `heading` and `receiving`: when the oldest request began whose header block, or whose body, is not
    /// whole.
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

    /// Whether one stream's request or answer has taken too long. Its connection goes on: others' streams may
    /// be on it, behind a balancer.
    func isOver(_ second: Int, stream: Responder) -> Bool {
        if stream.owes { return second - stream.movedAt > configuration.stuckSeconds }
        let isReading = !stream.isReceived && stream.reading != nil
        return isReading && second - stream.began > configuration.bodySeconds
    }

    /// Whether any request was begun.
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
