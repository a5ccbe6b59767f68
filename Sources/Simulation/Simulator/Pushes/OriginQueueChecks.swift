import Model
import PushScheduling

/// What a client for push services promises about the requests that leave it
/// (rule: push-services-are-spared): bounds for all and for each origin, places for other projects, and
/// turns. Kept beside the queue, from what goes in and comes out.
struct OriginQueueChecks {
    typealias Key = OriginQueue<SimulatedRequest>.Key
    private struct Waiting {
        var id: UInt64
        var since: MonotonicTime
        /// How many requests had left before this one came.
        var departures: UInt64
    }
    private struct Origin {
        var running = 0
        /// When the origin last answered; `nil` if it has never answered, or failed since.
        var answeredAt: MonotonicTime?
    }

    private let bounds: PushClientBounds
    private var waiting: [Key: [Waiting]] = [:]
    private var running: [Key: Int] = [:]
    private var origins: [String: Origin] = [:]
    private var departures: UInt64 = 0
    /// The project whose request left last, and how many had left before it.
    private var last: (share: UInt64, departures: UInt64)?

    /// So long after its last answer an origin without requests still counts as one that answers.
    private static let answeredFor: TimeSpan = .seconds(60)

    init(_ bounds: PushClientBounds) { self.bounds = bounds }

    private func running(_ share: UInt64) -> Int {
        running.reduce(0) { $1.key.share == share ? $0 + $1.value : $0 }
    }
    private var runningInAll: Int { running.values.reduce(0, +) }

    mutating func added(_ request: SimulatedRequest, to key: Key, now: MonotonicTime) {
        let isIdle = !waiting.contains { $0.key.origin == key.origin && !$0.value.isEmpty }
        if isIdle, let origin = origins[key.origin], origin.running == 0, let answered = origin.answeredAt,
            now.since(answered) >= OriginQueueChecks.answeredFor
        {
            origins[key.origin]?.answeredAt = nil
        }
        waiting[key, default: []].append(
            Waiting(id: request.id, since: request.since, departures: departures))
    }

    /// The request leaves no more.
    mutating func expired(_ request: SimulatedRequest, _ key: Key) { _ = remove(request, key) }

    /// Takes a request out of its line, with the requests that waited before it.
    private mutating func remove(_ request: SimulatedRequest, _ key: Key) -> (Waiting, before: [Waiting])? {
        let place = waiting[key]?.firstIndex { $0.id == request.id }
        guard let place, let found = waiting[key]?.remove(at: place) else { return nil }
        return (found, Array(waiting[key]?[..<place] ?? []))
    }

    mutating func ended(_ key: Key, isAnswered: Bool?, now: MonotonicTime) {
        running[key] = running[key].flatMap { $0 > 1 ? $0 - 1 : nil }
        origins[key.origin]?.running -= 1
        if let isAnswered { origins[key.origin]?.answeredAt = isAnswered ? now : nil }
    }

    /// A request leaves. Returns the promises that this breaks.
    mutating func left(_ request: SimulatedRequest, to key: Key, now: MonotonicTime) -> [Violation] {
        var found: [Violation] = []
        func broken(_ guarantee: String, _ sentence: String) {
            found.append(Violation(guarantee, sentence))
        }
        if let last, last.share == key.share,
            let other = passedOver(since: last.departures, except: key.share, now)
        {
            broken("turns", "project \(key.share) has two turns, and project \(other) could have had one")
        }
        let (all, own) = (runningInAll, running(key.share))
        if all + own >= bounds.allMax {
            broken(
                "turns", "project \(key.share) has \(own) requests under way of \(all), and takes another")
        }
        let origin = origins[key.origin] ?? Origin()
        if all >= bounds.allMax || origin.running >= most(origin) {
            broken("places", "\(key.origin) has \(origin.running) requests of \(all), and gets another")
        }
        if let (own, before) = remove(request, key) {
            let waited = now.since(own.since).milliseconds
            if isLate(own, now) { broken("places", "a request to \(key.origin) leaves after \(waited) ms") }
            if before.contains(where: { !isLate($0, now) }) {
                broken("turns", "a request to \(key.origin) leaves before one that came earlier")
            }
        }
        last = (key.share, departures)
        departures += 1
        running[key, default: 0] += 1
        origins[key.origin, default: Origin()].running += 1
        return found
    }

    private func isLate(_ request: Waiting, _ now: MonotonicTime) -> Bool {
        now.since(request.since) > bounds.waitMax
    }

    /// How many requests the origin may have under way. One that has not answered gets one at a time.
    private func most(_ origin: Origin) -> Int { origin.answeredAt == nil ? 1 : bounds.perOriginMax }

    /// A project that has waited since before the departure of this number, and may send now.
    private func passedOver(since number: UInt64, except share: UInt64, _ now: MonotonicTime) -> UInt64? {
        let all = runningInAll
        for (key, line) in waiting.sorted(by: { $0.key < $1.key }) where key.share != share {
            guard let first = line.first(where: { !isLate($0, now) }), first.departures <= number else {
                continue
            }
            let free = bounds.allMax - all - running(key.share)
            let origin = origins[key.origin] ?? Origin()
            if free > 0, running[key] ?? 0 < free, origin.running < most(origin) { return key.share }
        }
        return nil
    }
}
