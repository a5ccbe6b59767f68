import DequeModule
import Model

/// Requests that share connections, and these connections. An object, so that taking a request out copies no
/// line; only the machine that created it changes it.
final class Pool {
    let key: APNsPool
    /// Its index in the order in which the machine created its pools.
    let number: Int
    /// Requests that have not left yet, in the order of their submission.
    var waiting = Deque<ConnectionPools.Ticket>()
    /// Requests that leave again, before all others; the earliest submission is the last element.
    var again: [ConnectionPools.Ticket] = []
    var connections: [Connection] = []
    /// No connection is begun before this.
    var connectAt: MonotonicTime
    /// Connections in a row that could not be made, or did not last.
    var failures = 0
    /// Whether the pool is in the machine's `turns`.
    var isInTurns = false

    init(_ key: APNsPool, number: Int, now: MonotonicTime) {
        self.key = key
        self.number = number
        connectAt = now
    }

    var first: ConnectionPools.Ticket? { again.last ?? waiting.first }

    func takeFirst() -> ConnectionPools.Ticket? { again.popLast() ?? waiting.popFirst() }

    /// The connection with the fewest streams, of those that may have one more.
    func roomiest(_ now: MonotonicTime, _ settings: APNsClientSettings) -> Connection? {
        var best: Connection?
        for connection in connections where connection.hasRoom(now, settings) {
            if let best, best.open <= connection.open { continue }
            best = connection
        }
        return best
    }
}

/// What the machine knows of a connection.
final class Connection {
    enum State: Hashable {
        case connecting
        case open
        /// Gets no further request: the service or the caller wants another connection.
        case draining
        /// The shell was asked to end the connection. `isOrderly`: nothing is wrong with it.
        case closing(reason: String, isOrderly: Bool)
    }

    let id: APNsConnectionID
    /// The machine forgets a pool after its connections.
    unowned let pool: Pool
    var state = State.connecting
    let began: MonotonicTime
    var opened: MonotonicTime?
    /// Whether the service has shown on this connection that it takes the pool's token.
    var isProven = false
    /// Streams that the service allows at the moment.
    var peerMax: Int
    /// Requests under way.
    var open = 0
    /// What was open when the service lowered its bound, and is still open.
    var over = 0
    /// Requests in the order in which they left; some are done already. `tries` distinguishes a request that
    /// was here twice.
    var left = Deque<(ticket: ConnectionPools.Ticket, tries: Int, at: MonotonicTime)>()
    /// When the service last sent anything.
    var heard: MonotonicTime
    /// When the client asked (PING); `nil` if the service has sent something since.
    var pinged: MonotonicTime?
    /// When a request last left or was done, and when the first of those under way left.
    var used: MonotonicTime
    var busy: MonotonicTime
    /// Requests that were answered.
    var answers = 0
    /// Requests in a row that got no answer in time.
    var unanswered = 0
    /// The service refused a stream: no new one before this, after so long a pause.
    var pausedUntil: MonotonicTime?
    var pause = TimeSpan.zero
    /// The socket takes no more bytes.
    var isBlocked = false
    /// Whether the pool has drawn its conclusions from the connection's end.
    var isJudged = false
    var isGoAwayTold = false
    var isReasonTold = false
    #if DEBUG
        /// A planted bug.
        var isUnbound = false
    #endif

    init(_ id: APNsConnectionID, of pool: Pool, peerMax: Int, now: MonotonicTime) {
        self.id = id
        self.pool = pool
        self.peerMax = peerMax
        (began, heard, used, busy) = (now, now, now, now)
    }

    /// How many streams may be open.
    func streamsMax(_ settings: APNsClientSettings) -> Int {
        #if DEBUG
            if isUnbound { return .max }
        #endif
        return min(peerMax, isProven ? settings.streamsMax : 1)
    }

    func isPaused(_ now: MonotonicTime) -> Bool { pausedUntil.map { $0 > now } ?? false }

    func hasRoom(_ now: MonotonicTime, _ settings: APNsClientSettings) -> Bool {
        state == .open && !isBlocked && open < streamsMax(settings) && !isPaused(now)
    }

    var isClosing: Bool {
        if case .closing = state { return true }
        return false
    }

    /// Whether the connection has proven itself, and has lasted or done much work.
    func isStable(_ now: MonotonicTime, _ settings: APNsClientSettings) -> Bool {
        guard isProven, let opened else { return false }
        return now.since(opened) >= settings.stableAfter || answers >= settings.stableAnswers
    }

    /// Why the connection has ended, and what an operator should know of it. `reason`: what the shell says.
    func end(_ reason: String) -> (why: String, news: APNsNews?) {
        var (why, isOrderly) = (reason, state == .draining)
        if case .closing(let own, let isOwnOrder) = state { (why, isOrderly) = (own, isOwnOrder) }
        if opened == nil { return (why, .unreachable(reason: why)) }
        return (why, isOrderly ? nil : .broke(reason: why))
    }
}
