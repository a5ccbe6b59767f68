import Model

/// The bodies of records that a partition asked for by their sequences.
public struct RecordBodies: Sendable {
    public var records: [(sequence: Sequence, body: [UInt8])]
    /// The engine has looked for all requested records up to this sequence: one that is missing here is gone.
    /// The engine has left the records behind it out, because the bytes reached the bound.
    public var through: Sequence

    public init(records: [(sequence: Sequence, body: [UInt8])], through: Sequence) {
        self.records = records
        self.through = through
    }
}

extension Engine {
    public func read(_ partition: PartitionID, rows: [Sequence]) throws(EngineError) -> [Row] {
        try read(partition, rows: rows, bytesMax: .max)
    }

    public func readBodies(
        _ partition: PartitionID, of sequences: [Sequence], bytesMax: Int
    ) throws -> RecordBodies {
        let rows = try read(partition, rows: sequences, bytesMax: bytesMax)
        var bodies = RecordBodies(records: [], through: sequences.max() ?? .zero)
        for row in rows {
            let record = try RecordCodec.decode(row.payload, expecting: partition, row.sequence)
            bodies.records.append((row.sequence, record.body))
        }
        if let last = rows.last, rows.reduce(0, { $0 + $1.payload.count }) >= bytesMax {
            bodies.through = last.sequence
        }
        return bodies
    }
}
