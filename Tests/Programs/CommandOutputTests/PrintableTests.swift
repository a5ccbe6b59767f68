import Testing

@testable import CommandOutput

@Suite("What strangers wrote") struct PrintableTests {
    @Test(
        "is escaped for a terminal where it is not printable",
        arguments: [
            ("plain", "plain"), ("tab\tand\nline", "tab\tand\nline"), ("ä 日本語 👍🏽", "ä 日本語 👍🏽"),
            ("family 👩\u{200D}👩\u{200D}👧", "family 👩\u{200D}👩\u{200D}👧"),
            ("\u{1B}[2J", #"\u001b[2J"#), ("\u{9B}2J", #"\u009b2J"#), ("a\u{85}b", #"a\u0085b"#),
            ("\u{7F}\u{0}\r", #"\u007f\u0000\u000d"#), ("\u{202E}evil", #"\u202eevil"#),
            ("\u{2066}\u{200F}\u{61C}\u{FEFF}", #"\u2066\u200f\u061c\ufeff"#),
            ("\u{2028}\u{E0041}", #"\u2028\udb40\udc41"#), ("\u{E000}", #"\ue000"#),
        ])
    func escaped(text: String, shown: String) {
        #expect(Printable.escaped(text) == shown)
        #expect(Printable.escaped(shown) == shown)
    }
}
