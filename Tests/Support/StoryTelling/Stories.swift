import Foundation
import Model
import Testing

/// A folder of stories: plain texts that a test plays and compares. A line of a story says what happens; the
/// lines behind it, which begin with ">", are what the machines did then. "#" begins a remark.
///
/// With `REWRITE_STORIES=1` the test writes the results of this run into the stories, for a look at the
/// difference.
public struct Stories: Sendable {
    private let folder: URL

    /// The folder `name` next to the file that calls.
    public init(_ name: String = "Stories", nextTo file: String = #filePath) {
        folder = URL(filePath: file).deletingLastPathComponent().appending(path: name)
    }

    /// The names of the stories, in order.
    public var names: [String] {
        let found = try? FileManager.default.contentsOfDirectory(atPath: folder.path)
        return (found ?? []).filter { $0.hasSuffix(".story") }.sorted()
    }

    /// Plays the story and fails where it does not go as it is told.
    public func expect(
        _ name: String, location: SourceLocation = #_sourceLocation, play: (String) throws -> String
    ) throws {
        let file = folder.appending(path: name)
        let told = try String(contentsOf: file, encoding: .utf8)
        let seen = try play(told)
        if ProcessInfo.processInfo.environment["REWRITE_STORIES"] == "1" {
            try seen.write(to: file, atomically: true, encoding: .utf8)
        } else {
            #expect(
                seen == told, "\(name): REWRITE_STORIES=1 writes down what was seen",
                sourceLocation: location)
        }
    }

    /// The story `text` with the results of this run: `perform` carries out the words of one line and returns
    /// what it saw.
    public static func play(
        _ text: String, perform: (_ words: [String]) throws -> [String]
    ) rethrows -> String {
        var out: [String] = []
        for line in text.split(separator: "\n", omittingEmptySubsequences: false) {
            if line.hasPrefix(">") { continue }
            out.append(String(line))
            let words = line.split(separator: " ").map(String.init)
            guard let first = words.first, first != "#" else { continue }
            out += try perform(words).map { "> \($0)" }
        }
        return out.joined(separator: "\n")
    }

    /// `250ms` or `5s`; `nil` for other texts.
    public static func length(_ text: some StringProtocol) -> TimeSpan? {
        if text.hasSuffix("ms") { return UInt64(text.dropLast(2)).map { .milliseconds($0) } }
        guard text.hasSuffix("s") else { return nil }
        return UInt64(text.dropLast()).map { .seconds($0) }
    }
}
