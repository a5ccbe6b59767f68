import Model
import Partitions

/// What partitions say to each other and to clients, in the sentences of a story.
public struct Sentences {
    /// The name of the device with this number.
    private let name: (UInt32) -> String

    public init(name: @escaping (UInt32) -> String) { self.name = name }

    public func names(_ indices: [UInt32]) -> String { Teller.list(indices.map(name)) }

    public func text(_ item: OutboxItem) -> String {
        switch item {
        case .message(_, let message, let targets):
            var indices: [UInt32] = []
            targets.forEach { indices.append($0) }
            return "\(Sentences.text(message)) for \(names(indices))"
        case .join(_, let topic, let indices): return "\(names(indices)) joins \(topic)"
        case .leave(_, let topic, let indices): return "\(names(indices)) leaves \(topic)"
        case .replace(let slice): return "exactly these members: \(text(slice))"
        }
    }

    public func text(_ slice: PairSlice) -> String {
        Teller.list(slice.topics.map { "\(names($0.indices)) in \($0.topic)" })
    }

    public static func text(_ message: Envelope) -> String { String(decoding: message.event, as: UTF8.self) }

    public static func text(_ reply: Reply) -> String {
        switch reply {
        case .accepted: "accepted"
        case .changes(let changes): Teller.list(changes.map(text))
        case .refused(let refusal): "refused, \(refusal)"
        default: "done"
        }
    }

    private static func text(_ change: DeviceChange) -> String {
        switch change {
        case .changed: "done"
        case .unchanged: "already done"
        case .refused(let refusal): "refused, \(refusal)"
        }
    }
}
