import Glibc
import Model

/// The two clocks that the shells read for the core.
enum Clock {
    /// The clock that also counts while the machine is suspended, so that leases, quotas and deadlines run
    /// out meanwhile, as they do on other machines. Timers and sockets run on a clock that stops then, so
    /// after a suspension they fire late, never early. A host may hold up a virtual machine without notice;
    /// no clock in that machine shows the pause (docs/guarantees.md, "A clock that stood still").
    static func monotonic() -> MonotonicTime {
        var time = timespec()
        clock_gettime(CLOCK_BOOTTIME, &time)
        return MonotonicTime(nanoseconds: UInt64(time.tv_sec) * 1_000_000_000 + UInt64(time.tv_nsec))
    }

    static func wall() -> WallTime {
        var time = timespec()
        clock_gettime(CLOCK_REALTIME, &time)
        return WallTime(milliseconds: Int64(time.tv_sec) * 1000 + Int64(time.tv_nsec) / 1_000_000)
    }

    static func now() -> Instant { Instant(monotonic: monotonic(), wall: wall()) }
}

extension SystemRandomNumberGenerator {
    static func seed() -> UInt64 {
        var generator = SystemRandomNumberGenerator()
        return generator.next()
    }
}
