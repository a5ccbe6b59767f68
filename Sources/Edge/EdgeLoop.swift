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
    let connections = ConnectionSet()
    private var dirty: [any Flushable] = []
    private var isScheduled = false
    private var dateSecond: Int = -1
    private var dateText = ""

    init(
        eventLoop: any EventLoop, handler: any RequestHandler, configuration: EdgeConfiguration,
        counters: EdgeCounters
    ) {
        self.eventLoop = eventLoop
        self.handler = handler
        self.configuration = configuration
        self.counters = counters
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

    /// `connection` says itself that it is in the list, so that it is there once.
    func markDirty(_ connection: any Flushable) {
        dirty.append(connection)
        guard !isScheduled else { return }
        isScheduled = true
        eventLoop.assumeIsolated().execute { self.flush() }
    }

    private func flush() {
        isScheduled = false
        var batch: [any Flushable] = []
        swap(&batch, &dirty)
        for connection in batch { connection.flush() }
    }
}

/// The open connections of one loop, and how each is told to finish.
final class ConnectionSet {
    private var drains: [ObjectIdentifier: () -> Void] = [:]

    func insert(_ id: ObjectIdentifier, _ drain: @escaping () -> Void) { drains[id] = drain }
    func remove(_ id: ObjectIdentifier) { drains[id] = nil }
    func drainAll() { for drain in drains.values { drain() } }
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
