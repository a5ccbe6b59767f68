import Model

/// The messages of each project that some partition has not taken over yet (rule: bounded-fanouts). A
/// condition that is not resolved counts too.
struct Fanouts {
    private var counts = RecentMap<UInt32, Int>()
    /// How many partitions have not taken over a message, where they are more than one: most messages have a
    /// single one, and those need not be put down.
    private var parts: [MessageID: Int] = [:]

    #if DEBUG
        /// A planted bug.
        var leaks = false
    #endif

    var projects: some Swift.Sequence<UInt32> { counts.keys }

    func count(of project: ProjectNumber) -> Int { counts[project.rawValue] ?? 0 }

    /// A message goes to so many partitions; to none is no fan-out.
    mutating func begin(_ project: ProjectNumber, _ message: MessageID, parts count: Int) {
        guard count > 0 else { return }
        counts[project.rawValue, default: 0] += 1
        if count > 1 { parts[message] = count }
    }

    /// A condition's message, counted when it was accepted, goes to so many partitions.
    mutating func resolve(_ project: ProjectNumber, _ message: MessageID, parts count: Int) {
        if count > 1 { parts[message] = count }
        if count == 0 { end(project) }
    }

    /// One partition has taken it over.
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
