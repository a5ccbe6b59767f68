// The invariants of the machines, read from the sources: the sentences of `brokenInvariant` for broken
// invariants.

/// A string literal, cut at each interpolation.
struct Literal: Hashable {
    /// Counted from 0.
    var line: Int
    /// The texts around the interpolations: always one more than there are interpolations.
    var parts: [String]

    /// Whether `text` is this literal with something in each gap.
    func isSaid(by text: String) -> Bool {
        guard let first = parts.first, let last = parts.last, parts.count > 1 else {
            return parts.first == text
        }
        guard text.hasPrefix(first) else { return false }
        var rest = text.dropFirst(first.count)
        for part in parts.dropFirst().dropLast() {
            guard let match = rest.firstRange(of: part) else { return false }
            rest = rest[match.upperBound...]
        }
        return rest.hasSuffix(last) && rest.count > last.count
    }
}

extension SourceFile {
    /// The literals that stand on one line. Literals of several lines are left out.
    var literals: [Literal] {
        lines.indices.flatMap { index in
            code[index].contains("\"") ? SourceFile.literals(in: lines[index], at: index) : []
        }
    }

    private static func literals(in line: String, at index: Int) -> [Literal] {
        var found: [Literal] = []
        var open: Literal?
        /// The depth of parentheses inside an interpolation, or 0.
        var depth = 0
        var isEscaped = false
        var former: Character = " "
        for character in line {
            if depth > 0 {
                depth += character == "(" ? 1 : character == ")" ? -1 : 0
            } else if var literal = open {
                if isEscaped, character == "(" {
                    depth = 1
                    literal.parts.append("")
                } else if isEscaped || !"\\\"".contains(character) {
                    literal.parts[literal.parts.count - 1].append(character)
                }
                let isClosed = character == "\"" && !isEscaped
                isEscaped = character == "\\" && !isEscaped
                if isClosed { found.append(literal) }
                open = isClosed ? nil : literal
            } else if character == "\"" {
                open = Literal(line: index, parts: [""])
            } else if character == "/", former == "/" {
                break
            }
            former = character
        }
        return found
    }

    /// The sentences of `X+Invariants.swift`, and of `brokenInvariant` where that stands elsewhere. A literal
    /// that only names a machine and passes its invariant on is no invariant.
    var invariants: [Literal] {
        guard !isTest else { return [] }
        let isWhole = path.hasSuffix("+Invariants.swift")
        let bodies = isWhole ? [] : invariantBodies
        return literals.filter { literal in
            guard isWhole || bodies.contains(where: { $0.contains(literal.line) }) else { return false }
            return !(literal.parts.last == "" && literal.parts.dropLast().last?.hasSuffix(": ") ?? false)
        }
    }

    /// The lines of each declaration `broken…` that returns a sentence.
    private var invariantBodies: [Range<Int>] {
        var found: [Range<Int>] = []
        for (start, line) in code.enumerated() {
            guard line.contains("var broken") || line.contains("func broken"),
                line.contains("String? {")
            else { continue }
            var depth = 0
            let end = code[start...].firstIndex { line in
                depth += line.reduce(0) { $0 + ($1 == "{" ? 1 : $1 == "}" ? -1 : 0) }
                return depth == 0
            }
            found.append(start..<(end ?? start) + 1)
        }
        return found
    }

    /// Whether the file is a test that breaks machines.
    var breaksInvariants: Bool {
        isTest && module != "HouseRulesTests"
            && code.contains { $0.contains("rokenInvariant") || $0.contains("isSeen(") }
    }
}
