import Model

/// The databases that are away, as reported to operators: immediately, then once a minute while it lasts, and
/// when the database is back.
struct Outages {
    private struct Outage {
        var since: MonotonicTime
        var told: MonotonicTime
    }

    static let pause: TimeSpan = .seconds(60)
    private var lasting: [Int: Outage] = [:]

    /// Since when each database is away, by its number.
    var since: [Int: MonotonicTime] { lasting.mapValues(\.since) }

    /// Takes the outcome of a look at a database; without a `failure` it answers.
    mutating func look(at database: Int, failure: String?, now: MonotonicTime) -> ControlNote? {
        guard let failure else {
            guard let outage = lasting.removeValue(forKey: database) else { return nil }
            return .databaseBack(database, after: now.since(outage.since))
        }
        guard let outage = lasting[database] else {
            lasting[database] = Outage(since: now, told: now)
            return .databaseAway(database, reason: failure, for: .zero)
        }
        guard now.since(outage.told) >= Outages.pause else { return nil }
        lasting[database]?.told = now
        return .databaseAway(database, reason: failure, for: now.since(outage.since))
    }
}
