import Logging
import Model
import Synchronization
import Testing

@testable import Node

@Suite("What operators hear of outboxes and conditions that stand still") struct StalledPairsTests {
    private final class Lines: Sendable {
        let all = Mutex<[String]>([])
    }
    private struct Handler: LogHandler {
        let lines: Lines
        var metadata: Logger.Metadata = [:]
        var logLevel = Logger.Level.trace
        subscript(metadataKey key: String) -> Logger.MetadataValue? {
            get { metadata[key] }
            set { metadata[key] = newValue }
        }
        func log(event: LogEvent) { lines.all.withLock { $0.append("\(event.level)") } }
    }

    @Test("is one line when the first begins and one when none is left, and their number")
    func lines() {
        for kind in [StalledPairs.Kind.outboxes, .conditions] { lines(of: kind) }
    }

    private func lines(of kind: StalledPairs.Kind) {
        let lines = Lines()
        let log = Logger(label: "test") { _ in Handler(lines: lines) }
        let stalled = StalledPairs(kind)
        func told() -> [String] { lines.all.withLock { $0 } }
        for to: UInt16 in [3, 2, 3] { stalled.begin(PartitionID(1), to: PartitionID(to), log) }
        stalled.begin(PartitionID(0), to: PartitionID(3), log)
        #expect(stalled.count == 3 && told() == ["warning"])
        #expect(stalled.all.map(\.from.rawValue) == [0, 1, 1])
        #expect(stalled.all.map(\.to.rawValue) == [3, 2, 3])
        stalled.end(PartitionID(0), to: PartitionID(3), log)
        #expect(stalled.count == 2 && told() == ["warning"])
        stalled.forget(PartitionID(1), log)
        stalled.forget(PartitionID(1), log)
        #expect(stalled.count == 0 && told() == ["warning", "notice"])
        stalled.begin(PartitionID(1), to: PartitionID(2), log)
        #expect(told() == ["warning", "notice", "warning"])
    }
}
