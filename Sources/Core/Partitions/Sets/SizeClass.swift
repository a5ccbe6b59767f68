/// The allocator's size classes (jemalloc: 8, then steps of 16 up to 128, then four steps for each doubling).
/// A block that grows asks for the size that it would occupy anyway.
enum SizeClass {
    static func bytes(atLeast wanted: Int) -> Int {
        if wanted <= 8 { return 8 }
        if wanted <= 128 { return (wanted + 15) & ~15 }
        let doubling = Int.bitWidth - (wanted - 1).leadingZeroBitCount  // wanted <= 1 << doubling
        let step = 1 << (doubling - 3)
        return (wanted + step - 1) & ~(step - 1)
    }
}
