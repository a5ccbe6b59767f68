import Model

/// Random choices that follow from a seed.
struct Dice {
    private var generator: SeededGenerator
    init(_ seed: UInt64) { generator = SeededGenerator(seed: seed &* 0x2545_F491_4F6C_DD1D) }

    mutating func below(_ bound: Int) -> Int { Int.random(in: 0..<bound, using: &generator) }
    mutating func chance(_ one: Int, in many: Int) -> Bool { below(many) < one }
    mutating func one<T>(of values: [T]) -> T { values[below(values.count)] }
    mutating func shuffle<T>(_ values: inout [T]) { values.shuffle(using: &generator) }
    mutating func byte() -> UInt8 { UInt8.random(in: 0...255, using: &generator) }

    /// At most `count` distinct numbers below `bound`, ascending.
    mutating func indices(_ count: Int, below bound: Int) -> [UInt32] {
        var found: Set<UInt32> = []
        for _ in 0..<count { found.insert(UInt32(below(bound))) }
        return found.sorted()
    }
}
