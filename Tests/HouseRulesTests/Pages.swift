// A rough reader of the pages in docs/, for the rules about them. PagesTests shows each part failing on
// planted text.

enum Page {
    /// The names in backticks.
    static func names(in text: some StringProtocol) -> [String] {
        String(text).matches(of: /`([\w.]+)`/).map { String($0.1) }
    }

    /// The names among `names` that a source does not declare. Of a name the part behind the last dot counts.
    static func undeclared(_ names: [String], in source: String) -> [String] {
        let introducers: Set<Substring> = [
            "func", "let", "var", "enum", "struct", "class", "case", "typealias", "def",
        ]
        let words = source.split { !($0.isLetter || $0.isNumber || $0 == "_") }
        var declared: Set<Substring> = []
        for (word, name) in zip(words, words.dropFirst()) where introducers.contains(word) {
            declared.insert(name)
        }
        if source.contains("init(") { declared.insert("init") }
        return names.filter { !declared.contains($0.split(separator: ".").last ?? "") }
    }
}
