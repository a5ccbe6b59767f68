/// When the next try is due: pauses double up to a bound, and each pause is drawn at random below its bound
/// (full jitter), so that devices that lost one server do not come back together.
struct Backoff: Equatable, Sendable {
    private(set) var failures = 0
    private(set) var notBefore = Duration.zero
    /// The end of the pause for which the server asked. Nothing shortens that pause.
    private var held = Duration.zero

    /// The bound of the first pause.
    static let first = Duration.seconds(1)
    /// The bound of all pauses of calls.
    static let longest = Duration.seconds(900)
    /// The shortest pause: a server that refuses immediately is not asked in a loop.
    static let shortest = Duration.milliseconds(100)

    /// `retryAfter` is the server's own pause, which is kept, up to an hour.
    mutating func fail(
        now: Duration, longest: Duration = Backoff.longest, retryAfter: Duration? = nil,
        random: inout SplitMix
    ) {
        let bound = min(longest, Backoff.first * (1 << min(failures, 20)))
        failures += 1
        let drawn = Backoff.shortest + bound * random.fraction()
        held = now + min(retryAfter ?? .zero, .seconds(3600))
        notBefore = max(now + drawn, held)
    }

    /// The server has asked for this pause.
    mutating func hold(until time: Duration) {
        held = time
        notBefore = time
    }
    mutating func succeed() { self = Backoff() }
    /// The next try is due immediately: the network came back, or the app did.
    mutating func wake() { notBefore = held }
}

/// Steele, Lea and Flood, "Fast splittable pseudorandom number generators" (2014).
struct SplitMix: RandomNumberGenerator, Equatable, Sendable {
    private var state: UInt64
    init(seed: UInt64) { state = seed }

    mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var mixed = (state ^ (state >> 30)) &* 0xBF58_476D_1CE4_E5B9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
        return mixed ^ (mixed >> 31)
    }

    /// From 0 up to 1, without 1.
    mutating func fraction() -> Double { Double(next() >> 11) * 0x1p-53 }
}
