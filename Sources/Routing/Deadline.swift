import Model

/// Until when a request may be carried out.
///
/// A gateway answers an operation that was not answered in time as unavailable, and whoever asked may then
/// ask for the opposite: from then on nothing of the first may take effect (rule: unknown-is-an-outcome). So
/// the deadline goes with the request, and whoever is asked looks at it before anything else. What it then
/// does is with the engine, which may take its time.
///
/// Clocks of two machines are not compared. A request says how much of its time was left when it was written;
/// its reader knows a moment that was certainly before that, on its own clock: when it last asked for a sign
/// of life that was answered in front of the request. From that moment on it counts. What has lain in a
/// socket, or in a process that slept, is by so much nearer to its end, however long that was, and is dropped
/// unread when it is past it. That is the same as being lost on the way: its gateway asks again, or answers.
public struct Deadline: Hashable, Comparable, Sendable {
    public let time: MonotonicTime
    public init(_ time: MonotonicTime) { self.time = time }

    /// As a message says it that was handed over after `moment`.
    public init(left: UInt32, after moment: MonotonicTime) {
        time = moment.advanced(by: .milliseconds(UInt64(left)))
    }

    /// Nanoseconds that may pass between the writing of a message and its handing over to a connection. What
    /// took longer must not be handed over any more.
    public static let handoverMax: UInt64 = .seconds(1)

    /// Whole milliseconds that are left, as a message says it.
    public func left(now: MonotonicTime) -> UInt32 {
        UInt32(clamping: time.since(now.advanced(by: Deadline.handoverMax)) / 1_000_000)
    }

    public func isPast(now: MonotonicTime) -> Bool { now >= time }

    public static func < (left: Deadline, right: Deadline) -> Bool { left.time < right.time }
}
