import Model

/// How slow this node itself seems to be: 0 for not at all. The node's timeouts are `score + 1` times as long
/// (Lifeguard §IV-A, "self-awareness").
struct LocalHealth: Sendable {
    let scoreMax: Int
    private(set) var score = 0

    mutating func worsen(by count: Int) { score = min(scoreMax, score + max(0, count)) }
    mutating func improve() { score = max(0, score - 1) }
    func scaled(_ length: TimeSpan) -> TimeSpan { length * UInt64(score + 1) }
}
