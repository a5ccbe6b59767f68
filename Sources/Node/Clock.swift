import Glibc
import Model

/// The two clocks that the shells read for the core.
enum Clock {
    /// The clock that also counts while the machine is suspended, so that leases, quotas and deadlines run
    /// out meanwhile as they do for everybody else. Timers and sockets run on one that does not: after a
    /// suspension what was to happen within it happens late, never early. What a host does not tell a
    /// virtual machine that it holds up, no clock in there shows (guarantees, "A clock that stood still").
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
