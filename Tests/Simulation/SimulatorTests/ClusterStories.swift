import StoryTelling
import Testing

/// The stories in `ClusterStories` tell each protocol as the whole nodes play it: the loops (`LoopCore`) and
/// the control sides (`ControlCore`) of several nodes, with their links and a database.
@Suite("Stories of a cluster") struct ClusterStories {
    static let stories = Stories("ClusterStories")

    @Test("go as they are told", arguments: stories.names)
    func told(_ name: String) throws {
        try ClusterStories.stories.expect(name) { text in
            let told = ToldCluster()
            defer { told.end() }
            let seen = Stories.play(text) { told.perform($0) }
            #expect(told.violations.isEmpty)
            return seen
        }
    }

    @Test("are there: this suite is not green for want of stories")
    func areThere() { #expect(ClusterStories.stories.names.count >= 5) }
}
