import Glibc

public enum MonotonicClock {
    /// Nanoseconds since an arbitrary fixed moment.
    public static func now() -> UInt64 { read(CLOCK_MONOTONIC) }

    /// CPU nanoseconds of this process.
    static func ownCPU() -> UInt64 { read(CLOCK_PROCESS_CPUTIME_ID) }

    private static func read(_ clock: clockid_t) -> UInt64 {
        var time = timespec()
        clock_gettime(clock, &time)
        return UInt64(time.tv_sec) * 1_000_000_000 + UInt64(time.tv_nsec)
    }
}

/// Measures time and CPU from its creation until `read`.
struct Stopwatch {
    private let process: ServerProcess
    let began = MonotonicClock.now()
    private let cpu: Double?
    private let own = MonotonicClock.ownCPU()

    init(_ process: ServerProcess) {
        self.process = process
        cpu = process.cpuSeconds()
    }

    func read(into report: inout LoadReport) {
        report.seconds = Double(MonotonicClock.now() - began) / 1e9
        if let before = cpu, let after = process.cpuSeconds() { report.cpuSeconds = after - before }
        report.ownCPUSeconds = Double(MonotonicClock.ownCPU() - own) / 1e9
    }
}
