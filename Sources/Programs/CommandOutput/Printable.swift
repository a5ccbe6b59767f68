/// Text that may hold what strangers wrote, such as a message's data, for a terminal.
package enum Printable {
    /// The text with each character that is not printable as JSON escapes it (RFC 8259 §7): controls, which a
    /// terminal obeys (ECMA-48; U+009B begins a sequence as ESC [ does), and marks that turn or hide text.
    /// Line feeds and tabs stay, and so do the joiners that scripts and emoji need.
    package static func escaped(_ text: String) -> String {
        guard text.unicodeScalars.contains(where: isHidden) else { return text }
        var out = String.UnicodeScalarView()
        for scalar in text.unicodeScalars {
            guard isHidden(scalar) else {
                out.append(scalar)
                continue
            }
            for unit in Unicode.UTF16.encode(scalar) ?? Unicode.UTF16.encodedReplacementCharacter {
                let digits = String(unit, radix: 16)
                let zeros = String(repeating: "0", count: 4 - digits.count)
                out.append(contentsOf: "\\u\(zeros)\(digits)".unicodeScalars)
            }
        }
        return String(out)
    }

    private static func isHidden(_ scalar: Unicode.Scalar) -> Bool {
        switch scalar {
        case "\n", "\t", "\u{200C}", "\u{200D}": false
        default:
            switch scalar.properties.generalCategory {
            case .control, .format, .lineSeparator, .paragraphSeparator, .privateUse, .unassigned, .surrogate:
                true
            default: false
            }
        }
    }
}
