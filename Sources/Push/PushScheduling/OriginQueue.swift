import DequeModule
import Model

/// Requests that wait for their turn. Projects take turns, and so do the origins of a project; within an
/// origin of a project requests keep their order.
///
/// An origin that has not yet answered gets one request at a time. So a dead origin fills one slot instead of
/// all its slots. After the first answer the origin gets `perOriginMax`. The queue remembers an answer for a
/// while after the origin's last request.
///
/// A project has fewer requests under way than slots are free, and an origin of the project has fewer than
/// that leaves to the project. So services that answer slowly leave slots to the project's other services,
/// and always some to other projects (dynamic thresholds: Choudhury and Hahne, "Dynamic queue length
/// thresholds for shared-memory packet switches", 1998).
///
/// A machine: the caller gives the time.
public struct OriginQueue<Request> {
    /// The requests of one project to one origin. An object, so that taking a request out copies no line.
    private final class Line {
        let key: Key
        var waiting = Deque<(request: Request, since: MonotonicTime)>()
        var running = 0
        /// Whether the line is in its project's turns.
        var isInTurns = false
        init(_ key: Key) { self.key = key }
    }
    private final class Share {
        var turns = Deque<Line>()
        var running = 0
        var lines = 0
        /// Whether the project is in `turns`.
        var isInTurns = false
    }
    private final class Origin {
        var running = 0
        var lines = 0
        /// When the origin last answered; `nil` if it has never answered, or failed since.
        var answeredAt: MonotonicTime?
        init(answeredAt: MonotonicTime?) { self.answeredAt = answeredAt }
    }
    /// Names the line that a request came from.
    public struct Key: Hashable, Comparable, Sendable {
        public var share: UInt64
        public var origin: String
        public init(share: UInt64, origin: String) {
            self.share = share
            self.origin = origin
        }
        public static func < (left: Key, right: Key) -> Bool {
            (left.share, left.origin) < (right.share, right.origin)
        }
    }

    /// Lines that `next` looks at. A line that may not leave has a request under way, or shares its origin
    /// with a line that has. So there are no more of them than slots, unless many projects use one origin.
    private static var looksMax: Int { 64 }

    public let allMax: Int
    public let perOriginMax: Int
    public let waitingMax: Int
    /// How long a request may wait.
    public let waitMax: TimeSpan
    /// When origins without requests last answered, for as many origins.
    private var answered: [String: MonotonicTime] = [:]
    private static var answeredMax: Int { 1024 }
    private static var answeredFor: TimeSpan { .seconds(60) }
    private var late: [Request] = []
    private var lines: [Key: Line] = [:]
    private var shares: [UInt64: Share] = [:]
    private var origins: [String: Origin] = [:]
    private var turns = Deque<UInt64>()
    public private(set) var running = 0
    public private(set) var waiting = 0
    /// Whether `next` may find something: there are lines that were not looked at since the last change.
    public private(set) var isReady = false
    /// Looks since the last change that found nothing.
    private var fruitless = 0
    #if DEBUG
        public var planted: PlantedInScheduling = []
    #endif

    public init(allMax: Int, perOriginMax: Int, waitingMax: Int, waitMax: TimeSpan) {
        self.allMax = allMax
        self.perOriginMax = perOriginMax
        self.waitingMax = waitingMax
        self.waitMax = waitMax
    }

    /// False if too many requests wait; then the request is not taken.
    public mutating func add(
        _ request: Request, of share: UInt64, to origin: String, now: MonotonicTime
    ) -> Bool {
        guard waiting < waitingMax else { return false }
        waiting += 1
        let line = line(Key(share: share, origin: origin), now)
        line.waiting.append((request, now))
        plan(line)
        return true
    }

    private mutating func line(_ key: Key, _ now: MonotonicTime) -> Line {
        if let known = lines[key] { return known }
        let line = Line(key)
        lines[key] = line
        let share = shares[key.share] ?? Share()
        share.lines += 1
        shares[key.share] = share
        let origin = origins[key.origin] ?? Origin(answeredAt: remembered(key.origin, now))
        origin.lines += 1
        origins[key.origin] = origin
        return line
    }

    /// The next request that may leave. `nil` does not cover requests behind the lines that were looked at:
    /// the next call goes on with these.
    public mutating func next(now: MonotonicTime) -> (request: Request, key: Key)? {
        var looks = 0
        var passed = 0
        let count = turns.count
        while passed < count, running < allMax, looks < Self.looksMax, let number = turns.popFirst() {
            passed += 1
            guard let share = shares[number] else { continue }
            let found = next(of: share, now, &looks)
            share.isInTurns = !share.turns.isEmpty
            if share.isInTurns { giveTurn(to: number, hasSent: found != nil) }
            if let found {
                fruitless = 0
                return found
            }
        }
        fruitless += looks
        isReady = looks >= Self.looksMax && fruitless < 2 * (lines.count + shares.count)
        return nil
    }

    private mutating func giveTurn(to share: UInt64, hasSent: Bool) {
        #if DEBUG
            if hasSent, planted.contains(.keepTurns) {
                var others = turns
                turns = Deque()
                turns.append(share)
                while let other = others.popFirst() { turns.append(other) }
                return
            }
        #endif
        turns.append(share)
    }

