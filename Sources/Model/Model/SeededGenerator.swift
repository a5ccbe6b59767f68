/// A generator whose numbers follow from its seed: SplitMix64 (Steele, Lea and Flood, 2014). For
/// simulations, ids and jitter; never for secrets.
public struct SeededGenerator: RandomNumberGenerator, Sendable {
    private var state: UInt64
    public init(seed: UInt64) { state = seed }

    public mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        return SeededGenerator.mixed(state)
    }

    /// The finalizer of SplitMix64: another value for each value, with all bits changed alike.
    @inlinable
    public static func mixed(_ value: UInt64) -> UInt64 {
        var mixed = (value ^ value >> 30) &* 0xBF58_476D_1CE4_E5B9
        mixed = (mixed ^ mixed >> 27) &* 0x94D0_49BB_1331_11EB
        return mixed ^ mixed >> 31
    }
}
