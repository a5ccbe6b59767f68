import Model

/// Requests that wait for their origin. Origins take turns, so a long line of one origin delays no other
/// origin; within an origin requests keep their order.
///
/// An origin that has not yet answered gets one request at once. So a dead origin fills one place instead of
/// all its places. After the first answer the origin gets `perOriginMax`, until it has neither waiting
/// requests nor requests under way.
///
/// A machine: the caller gives the time.
struct OriginQueue<Request> {
    /// An object, so that taking a request out copies no line.
    private final class Line {
        var waiting = FIFO<(request: Request, since: MonotonicTime)>()
        var running = 0
        var hasAnswered = false
        /// Whether the origin stands in `turns`.
        var isInTurns = false
    }

    let allMax: Int
    let perOriginMax: Int
    let waitingMax: Int
    private var lines: [String: Line] = [:]
    private var turns = FIFO<String>()
    private(set) var running = 0
    private(set) var waiting = 0

    init(allMax: Int, perOriginMax: Int, waitingMax: Int) {
        self.allMax = allMax
        self.perOriginMax = perOriginMax
        self.waitingMax = waitingMax
    }

    /// Whether `next` has a request.
    var isReady: Bool { running < allMax && !turns.isEmpty }

    /// False where too many requests wait; then the request is not taken.
    mutating func add(_ request: Request, to origin: String, now: MonotonicTime) -> Bool {
        guard waiting < waitingMax else { return false }
        waiting += 1
        let line = lines[origin] ?? Line()
        lines[origin] = line
        line.waiting.append((request, now))
        plan(origin, line)
        return true
    }

    /// The next request that may leave.
    mutating func next() -> (request: Request, origin: String)? {
        guard running < allMax, let origin = turns.popFirst(), let line = lines[origin] else { return nil }
        line.isInTurns = false
        guard let first = line.waiting.popFirst() else { return nil }
        line.running += 1
        running += 1
        waiting -= 1
        plan(origin, line)
        return (first.request, origin)
    }

    /// A request that `next` gave is done. `isAnswered`: whether the origin answered; `nil` where the request
    /// did not leave.
    mutating func ended(_ origin: String, isAnswered: Bool?) {
        guard let line = lines[origin] else { return }
        running -= 1
        line.running -= 1
        if let isAnswered { line.hasAnswered = isAnswered }
        plan(origin, line)
    }

    /// Takes out the requests that have waited since before `moment`.
    mutating func expire(before moment: MonotonicTime) -> [Request] {
        take { $0.since < moment }
    }

    /// Takes out all requests that wait.
    mutating func takeAll() -> [Request] { take { _ in true } }

    private mutating func take(
        while isTaken: ((request: Request, since: MonotonicTime)) -> Bool
    ) -> [Request] {
        var taken: [Request] = []
        for line in lines.values {
            while let first = line.waiting.first, isTaken(first) {
                _ = line.waiting.popFirst()
                taken.append(first.request)
            }
        }
        guard !taken.isEmpty else { return [] }
        waiting -= taken.count
        // Lines that are empty now lose their turns. The other lines keep the order of theirs.
        var former = turns
        turns = FIFO()
        while let origin = former.popFirst() {
            guard let line = lines[origin] else { continue }
            line.isInTurns = false
            plan(origin, line)
        }
        return taken
    }

    /// Puts an origin in turns that may begin a request, and forgets an origin without requests.
    private mutating func plan(_ origin: String, _ line: Line) {
        guard !line.isInTurns else { return }
        if line.waiting.isEmpty, line.running == 0 {
            lines[origin] = nil
            return
        }
        let most = line.hasAnswered ? perOriginMax : 1
        guard !line.waiting.isEmpty, line.running < most else { return }
        line.isInTurns = true
        turns.append(origin)
    }
}
