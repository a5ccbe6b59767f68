import Model

/// Refused requests of operators, on one loop. The first refusal of an address and a name is logged
/// immediately, and the next ones are counted. So a client that tries without end fills neither the log nor
/// the disk.
public struct RefusedAttempts: Sendable {
    public struct Attempt: Hashable, Sendable {
        /// The name that the client gives.
        public var name: String
        /// The client's address, without a port.
        public var source: String
        /// The request, and why it was refused. Never a secret.
        public var subject: String

        public init(name: String, source: String, subject: String) {
            self.name = name
            self.source = source
            self.subject = subject
        }
    }

    /// Milliseconds for which attempts behind the first are counted.
    public static let period: Int64 = 60_000
    /// Pairs of address and name that a period distinguishes; all others are counted together.
    public static let countMax = 32
    /// Entries that the audit log keeps of these, apart from those of changes: neither pushes the other out.
    public static let entriesMax = 500

    private struct Key: Hashable {
        var name: String
        var source: String
    }
    private struct Count {
        var last: Attempt
        var more = 0
    }
    private var counts: [Key: Count] = [:]
    private var others = 0
    private var began: Int64 = 0

    public init() {}

    /// The entry to write now, if this is the first attempt of its address and name.
    public mutating func note(_ attempt: Attempt, now: WallTime) -> AuditEntry? {
        if counts.isEmpty && others == 0 { began = now.milliseconds }
        let key = Key(name: attempt.name, source: attempt.source)
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

    /// Entries for the counted attempts, when the period is over; then a new period begins.
    public mutating func drain(now: WallTime) -> [AuditEntry] {
        let age = now.milliseconds - began
        // A clock that was set back begins a new period as well.
        guard age >= RefusedAttempts.period || age < 0 else { return [] }
        defer { (counts, others) = ([:], 0) }
        var entries = counts.values.filter { $0.more > 0 }.map { count in
            RefusedAttempts.entry(
                count.last, "\(count.more) more in a minute, the last one: \(count.last.subject)", now: now)
        }
        entries.sort { ($0.author.source, $0.author.name) < ($1.author.source, $1.author.name) }
        if others > 0 {
            let rest = Attempt(name: "others", source: "more addresses", subject: "")
            entries.append(RefusedAttempts.entry(rest, "\(others) more in a minute", now: now))
        }
        return entries
    }

    private static func entry(_ attempt: Attempt, _ subject: String, now: WallTime) -> AuditEntry {
        AuditEntry(
            time: now, author: .init(name: attempt.name, source: attempt.source), action: "refused",
            subject: subject)
    }
}
