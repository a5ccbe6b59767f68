import Glibc
import HTTPMessages
import NIOCore

/// A connection that the loop can flush at the end of a turn.
protocol Flushable: AnyObject {
    var loop: EdgeLoop { get }
    /// `nil` before and after the connection's time in its channel.
    var context: ChannelHandlerContext? { get }
    /// Whether the loop has the connection in its list. `flush` must set it back.
    var isDirty: Bool { get set }
    func flush()
}

extension Flushable {
    /// The connection has something to write at the end of the turn.
    func markDirty() {
        guard !isDirty, context != nil else { return }
        isDirty = true
        loop.willFlush(self)
    }
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
    /// keeps the last buffer that it was given, and with its own buffer it would keep that memory.
    private var written = ByteBuffer()
    /// Whole requests that wait for their turn.
    var queue: FairQueue<Responder>
    /// Connections that the loop does not read because too much of a share waits, by share.
    var paused: [UInt64: [any PausableConnection]] = [:]
    var serving = NextTurn.none
    /// Only the last plan counts.
    var turnsPlanned: UInt64 = 0
    /// The counts of `queue` that the counters have already.
    var reportedCounts = FairQueueCounts()
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

    /// Whether clients are to connect elsewhere from now on: each answer of HTTP/1.1 says that it is the last
    /// one of its connection (RFC 9112 §9.6).
    var isRetiring = false

    /// Whether connections must begin nothing new.
    private(set) var isDraining = false

    /// Whether the loop drains for so long that it waits no more for requests that are not whole: a client
    /// could hold up the end of the server with one byte.
    var isImpatient: Bool { drainsSince.map { second - $0 > 1 } ?? false }
    private var drainsSince: Int?

    func drain() {
        isDraining = true
        drainsSince = drainsSince ?? second
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

    /// Fills an empty buffer and gives it to a socket. If the socket takes all bytes at once, as nearly
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

    /// The connection must remember that it is in the list, so that it is there once.
    func willFlush(_ connection: any Flushable) {
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
