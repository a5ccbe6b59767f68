import Synchronization

/// How many answers have begun, by status. Each status that the server gives has its own number.
public final class AnswerCounters: Sendable {
    public static let statuses = [
        101, 200, 201, 204, 304, 400, 401, 403, 404, 405, 408, 409, 410, 413, 415, 426, 429, 431, 500, 501,
        503,
        504,
    ]
    private static let most = 32
    /// The counters have the places of `statuses`; the last one is for all other statuses.
    private let counts = InlineArray<32, Atomic<Int>> { _ in Atomic(0) }

    func add(_ status: Int) {
        let place = AnswerCounters.statuses.firstIndex(of: status) ?? AnswerCounters.most - 1
        counts[place].add(1, ordering: .relaxed)
    }

    /// Answers of a status; with `nil`, of all statuses without a number.
    public func count(_ status: Int?) -> Int {
        let place = status.flatMap { AnswerCounters.statuses.firstIndex(of: $0) } ?? AnswerCounters.most - 1
        return counts[place].load(ordering: .relaxed)
    }
}
