import CJemalloc

/// The allocator that this program is linked with, for the standard library of Swift and the C libraries too.
enum Allocator {
    /// Bytes that are allocated and not freed; 0 where jemalloc does not know of any.
    static func allocatedBytes() -> Double {
        // Its figures are those of the last time that the epoch was moved.
        var epoch: UInt64 = 1
        var size = MemoryLayout<UInt64>.size
        guard mallctl("epoch", nil, nil, &epoch, size) == 0 else { return 0 }
        var allocated = 0
        size = MemoryLayout<Int>.size
        guard mallctl("stats.allocated", &allocated, &size, nil, 0) == 0 else { return 0 }
        return Double(allocated)
    }
}
