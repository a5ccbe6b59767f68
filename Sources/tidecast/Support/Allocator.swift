import Node

#if TIDECAST_SANITIZE
    import Synchronization
#else
    import CJemalloc
#endif

/// The allocator that this program is linked with, for the standard library of Swift and the C libraries too.
/// A build for a sanitizer has the sanitizer's.
enum Allocator {
    /// Bytes that are allocated and not freed; 0 where jemalloc does not know of any.
    static func allocatedBytes() -> Double {
        #if TIDECAST_SANITIZE
            return 0
        #else
            // Its figures are those of the last time that the epoch was moved.
            var epoch: UInt64 = 1
            var size = MemoryLayout<UInt64>.size
            guard mallctl("epoch", nil, nil, &epoch, size) == 0 else { return 0 }
            var allocated = 0
            size = MemoryLayout<Int>.size
            guard mallctl("stats.allocated", &allocated, &size, nil, 0) == 0 else { return 0 }
            return Double(allocated)
        #endif
    }

    /// What was freed goes back to the system within some ten seconds, also while nothing is allocated:
    /// without a thread for it jemalloc only looks when it is called.
    static func giveBackInTime() {
        #if !TIDECAST_SANITIZE
            var isOn = true
            _ = mallctl("background_thread", nil, nil, &isOn, MemoryLayout<Bool>.size)
        #endif
    }

    /// A sanitizer that looks for leaks at the end of the process is to find what was lost while it ran, and
    /// not a node whose parts know each other and which nobody asks any more.
    static func keepUntilTheEnd(_ node: Node) {
        #if TIDECAST_SANITIZE
            kept.withLock { $0 = node }
        #endif
    }

    #if TIDECAST_SANITIZE
        private static let kept = Mutex<Node?>(nil)
    #endif
}
