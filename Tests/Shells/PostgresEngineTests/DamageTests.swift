import EngineContract
import Journal
import Model
import PostgresEngine
import Testing

@Suite("What is stored on PostgreSQL", .enabled(if: Server.isInstalled, Server.missing)) struct DamageTests {
    private func isCorrupt(_ body: () throws -> Void) -> Bool {
        do {
            try body()
            return false
        } catch EngineError.corrupt {
            return true
        } catch {
            return false
        }
    }

    @Test("is not read as truth where a bit of a payload has flipped", arguments: [1, 2] as [UInt64])
    func flippedBit(seed: UInt64) throws {
        let (database, engine, session) = try opened()
        let rows = try (2...4).map { try row(0, $0) }
        _ = engine.append(session: session, batch: BatchID(1), rows: rows)
        let other = try Other(database)
        var random = SeededGenerator(seed: seed)
        for _ in 0..<20 {
            let byte = Int.random(in: 0..<rows[1].payload.count, using: &random)
            let flip = """
                UPDATE tidecast.journal
                SET payload = set_byte(payload, \(byte), get_byte(payload, \(byte)) # 4)
                WHERE partition = 0 AND sequence = 3
                """
            try other.run(flip)
            #expect(
                isCorrupt { _ = try engine.read(p(0), from: Sequence(2), bytesMax: .max) }, "seed \(seed)")
            #expect(isCorrupt { _ = try engine.read(p(0), rows: [Sequence(3)]) }, "seed \(seed)")
            #expect(try engine.read(p(0), from: Sequence(4), bytesMax: .max) == [rows[2]])
            try other.run(flip)
        }
        #expect(try engine.read(p(0), from: Sequence(2), bytesMax: .max) == rows)
    }

    @Test("is corrupt where a row stands in another's place")
    func misplaced() throws {
        let (database, engine, session) = try opened()
        _ = engine.append(session: session, batch: BatchID(1), rows: [try row(0, 2)])
        try Other(database).run(
            "UPDATE tidecast.journal SET sequence = 3 WHERE partition = 0 AND sequence = 2")
        #expect(isCorrupt { _ = try engine.read(p(0), from: Sequence(2), bytesMax: .max) })
    }

    @Test("is corrupt where a snapshot, the catalog or a partition's row is damaged or gone")
    func damagedTables() throws {
        let (database, engine, session) = try opened()
        try engine.writeSnapshot(session: session, partition: p(0), covering: Sequence(1), bytes: [1, 2, 3])
        try engine.put(.key, key: "a", value: [1, 2])
        let other = try Other(database)
        try other.run("UPDATE tidecast.chunk SET bytes = set_byte(bytes, 1, 9)")
        try other.run("UPDATE tidecast.key SET value = set_byte(value, 9, 9)")
        #expect(isCorrupt { _ = try engine.readSnapshot(p(0), covering: Sequence(1)) })
        #expect(isCorrupt { _ = try engine.get(.key, key: "a") })
        #expect(isCorrupt { _ = try engine.all(.key) })
        try other.run("DELETE FROM tidecast.chunk")
        #expect(isCorrupt { _ = try engine.readSnapshot(p(0), covering: Sequence(1)) })
        try other.run("DELETE FROM tidecast.partition WHERE id = 0")
        #expect(isCorrupt { _ = try engine.partitions() })
    }

    @Test("comes back from a snapshot of many chunks, and leaves none of them behind")
    func manyChunks() throws {
        let (database, engine, session) = try opened()
        let other = try Other(database)
        // Chunks of a writer that stopped in the middle.
        try other.run("INSERT INTO tidecast.chunk VALUES (0, 999999, 0, 'x'), (1, 999999, 0, 'x')")
        func count(_ partition: Int) throws -> String? {
            try other.value("SELECT count(*) FROM tidecast.chunk WHERE partition = \(partition)")
        }
        let large = body(of: 1, partition: 0, bytes: 64 << 10)
        let bytes = Array(repeatElement(large, count: 40).joined())
        try engine.writeSnapshot(session: session, partition: p(0), covering: Sequence(1), bytes: bytes)
        #expect(try engine.readSnapshot(p(0), covering: Sequence(1)) == bytes)
        #expect(try count(0) == "10")
        #expect(try other.value("SELECT max(length(bytes)) FROM tidecast.chunk") == "\(256 << 10)")
        // Replaced chunks go, two with each part that comes.
        try engine.writeSnapshot(session: session, partition: p(0), covering: Sequence(1), bytes: bytes)
        #expect(try count(0) == "18")
        for _ in 0..<20 {
            try engine.writeSnapshot(session: session, partition: p(0), covering: Sequence(1), bytes: [7])
        }
        #expect(try engine.readSnapshot(p(0), covering: Sequence(1)) == [7])
        #expect(try count(0) == "1")
        #expect(try count(1) == "1")
    }

    @Test("has bounds: what is far too large or too small is refused")
    func sizeBounds() throws {
        let engine = try newEngine()
        let session = try openSession(engine)
        let zero = Row(partition: p(0), sequence: .zero, payload: [])
        #expect(engine.append(session: session, batch: BatchID(1), rows: [zero]).isRefused)
        let far = Row(partition: p(0), sequence: EngineRules.sequenceMax.next, payload: [])
        #expect(engine.append(session: session, batch: BatchID(1), rows: [try row(1, 2), far]).isRefused)
        let long = Row(
            partition: p(0), sequence: Sequence(2), payload: Array(repeating: 0, count: 5 << 20))
        #expect(engine.append(session: session, batch: BatchID(1), rows: [long]).isRefused)
        #expect(try engine.look(p(1), Sequence(2)) == nil)
        #expect(throws: EngineError.self) { try engine.put(.key, key: "a\0b", value: []) }
        #expect(try engine.get(.key, key: "a\0b") == nil)
        let wide = Array(repeating: UInt8(1), count: ClusterRules.infoBytesMax + 1)
        #expect(throws: EngineError.self) { try engine.renewLease(session, info: wide) }
        #expect(throws: EngineError.self) {
            try engine.writeSnapshot(
                session: session, partition: p(0), covering: Sequence(.max), bytes: [])
        }
        #expect(try engine.read(p(0), from: Sequence(.max), bytesMax: 1).isEmpty)
        #expect(try engine.read(p(0), rows: [Sequence(.max)]).isEmpty)
        #expect(try engine.look(p(0), Sequence(.max)) == nil)
    }

    @Test("is read in pages where the journal is long, and whole")
    func longJournal() throws {
        let engine = try newEngine()
        let session = try openSession(engine, partitions: 1)
        let rows = try (2...6000).map { try row(0, $0, bytes: 20) }
        for start in stride(from: 0, to: rows.count, by: 1000) {
            let some = Array(rows[start..<min(rows.count, start + 1000)])
            _ = engine.append(session: session, batch: BatchID(1), rows: some)
        }
        #expect(try engine.read(p(0), from: Sequence(2), bytesMax: .max) == rows)
        let size = rows[0].payload.count
        let most = try engine.read(p(0), from: Sequence(2), bytesMax: 5000 * size)
        #expect(most == Array(rows[..<5000]))
        #expect(try engine.read(p(0), rows: rows.map(\.sequence)) == rows)
        // Large rows: each page holds as many as fit.
        let large = try (6001...6012).map { try row(0, $0, bytes: 1 << 20) }
        for row in large { _ = engine.append(session: session, batch: BatchID(2), rows: [row]) }
        #expect(try engine.read(p(0), from: Sequence(6001), bytesMax: .max) == large)
    }

    @Test("lists the living sessions with leases that move")
    func sessionsListed() throws {
        let engine = try newEngine()
        let first = try engine.beginSession(node: "b")
        let second = try engine.beginSession(node: "a")
        #expect(try engine.renewLease(first) == 1)
        try engine.renewLease(first, info: [7])
        #expect(try engine.sessions().map(\.counter) == [2, 0])
        #expect(try engine.sessions().map(\.node) == ["b", "a"])
        #expect(try engine.sessions()[0].info == [7])
        let again = try engine.beginSession(node: "b")
        #expect(throws: EngineError.fenced) { try engine.renewLease(first) }
        #expect(try engine.sessions().map(\.id) == [second, again])
        #expect(throws: EngineError.fenced) { try engine.renewLease(SessionID(99)) }
    }
}
