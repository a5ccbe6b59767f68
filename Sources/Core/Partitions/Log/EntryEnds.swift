import Model

/// When a waiting message ends: on streams, and at each push service.
///
/// Almost all messages end everywhere at the same time, and pay for one time only.
enum EntryEnds: Hashable, Sendable {
    case one(Milliseconds)
    case several(Several)

    static func same(_ end: WallTime) -> EntryEnds { .one(Milliseconds(end)) }

    /// A time in 48 bits, some 4,000 years around 1970, so that the ends have no more bytes than one time.
    struct Milliseconds: Hashable, Sendable {
        private var low: UInt32
        private var high: Int16

        init(_ time: WallTime) {
            let bound: Int64 = 1 << 47
            let value = min(max(time.milliseconds, -bound), bound - 1)
            low = UInt32(truncatingIfNeeded: value)
            high = Int16(truncatingIfNeeded: value >> 32)
        }
        var time: WallTime { WallTime(milliseconds: Int64(high) << 32 | Int64(low)) }
    }

    /// Four ends, of which some differ. A way on which nothing waits has the end `never`.
    final class Several: Hashable, Sendable {
        let stream: WallTime
        let web: WallTime
        let apns: WallTime
        let fcm: WallTime
        /// In whose minute the log looks at the entry next.
        let next: WallTime

        init(stream: WallTime, web: WallTime, apns: WallTime, fcm: WallTime, next: WallTime) {
            self.stream = stream
            self.web = web
            self.apns = apns
            self.fcm = fcm
            self.next = next
        }

        var earliest: WallTime { min(min(stream, web), min(apns, fcm)) }

        static func == (left: Several, right: Several) -> Bool {
            left.stream == right.stream && left.web == right.web && left.apns == right.apns
                && left.fcm == right.fcm
        }
        func hash(into hasher: inout Hasher) {
            hasher.combine(stream)
            hasher.combine(web)
        }
    }

    /// The end of a way on which the message does not wait: a time to live of 0.
    static let never = WallTime(milliseconds: 0)

    /// The ends of a message that came to the log at `position`.
    ///
    /// - Parameter kinds: the push services of which some target has an address. At another service nothing
    ///   waits yet, and the message ends there with the streams, or before.
    init(of message: Envelope, at position: Position, for kinds: Transport.Kinds) {
        func end(_ seconds: UInt32) -> WallTime { seconds == 0 ? EntryEnds.never : message.end(seconds) }
        let stream = end(message.times.stream)
        guard !message.times.areSame else {
            self = .same(stream)
            return
        }
        func end(_ kind: Transport.Kind) -> WallTime {
            kinds.contains(kind) ? end(message.times[kind]) : min(end(message.times[kind]), stream)
        }
        self.init(stream: stream, web: end(.web), apns: end(.apns), fcm: end(.fcm), at: position)
    }

    init(stream: WallTime, web: WallTime, apns: WallTime, fcm: WallTime, at position: Position) {
        guard web != stream || apns != stream || fcm != stream else {
            self = .same(stream)
            return
        }
        let all = Several(stream: stream, web: web, apns: apns, fcm: fcm, next: stream)
        self = .several(all).lookedAt(EntryEnds.first(all, at: position))
    }

    /// A message that is over on some way when it comes is looked at when its own minute is over.
    static func first(_ ends: Several, at position: Position) -> WallTime {
        max(ends.earliest, WallTime(milliseconds: Int64(clamping: position.rawValue / 1000)))
    }

    func lookedAt(_ next: WallTime) -> EntryEnds {
        guard case .several(let ends) = self else { return self }
        return .several(
            Several(stream: ends.stream, web: ends.web, apns: ends.apns, fcm: ends.fcm, next: next))
    }

    var areSame: Bool {
        if case .one = self { true } else { false }
    }

    var stream: WallTime {
        switch self {
        case .one(let end): end.time
        case .several(let ends): ends.stream
        }
    }

    subscript(kind: Transport.Kind) -> WallTime {
        switch self {
        case .one(let end): end.time
        case .several(let ends):
            switch kind {
            case .web: ends.web
            case .apns: ends.apns
            case .fcm: ends.fcm
            }
        }
    }

    /// When the message ends for a device with addresses of these kinds: its last way counts, and its stream
    /// shows the message as long.
    func last(_ kinds: Transport.Kinds) -> WallTime {
        guard case .several = self, !kinds.isEmpty else { return stream }
        return Transport.Kind.allCases.reduce(stream) { kinds.contains($1) ? max($0, self[$1]) : $0 }
    }

    /// In whose minute the log looks at the entry next.
    var next: WallTime {
        switch self {
        case .one(let end): end.time
        case .several(let ends): ends.next
        }
    }

    /// The earliest end whose minute is not over at `minute`; `nil` if there is none.
    func nextEnd(from minute: Int64) -> WallTime? {
        let ends = [stream] + Transport.Kind.allCases.map { self[$0] }
        return ends.filter { $0.milliseconds / 60_000 >= minute }.min()
    }
}
