import ArgumentParser
import Foundation

/// One setting of a server: `--listen-tls`, `TIDECAST_LISTEN_TLS`, and `listenTls` in a file of settings. Its
/// row says everything that the help, the checks and the page of settings say.
struct Setting: Sendable {
    enum Kind: Sendable {
        case text
        case list
        case flag
        /// A whole number in this range.
        case number(ClosedRange<Int>)
    }

    /// In camel case: the key of the file.
    let key: String
    let kind: Kind
    /// How the help shows a value, `HOST:PORT`.
    let valueName: String
    let byDefault: String
    let sentence: String
    /// Further sentences for the page, with links.
    let more: String
    /// Whether there is a flag. A secret has none: every user of the machine could read it.
    let hasFlag: Bool

    init(
        _ key: String, as kind: Kind = .text, value: String = "", default byDefault: String = "none",
        hasFlag: Bool = true, _ sentence: String, more: String = ""
    ) {
        self.key = key
        self.kind = kind
        valueName = value
        if case .flag = kind { self.byDefault = "false" } else { self.byDefault = byDefault }
        self.sentence = sentence
        self.more = more
        self.hasFlag = hasFlag
    }

    /// `--listen-tls` for `listenTls`.
    var flag: String { key.reduce("--") { $1.isUppercase ? "\($0)-\($1.lowercased())" : "\($0)\($1)" } }

    /// `TIDECAST_LISTEN_TLS` for `listenTls`.
    var variable: String {
        key.reduce("TIDECAST_") { $1.isUppercase ? "\($0)_\($1)" : $0 + $1.uppercased() }
    }

    var help: ArgumentHelp {
        let isShown = byDefault != "none" && byDefault != "false"
        let shown = isShown ? " By default \(byDefault)." : ""
        let marks: Set<Character> = ["`", "*"]
        return ArgumentHelp(
            "\(sentence)\(range)\(repeats)\(shown)".filter { !marks.contains($0) }.description,
            valueName: valueName.isEmpty ? nil : valueName)
    }

    private var range: String {
        if case .number(let range) = kind, range.upperBound < .max {
            return " From \(range.lowerBound.grouped) to \(range.upperBound.grouped)."
        }
        return ""
    }
    private var repeats: String { if case .list = kind { " May be repeated." } else { "" } }

    /// `from 1 to 64`, or `at least 1`.
    static func text(_ range: ClosedRange<Int>) -> String {
        range.upperBound == .max
            ? "at least \(range.lowerBound)" : "from \(range.lowerBound) to \(range.upperBound)"
    }

    /// The setting's row of docs/configuration.md.
    var row: String {
        let names = hasFlag ? "`\(([flag, valueName].filter { !$0.isEmpty }).joined(separator: " "))`" : "–"
        let form = if case .list = kind { " (array)" } else { "" }
        let sentences = [sentence + range, more].filter { !$0.isEmpty }.joined(separator: " ")
        return "| \(names) | `\(variable)` | `\(key)`\(form) | \(byDefault) | \(sentences) |"
    }
}

extension Int {
    /// `12,000`, whatever the user's language.
    var grouped: String { formatted(.number.locale(Locale(identifier: "en_US"))) }
}
