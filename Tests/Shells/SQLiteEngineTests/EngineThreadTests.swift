import EngineContract
import EngineDriver
import Foundation
import Journal
import MemoryEngine
import Model
import SQLiteEngine
import Testing

@Suite("The engine's thread") struct EngineThreadTests {
    private let folder = TemporaryFolder()

    private struct Told: Sendable {
        var owner: Int
        var resolved: [Resolved]
    }

    /// A thread over a new engine, with a session that has begun. The next record of each partition is 2.
    private func start(
        _ told: Gathered<Told>, _ fatal: Gathered<String>, partitions: Int = 4,
        make: @escaping @Sendable () throws -> any Engine
    ) throws -> EngineThread {
        let thread = EngineThread(
            makeEngine: make, onFatal: { fatal.add([$0]) },
            onResolved: { owner, resolved in told.add([Told(owner: owner, resolved: resolved)]) })
        let begun = Gathered<SessionID>()
        thread.perform(
            { try openSession($0, partitions: partitions) },
            then: { begun.add([try? $0.get()].compactMap { $0 }) })
        thread.use(try #require(begun.wait(for: 1).first))
        return thread
    }

    @Test("lets many loops share commits, and tells each of its own rows")
    func manyLoops() throws {
        let told = Gathered<Told>()
        let fatal = Gathered<String>()
        let path = folder.path
        let thread = try start(told, fatal) { try SQLiteEngine(folder: path) }
        let count: UInt64 = 200
        for sequence in 2...count {
            for partition in 0..<4 { thread.submit([try row(partition, sequence)], for: partition % 2) }
        }
        thread.shutdown()
        let all = told.wait(for: 0)
        for owner in 0..<2 {
            let mine = all.filter { $0.owner == owner }.flatMap(\.resolved)
            #expect(mine.count == 2 * Int(count - 1))
            #expect(mine.allSatisfy { Int($0.partition.rawValue) % 2 == owner && $0.resolution == .durable })
            for partition in [owner, owner + 2] {
                let sequences = mine.filter { $0.partition == p(partition) }.map(\.sequence.rawValue)
                #expect(sequences == Array(2...count))
            }
        }
        let counters = thread.counters
        #expect(counters.rows == 4 * (count - 1))
        #expect(counters.commits <= counters.rows)
        #expect(counters.commitTimes.reduce(0, +) == counters.commits)
        #expect(counters.batchSizes.reduce(0, +) == counters.commits)
        #expect(fatal.wait(for: 0).isEmpty)
        // The thread has let the folder go.
        #expect(try SQLiteEngine(folder: path).lastSequence(p(3)) == Sequence(count))
    }

    @Test("lets jobs and commits take turns")
    func jobsAndCommitsTakeTurns() throws {
        let told = Gathered<Told>()
        let path = folder.path
        let thread = try start(told, Gathered()) { try SQLiteEngine(folder: path) }
        let read = Gathered<Int>()
        for sequence in 2...50 as ClosedRange<UInt64> {
            thread.submit([try row(0, sequence)], for: 0)
            thread.perform(
                { try $0.read(p(0), from: .zero, bytesMax: .max).count },
                then: { read.add([(try? $0.get()) ?? -1]) })
        }
        thread.shutdown()
        let counts = read.wait(for: 49)
        #expect(counts.count == 49 && counts == counts.sorted() && !counts.contains(-1))
    }

    @Test("follows a lost reply up to the truth")
    func lostReply() throws {
        let told = Gathered<Told>()
        let thread = try start(told, Gathered()) {
            let engine = MemoryEngine()
            engine.faults = [.loseReply, .loseRequest, .refuse, nil]
            return engine
        }
        thread.submit([try row(0, 2)], for: 0)
        #expect(told.wait(for: 1).flatMap(\.resolved).map(\.resolution) == [.durable])
        thread.shutdown()
        #expect(thread.counters.unknown == 2)
    }

    @Test("acknowledges nothing once the engine has failed, and says so once")
    func failedEngine() throws {
        let told = Gathered<Told>()
        let fatal = Gathered<String>()
        let thread = try start(told, fatal) {
            let engine = MemoryEngine()
            engine.faults = [.fail(afterCommit: true)]
            return engine
        }
        thread.submit([try row(0, 2)], for: 0)
        #expect(fatal.wait(for: 1) == ["the disk failed"])
        thread.submit([try row(0, 3)], for: 0)
        let failed = Gathered<Bool>()
        thread.perform({ _ in 1 }, then: { failed.add([(try? $0.get()) == nil]) })
        #expect(failed.wait(for: 1) == [true])
        thread.shutdown()
        #expect(told.wait(for: 0).isEmpty)
        #expect(fatal.wait(for: 1).count == 1)
    }

    @Test("reports an engine that cannot be opened as fatal")
    func cannotOpen() throws {
        let path = folder.path
        let engine = try SQLiteEngine(folder: path)
        let fatal = Gathered<String>()
        let thread = EngineThread(
            makeEngine: { try SQLiteEngine(folder: path) }, onFatal: { fatal.add([$0]) },
            onResolved: { _, _ in })
        #expect(fatal.wait(for: 1).first?.contains("another tidecast") == true)
        thread.shutdown()
        _ = engine.folder
    }

    @Test("refuses rows that come before a session")
    func beforeSession() throws {
        let told = Gathered<Told>()
        let thread = EngineThread(
            makeEngine: { MemoryEngine() }, onFatal: { _ in },
            onResolved: { owner, resolved in told.add([Told(owner: owner, resolved: resolved)]) })
        thread.submit([try row(0, 2)], for: 3)
        let first = told.wait(for: 1).first
        #expect(first?.owner == 3)
        #expect(first?.resolved.map(\.resolution) == [.refused("no session has begun")])
        thread.shutdown()
    }
}
