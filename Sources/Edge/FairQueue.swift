import Model
import NIOCore

/// What a loop has been asked and has not begun, in a line for each share: deficit round robin (Shreedhar and
/// Varghese, 1996). A share is a project's, or that of clients who are nobody's.
///
/// Each line may spend a quantum of work when its turn in the ring comes, and what it has left of the last;
/// so a request waits behind at most a quantum and one request of each other line, however many wait there. A
/// turn of the loop ends when so much work is done, and the next goes on where it ended. Within a line the
/// order is that of arrival.
///
/// Work is estimated, not measured: a request costs what its body is long, and a constant.
///
/// Who is refused for a quota pays in time: a line owes a while for each refusal, and one that owes too much
/// is held until half of it has passed. Its clients, who wait for their answers, ask by so much less.
///
/// A machine: it is told the time, and neither answers nor reads anything.
struct FairQueue<Item> {
    struct Bounds {
        /// Work of a request without a body, in bytes of body that cost as much.
        var request = 4 << 10
        /// Work that a line may do before the next one's turn.
        var quantum = 64 << 10
        /// Work of a loop's turn: some 2 ms. Where all that waits is of one share, and has been for a while,
        /// there is more of it: what is done in one turn goes into one commit.
        var turn = 1 << 20
        var turnAlone = 4 << 20
        /// Nanoseconds for which a share is not alone after another's work was there too.
        var alone: UInt64 = 1_000_000_000
        /// Work that waits in one line, past which those who add to it are asked to wait themselves; past the
        /// second bound nothing is added.
        var full = 8 << 20
        var lineMax = 64 << 20
        /// Work that waits in all lines, past which nothing is added to one that has a quantum; past the
        /// second bound nothing is added at all. So the lines that fill the first leave room for all others.
        var longMax = 96 << 20
        var allMax = 128 << 20
        /// Nanoseconds that a line owes for each refusal, and once more for so many bytes of its body, which
        /// were read: 5,000 a second of short ones, 1,000 of the longest.
        var refusal: UInt64 = 200_000
        var refusalBytes = 16 << 10
        /// Nanoseconds that a line may owe without being held.
        var debt: UInt64 = 20_000_000
        /// Nanoseconds for which a request may wait for its turn; past it nobody listens any more.
        var wait: UInt64 = 5_000_000_000
        init() {}
    }

    /// What became of a request that was to wait.
    enum Added { case waits, waitsAndIsFull, refused }

    /// A request that waited, and for how many turns; `nil` where its line was held for what it owes.
    struct Served {
        var item: Item
        var turns: UInt64?
        /// When it came, in nanoseconds.
        var since: UInt64
    }

    final class Line {
        let share: UInt64
        var waiting = CircularBuffer<(item: Item, cost: Int, turn: UInt64, since: UInt64)>()
        /// Work that waits.
        var work = 0
        /// Work that it may do before the next line's turn.
        var deficit = 0
        /// It was given its quantum, and the next line's turn has not come.
        var isVisited = false
        /// Until when it owes for refusals, in nanoseconds.
        var owesUntil: UInt64 = 0
        var isHeld = false
        /// It was held, and has owed something ever since.
        var isPaced = false
        init(_ share: UInt64) { self.share = share }
    }

    let bounds: Bounds
    /// Those in which something waits, and those that owe.
    var lines: [UInt64: Line] = [:]
    /// Those in which something waits and that are not held, in the order of their turns.
    var ring = CircularBuffer<Line>()
    private(set) var held: [Line] = []
    /// Requests that wait, and their work.
    private(set) var count = 0
    private(set) var work = 0
    /// Work of this turn.
    private(set) var spent = 0
    /// Until when there are several shares.
    private var sharedUntil: UInt64 = 0
    private var turnMax: Int
    /// Turns that have begun.
    private(set) var turn: UInt64 = 0
    /// Turns whose bound was reached, lines that were held, requests that were not added: since ever.
    private(set) var turnsCut = 0
    private(set) var holds = 0
    private(set) var refused = 0
    var laws = LawWatch()

    init(_ bounds: Bounds = Bounds()) {
        self.bounds = bounds
        turnMax = bounds.turnAlone
    }

    /// The work of a request whose body has so many bytes.
    func cost(bodyBytes: Int) -> Int { bounds.request + bodyBytes }

