import Bytes
import MemoryEngine
import Model
import Quotas
import Testing

@testable import NodeCore

/// The tokens that an orderly end, a crash and a first start leave in the buckets.
@Suite("Quotas over a restart")
struct FormerQuotasTests {
    let engine = MemoryEngine()
    let projects = [ProjectNumber(1), ProjectNumber(2)]
    let started = MonotonicTime(nanoseconds: 50_000_000_000)

    private func start(_ milliseconds: Int64) throws -> FormerQuotas {
        try FormerQuotas.claim(
            from: engine, projects: projects, now: WallTime(milliseconds: milliseconds))
    }

    @Test("the first start of a folder: all are full, also those that were made before it")
    func first() throws {
        guard case .full = try start(0).beginning(of: projects[0], started: started) else {
            Issue.record("not full")
            return
        }
    }

    @Test("after a crash those that were known begin empty, new ones full")
    func crash() throws {
        _ = try start(0)
        let former = try start(1000)
        guard case .empty(let since) = former.beginning(of: projects[0], started: started),
            case .full = former.beginning(of: ProjectNumber(3), started: started)
        else {
            Issue.record("\(former)")
            return
        }
        #expect(since == started)
        #expect(former.unknown == Set(projects))
    }

    @Test("after an orderly end each has what it had, and what flowed in since")
    func orderly() throws {
        _ = try start(0)
        try FormerQuotas.put(
            [projects[0]: [5, 6, 7]], to: engine, now: WallTime(milliseconds: 10_000))
        let former = try start(12_000)
        guard case .holding(let tokens, let since) = former.beginning(of: projects[0], started: started),
            case .full = former.beginning(of: projects[1], started: started)
        else {
            Issue.record("\(former)")
            return
        }
        #expect(tokens == [5, 6, 7])
        #expect(since == started.rewound(by: .seconds(2)))
        // The row counts once: after a crash the tokens of all projects are unknown.
        #expect(try start(13_000).unknown == Set(projects))
    }

    @Test("a clock that was set back adds nothing")
    func clock() throws {
        _ = try start(0)
        try FormerQuotas.put([projects[0]: [5, 6, 7]], to: engine, now: WallTime(milliseconds: 10_000))
        guard case .holding(_, let since) = try start(3_000).beginning(of: projects[0], started: started)
        else {
            Issue.record("not holding")
            return
        }
        #expect(since == started)
    }

    @Test(
        "a row that cannot be read is an error, not a guess", arguments: [[], [9], [1], [1, 1, 0], [1, 7]])
    func malformed(row: [UInt8]) throws {
        try engine.put(.setting, key: "quotas-left", value: row)
        #expect(throws: (any Error).self) { try start(0) }
    }

    /// The newer tidecast would lose its row.
    @Test("a newer tidecast's row is refused, and stays as it is", arguments: [[2, 0], [2, 1, 9], [255]])
    func newer(row: [UInt8]) throws {
        try engine.put(.setting, key: "quotas-left", value: row)
        let error = #expect(throws: DecodeError.self) { try start(0) }
        #expect("\(String(describing: error))".contains("it is from a newer tidecast"))
        #expect(try engine.get(.setting, key: "quotas-left") == row)
    }

    @Test("a bucket that holds some tokens gives those and what flows in")
    func holding() {
        var grantor = QuotaGrantor()
        grantor.open(
            projects[0], .standard, epoch: Epoch(1),
            beginning: .holding([100, 20, 3], since: MonotonicTime.zero),
            now: MonotonicTime.zero)
        #expect(grantor.remainders(now: MonotonicTime.zero) == [projects[0]: [100, 20, 3]])
        #expect(
            grantor.remainders(now: MonotonicTime(nanoseconds: 1_000_000)) == [projects[0]: [110, 23, 4]])
    }
}