    private mutating func next(
        of share: Share, _ now: MonotonicTime, _ looks: inout Int
    ) -> (request: Request, key: Key)? {
        looks += 1
        let free = placesLeft(to: share)
        guard free > 0 else { return nil }
        for _ in 0..<share.turns.count {
            guard looks < Self.looksMax, let line = share.turns.popFirst() else { return nil }
            looks += 1
            dropLate(line, now)
            guard let origin = origins[line.key.origin], line.running < free,
                origin.running < bound(of: origin),
                let first = line.waiting.popFirst()
            else {
                if line.waiting.isEmpty { forget(line) } else { share.turns.append(line) }
                continue
            }
            line.running += 1
            share.running += 1
            origin.running += 1
            running += 1
            waiting -= 1
            line.isInTurns = false
            plan(line)
            return (first.request, line.key)
        }
        return nil
    }

    private mutating func forget(_ line: Line) {
        line.isInTurns = false
        plan(line)
    }

    /// Takes out the first requests of a line that have waited for too long: after a sleep of the process
    /// their turn comes before `expire`.
    private mutating func dropLate(_ line: Line, _ now: MonotonicTime) {
        let most = longestWait
        while let first = line.waiting.first, now.since(first.since) > most {
            _ = line.waiting.popFirst()
            waiting -= 1
            late.append(first.request)
        }
    }

    /// How many requests of the project, and of an origin of the project, may be under way.
    private func placesLeft(to share: Share) -> Int {
        #if DEBUG
            if planted.contains(.takeAllPlaces) { return allMax }
        #endif
        return allMax - running - share.running
    }

    private func bound(of origin: Origin) -> Int {
        #if DEBUG
            if planted.contains(.crowdOrigins) { return allMax }
        #endif
        return origin.answeredAt == nil ? 1 : perOriginMax
    }

    /// A request that `next` gave is done. `isAnswered`: whether the origin answered; `nil` if the request
    /// did not leave.
    public mutating func ended(_ key: Key, isAnswered: Bool?, now: MonotonicTime) {
        guard let line = lines[key], let share = shares[key.share], let origin = origins[key.origin] else {
            return
        }
        running -= 1
        line.running -= 1
        share.running -= 1
        origin.running -= 1
        if let isAnswered { origin.answeredAt = isAnswered ? now : nil }
        change()
        plan(line)
    }

    /// A line that could not send may send now.
    private mutating func change() {
        isReady = isReady || waiting > 0
        fruitless = 0
    }

    /// The origin has no requests any more.
    private mutating func remember(_ origin: String, _ time: MonotonicTime) {
        answered[origin] = time
        guard answered.count > Self.answeredMax else { return }
        answered = answered.filter { time.since($0.value) < Self.answeredFor }
        if answered.count > Self.answeredMax { answered = [origin: time] }
    }

    /// When an origin that has requests again last answered, if that is not long ago.
    private mutating func remembered(_ origin: String, _ now: MonotonicTime) -> MonotonicTime? {
        answered.removeValue(forKey: origin).flatMap { now.since($0) < Self.answeredFor ? $0 : nil }
    }

    /// Takes out the requests that have waited for too long.
    public mutating func expire(now: MonotonicTime) -> [Request] {
        let most = longestWait
        return takeLate() + dequeue { now.since($0.since) > most }
    }

    /// The requests that were too late when their turn came.
    public mutating func takeLate() -> [Request] {
        guard !late.isEmpty else { return [] }
        var taken: [Request] = []
        swap(&taken, &late)
        return taken
    }

    private var longestWait: TimeSpan {
        #if DEBUG
            if planted.contains(.waitForever) { return .max }
        #endif
        return waitMax
    }

    /// Takes out all requests that wait.
    public mutating func takeAll() -> [Request] { takeLate() + dequeue { _ in true } }

    private mutating func dequeue(
        while isTaken: ((request: Request, since: MonotonicTime)) -> Bool
    ) -> [Request] {
        var taken: [Request] = []
        // The order of a dictionary changes from run to run.
        for key in lines.keys.sorted() {
            guard let line = lines[key] else { continue }
            while let first = line.waiting.first, isTaken(first) {
                _ = line.waiting.popFirst()
                taken.append(first.request)
            }
        }
        guard !taken.isEmpty else { return [] }
        waiting -= taken.count
        // Lines that are empty now lose their turns. The other lines keep the order of theirs.
        for share in shares.values {
            var former = share.turns
            share.turns = Deque()
            while let line = former.popFirst() {
                line.isInTurns = false
                plan(line)
            }
        }
        // A project with nothing to send may be forgotten, and must not be in the turns when it comes again.
        var formerTurns = turns
        turns = Deque()
        while let number = formerTurns.popFirst() {
            guard let share = shares[number] else { continue }
            share.isInTurns = !share.turns.isEmpty
            if share.isInTurns { turns.append(number) }
        }
        return taken
    }

    /// Puts a line in turns that has something to send, and forgets a line without requests.
    private mutating func plan(_ line: Line) {
        guard let share = shares[line.key.share], !line.isInTurns else { return }
        if !line.waiting.isEmpty {
            line.isInTurns = true
            share.turns.append(line)
            change()
            guard !share.isInTurns else { return }
            share.isInTurns = true
            return turns.append(line.key.share)
        }
        guard line.running == 0 else { return }
        lines[line.key] = nil
        share.lines -= 1
        if share.lines == 0 { shares[line.key.share] = nil }
        guard let origin = origins[line.key.origin] else { return }
        origin.lines -= 1
        guard origin.lines == 0 else { return }
        origins[line.key.origin] = nil
        if let time = origin.answeredAt { remember(line.key.origin, time) }
    }
}
