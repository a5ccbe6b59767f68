#if DEBUG
    import Glibc
    import Synchronization
#endif

/// Places at which a debug build ends itself as `kill -9` would. The environment chooses one:
/// `TIDECAST_FAILPOINT=name` at the first arrival, `TIDECAST_FAILPOINT=name:3` at the third. Names:
/// `append.before`, `append.committed` (before the reply), `snapshot.writing`, `snapshot.renamed` (before the
/// row).
enum Failpoint {
    #if DEBUG
        private static let arrivals = Mutex(0)
        private static let chosen: (name: String, count: Int)? = {
            guard let value = getenv("TIDECAST_FAILPOINT") else { return nil }
            let parts = String(cString: value).split(separator: ":")
            guard let name = parts.first else { return nil }
            return (String(name), parts.count > 1 ? Int(parts[1]) ?? 1 : 1)
        }()

        static func reach(_ name: String) {
            guard let chosen, chosen.name == name else { return }
            let arrival = arrivals.withLock { count in
                count += 1
                return count
            }
            if arrival == chosen.count { kill(getpid(), SIGKILL) }
        }
    #else
        @inline(__always)
        static func reach(_ name: StaticString) {}
    #endif
}
