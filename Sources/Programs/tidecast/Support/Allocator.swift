import Node

#if TIDECAST_SANITIZE
    import Synchronization
#else
    import CJemalloc
#endif

/// The allocator that this program is linked with, also for Swift's standard library and the C libraries. A
/// build for a sanitizer has the sanitizer's allocator.
enum Allocator {
    /// Bytes that are allocated and not freed; 0 if jemalloc gives no figure.
    static func allocatedBytes() -> Int {
        #if TIDECAST_SANITIZE
            return 0
        #else
            // jemalloc's figures are those of the last time that the epoch was moved.
            var epoch: UInt64 = 1
            var size = MemoryLayout<UInt64>.size
            guard mallctl("epoch", nil, nil, &epoch, size) == 0 else { return 0 }
            var allocated = 0
            size = MemoryLayout<Int>.size
            guard mallctl("stats.allocated", &allocated, &size, nil, 0) == 0 else { return 0 }
            return allocated
        #endif
    }

    /// Lets freed memory go back to the system within about 10 s, also while the program allocates nothing:
    /// without its background thread jemalloc looks only when it is called.
    static func giveBackInTime() {
        #if !TIDECAST_SANITIZE
            var isOn = true
            _ = mallctl("background_thread", nil, nil, &isOn, MemoryLayout<Bool>.size)
        #endif
    }

    /// Keeps the node. A sanitizer that looks for leaks at the end of the process must find what was lost
    /// while the process ran. It must not find a node whose parts refer to each other and which nothing else
    /// holds.
    static func keepUntilTheEnd(_ node: Node) {
        #if TIDECAST_SANITIZE
            kept.withLock { $0 = node }
        #endif
    }

    #if TIDECAST_SANITIZE
        private static let kept = Mutex<Node?>(nil)
    #endif
}
