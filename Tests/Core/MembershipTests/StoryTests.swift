import StoryTelling
import Testing

/// The stories in `Stories` are the promises of membership in plain text.
@Suite("Stories of membership") struct StoryTests {
    static let stories = Stories()

    @Test("go as they are told", arguments: stories.names)
    func told(_ name: String) throws {
        try StoryTests.stories.expect(name) { StoryTeller.play($0) }
    }

    @Test("are there: this suite is not green for want of stories")
    func areThere() { #expect(StoryTests.stories.names.count >= 10) }
}
