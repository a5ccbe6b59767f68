import Foundation
import Testing

/// The stories in `Stories` are the promises of membership in plain text. With `REWRITE_STORIES=1` the test
/// writes the results of this run into the stories, for a look at the difference.
@Suite("Stories of membership") struct StoryTests {
    static let folder = URL(filePath: #filePath).deletingLastPathComponent().appending(path: "Stories")
    static let names: [String] = {
        let found = try? FileManager.default.contentsOfDirectory(atPath: folder.path)
        return (found ?? []).filter { $0.hasSuffix(".story") }.sorted()
    }()

    @Test("go as they are told", arguments: names)
    func itGoesAsItIsTold(_ name: String) throws {
        let file = StoryTests.folder.appending(path: name)
        let told = try String(contentsOf: file, encoding: .utf8)
        let seen = StoryTeller.play(told)
        if ProcessInfo.processInfo.environment["REWRITE_STORIES"] == "1" {
            try seen.write(to: file, atomically: true, encoding: .utf8)
        } else {
            #expect(seen == told, "REWRITE_STORIES=1 writes down what was seen")
        }
    }

    @Test("are there: this suite is not green for want of stories")
    func thereAreStories() { #expect(StoryTests.names.count >= 10) }
}
