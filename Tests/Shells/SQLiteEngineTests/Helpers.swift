import Foundation
import Journal
import SQLiteEngine

/// A folder for one test, removed with this object.
final class TemporaryFolder {
    let path: String

    init() {
        path =
            FileManager.default.temporaryDirectory.appendingPathComponent("tidecast-\(UUID().uuidString)")
            .path
    }

    deinit { try? FileManager.default.removeItem(atPath: path) }

    var database: String { path + "/" + SQLiteEngine.fileName }
}

extension AppendOutcome {
    var isRefused: Bool { if case .refused = self { true } else { false } }
    var isUnknown: Bool { if case .unknown = self { true } else { false } }
}

/// Waits for values that another thread hands over.
// Safe: `values` is touched only while `condition` is held.
final class Gathered<Value: Sendable>: @unchecked Sendable {
    private let condition = NSCondition()
    private var values: [Value] = []

    func add(_ new: [Value]) {
        condition.withLock {
            values.append(contentsOf: new)
            condition.broadcast()
        }
    }

    /// All values once there are `count`, or the values that are there after a minute.
    func wait(for count: Int) -> [Value] {
        condition.withLock {
            let end = Date(timeIntervalSinceNow: 60)
            while values.count < count, condition.wait(until: end) {}
            return values
        }
    }
}
