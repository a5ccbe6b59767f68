/// A boolean expression over at most five topics: FCM's condition, parsed.
///
/// Parenthesised parts first, then left to right: `&&` and `||` have equal precedence (FCM's page on topic
/// messaging).
public struct Condition: Hashable, Sendable {
    public static let topicCountMax = 5
    /// How many times a condition may mention topics; the same topic may come more than once.
    public static let atomCountMax = 64

    public indirect enum Node: Hashable, Sendable {
        /// An index into `topics`.
        case topic(Int)
        case not(Node)
        case and(Node, Node)
        case or(Node, Node)
    }

    /// Distinct topics in order of first appearance, 1...5.
    public let topics: [TopicName]
    public let root: Node

    public init(topics: [TopicName], root: Node) {
        precondition(
            (1...Condition.topicCountMax).contains(topics.count), "a condition has one to five topics")
        self.topics = topics
        self.root = root
    }

    /// Whether the condition holds for a device that is in exactly the topics for which `isMember` holds.
    public func holds(_ isMember: (Int) -> Bool) -> Bool { Condition.evaluate(root, isMember) }

    private static func evaluate(_ node: Node, _ isMember: (Int) -> Bool) -> Bool {
        switch node {
        case .topic(let index): isMember(index)
        case .not(let inner): !evaluate(inner, isMember)
        case .and(let left, let right): evaluate(left, isMember) && evaluate(right, isMember)
        case .or(let left, let right): evaluate(left, isMember) || evaluate(right, isMember)
        }
    }
}
