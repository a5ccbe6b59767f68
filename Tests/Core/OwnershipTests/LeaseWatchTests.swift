import Journal
import Model
import Testing

@testable import Ownership

@Suite("A node that looks whether another one lives") final class LeaseWatchTests {
    private var watch = LeaseWatch(name: "a")

    private func row(_ id: UInt64, _ node: String, _ counter: UInt64) -> SessionRow {
        SessionRow(id: SessionID(id), node: node, counter: counter, info: [])
    }

    private func at(_ milliseconds: UInt64) -> MonotonicTime {
        MonotonicTime(nanoseconds: milliseconds * 1_000_000)
    }

    @Test("says that the cluster is unserved at once where there is no other session than its former one")
    func alone() {
        #expect(watch.look([row(1, "a", 7)], asked: at(0), answered: at(1)) == .unserved([]))
    }

    /// Looks each 500 ms that take `length`, from `start` on. Returns when the cluster counts as unserved.
    private func unserved(_ rows: [SessionRow], from start: UInt64, length: UInt64 = 0) -> UInt64? {
        for time in stride(from: start, to: start + 60_000, by: 500) {
            let verdict = watch.look(rows, asked: at(time - length), answered: at(time))
            if verdict == .unserved(rows) { return time }
            guard verdict == .open else { return nil }
        }
        return nil
    }

    @Test("waits while leases stand still, counted from the answer to the first look")
    func still() {
        #expect(unserved([row(2, "b", 7), row(3, "c", 9)], from: 2000) == 6500)
    }

    @Test("waits longer for a session that has just begun, and where each look is slow")
    func slow() {
        #expect(unserved([row(2, "b", 7), row(3, "c", 0)], from: 2000) == 17_000)
        watch = LeaseWatch(name: "a")
        #expect(unserved([row(2, "b", 7)], from: 2000, length: 400) == 8000)
        // Looks of 3 s, each begun when the one before is over.
        watch = LeaseWatch(name: "a")
        var found: [LeaseWatch.Verdict] = []
        for time in stride(from: UInt64(3000), through: 18_000, by: 3000) {
            found.append(watch.look([row(2, "b", 7)], asked: at(time - 2900), answered: at(time)))
        }
        #expect(found.dropLast().allSatisfy { $0 == .open } && found.last == .unserved([row(2, "b", 7)]))
    }

    @Test(
        "looks for three seconds more after the database or the process stood still",
        arguments: [true, false])
    func stoodStill(database: Bool) {
        let rows = [row(2, "b", 7)]
        _ = watch.look(rows, asked: at(0), answered: at(0))
        for time in stride(from: UInt64(500), through: 4000, by: 500) {
            #expect(watch.look(rows, asked: at(time), answered: at(time)) == .open)
        }
        #expect(watch.look(rows, asked: at(database ? 4400 : 20_000), answered: at(20_000)) == .open)
        #expect(unserved(rows, from: 20_500) == 23_000)
    }

    @Test("sees one that renews among many that do not, and one that has begun since")
    func lives() {
        for later in [[row(2, "b", 7), row(3, "c", 10)], [row(2, "b", 7), row(3, "c", 9), row(4, "d", 0)]] {
            watch = LeaseWatch(name: "a")
            _ = watch.look([row(2, "b", 7), row(3, "c", 9)], asked: at(0), answered: at(1))
            #expect(watch.look(later, asked: at(100_000), answered: at(100_001)) == .served)
        }
    }

    @Test("counts those that another node has fenced meanwhile as gone")
    func fenced() {
        _ = watch.look([row(2, "b", 7)], asked: at(0), answered: at(1))
        #expect(watch.look([], asked: at(100), answered: at(101)) == .unserved([]))
    }
}
