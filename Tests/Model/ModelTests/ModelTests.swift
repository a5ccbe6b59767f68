import Testing

@testable import Model

@Suite("A condition")
struct ConditionTests {
    /// A random expression as text, and its value for a membership, computed while the text is made.
    private struct Made {
        var text: String
        var value: Bool
    }

    private func make(_ random: inout SeededGenerator, members: [Bool], atoms: inout Int, depth: Int) -> Made
    {
        var made = operand(&random, members, &atoms, depth)
        while atoms > 0, random.next() % 2 == 0 {
            let isAnd = random.next() % 2 == 0
            let right = operand(&random, members, &atoms, depth)
            made.text += isAnd ? " && \(right.text)" : " || \(right.text)"
            // `&&` and `||` have equal precedence, so the value goes from left to right.
            made.value = isAnd ? made.value && right.value : made.value || right.value
        }
        return made
    }

    private func operand(_ random: inout SeededGenerator, _ members: [Bool], _ atoms: inout Int, _ depth: Int)
        -> Made
    {
        switch random.next() % 6 {
        case 0 where depth < 4:
            let inner = operand(&random, members, &atoms, depth + 1)
            return Made(text: "!\(inner.text)", value: !inner.value)
        case 1 where depth < 4:
            let inner = make(&random, members: members, atoms: &atoms, depth: depth + 1)
            return Made(text: "(\(inner.text))", value: inner.value)
        default:
            atoms -= 1
            let topic = Int(random.next() % 5)
            return Made(text: "'t\(topic)' in topics", value: members[topic])
        }
    }

    @Test("is evaluated as a reader from left to right would", arguments: UInt64(1)...40)
    func bruteForce(seed: UInt64) throws {
        for round in 0..<50 {
            for bits in 0..<32 {
                var random = SeededGenerator(seed: seed &* 1000 &+ UInt64(round))
                let members = (0..<5).map { bits & (1 << $0) != 0 }
                var atoms = 3
                let made = make(&random, members: members, atoms: &atoms, depth: 0)
                guard atoms >= -2, let condition = try? Condition.parse(made.text.utf8) else { continue }
                let names = condition.topics.map {
                    Int(String(decoding: $0.utf8.dropFirst(), as: UTF8.self)) ?? 0
                }
                #expect(condition.holds { members[names[$0]] } == made.value, "seed \(seed): \(made.text)")
            }
        }
    }

    @Test("has equal precedence, left to right (FCM's page on topic messaging)")
    func precedence() throws {
        let condition = try Condition.parse("'a' in topics || 'b' in topics && 'c' in topics".utf8)
        #expect(condition.root == .and(.or(.topic(0), .topic(1)), .topic(2)))
    }

    @Test("takes five topics and not six")
    func count() throws {
        let atoms = (1...6).map { "'t\($0)' in topics" }
        #expect(try Condition.parse(atoms.prefix(5).joined(separator: "||").utf8).topics.count == 5)
        #expect(throws: ConditionError.self) { try Condition.parse(atoms.joined(separator: "||").utf8) }
    }

    @Test(
        "that is malformed says where",
        arguments: [
            ("", 0), ("a in topics", 0), ("'a in topics", 12), ("'a' in topic", 7), ("'a'in topics &&", 15),
            ("('a' in topics", 14), ("'a' in topics)", 13), ("'a' in topics 'b' in topics", 14),
            ("'a b' in topics", 1),
            ("'a' in topics & 'b' in topics", 14), ("!('a' in topics)", 0), ("'' in topics", 1),
            (String(repeating: "(", count: 5000), 32), (String(repeating: "!", count: 9000), 0),
        ])
    func malformed(text: String, offset: Int) {
        let error = #expect(throws: ConditionError.self) { try Condition.parse(text.utf8) }
        #expect(error?.offset == offset, "\(error.map(String.init(describing:)) ?? "")")
    }
}

