import Journal
import Model
import Testing

@testable import Ownership

@Suite("A node that looks whether another one lives") struct LeaseWatchTests {
    private func row(_ id: UInt64, _ node: String, _ counter: UInt64) -> SessionRow {
        SessionRow(id: SessionID(id), node: node, counter: counter, info: [])
    }

    private func at(_ milliseconds: UInt64) -> MonotonicTime {
        MonotonicTime(nanoseconds: milliseconds * 1_000_000)
    }

    @Test("says that the cluster is unserved at once where there is no other session than its former one")
    func alone() {
        var watch = LeaseWatch(name: "a")
        #expect(watch.look([row(1, "a", 7)], asked: at(0), answered: at(1)) == .unserved([]))
    }

    @Test("waits while leases stand still, counted from the answer to the first look")
    func still() {
        var watch = LeaseWatch(name: "a")
        let rows = [row(2, "b", 7), row(3, "c", 9)]
        #expect(watch.look(rows, asked: at(0), answered: at(2000)) == .open)
        for time in stride(from: 2500, to: 6500, by: 500) {
            #expect(watch.look(rows, asked: at(UInt64(time)), answered: at(UInt64(time))) == .open)
        }
        #expect(watch.look(rows, asked: at(6500), answered: at(6501)) == .unserved(rows))
    }

    @Test("begins to wait again after the database or the process stood still", arguments: [true, false])
    func stoodStill(database: Bool) {
        var watch = LeaseWatch(name: "a")
        let rows = [row(2, "b", 7)]
        _ = watch.look(rows, asked: at(0), answered: at(0))
        for time in stride(from: 500, through: 4000, by: 500) {
            #expect(watch.look(rows, asked: at(UInt64(time)), answered: at(UInt64(time))) == .open)
        }
        let asked: UInt64 = database ? 4400 : 20_000
        #expect(watch.look(rows, asked: at(asked), answered: at(20_000)) == .open)
        for time in stride(from: 20_500, to: 24_500, by: 500) {
            #expect(watch.look(rows, asked: at(UInt64(time)), answered: at(UInt64(time))) == .open)
        }
        #expect(watch.look(rows, asked: at(24_500), answered: at(24_500)) == .unserved(rows))
    }

    @Test("sees one that renews among many that do not, and one that has begun since")
    func lives() {
        for later in [[row(2, "b", 7), row(3, "c", 10)], [row(2, "b", 7), row(3, "c", 9), row(4, "d", 0)]] {
            var watch = LeaseWatch(name: "a")
            _ = watch.look([row(2, "b", 7), row(3, "c", 9)], asked: at(0), answered: at(1))
            #expect(watch.look(later, asked: at(100_000), answered: at(100_001)) == .served)
        }
    }

    @Test("counts those that another node has fenced meanwhile as gone")
    func fenced() {
        var watch = LeaseWatch(name: "a")
        _ = watch.look([row(2, "b", 7)], asked: at(0), answered: at(1))
        #expect(watch.look([], asked: at(100), answered: at(101)) == .unserved([]))
    }
}
