import Model

/// What operators asked for and were refused, on one loop: of an address and a name the first one is told at
/// once, and what follows is counted, so that whoever knocks without end fills neither the log nor the disk.
public struct RefusedAttempts: Sendable {
    public struct Attempt: Hashable, Sendable {
        /// Who it says to be.
        public var name: String
        /// From where, without a port.
        public var place: String
        /// What was asked for, and why it was refused. Never a secret.
        public var subject: String

        public init(name: String, place: String, subject: String) {
            self.name = name
            self.place = place
            self.subject = subject
        }
    }

    /// Milliseconds for which what follows the first one is counted.
    public static let period: Int64 = 60_000
    /// Addresses and names that are told apart in a period; the rest is counted together.
    public static let countMax = 32
    /// Entries that are kept in the audit log, apart from those of changes, which these do not push out.
    public static let entriesMax = 500

    private struct Key: Hashable {
        var name: String
        var place: String
    }
    private struct Count {
        var last: Attempt
        var more = 0
    }
    private var counts: [Key: Count] = [:]
    private var others = 0
    private var began: Int64 = 0

    public init() {}

    /// The entry that is to be written now, where it is the first.
    public mutating func note(_ attempt: Attempt, now: WallTime) -> AuditEntry? {
        if counts.isEmpty && others == 0 { began = now.milliseconds }
        let key = Key(name: attempt.name, place: attempt.place)
        guard counts[key] == nil else {
            counts[key]?.last = attempt
            counts[key]?.more += 1
            return nil
        }
        guard counts.count < RefusedAttempts.countMax else {
            others += 1
            return nil
        }
        counts[key] = Count(last: attempt)
        return RefusedAttempts.entry(attempt, attempt.subject, now: now)
    }

    /// What followed, when the period is over; then it begins anew.
    public mutating func take(now: WallTime) -> [AuditEntry] {
        let age = now.milliseconds - began
        // A clock that was set back begins anew as well.
        guard age >= RefusedAttempts.period || age < 0 else { return [] }
        defer { (counts, others) = ([:], 0) }
        var entries = counts.values.filter { $0.more > 0 }.map { count in
            RefusedAttempts.entry(
                count.last, "\(count.more) more in a minute, the last one: \(count.last.subject)", now: now)
        }
        entries.sort { ($0.author.place, $0.author.name) < ($1.author.place, $1.author.name) }
        if others > 0 {
            let rest = Attempt(name: "others", place: "more addresses", subject: "")
            entries.append(RefusedAttempts.entry(rest, "\(others) more in a minute", now: now))
        }
        return entries
    }

    private static func entry(_ attempt: Attempt, _ subject: String, now: WallTime) -> AuditEntry {
        AuditEntry(
            time: now, author: .init(name: attempt.name, place: attempt.place), action: "refused",
            subject: subject)
    }
}