@Suite("Texts")
struct TextTests {
    @Test("of base64url come back, and what is none is refused (RFC 4648 §5)")
    func base64() {
        var generator = SeededGenerator(seed: 8)
        for length in 0..<70 {
            let bytes = (0..<length).map { _ in UInt8(truncatingIfNeeded: generator.next()) }
            #expect(Base64URL.decode(Base64URL.encode(bytes)) == bytes)
        }
        for text in ["A", "AB=", "A+==", "AB/", "AAAAA", "_x"] {
            #expect(Base64URL.decode(text.utf8) == nil, "\(text)")
        }
    }

    @Test("of event ids come back and sort by position")
    func events() {
        let id = EventID(position: Position(0x0006_60BD_EED6_0DB8), history: 0x2B40)
        var text: [UInt8] = []
        id.append(to: &text)
        #expect(String(decoding: text, as: UTF8.self) == "000660bdeed60db8.2b40")
        #expect(EventID(text) == id)
        for bad in [
            "", "x", "000660bdeed60db8", "000660bdeed60db8.2b4", "000660bdeed60db8-2b40",
            "000660BDEED60DB8.2b40",
        ] {
            #expect(EventID(Array(bad.utf8)) == nil, "\(bad)")
        }
    }

    @Test("of topics: 1 to 900 of the allowed characters")
    func topics() {
        #expect(TopicName(String(repeating: "a", count: 900)) != nil)
        #expect(TopicName(String(repeating: "a", count: 901)) == nil)
        for name in ["-", "_", ".", "~", "%", "A9z", "/topics/x"] {
            #expect(TopicName(name) != nil, "\(name)")
        }
        for name in ["", "/topics/", "a b", "a/b", "../a", "ä", "a\0", "topics/x"] {
            #expect(TopicName(name) == nil, "\(name)")
        }
    }

    @Test("of topics are ordered by their bytes, a name before those that go on behind it")
    func topicOrder() {
        let long = String(repeating: "a", count: 300)
        let names = ["a", "B", "b", "aa", "a~", "a-", "~", "%", long, long + "b", long + "a", "-", "0"]
            .map { TopicName(checked: Array($0.utf8)) }
        for left in names {
            for right in names {
                #expect((left < right) == left.utf8.lexicographicallyPrecedes(right.utf8), "\(left) \(right)")
            }
        }
        #expect(!(TopicName(checked: []) < TopicName(checked: [])))
    }
}

@Suite("Sets of partitions")
struct PartitionSetTests {
    @Test("a set holds what a Set holds, ascending", arguments: UInt64(1)...20)
    func twin(seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        var set = PartitionSet()
        var twin: Set<PartitionID> = []
        for _ in 0..<200 {
            switch random.next(upperBound: 10 as UInt64) {
            case 0:
                set.removeAll()
                twin.removeAll()
            case 2:
                let partition = PartitionID(UInt16(random.next(upperBound: 4096 as UInt64)))
                set.remove(twin.first ?? partition)
                twin.remove(twin.first ?? partition)
            case 1:
                var other = PartitionSet()
                for _ in 0..<random.next(upperBound: 4 as UInt64) {
                    let partition = PartitionID(UInt16(random.next(upperBound: 4096 as UInt64)))
                    other.insert(partition)
                    twin.insert(partition)
                }
                set.formUnion(other)
            default:
                let partition = PartitionID(UInt16(random.next(upperBound: 4096 as UInt64)))
                set.insert(partition)
                twin.insert(partition)
            }
            #expect(set.sorted() == twin.sorted() && set.isEmpty == twin.isEmpty, "seed \(seed)")
            for partition in Array(twin) + [PartitionID(0), PartitionID(4095)] {
                #expect(set.contains(partition) == twin.contains(partition), "seed \(seed)")
            }
        }
    }
}

@Suite("A channel's id")
struct ChannelIDTests {
    @Test("is a UUID in any case, and is written in lower case (RFC 9562 §4)")
    func cases() throws {
        let text = "0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0"
        for shown in [text, text.uppercased(), "0F1e2D3c-4b5A-6978-8796-a5b4c3d2e1f0"] {
            let read = try #require(ChannelID(shown.utf8))
            #expect(String(decoding: read.text, as: UTF8.self) == text)
        }
        for wrong in ["", "0g1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0", "0f1e2d3c04b5a-6978-8796-a5b4c3d2e1f0"] {
            #expect(ChannelID(wrong.utf8) == nil)
        }
    }
}
