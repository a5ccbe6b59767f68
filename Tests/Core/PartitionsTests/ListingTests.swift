import Model
import Testing

@testable import Partitions

@Suite("A listing of topics")
struct TopicListingTests {
    private func all(
        _ harness: PartitionHarness, of project: ProjectNumber, limit: Int
    ) -> (names: [String], asked: Int) {
        var found: [String] = []
        var asked = 0
        for partition in UInt16(0)..<8 {
            var after: UInt64? = 0
            while let from = after, asked < 1000 {
                asked += 1
                let reply = harness.request(
                    .topics(project: project, after: from, limit: limit), of: PartitionID(partition))
                guard case .topics(let list, let next) = reply, list.count <= limit else {
                    return ([], asked)
                }
                found += list.map(\.name.description)
                after = next
            }
        }
        return (found, asked)
    }

    @Test("has each topic once, however few names one event looks at", arguments: [1, 3, 7, 100])
    func slices(bound: Int) throws {
        let harness = PartitionHarness(count: 8) { $0.listedAtOnce = bound }
        let (device, _) = try #require(harness.register(in: 1))
        let names = (0..<20).map { "t\($0)" }
        for name in names { _ = harness.change(.subscribe, name, [device]) }
        // A topic without members leaves a free number.
        _ = harness.change(.unsubscribe, "t7", [device])
        for limit in [1, 6, 50] {
            let found = all(harness, of: PartitionHarness.project, limit: limit)
            #expect(found.names.sorted() == names.filter { $0 != "t7" }.sorted())
            // Each partition looks at its own topics, whatever else the loop has.
            #expect(found.asked >= 19 / bound && found.asked <= 8 + 19)
        }
        let others = all(harness, of: ProjectNumber(99), limit: 5)
        #expect(others.names.isEmpty && others.asked == 8)
    }
}

@Suite("A listing of devices")
struct ListingTests {
    /// The devices of a project, asked for until there are no more, and how often that was.
    private func all(
        _ harness: PartitionHarness, of project: ProjectNumber, limit: Int
    ) -> (indices: [UInt32], asked: Int) {
        var found: [UInt32] = []
        var after: UInt64? = 0
        var asked = 0
        while let from = after, asked < 1000 {
            asked += 1
            let reply = harness.request(
                .devices(project: project, after: from, limit: limit), of: PartitionID(1))
            guard case .devices(let list, let next) = reply else { break }
            found += list.map(\.index.rawValue)
            after = next
        }
        return (found, asked)
    }

    @Test("has each device once, however few one event looks at", arguments: [1, 3, 7, 100])
    func slices(bound: Int) throws {
        let harness = PartitionHarness { $0.listedAtOnce = bound }
        let mine = try (0..<20).map { _ in try #require(harness.register(in: 1)).0.index.rawValue }
        for limit in [1, 6, 50] {
            let found = all(harness, of: PartitionHarness.project, limit: limit)
            #expect(found.indices == mine)
            #expect(found.asked >= 20 / min(bound, limit))
        }
    }

    @Test("of a project without devices asks once and looks at nobody")
    func others() throws {
        let harness = PartitionHarness { $0.listedAtOnce = 1 }
        for _ in 0..<20 { _ = try #require(harness.register(in: 1)) }
        let found = all(harness, of: ProjectNumber(99), limit: 5)
        #expect(found.indices.isEmpty && found.asked == 1)
    }
}
