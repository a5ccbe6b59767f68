import DequeModule
import Model

/// Requests that a loop has received and not begun, in a line for each share: deficit round robin (Shreedhar
/// and Varghese, 1996). A share is a project, the operators, or some clients without a bearer that counts.
///
/// When the turn of a line comes, the line may spend a quantum of work, and what was left of its last
/// quantum. So a request waits behind at most a quantum and one request of each other line, however many
/// requests wait there. A turn of the loop ends after a bounded amount of work, and the next turn goes on at
/// the end of the last one. Within a line requests keep their order of arrival.
///
/// Work is estimated, not measured: a request costs a constant and the bytes of its body.
///
/// A refusal for a quota costs the share time: its line owes some time for each refusal. The queue holds a
/// line that owes more than `debt` until it owes half of `debt`. Clients that wait for their answers then
/// send less.
///
/// A machine: its caller gives the time; the queue answers no request and reads no socket.
struct FairQueue<Item> {
    struct Bounds {
        /// Work of a request without a body, in bytes: as much as a body of this length costs.
        var request = 4 << 10
        /// Work that a line may do in one of its turns.
        var quantum = 64 << 10
        /// Work of a loop's turn: about 2 ms. If only one share has had waiting requests for a while, a turn
        /// has more work, because the work of one turn goes into one commit.
        var turn = 1 << 20
        var turnAlone = 4 << 20
        /// The time until a share counts as alone again, after requests of another share waited too.
        var alone: TimeSpan = .seconds(1)
        /// Work in one line, past which the loop stops reading the connections that add to the line. Past the
        /// second bound the queue refuses requests.
        var full = 8 << 20
        var lineMax = 64 << 20
        /// Work in all lines. Past the first bound the queue refuses requests to each line with more than a
        /// quantum, past the second bound all requests. So long lines leave room for all others.
        var longMax = 96 << 20
        var allMax = 128 << 20
        /// The time that a line owes for each refusal, and once more for each `refusalBytes` of its body,
        /// because the edge read them: 5,000 refusals a second with short bodies, 1,000 with the longest.
        var refusal: TimeSpan = .microseconds(200)
        var refusalBytes = 16 << 10
        /// The time that a line may owe before the queue holds it.
        var debt: TimeSpan = .milliseconds(20)
        /// How long a request may wait for its turn. After that the edge answers 503: its client
        /// has mostly given up.
        var wait: TimeSpan = .seconds(5)
    }

    /// The fate of a request that had to wait.
    enum Added { case waits, waitsAndIsFull, refused }

    /// A request whose turn has come, and the turns that it waited: `nil` if its line was held since it came.
    struct Served {
        var item: Item
        var turns: UInt64?
        /// When the request came.
        var since: MonotonicTime
    }

    final class Line {
        let share: UInt64
        var waiting = Deque<(item: Item, cost: Int, turn: UInt64, since: MonotonicTime)>()
        /// Work of the requests in this line.
        var work = 0
        /// Work that the line may still do before the next line's turn.
        var deficit = 0
        /// The line has its quantum for this turn, and the next line's turn has not come.
        var isVisited = false
        /// Until when the line owes for refusals.
        var owesUntil = MonotonicTime.zero
        var isHeld = false
        /// When the line was last held no longer.
        var releasedAt = MonotonicTime.zero
        init(_ share: UInt64) { self.share = share }
    }

    let bounds: Bounds
    /// The lines in which a request waits, and the lines that owe.
    var lines: [UInt64: Line] = [:]
    /// The lines in which a request waits and that are not held, in the order of their turns.
    var ring = Deque<Line>()
    private(set) var held: [Line] = []
    /// Requests that wait in all lines, and their work.
    private(set) var count = 0
    private(set) var work = 0
    /// Work that this turn has done.
    private(set) var spent = 0
    /// Until when the queue counts several shares.
    private var sharedUntil = MonotonicTime.zero
    private var turnMax: Int
    /// Turns that have begun.
    private(set) var turn: UInt64 = 0
    /// Since the queue was created: turns that reached their bound, lines that were held, requests that were
    /// refused.
    private(set) var turnsCut = 0
    private(set) var holds = 0
    private(set) var refused = 0
    var invariantSchedule = InvariantSchedule()

    init(_ bounds: Bounds = Bounds()) {
        self.bounds = bounds
        turnMax = bounds.turnAlone
    }

    /// The work of a request whose body has so many bytes.
    func cost(bodyBytes: Int) -> Int { bounds.request + bodyBytes }

    /// Whether a request need not wait: no request waits, no line is held, and the turn has room.
    mutating func takesAtOnce(_ cost: Int) -> Bool {
        guard count == 0, held.isEmpty, spent < turnMax else { return false }
        spent += cost
        return true
    }

