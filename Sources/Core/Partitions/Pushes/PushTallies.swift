import Bytes
import Model

/// How often a push service gave one kind of answer to a message, as one partition's owner has seen, or the
/// owners of several.
public struct PushTally: Hashable, Sendable {
    public var kind: Transport.Kind
    /// The newest of these answers. Answers of one `word` are counted together.
    public var outcome: PushOutcome
    public var count: Int
    /// When the newest answer came.
    public var newest: WallTime
    public init(kind: Transport.Kind, outcome: PushOutcome, count: Int, newest: WallTime) {
        self.kind = kind
        self.outcome = outcome
        self.count = count
        self.newest = newest
    }
}

extension [PushTally] {
    /// Adds answers. The list is in the order of the services and, for each, of the words.
    public mutating func add(_ tally: PushTally) {
        let same = firstIndex { $0.kind == tally.kind && $0.outcome.word == tally.outcome.word }
        guard let same else {
            let behind = firstIndex {
                ($0.kind.rawValue, $0.outcome.word) > (tally.kind.rawValue, tally.outcome.word)
            }
            return insert(tally, at: behind ?? endIndex)
        }
        self[same].count += tally.count
        guard tally.newest >= self[same].newest else { return }
        self[same].newest = tally.newest
        self[same].outcome = tally.outcome
    }
}

/// The answers to the newest messages, for a bounded number of messages: the message that has been in the
/// table longest leaves first.
struct RecentTallies {
    struct Key: Hashable {
        var project: ProjectNumber
        var message: MessageID
    }
    var table = NewestTable<Key, [PushTally]>()

    subscript(project: ProjectNumber, message: MessageID) -> [PushTally] {
        table[Key(project: project, message: message)] ?? []
    }

    mutating func note(
        _ tally: PushTally, of message: MessageID, in project: ProjectNumber, messagesMax: Int
    ) {
        table.update(Key(project: project, message: message), default: [], keysMax: messagesMax) {
            $0.add(tally)
        }
    }

    func brokenInvariant(messagesMax: Int) -> String? {
        if table.count > messagesMax { return "more answers to messages are kept than may be" }
        return table.isInOrder ? nil : "kept answers to messages are out of order"
    }
}

extension ByteWriter {
    mutating func tallies(_ tallies: [PushTally]) {
        varint(tallies.count)
        for tally in tallies {
            u8(tally.kind.rawValue)
            outcome(tally.outcome)
            varint(min(tally.count, Int(Int32.max)))
            u64(UInt64(bitPattern: tally.newest.milliseconds))
        }
    }
}

extension ByteReader {
    mutating func tallies() throws(DecodeError) -> [PushTally] {
        var tallies: [PushTally] = []
        // Three services with eight words each, and room for more of both.
        for _ in 0..<(try count(max: 64, elementBytesMin: 11)) {
            let (kind, outcome, count) = (try transportKind(), try outcome(), try int())
            // The sum over all partitions must have room in an `Int`.
            guard count <= Int(Int32.max) else { throw fail("too many answers to a message") }
            tallies.append(
                PushTally(
                    kind: kind, outcome: outcome, count: count,
                    newest: WallTime(milliseconds: Int64(bitPattern: try u64()))))
        }
        return tallies
    }
}
