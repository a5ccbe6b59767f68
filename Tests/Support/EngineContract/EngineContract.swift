import Journal
import Model
import Testing

/// The contract that every engine must keep. Each rule runs on a new engine.
public enum EngineContract {
    public struct Rule: Sendable, CustomStringConvertible {
        public let description: String
        public let check: @Sendable (any Engine) throws -> Void
    }

    public static let rules: [Rule] = [
        Rule(description: "whatWasAppendedIsRead") { try whatWasAppendedIsRead($0) },
        Rule(description: "aTakenRowDoesNotHinderTheOthers") { try aTakenRowDoesNotHinderTheOthers($0) },
        Rule(description: "aPartitionThatTheSessionDoesNotOwnTakesNothing") {
            try aPartitionThatTheSessionDoesNotOwnTakesNothing($0)
        },
        Rule(description: "aFencedSessionAppendsNothing") { try aFencedSessionAppendsNothing($0) },
        Rule(description: "aSnapshotIsThereWithItsLastPart") { try aSnapshotIsThereWithItsLastPart($0) },
        Rule(description: "ofTwoThatTakeAPartitionOneWins") { try ofTwoThatTakeAPartitionOneWins($0) },
        Rule(description: "theNumberOfPartitionsNeverChanges") { try theNumberOfPartitionsNeverChanges($0) },
        Rule(description: "twoSnapshotsAreKeptAndTrimmingStopsAtTheOlder") {
            try twoSnapshotsAreKeptAndTrimmingStopsAtTheOlder($0)
        },
        Rule(description: "whatWasTrimmedDoesNotComeBack") { try whatWasTrimmedDoesNotComeBack($0) },
        Rule(description: "theLastSequenceOutlivesItsRow") { try theLastSequenceOutlivesItsRow($0) },
        Rule(description: "theCatalogKeepsWhatItIsGiven") { try theCatalogKeepsWhatItIsGiven($0) },
        Rule(description: "whatIsPutFirstStands") { try whatIsPutFirstStands($0) },
        Rule(description: "aChangeFromSomethingOldDoesNothing") {
            try aChangeFromSomethingOldDoesNothing($0)
        },
    ]

    /// Opens an engine twice, and expects from the second one what was written by the first.
    public static func expectReopened(_ open: () throws -> any Engine) throws {
        do {
            let engine = try open()
            let session = try openSession(engine)
            _ = engine.append(session: session, batch: BatchID(1), rows: [try row(0, 2)])
            try engine.writeSnapshot(session: session, partition: p(0), covering: Sequence(2), bytes: [1, 2])
            try engine.put(.setting, key: "x", value: [9])
        }
        let engine = try open()
        #expect(try engine.read(p(0), from: Sequence(2), bytesMax: .max) == [try row(0, 2)])
        #expect(try engine.readSnapshot(p(0), covering: Sequence(2)) == [1, 2])
        #expect(try engine.get(.setting, key: "x") == [9])
    }

    private static func whatWasAppendedIsRead(_ engine: any Engine) throws {
        let session = try openSession(engine)
        let rows = try (2...20).map { try row(1, $0, bytes: 500) }
        let done = engine.append(session: session, batch: BatchID(9), rows: rows)
        #expect(done == .rows(Array(repeating: .appended, count: rows.count)))
        #expect(try engine.lastSequence(p(1)) == Sequence(20))
        #expect(try engine.lastSequence(p(0)) == Sequence(1))
        #expect(try engine.read(p(1), from: Sequence(2), bytesMax: .max) == rows)
        #expect(try engine.read(p(1), from: Sequence(5), bytesMax: 0) == [rows[3]])
        #expect(try engine.read(p(1), from: Sequence(5), bytesMax: 1200).count == 2)
        #expect(try engine.read(p(1), from: Sequence(21), bytesMax: .max).isEmpty)
        let some = [Sequence(9), Sequence(3), Sequence(99)]
        #expect(try engine.read(p(1), rows: some) == [rows[1], rows[7]])
        #expect(try engine.look(p(1), Sequence(2)) == BatchID(9))
        #expect(try engine.look(p(1), Sequence(1)) == Appender.barrierBatch(of: session))
        #expect(try engine.look(p(1), Sequence(21)) == nil)
    }

