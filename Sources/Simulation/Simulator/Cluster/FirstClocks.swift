import Model
import Partitions

/// What the rule wall-time-is-a-witness permits to lone nodes whose machines start with wrong clocks. Kept
/// beside the core, from the readings alone.
struct FirstClocks {
    private static let day: Int64 = 86_400_000
    private static let aheadMax = 7 * day
    private static let behindMax = day

    /// The witness that the next process must find; `nil` if a start that failed may have written another.
    private var expected: Int64??
    /// By how many milliseconds the believed time may be ahead of the world's: at least, and at most.
    private(set) var believed: ClosedRange<Int64> = 0...0
    private var hasStarted = false

    init() { expected = .some(nil) }

    /// By how much the believed time can have gone on too far between two processes.
    var apart: TimeSpan { .milliseconds(UInt64(believed.upperBound - believed.lowerBound)) }

    /// A start failed, maybe after it had stored its time.
    mutating func failed() { expected = nil }

    /// A process starts with this reading, which is `error` ahead of the world, and has found the witness.
    /// Returns whether the witness contradicts the reading, and what is wrong with the witness.
    mutating func starts(
        _ reading: WallTime, ahead error: Int64, found: WallTime?
    ) -> (isUnconfirmed: Bool, mistake: String?) {
        var mistake: String?
        if let expected, expected != found?.milliseconds {
            mistake = "a start finds \(found.map { "\($0.milliseconds)" } ?? "no time") of the last run, and "
            mistake? += "\(expected.map { "\($0)" } ?? "no time") was the last that one believed"
        }
        let ahead = found.map { reading.milliseconds - $0.milliseconds } ?? 0
        let isNear = ahead <= FirstClocks.aheadMax && ahead >= -FirstClocks.behindMax
        expected = .some(isNear ? reading.milliseconds : found?.milliseconds)
        if hasStarted { mayBelieve(error) } else { believed = error...error }
        hasStarted = true
        return (!isNear, mistake)
    }

    /// A clock that is so far ahead of the world may be believed if it is near a time that may be believed.
    mutating func mayBelieve(_ error: Int64) {
        guard error <= believed.upperBound + FirstClocks.aheadMax,
            error >= believed.lowerBound - FirstClocks.behindMax
        else { return }
        believed = min(believed.lowerBound, error)...max(believed.upperBound, error)
    }
}

extension ClusterSimulation {
    /// Times to live of messages that must outlive a run. A start may believe a clock that is days ahead.
    var longTime: UInt32 { options.isLone && options.wrongStartsPerMille > 0 ? 28 * 86_400 : 86_400 }

    /// Whether the rules may have ended messages that live for `longTime`.
    var mayEndLong: Bool { firstClocks.apart + .seconds(7200) >= .seconds(UInt64(longTime)) }

    /// By how much the times differ that two owners believe.
    var believedApart: TimeSpan {
        min(worstClock, 2 * TrustedClock.leapMax) + (options.isLone ? firstClocks.apart : .zero)
    }

    /// A lone process starts.
    func notesFirst(_ reading: WallTime, of process: SimulatedProcess, found: WallTime?) {
        let error = slots[process.index].clock.error(now)
        let (isUnconfirmed, mistake) = firstClocks.starts(reading, ahead: error, found: found)
        if let mistake { violate("clocks", mistake) }
        guard isUnconfirmed else { return }
        count("starts with unconfirmed clocks")
        process.unconfirmedAt = error
    }

    /// While the witness contradicts a process's clock, and the clock goes on as at the start, nothing ends
    /// (rule: wall-time-is-a-witness). A device that registers an address ends what is over by the believed
    /// time, which goes on from the witness. In runs with addresses only messages that are lost show the
    /// wrong clock.
    func expired(_ count: Int, in process: SimulatedProcess) {
        guard count > 0, options.pushedPerMille == 0, let first = process.unconfirmedAt else { return }
        let moved = slots[process.index].clock.error(now) - first
        guard moved.magnitude < 3_600_000 else { return }
        violate("clocks", "\(count) messages end by a clock that the last run contradicts")
    }
}
