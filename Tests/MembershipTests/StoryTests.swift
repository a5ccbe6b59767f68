import StoryTelling
import Testing

/// The stories in `Stories` are the promises of membership in plain text.
@Suite("Stories of membership") struct StoryTests {
    static let stories = Stories()

    @Test(arguments: stories.names) func itGoesAsItIsTold(_ name: String) throws {
        try StoryTests.stories.expect(name) { StoryTeller.play($0) }
    }

    @Test func thereAreStories() { #expect(StoryTests.stories.names.count >= 10) }
}
