/// An error in a condition, and its byte offset.
public struct ConditionError: Error, Hashable, Sendable, CustomStringConvertible {
    public var offset: Int
    public var reason: String
    public var description: String { "\(reason) at position \(offset)" }
}

extension Condition {
    /// Bytes of a condition that is parsed: room for five topics of 900.
    public static let lengthMax = 8192
    /// Parentheses and negations within each other.
    public static let depthMax = 32

    /// FCM's grammar: `'t' in topics`, `&&`, `||`, `!`, parentheses.
    ///
    /// Parentheses first, then left to right: `&&` and `||` have equal precedence, so `a || b && c` is `(a ||
    /// b) && c`; `!` belongs to the atom or parenthesis that follows. At most five topics, each as often as
    /// `atomCountMax` allows. As FCM does, the parser refuses a condition that holds for a device in none of
    /// its topics (a bare negation).
    public static func parse(_ text: some Collection<UInt8>) throws(ConditionError) -> Condition {
        var parser = ConditionParser(Array(text))
        let root = try parser.expression(depth: 0)
        try parser.end()
        let condition = Condition(topics: parser.topics, root: root)
        if condition.holds({ _ in false }) {
            throw ConditionError(offset: 0, reason: "the condition holds for devices in none of its topics")
        }
        return condition
    }
}

private struct ConditionParser {
    private let text: [UInt8]
    private var index = 0
    private var atoms = 0
    private(set) var topics: [TopicName] = []

    init(_ text: [UInt8]) { self.text = text }

    mutating func expression(depth: Int) throws(ConditionError) -> Condition.Node {
        guard text.count <= Condition.lengthMax else { throw fail("the condition is too long") }
        var left = try operand(depth: depth)
        while true {
            skipBlanks()
            if consume("&&") {
                left = .and(left, try operand(depth: depth))
            } else if consume("||") {
                left = .or(left, try operand(depth: depth))
            } else {
                return left
            }
        }
    }

    private mutating func operand(depth: Int) throws(ConditionError) -> Condition.Node {
        guard depth < Condition.depthMax else { throw fail("nested too deeply") }
        skipBlanks()
        if consume("!") { return .not(try operand(depth: depth + 1)) }
        if consume("(") {
            let inner = try expression(depth: depth + 1)
            skipBlanks()
            guard consume(")") else { throw fail("a parenthesis is not closed") }
            return inner
        }
        return try topic()
    }

    private mutating func topic() throws(ConditionError) -> Condition.Node {
        guard consume("'") else { throw fail("a topic in single quotes should stand here") }
        let start = index
        while index < text.count, text[index] != UInt8(ascii: "'") { index += 1 }
        guard index < text.count else { throw fail("a quote is not closed") }
        guard let name = TopicName(text[start..<index]) else {
            throw ConditionError(offset: start, reason: "not a topic's name")
        }
        index += 1
        skipBlanks()
        guard consume("in"), index < text.count, isBlank(text[index]) else {
            throw fail("'in topics' should follow")
        }
        skipBlanks()
        guard consume("topics"), index == text.count || !TopicName.allows(text[index]) else {
            throw fail("'in topics' should follow")
        }
        atoms += 1
        guard atoms <= Condition.atomCountMax else {
            throw ConditionError(
                offset: start, reason: "more than \(Condition.atomCountMax) mentions of topics")
        }
        if let known = topics.firstIndex(of: name) { return .topic(known) }
        guard topics.count < Condition.topicCountMax else {
            throw ConditionError(offset: start, reason: "more than \(Condition.topicCountMax) topics")
        }
        topics.append(name)
        return .topic(topics.count - 1)
    }

    mutating func end() throws(ConditionError) {
        skipBlanks()
        if index < text.count { throw fail("an operator should stand here") }
    }

    private func isBlank(_ byte: UInt8) -> Bool {
        byte == 0x20 || byte == 0x09 || byte == 0x0A || byte == 0x0D
    }

    private mutating func skipBlanks() {
        while index < text.count, isBlank(text[index]) { index += 1 }
    }

    private mutating func consume(_ token: StaticString) -> Bool {
        let count = token.utf8CodeUnitCount
        guard index + count <= text.count else { return false }
        for offset in 0..<count where text[index + offset] != token.utf8Start[offset] { return false }
        index += count
        return true
    }

    private func fail(_ reason: String) -> ConditionError { ConditionError(offset: index, reason: reason) }
}
