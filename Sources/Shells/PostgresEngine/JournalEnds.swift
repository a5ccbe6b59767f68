import Bytes
import Journal
import Model
import Synchronization

/// How far each journal of a database went when the database last acknowledged a record to this process, over
/// any connection. After a restored disk, or a failover that lost something, journals end earlier. The next
/// connection sees this before anything is written behind a hole (rule: lost-ends-raise-the-generation).
public final class JournalEnds: Sendable {
    private let ends = Mutex<[PartitionID: Sequence]>([:])

    func acknowledged(_ rows: some Swift.Sequence<Row>) {
        ends.withLock { ends in
            for row in rows where row.sequence > ends[row.partition] ?? .zero {
                ends[row.partition] = row.sequence
            }
        }
    }

    var all: [(partition: PartitionID, sequence: Sequence)] {
        ends.withLock { $0.sorted { $0.key < $1.key }.map { ($0.key, $0.value) } }
    }
}

extension PostgresEngine {
    private static let lossKey = "loss"

    func lossSeen(_ connection: PostgresConnection) throws(Fault) -> UInt64 {
        guard let value = try get(.setting, PostgresEngine.lossKey, connection: connection) else { return 0 }
        var reader = ByteReader(value)
        guard let seen = try? reader.u64() else {
            throw .engine(.corrupt("the database's note of a loss cannot be read"))
        }
        return seen
    }

    /// Another node may have seen that the database went back.
    func checkLoss(_ connection: PostgresConnection) throws(Fault) {
        let seen = try lossSeen(connection)
        if let known = lastLossSeen ?? options.knownPast?.lossSeen, known != seen {
            throw distrust(
                "the database went back, as another node has noted: its last records may be lost, so the node"
                    + " reads everything again")
        }
        lastLossSeen = seen
    }

    /// The database went back. Every process that connects later reads it; all processes that see the loss in
    /// this life of the server write the same value.
    func noteLoss(_ connection: PostgresConnection) throws(Fault) {
        let reply = try connection.run(
            "SELECT (extract(epoch FROM pg_postmaster_start_time()) * 1000000)::int8")
        var value = ByteWriter()
        value.u64(try reply.uint(0, 0))
        try put(.setting, PostgresEngine.lossKey, value: value.bytes, connection: connection)
    }

    /// All records may be trimmed; the floor still shows how far a journal had come.
    func checkEnds(_ connection: PostgresConnection) throws(Fault) {
        let known = options.ends.all
        guard !known.isEmpty else { return }
        let reply = try connection.run(
            """
            SELECT k.partition, k.sequence, p.last
            FROM unnest($1::int4[], $2::int8[]) AS k (partition, sequence), LATERAL (
                SELECT coalesce(greatest(
                    (SELECT floor - 1 FROM tidecast.partition WHERE id = k.partition),
                    (SELECT max(sequence) FROM tidecast.journal WHERE partition = k.partition)), 0)
            ) AS p (last)
            WHERE p.last < k.sequence LIMIT 1
            """,
            [
                .shorts(known.map { Int32($0.partition.rawValue) }),
                .ints(known.map { Int64(bitPattern: $0.sequence.rawValue) }),
            ])
        guard reply.count > 0 else { return }
        let (partition, was, last) = (try reply.int(0, 0), try reply.int(0, 1), try reply.int(0, 2))
        try noteLoss(connection)
        throw distrust(
            "the database went back: it had acknowledged record \(was) of partition \(partition), and the"
                + " last record there is \(last); an old copy was restored, or a failover lost the records,"
                + " so the node reads everything again")
    }
}
