import Model

/// A suspicion, which ends the sooner the more nodes share it (Lifeguard §IV-B).
struct Suspicion: Sendable {
    let incarnation: UInt32
    /// The nodes that suspect the member. The first is the one that suspected it first.
    var confirmations: [SessionID]
    private var since: MonotonicTime
    /// How many nodes beyond the first accuser count.
    private let confirmationsMax: Int

    init(
        incarnation: UInt32, by accuser: SessionID, since: MonotonicTime, members: Int,
        options: Membership.Options
    ) {
        self.incarnation = incarnation
        confirmations = [accuser]
        self.since = since
        confirmationsMax = min(options.confirmations, max(0, members - 2))
    }

    /// Notes another accuser. `true` if the accuser is new and counts, so that others should learn of it.
    mutating func confirm(by accuser: SessionID) -> Bool {
        guard confirmations.count <= confirmationsMax, !confirmations.contains(accuser) else { return false }
        confirmations.append(accuser)
        return true
    }

    mutating func prolong(by length: TimeSpan) { since = since.advanced(by: length) }

    func deadline(_ options: Membership.Options) -> MonotonicTime {
        since.advanced(
            by: Suspicion.length(confirmations: confirmations.count - 1, of: confirmationsMax, options))
    }

    /// max − (max − min) · log(c + 1) / log(k + 1), in whole numbers; c is `confirmations`, k is `most`.
    static func length(confirmations: Int, of most: Int, _ options: Membership.Options) -> TimeSpan {
        guard confirmations < most else { return options.suspicionMin }
        let span = options.suspicionMax - min(options.suspicionMin, options.suspicionMax)
        return options.suspicionMax - span * binaryLogarithm(confirmations + 1) / binaryLogarithm(most + 1)
    }

    /// The binary logarithm in units of 1/1024, exact to one unit.
    static func binaryLogarithm(_ number: Int) -> UInt64 {
        guard number > 1 else { return 0 }
        let whole = Int.bitWidth - 1 - number.leadingZeroBitCount
        // The mantissa in 1/2^31, squared ten times. Each square that reaches 2 gives one more binary digit.
        var mantissa = (UInt64(number) << 31) >> UInt64(whole)
        var digits: UInt64 = 0
        for _ in 0..<10 {
            mantissa = (mantissa * mantissa) >> 31
            digits <<= 1
            if mantissa >= 2 << 31 {
                mantissa >>= 1
                digits |= 1
            }
        }
        return UInt64(whole) << 10 | digits
    }
}
