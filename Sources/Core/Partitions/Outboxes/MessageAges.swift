import Model

// A message's age goes from clock to clock. No partition compares a time of another machine's clock with its
// own clock (rule: ages-travel).

extension OutboxFrame {
    /// How much of a frame's way to another process counts as nothing. The receiver knows only that the way
    /// began after its last answered ping, seconds ago, and no message must end by what nobody knows.
    public static let wayUncounted: TimeSpan = .seconds(5)

    /// The frame with its messages dated by the receiver's clocks: as old as the sender's clock had them, and
    /// older by what counts of the frame's way.
    func dated(_ now: Instant) -> OutboxFrame {
        let way = underWaySince.map { now.monotonic.since($0) } ?? .zero
        let counted = MessageAge(milliseconds: Int64(clamping: way.milliseconds))
        var dated = self
        for index in dated.entries.indices {
            dated.entries[index].date { sent in
                (MessageAge(of: sent, by: clock) + counted).sent(now.wall)
            }
        }
        (dated.clock, dated.underWaySince) = (now.wall, nil)
        return dated
    }
}

extension PartitionEvent {
    /// The event as it came from another process that sent it after this moment.
    public func sent(after moment: MonotonicTime) -> PartitionEvent {
        guard case .offered(var frame) = self else { return self }
        frame.underWaySince = moment.advanced(by: OutboxFrame.wayUncounted)
        return .offered(frame)
    }
}

/// How long ago a message was accepted: never less than nothing, and never more than `max`.
struct MessageAge: Hashable {
    /// Longer than any time to live.
    static let max: Int64 = 1 << 40
    let milliseconds: Int64

    init(milliseconds: Int64) { self.milliseconds = Swift.min(Swift.max(0, milliseconds), MessageAge.max) }

    /// Another process may say any time.
    init(of sent: WallTime, by clock: WallTime) {
        let (age, overflow) = clock.milliseconds.subtractingReportingOverflow(sent.milliseconds)
        self.init(milliseconds: overflow ? (clock > sent ? .max : 0) : age)
    }

    static func + (left: MessageAge, right: MessageAge) -> MessageAge {
        MessageAge(milliseconds: left.milliseconds + right.milliseconds)
    }

    /// When a message of this age was accepted, by a clock that shows `now`.
    func sent(_ now: WallTime) -> WallTime { WallTime(milliseconds: now.milliseconds - milliseconds) }
}

extension Partition {
    /// Reports messages that nobody gets on a stream, because they came after their end.
    func tellLate(_ decisions: [DeliveryDecision], _ turn: inout Turn) {
        let late = decisions.count { $0.disposition == .late }
        if late > 0 { turn.effects.append(.notice(.cameLate(late))) }
    }
}
