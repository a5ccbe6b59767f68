// The sentences of comments, for the rule about their length.

extension Rule {
    static let sentenceWordsMax = 30

    static let sentences = Rule(name: "length of a sentence in a comment") { file in
        guard !file.isGenerated else { return [] }
        return file.sentences.filter { $0.words > Rule.sentenceWordsMax }.map {
            ($0.line, "a sentence of \($0.words) words, at most \(Rule.sentenceWordsMax): make two of it")
        }
    }
}

extension SourceFile {
    /// The sentences of comments on lines of their own: where each begins, and how many words it has. A full
    /// stop, a colon, a list item and an empty line end a sentence. Tables and blocks of code have none.
    var sentences: [(line: Int, words: Int)] {
        var found: [(line: Int, words: Int)] = []
        var counter = SentenceCounter()
        var isCode = false
        for (index, line) in lines.enumerated() {
            let trimmed = line.trimmed
            let text = trimmed.drop { $0 == "/" }
            let content = text.trimmed
            let isComment = trimmed.hasPrefix("//")
            if !isComment { isCode = false }
            if content.hasPrefix("```") { isCode.toggle() }
            let isTable = content.hasPrefix("|") || text.hasPrefix("     ")
            let isLayout = isCode || isTable || content.hasPrefix("```")
            if !isComment || isLayout || content.isEmpty || content.hasPrefix("- ") { counter.end(&found) }
            if isComment, !isLayout { counter.read(content, line: index, into: &found) }
        }
        counter.end(&found)
        return found
    }
}

private struct SentenceCounter {
    private var words = 0
    private var line = 0
    /// What stands in backticks counts as one word.
    private var isQuoted = false

    mutating func read(_ text: Substring, line: Int, into found: inout [(line: Int, words: Int)]) {
        for word in text.split(separator: " ") {
            let wasQuoted = isQuoted
            if word.count(where: { $0 == "`" }) % 2 == 1 { isQuoted.toggle() }
            if !wasQuoted, word.contains(where: { $0.isLetter || $0.isNumber }) {
                if words == 0 { self.line = line }
                words += 1
            }
            if !isQuoted, let last = word.last, ".:?!".contains(last) { end(&found) }
        }
    }

    mutating func end(_ found: inout [(line: Int, words: Int)]) {
        if words > 0 { found.append((line, words)) }
        (words, isQuoted) = (0, false)
    }
}
