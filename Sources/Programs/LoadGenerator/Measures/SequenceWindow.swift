/// The consecutive numbers of a stream: notices a number that comes twice, out of order or not at all.
///
/// Everything below `next` has come. A bit for each of the 64 numbers from `next` on says whether it has
/// come. If a number is further ahead, the missing numbers before it count as lost, because no sender here
/// has so many messages of one stream under way.
public struct SequenceWindow {
    public enum Verdict: Equatable, Sendable {
        case inOrder
        /// New, but an earlier number has not come yet.
        case early
        /// New, but a later number came before it.
        case late
        case duplicate
        /// Further ahead than the window: the numbers in between are given up.
        case jump
    }

    public private(set) var next: Int
    private var ahead: UInt64 = 0
    /// Numbers that were given up.
    public private(set) var lost = 0

    public init(from first: Int) { next = first }

    public mutating func note(_ number: Int) -> Verdict {
        if number == next, ahead == 0 {
            next += 1
            return .inOrder
        }
        let offset = number - next
        guard offset >= 0 else { return .duplicate }
        guard offset < 64 else {
            lost += offset - ahead.nonzeroBitCount
            next = number + 1
            ahead = 0
            return .jump
        }
        let bit = UInt64(1) << UInt64(offset)
        guard ahead & bit == 0 else { return .duplicate }
        let isLate = ahead >> UInt64(offset) != 0
        ahead |= bit
        let run = (~ahead).trailingZeroBitCount
        next += run
        ahead = run == 64 ? 0 : ahead >> UInt64(run)
        return isLate ? .late : offset == 0 ? .inOrder : .early
    }

    /// How many of the numbers below `end` have not come.
    public func missing(below end: Int) -> Int {
        guard end > next else { return lost }
        let span = end - next
        let seen = span >= 64 ? ahead : ahead & ((1 << UInt64(span)) - 1)
        return lost + span - seen.nonzeroBitCount
    }
}