    /// The loop has read all sockets that had bytes. Requests that it handles immediately from now on belong
    /// to another turn.
    mutating func endReading() { if count == 0 { spent = 0 } }

    /// Puts a request into its share's line, unless too much waits.
    mutating func add(_ item: Item, of share: UInt64, cost: Int, now: MonotonicTime) -> Added {
        defer { checkInvariants() }
        let waiting = lines[share]?.work ?? 0
        let isShort = waiting == 0 || waiting + cost <= bounds.quantum
        guard waiting + cost <= bounds.lineMax, work + cost <= (isShort ? bounds.allMax : bounds.longMax)
        else {
            refused += 1
            return .refused
        }
        let line = line(share)
        if count > line.waiting.count {
            (sharedUntil, turnMax) = (now.advanced(by: bounds.alone), bounds.turn)
        }
        if line.waiting.isEmpty, !line.isHeld { ring.append(line) }
        line.waiting.append((item, cost, turn, now))
        line.work += cost
        count += 1
        work += cost
        return line.work > bounds.full ? .waitsAndIsFull : .waits
    }

    /// Whether so little of a share waits that the loop may read its paused connections again.
    func hasRoom(_ share: UInt64) -> Bool { (lines[share]?.work ?? 0) <= bounds.full / 2 }

    /// Begins the next turn, and releases the held lines whose time has come.
    mutating func beginTurn(now: MonotonicTime) {
        defer { checkInvariants() }
        turn += 1
        spent = 0
        if now >= sharedUntil, ring.count <= 1 { turnMax = bounds.turnAlone }
        guard !held.isEmpty else { return }
        let soon = now.advanced(by: bounds.debt / 2)
        let due = held.filter { $0.owesUntil <= soon }
        guard !due.isEmpty else { return }
        held.removeAll { line in due.contains { $0 === line } }
        for line in due {
            line.isHeld = false
            line.releasedAt = now
            if line.waiting.isEmpty { leave(line, now: now) } else { ring.append(line) }
        }
        forgetDebts(now: now)
    }

    /// The request to begin next; `nil` if the turn is over, or no line may go on.
    mutating func next(now: MonotonicTime) -> Served? {
        defer { checkInvariants() }
        while let line = ring.first, let cost = line.waiting.first?.cost {
            guard spent < turnMax else {
                turnsCut += 1
                return nil
            }
            if !line.isVisited {
                line.isVisited = true
                line.deficit += bounds.quantum
            }
            guard line.deficit >= cost else {
                line.isVisited = false
                ring.append(ring.removeFirst())
                continue
            }
            return dequeue(from: line, now: now)
        }
        return nil
    }

    private mutating func dequeue(from line: Line, now: MonotonicTime) -> Served {
        let (item, cost, began, since) = line.waiting.removeFirst()
        line.deficit -= cost
        line.work -= cost
        count -= 1
        work -= cost
        spent += cost
        if line.waiting.isEmpty {
            ring.removeFirst()
            leave(line, now: now)
        }
        return Served(item: item, turns: since < line.releasedAt ? nil : turn - began, since: since)
    }

    /// An empty line keeps its debt, and loses the work that it has not used.
    private mutating func leave(_ line: Line, now: MonotonicTime) {
        line.deficit = 0
        line.isVisited = false
        if line.owesUntil <= now { lines[line.share] = nil }
    }

    private mutating func line(_ share: UInt64) -> Line {
        if let known = lines[share] { return known }
        let line = Line(share)
        lines[share] = line
        return line
    }

    /// A request of the share was refused for a quota. `bodyBytes`: the length of its body.
    mutating func noteRefused(_ share: UInt64, bodyBytes: Int = 0, now: MonotonicTime) {
        defer { checkInvariants() }
        let line = line(share)
        let more = bounds.refusal * UInt64(max(0, bodyBytes)) / UInt64(bounds.refusalBytes)
        line.owesUntil = max(line.owesUntil, now).advanced(by: bounds.refusal + more)
        guard !line.isHeld, line.owesUntil.since(now) > bounds.debt else { return }
        line.isHeld = true
        line.deficit = 0
        line.isVisited = false
        held.append(line)
        holds += 1
        if let index = ring.firstIndex(where: { $0 === line }) { ring.remove(at: index) }
    }

    private mutating func forgetDebts(now: MonotonicTime) {
        lines = lines.filter { !$0.value.waiting.isEmpty || $0.value.isHeld || $0.value.owesUntil > now }
    }

    /// Whether a line that is not held has a request.
    var isReady: Bool { !ring.isEmpty }

    /// When the first held line with a request may go on; `nil` if there is none.
    var heldUntil: MonotonicTime? {
        held.lazy.filter { !$0.waiting.isEmpty }.map(\.owesUntil).min().map {
            $0.rewound(by: bounds.debt / 2)
        }
    }
}
