import Model

/// Until when an owner may begin to carry out a request.
///
/// A gateway answers an operation that got no answer in time as unavailable, and its client may then ask for
/// the opposite: from then on no owner may begin the first operation (rule: unknown-is-an-outcome). So the
/// deadline goes with the request, and the owner looks at it before anything else. The records that the owner
/// then makes are with the engine, which may take its time.
///
/// Clocks of two machines are not compared. A request says how much of its time was left when it was written.
/// Its reader knows a moment on its own clock that was certainly before that: when it sent the last ping that
/// was answered in front of the request. From that moment on the reader counts. A request that has lain in a
/// socket, or in a process that slept, has that much less time left, however long it lay. The reader drops a
/// request without time left unread. That is the same as a loss on the way: the gateway asks again, or
/// answers (rule: deadlines-travel).
public struct Deadline: Hashable, Comparable, Sendable {
    public let time: MonotonicTime
    public init(_ time: MonotonicTime) { self.time = time }

    /// The deadline of a message that had `left` milliseconds and was handed over after `moment`.
    public init(left: UInt32, after moment: MonotonicTime) {
        time = moment.advanced(by: .milliseconds(UInt64(left)))
    }

    /// The time that may pass between writing a message and handing it over to a connection. A process
    /// must not hand over a message that took longer.
    public static let handoverMax: TimeSpan = .seconds(1)

    /// Whole milliseconds that are left after `handoverMax`, as a message carries them.
    public func left(now: MonotonicTime) -> UInt32 {
        UInt32(clamping: time.since(now.advanced(by: Deadline.handoverMax)).milliseconds)
    }

    public func isPast(now: MonotonicTime) -> Bool { now >= time }

    public static func < (left: Deadline, right: Deadline) -> Bool { left.time < right.time }
}
