import Model

/// Which credentials were used lately, on one loop. Kept in memory and handed over every few minutes, so that
/// a use costs a look-up and no write.
public struct UseNotes: Sendable {
    /// Milliseconds between two times that are stored for one credential.
    public static let period: Int64 = 5 * 60_000
    /// Noted credentials, at most. One beyond them is noted when it is used again later.
    public static let countMax = 4096

    /// When the use of each credential was last noted.
    private var noted: [String: Int64] = [:]
    private var waiting: [String: WallTime] = [:]

    public init() {}

    public mutating func note(_ name: String, now: WallTime) {
        if let last = noted[name], now.milliseconds - last < UseNotes.period, now.milliseconds >= last {
            return
        }
        guard noted.count < UseNotes.countMax || noted[name] != nil else { return }
        noted[name] = now.milliseconds
        waiting[name] = now
    }

    /// The uses to store; also forgets credentials that nobody used for a while.
    public mutating func drain(now: WallTime) -> [String: WallTime] {
        defer { waiting.removeAll() }
        noted = noted.filter { now.milliseconds - $0.value < UseNotes.period && $0.value <= now.milliseconds }
        return waiting
    }
}
