import DequeModule
import Model

/// Decides how many connections each pool has, which request goes over which connection, and when. Apple's
/// service closes itself to senders that open and close connections repeatedly, that open more streams than
/// it allows, or that mix teams on a connection.
///
/// A machine: the shell gives the time and says what happened to connections and streams; it carries out the
/// effects, and takes requests out by `next`. The machine has a request from `submit` until its outcome.
public struct ConnectionPools {
    /// Names one request; the shell gives each number once, in order.
    public typealias Ticket = UInt64

    public enum Outcome: Hashable {
        case notSent(String)
        case failed(String)
    }

    public enum Effect: Hashable {
        /// Begin a connection; `opened` or `ended` must follow.
        case connect(APNsConnectionID, APNsPool)
        /// End a connection now; `ended` must follow.
        case close(APNsConnectionID)
        /// The answer has taken too long: reset the stream. `answered`, `refused` or `lost` must follow.
        case cancel(Ticket, APNsConnectionID)
        case ping(APNsConnectionID)
        /// The request's outcome, if the shell does not know it already.
        case answer(Ticket, Outcome)
        case news(APNsPool, APNsNews)
    }

    struct Request {
        let pool: Pool
        let since: MonotonicTime
        /// How often the request has left.
        var tries = 0
        /// The connection on which the request is under way; `nil` while it waits.
        var connection: Connection?
        /// Whether the shell was asked to reset the request's stream.
        var isCancelled = false
    }

    let settings: APNsClientSettings
    var random: any RandomNumberGenerator
    var pools: [APNsPool: Pool] = [:]
    var connections: [APNsConnectionID: Connection] = [:]
    var requests: [Ticket: Request] = [:]
    /// Pools that may have a request for `next`.
    var turns = Deque<Pool>()
    var effects: [Effect] = []
    /// Requests that wait, in all pools.
    var waiting = 0
    /// Connections that are not ready yet.
    var connecting = 0
    /// When `woke` may have something to do.
    public internal(set) var nextWake: MonotonicTime?
    private var lastPool = 0
    private var lastConnection: UInt64 = 0
    private var watch = InvariantSchedule()
    #if DEBUG
        public var planted: PlantedInScheduling = []
    #endif

    public init(_ settings: APNsClientSettings, random: any RandomNumberGenerator) {
        self.settings = settings
        self.random = random
    }

    public mutating func takeEffects() -> [Effect] {
        guard !effects.isEmpty else { return [] }
        var taken: [Effect] = []
        swap(&taken, &effects)
        return taken
    }

    // MARK: Requests

    public mutating func submit(_ ticket: Ticket, to key: APNsPool, now: MonotonicTime) {
        guard waiting < settings.waitingMax else {
            effects.append(.answer(ticket, .notSent("too many requests wait")))
            return
        }
        let pool = pool(of: key) ?? makePool(key, now)
        requests[ticket] = Request(pool: pool, since: now)
        waiting += 1
        pool.waiting.append(ticket)
        plan(pool, now)
        checkInvariants()
    }

    private func pool(of key: APNsPool) -> Pool? {
        #if DEBUG
            if planted.contains(.mixTeams) {
                return pools.values.filter { $0.key.host == key.host }.min { $0.number < $1.number }
            }
        #endif
        return pools[key]
    }

    private mutating func makePool(_ key: APNsPool, _ now: MonotonicTime) -> Pool {
        lastPool += 1
        let pool = Pool(key, number: lastPool, now: now)
        pools[key] = pool
        return pool
    }

    /// Whether `next` may have a request.
    public var isReady: Bool { !turns.isEmpty }

    /// The next request that may leave, and its connection. Pools take turns.
    public mutating func next(now: MonotonicTime) -> (ticket: Ticket, connection: APNsConnectionID)? {
        defer { checkInvariants() }
        while let pool = turns.popFirst() {
            pool.isInTurns = false
            expire(pool, now)
            if let connection = pool.roomiest(now, settings), let ticket = pool.takeFirst() {
                waiting -= 1
                start(ticket, on: connection, now)
                plan(pool, now)
                return (ticket, connection.id)
            }
            plan(pool, now)
        }
        return nil
    }

    private mutating func start(_ ticket: Ticket, on connection: Connection, _ now: MonotonicTime) {
        let tries = (requests[ticket]?.tries ?? 0) + 1
        requests[ticket]?.tries = tries
        requests[ticket]?.connection = connection
        requests[ticket]?.isCancelled = false
        if connection.open == 0 { connection.busy = now }
        connection.open += 1
        connection.used = now
        connection.left.append((ticket, tries, now))
    }

    /// Answers the requests that have waited for too long.
    mutating func expire(_ pool: Pool, _ now: MonotonicTime) {
        while let ticket = pool.first, let request = requests[ticket], isTooOld(request, now) {
            _ = pool.takeFirst()
            waiting -= 1
            requests[ticket] = nil
            effects.append(.answer(ticket, .notSent(tooOld)))
        }
    }

    private func isTooOld(_ request: Request, _ now: MonotonicTime) -> Bool {
        now.since(request.since) >= settings.waitMax
    }

    private var tooOld: String { "the request waited for \(settings.waitMax.milliseconds) ms" }

    /// The request leaves again, if there is time for that.
    mutating func requeue(_ ticket: Ticket, reason: String, _ now: MonotonicTime) {
        guard let request = requests[ticket] else { return }
        let hasTries = request.tries < settings.triesMax
        guard hasTries, !isTooOld(request, now) else {
            requests[ticket] = nil
            effects.append(.answer(ticket, .notSent(hasTries ? tooOld : reason)))
            return
        }
        requests[ticket]?.connection = nil
        waiting += 1
        let pool = request.pool
        // A lower number was submitted earlier. The index is mostly the first or the last one.
        var index = pool.again.count
        while index > 0, pool.again[index - 1] < ticket { index -= 1 }
        pool.again.insert(ticket, at: index)
    }

    /// All requests in the order of their numbers, and whether each is under way. The machine forgets them.
    public mutating func takeAll() -> [(ticket: Ticket, isUnderWay: Bool)] {
        let all = requests.map { (ticket: $0.key, isUnderWay: $0.value.connection != nil) }
        requests = [:]
        waiting = 0
        turns.removeAll()
        for pool in pools.values {
            pool.waiting.removeAll()
            pool.again = []
            pool.isInTurns = false
        }
        for connection in connections.values {
            (connection.open, connection.over) = (0, 0)
            connection.left.removeAll()
        }
        return all.sorted { $0.ticket < $1.ticket }
    }

    // MARK: Connections

    mutating func makeConnection(of pool: Pool, _ now: MonotonicTime) -> Connection {
        lastConnection += 1
        let id = APNsConnectionID(lastConnection)
        let connection = Connection(id, of: pool, peerMax: settings.streamsMax, now: now)
        #if DEBUG
            connection.isUnbound = planted.contains(.openManyStreams)
        #endif
        pool.connections.append(connection)
        connections[id] = connection
        connecting += 1
        return connection
    }

    /// The invariants hold between any two events.
    mutating func checkInvariants() {
        #if DEBUG
            guard planted.isEmpty else { return }
            let size = requests.count + connections.count + pools.count
            if watch.isWholeDue(size: size) { InvariantSchedule.demand(brokenInvariant) }
        #endif
    }
}
