import Model

/// Collects what the machines of a story do, as sentences with times.
public struct Teller {
    private struct Line {
        var time: MonotonicTime
        /// The sentence; `{}` stands for the things.
        var sentence: String
        var things: [String]
        var noun: String
    }
    private let began: MonotonicTime
    private var lines: [Line] = []

    /// `began`: the moment that the story calls 0.000 s.
    public init(began: MonotonicTime) { self.began = began }

    /// `actor` comes first in every sentence.
    public mutating func tell(_ time: MonotonicTime, _ actor: String, _ deed: String) {
        lines.append(Line(time: time, sentence: "\(actor) \(deed)", things: [], noun: ""))
    }

    /// Tells a deed about a thing, whose place in `deed` is `{}`: `takes {}`. The same deed at the same time
    /// about several things is one sentence.
    public mutating func tell(
        _ time: MonotonicTime, _ actor: String, _ deed: String, _ noun: String, _ thing: String
    ) {
        let sentence = "\(actor) \(deed)"
        let same = lines.lastIndex { $0.time == time && $0.sentence == sentence && $0.noun == noun }
        if let same {
            lines[same].things.append(thing)
        } else {
            lines.append(Line(time: time, sentence: sentence, things: [thing], noun: noun))
        }
    }

    /// What was told since the last look.
    public mutating func drain() -> [String] {
        defer { lines = [] }
        // A sentence may be told later than it happened. The sort keeps the order of one moment.
        return lines.sorted { $0.time < $1.time }.map { line in
            let things = Teller.list(line.noun, line.things)
            return time(line.time) + "  " + line.sentence.replacing("{}", with: things)
        }
    }

    /// `partition 1`, or `partitions 1 and 3`.
    public static func list(_ noun: String, _ things: [String]) -> String {
        things.isEmpty ? "no \(noun)" : "\(noun)\(things.count == 1 ? "" : "s") \(list(things))"
    }

    /// `a, b and c`.
    public static func list(_ things: [String]) -> String {
        guard let last = things.last, things.count > 1 else { return things.first ?? "nothing" }
        return things.dropLast().joined(separator: ", ") + " and " + last
    }

    private func time(_ time: MonotonicTime) -> String {
        let milliseconds = time.since(began).milliseconds
        let digits = String(1000 + milliseconds % 1000).dropFirst()
        return "\(milliseconds / 1000).\(digits) s"
    }
}
