// The parameters of functions, for the rule about their labels.

extension Rule {
    static let unlabelledMax = 2

    /// A call with three values in a row does not say which is which. Functions of tests may have more.
    static let labels = Rule(name: "no function has more than two parameters without a label") { file in
        guard !file.isTest, !file.isGenerated else { return [] }
        return file.unlabelled.filter { $0.count > Rule.unlabelledMax }.map {
            ($0.line, "\($0.count) parameters have no label, at most \(Rule.unlabelledMax): label the others")
        }
    }
}

extension SourceFile {
    /// For each function, initialiser and subscript its line, and how many parameters have no label.
    var unlabelled: [(line: Int, count: Int)] {
        code.indices.filter { code[$0].declaresFunction }.map { ($0, unlabelledParameters(at: $0)) }
    }

    /// The parameters of the first parameter list from a line on.
    private func unlabelledParameters(at line: Int) -> Int {
        var depth = 0
        var count = 0
        var parameter = ""
        func endParameter() {
            let words = parameter.split(separator: " ").drop { $0.hasPrefix("@") }
            if words.first == "_" { count += 1 }
            parameter = ""
        }
        let head = code[line].firstRange(of: "func ") ?? code[line].firstRange(of: "init")
        let first = String(code[line][(head?.lowerBound ?? code[line].startIndex)...])
        // No parameter list is longer than a function may be.
        let text = [first] + code[(line + 1)...].prefix(Rule.functionLengthMax)
        for character in text.lazy.joined(separator: " ") {
            switch character {
            case "(", "[", "{": depth += 1
            case ")", "]", "}": depth -= 1
            default: break
            }
            if depth == 0, character == ")" || character == "}" {
                endParameter()
                return count
            }
            if depth == 1, character == "," {
                endParameter()
            } else if depth > 1 || depth == 1 && character != "(" {
                parameter.append(character)
            }
        }
        return count
    }
}