    /// Whether a request need not wait: nobody does, nobody is held, and the turn has room.
    mutating func takesAtOnce(_ cost: Int) -> Bool {
        guard count == 0, held.isEmpty, spent < turnMax else { return false }
        spent += cost
        return true
    }

    /// All sockets that had something were read. What is handled at once next belongs to another turn.
    mutating func endReading() { if count == 0 { spent = 0 } }

    /// `now`: nanoseconds of a monotonic clock, here and below.
    mutating func add(_ item: Item, of share: UInt64, cost: Int, now: UInt64) -> Added {
        defer { checkInvariants() }
        let waiting = lines[share]?.work ?? 0
        let isShort = waiting == 0 || waiting + cost <= bounds.quantum
        guard waiting + cost <= bounds.lineMax, work + cost <= (isShort ? bounds.allMax : bounds.longMax)
        else {
            refused += 1
            return .refused
        }
        let line = line(share)
        if count > line.waiting.count { (sharedUntil, turnMax) = (now + bounds.alone, bounds.turn) }
        if line.waiting.isEmpty, !line.isHeld { ring.append(line) }
        line.waiting.append((item, cost, turn, now))
        line.work += cost
        count += 1
        work += cost
        return line.work > bounds.full ? .waitsAndIsFull : .waits
    }

    /// Whether so little of a share waits that those who were asked to wait may go on.
    func hasRoom(_ share: UInt64) -> Bool { (lines[share]?.work ?? 0) <= bounds.full / 2 }

    /// The next turn begins; lines whose time is over are no longer held.
    mutating func beginTurn(now: UInt64) {
        defer { checkInvariants() }
        turn += 1
        spent = 0
        if now >= sharedUntil, ring.count <= 1 { turnMax = bounds.turnAlone }
        guard !held.isEmpty else { return }
        let due = held.filter { $0.owesUntil <= now + bounds.debt / 2 }
        guard !due.isEmpty else { return }
        held.removeAll { line in due.contains { $0 === line } }
        for line in due {
            line.isHeld = false
            if line.waiting.isEmpty { leave(line, now: now) } else { ring.append(line) }
        }
        forgetDebts(now: now)
    }

    /// What is to be begun next; `nil` where the turn is over, or nobody's time has come.
    mutating func next(now: UInt64) -> Served? {
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
            return take(from: line, now: now)
        }
        return nil
    }

    private mutating func take(from line: Line, now: UInt64) -> Served {
        let (item, cost, began, since) = line.waiting.removeFirst()
        line.deficit -= cost
        line.work -= cost
        count -= 1
        work -= cost
        spent += cost
        if line.isPaced, line.owesUntil <= now { line.isPaced = false }
        if line.waiting.isEmpty {
            ring.removeFirst()
            leave(line, now: now)
        }
        return Served(item: item, turns: line.isPaced ? nil : turn - began, since: since)
    }

    /// A line in which nothing waits keeps what it owes, and nothing of what it might have done.
    private mutating func leave(_ line: Line, now: UInt64) {
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

    /// A request of the share, whose body had so many bytes, was refused for its quota.
    mutating func noteRefused(_ share: UInt64, bodyBytes: Int = 0, now: UInt64) {
        defer { checkInvariants() }
        let line = line(share)
        let more = bounds.refusal * UInt64(max(0, bodyBytes)) / UInt64(bounds.refusalBytes)
        line.owesUntil = max(line.owesUntil, now) + bounds.refusal + more
        guard !line.isHeld, line.owesUntil - now > bounds.debt else { return }
        line.isHeld = true
        line.isPaced = true
        line.deficit = 0
        line.isVisited = false
        held.append(line)
        holds += 1
        if let place = ring.firstIndex(where: { $0 === line }) { ring.remove(at: place) }
    }

    private mutating func forgetDebts(now: UInt64) {
        lines = lines.filter { !$0.value.waiting.isEmpty || $0.value.isHeld || $0.value.owesUntil > now }
    }

    /// Whether something waits whose time has come.
    var isReady: Bool { !ring.isEmpty }

    /// When the first line in which something waits is no longer held.
    var heldUntil: UInt64? {
        held.lazy.filter { !$0.waiting.isEmpty }.map(\.owesUntil).min().map { $0 &- bounds.debt / 2 }
    }
}
