import Model

/// Counts each project's messages that some partition has not taken over yet (rule: bounded-fanouts). A
/// condition that is not resolved counts too.
struct Fanouts {
    private var counts = RecentMap<UInt32, Int>()
    /// How many partitions have not taken over a message, if they are more than one. Most messages have only
    /// one such partition, and need no entry here.
    private var parts: [MessageID: Int] = [:]

    #if DEBUG
        /// A planted bug.
        var leaks = false
    #endif

    var projects: some Swift.Sequence<UInt32> { counts.keys }

    func count(of project: ProjectNumber) -> Int { counts[project.rawValue] ?? 0 }

    /// A message goes to `count` partitions. A message to no partition is no fan-out.
    mutating func begin(_ project: ProjectNumber, _ message: MessageID, parts count: Int) {
        guard count > 0 else { return }
        counts[project.rawValue, default: 0] += 1
        if count > 1 { parts[message] = count }
    }

    /// A condition's message goes to `count` more partitions. The condition has counted as one part since it
    /// was accepted, and does so until all partitions have decided (`isLast`).
    mutating func resolve(_ project: ProjectNumber, _ message: MessageID, parts count: Int, isLast: Bool) {
        let left = (parts[message] ?? 1) + count - (isLast ? 1 : 0)
        parts[message] = left > 1 ? left : nil
        if left == 0 { end(project) }
    }

    /// One partition has taken the message over.
    mutating func taken(_ project: ProjectNumber, _ message: MessageID) {
        #if DEBUG
            if leaks, message.time % 7 == 0 { return }
        #endif
        if let left = parts[message] {
            parts[message] = left > 2 ? left - 1 : nil
        } else {
            end(project)
        }
    }

    private mutating func end(_ project: ProjectNumber) {
        let left = counts[project.rawValue, default: 0]
        counts[project.rawValue] = max(left - 1, 0)
    }
}
