/// The word that somebody may have meant.
enum Nearest {
    /// The nearest of the words, at most two letters away; `nil` if none is so near.
    static func of(_ word: String, among words: some Sequence<String>) -> String? {
        let near = words.map { (word: $0, distance: distance(word, $0)) }.filter { $0.distance <= 2 }
        return near.min { ($0.distance, $0.word) < ($1.distance, $1.word) }?.word
    }

    /// How many letters must change, come or go (Levenshtein).
    static func distance(_ one: String, _ other: String) -> Int {
        let other = Array(other)
        var row = Array(0...other.count)
        for (index, letter) in one.enumerated() {
            var next = [index + 1]
            for place in other.indices {
                let changed = row[place] + (letter == other[place] ? 0 : 1)
                next.append(min(changed, row[place + 1] + 1, next[place] + 1))
            }
            row = next
        }
        return row[other.count]
    }
}