    private static func aTakenRowDoesNotHinderTheOthers(_ engine: any Engine) throws {
        let session = try openSession(engine)
        let first = engine.append(session: session, batch: BatchID(1), rows: [try row(0, 2)])
        #expect(first == .rows([.appended]))
        let other = Row(partition: p(0), sequence: Sequence(2), payload: try row(0, 3).payload)
        let mixed = engine.append(session: session, batch: BatchID(2), rows: [other, try row(1, 2)])
        #expect(mixed == .rows([.taken, .appended]))
        #expect(try engine.look(p(0), Sequence(2)) == BatchID(1))
        #expect(try engine.read(p(0), rows: [Sequence(2)]) == [try row(0, 2)])
        let both = [Sequence(2), Sequence(1)]
        #expect(try engine.read(p(0), rows: both, bytesMax: .max).map(\.sequence) == both.sorted())
        #expect(try engine.read(p(0), rows: both, bytesMax: 1).map(\.sequence) == [Sequence(1)])
    }

    private static func aPartitionThatTheSessionDoesNotOwnTakesNothing(_ engine: any Engine) throws {
        let dead = try openSession(engine)
        let former = try engine.partitions()[0]
        let one = try engine.beginSession(node: "b")
        try engine.fence(dead)
        #expect(
            engine.append(session: one, batch: BatchID(1), rows: [try row(0, 2)]) == .rows([.unowned]))
        _ = try engine.takeOver(p(0), from: former, by: one, barrier: try row(0, 2))
        let rows = [try row(0, 3), try row(1, 2), try row(0, 4), try row(0, 2)]
        #expect(
            engine.append(session: one, batch: BatchID(1), rows: rows)
                == .rows([.appended, .unowned, .appended, .taken]))
        #expect(try engine.read(p(1), from: Sequence(2), bytesMax: .max).isEmpty)
        let two = try engine.beginSession(node: "c")
        #expect(
            engine.append(session: two, batch: BatchID(3), rows: [try row(0, 5)]) == .rows([.unowned]))
    }

    private static func aFencedSessionAppendsNothing(_ engine: any Engine) throws {
        let old = try openSession(engine)
        #expect(try engine.isAlive(old))
        let new = try engine.beginSession(node: "a")
        #expect(new > old)
        #expect(try !engine.isAlive(old))
        #expect(try engine.isAlive(new))
        let fenced = engine.append(session: old, batch: BatchID(1), rows: [try row(0, 2), try row(1, 2)])
        #expect(fenced == .rows([.fenced, .fenced]))
        #expect(engine.append(session: old, batch: BatchID(2), rows: []) == .rows([.fenced]))
        #expect(engine.append(session: new, batch: BatchID(2), rows: []) == .rows([.appended]))
        #expect(try engine.read(p(0), from: Sequence(2), bytesMax: .max).isEmpty)
        #expect(throws: EngineError.fenced) {
            try engine.writeSnapshot(session: old, partition: p(0), covering: Sequence(1), bytes: [1])
        }
        #expect(throws: EngineError.fenced) {
            try engine.trim(session: old, partition: p(0), below: Sequence(2), keeping: [], limit: 10)
        }
        try engine.fence(new)
        #expect(try !engine.isAlive(new))
        #expect(try !engine.isAlive(SessionID(77)))
    }

    private static func ofTwoThatTakeAPartitionOneWins(_ engine: any Engine) throws {
        let dead = try openSession(engine)
        let former = try engine.partitions()[0]
        let one = try engine.beginSession(node: "b")
        let two = try engine.beginSession(node: "c")
        #expect(throws: EngineError.self) {
            try engine.takeOver(p(0), from: former, by: one, barrier: try row(0, 2))
        }
        try engine.fence(dead)
        // An engine must not take a barrier that would leave a hole in the journal.
        #expect(try engine.takeOver(p(0), from: former, by: one, barrier: try row(0, 3)) == nil)
        #expect(try engine.takeOver(p(0), from: former, by: one, barrier: try row(0, 2)) == Epoch(2))
        #expect(try engine.takeOver(p(0), from: former, by: two, barrier: try row(0, 3)) == nil)
        let now = try engine.partitions()[0]
        #expect(now.owner == one && now.epoch == Epoch(2) && now.history == former.history)
        #expect(throws: EngineError.fenced) {
            try engine.takeOver(p(1), from: former, by: dead, barrier: try row(1, 2))
        }
    }

    private static func theNumberOfPartitionsNeverChanges(_ engine: any Engine) throws {
        _ = try openSession(engine, partitions: 3)
        try engine.createPartitions(count: 3, histories: [])
        #expect(throws: EngineError.self) { try engine.createPartitions(count: 4, histories: []) }
        #expect(throws: EngineError.self) { try engine.lastSequence(p(3)) }
        #expect(try engine.partitions().map(\.id) == [p(0), p(1), p(2)])
    }

    private static func twoSnapshotsAreKeptAndTrimmingStopsAtTheOlder(_ engine: any Engine) throws {
        let session = try openSession(engine)
        let rows = try (2...30).map { try row(0, $0) }
        _ = engine.append(session: session, batch: BatchID(1), rows: rows)
        func trim(below: UInt64, keeping: [UInt64] = [], limit: Int = 1000) throws -> Int {
            try engine.trim(
                session: session, partition: p(0), below: Sequence(below),
                keeping: keeping.map(Sequence.init),
                limit: limit)
        }
        func snapshot(_ covering: UInt64) throws {
            try engine.writeSnapshot(
                session: session, partition: p(0), covering: Sequence(covering),
                bytes: [UInt8(covering), 2, 3])
        }
        try snapshot(10)
        #expect(try trim(below: 11) == 0)
        #expect(try engine.read(p(0), from: .zero, bytesMax: .max).count == 30)
        try snapshot(20)
        try snapshot(25)
        #expect(try engine.snapshots(p(0)).map(\.covering) == [Sequence(25), Sequence(20)])
        #expect(try engine.readSnapshot(p(0), covering: Sequence(20)) == [20, 2, 3])
        #expect(throws: EngineError.self) { try engine.readSnapshot(p(0), covering: Sequence(10)) }
        #expect(throws: EngineError.self) { try snapshot(31) }

        #expect(try trim(below: 29, keeping: [3, 17], limit: 10) == 8)
        #expect(try engine.partitions()[0].floor == Sequence(21))
        #expect(try trim(below: 29, keeping: [17, 3], limit: 10) == 0)
        let left = try engine.read(p(0), from: .zero, bytesMax: .max).map(\.sequence.rawValue)
        #expect(left == [3, 17] + Array(21...30))
        #expect(try trim(below: 21) == 0)
        #expect(try engine.read(p(0), from: .zero, bytesMax: .max).count == 10)
        #expect(try engine.partitions()[0].floor == Sequence(21))
    }

    private static func aSnapshotIsThereWithItsLastPart(_ engine: any Engine) throws {
        let session = try openSession(engine)
        var digest = SnapshotDigest(p(0), covering: Sequence(1))
        func write(_ upload: UInt64?, _ number: Int, _ bytes: [UInt8], isLast: Bool) throws -> UInt64 {
            var part = SnapshotPart(upload: upload, number: number, bytes: bytes, end: nil)
            if number == 0 { digest = SnapshotDigest(p(0), covering: Sequence(1)) }
            digest.add(bytes)
            if isLast { part.end = .init(parts: number + 1, length: 3 * number + 3, digest: digest.value) }
            return try engine.writeSnapshot(
                session: session, partition: p(0), covering: Sequence(1), part: part)
        }
        // A snapshot that is begun and never finished.
        let left = try write(nil, 0, [9, 9, 9], isLast: false)
        _ = try write(left, 1, [9, 9, 9], isLast: false)
        let upload = try write(nil, 0, [1, 2, 3], isLast: false)
        #expect(upload != left)
        #expect(try write(upload, 1, [4, 5, 6], isLast: false) == upload)
        #expect(try engine.snapshots(p(0)).isEmpty)
        #expect(try write(upload, 2, [7, 8, 9], isLast: true) == upload)
        #expect(try engine.snapshots(p(0)).map(\.covering) == [Sequence(1)])
        #expect(try engine.readSnapshot(p(0), covering: Sequence(1)) == [1, 2, 3, 4, 5, 6, 7, 8, 9])
        let huge = [UInt8](repeating: 1, count: EngineRules.snapshotPartBytesMax + 1)
        #expect(throws: EngineError.self) { try write(nil, 0, huge, isLast: false) }
        #expect(throws: EngineError.self) { try write(nil, 1, [1], isLast: false) }
        try engine.fence(session)
        #expect(throws: EngineError.fenced) { try write(nil, 0, [1], isLast: false) }
    }

    /// A late copy of an append must not put back trimmed records (rule: checked-append). The embedded engine
    /// has no late copies: nothing stands between the engine and its disk.
    private static func whatWasTrimmedDoesNotComeBack(_ engine: any Engine) throws {
        guard engine is any ClusterEngine else { return }
        let session = try openSession(engine)
        let rows = try (2...30).map { try row(0, $0) }
        _ = engine.append(session: session, batch: BatchID(1), rows: rows)
        for covering: UInt64 in [20, 25] {
            try engine.writeSnapshot(
                session: session, partition: p(0), covering: Sequence(covering), bytes: [1])
        }
        _ = try engine.trim(
            session: session, partition: p(0), below: Sequence(20), keeping: [], limit: 1000)
        #expect(try engine.look(p(0), Sequence(10)) == nil)
        let late = engine.append(
            session: session, batch: BatchID(1), rows: [try row(0, 10), try row(0, 31)])
        #expect(late == .rows([.unowned, .appended]))
        #expect(try engine.look(p(0), Sequence(10)) == nil)
    }

    private static func theLastSequenceOutlivesItsRow(_ engine: any Engine) throws {
        let session = try openSession(engine)
        _ = engine.append(session: session, batch: BatchID(1), rows: [try row(0, 2), try row(0, 3)])
        for _ in 0..<2 {
            try engine.writeSnapshot(session: session, partition: p(0), covering: Sequence(2), bytes: [])
            try engine.writeSnapshot(session: session, partition: p(0), covering: Sequence(3), bytes: [])
        }
        _ = try engine.trim(
            session: session, partition: p(0), below: Sequence(4), keeping: [], limit: 100)
        #expect(try engine.lastSequence(p(0)) == Sequence(3))
    }

    private static func theCatalogKeepsWhatItIsGiven(_ engine: any Engine) throws {
        try engine.put(.key, key: "b", value: [1])
        try engine.put(.key, key: "a", value: [])
        try engine.put(.key, key: "é", value: [3])
        try engine.put(.key, key: "b", value: [2, 2])
        #expect(try engine.get(.key, key: "b") == [2, 2])
        #expect(try engine.get(.key, key: "a") == [])
        #expect(try engine.get(.project, key: "b") == nil)
        #expect(try engine.all(.key).map(\.key) == ["a", "b", "é"])
        try engine.remove(.key, key: "b")
        try engine.remove(.key, key: "b")
        #expect(try engine.get(.key, key: "b") == nil)
        let long = String(repeating: "k", count: EngineRules.keyBytesMax + 1)
        #expect(throws: EngineError.self) { try engine.put(.key, key: long, value: []) }
    }
}
