import Model

/// Records whose bodies are to be read for streams that come back, each once for all readers that want it.
///
/// One read is under way at a time, bounded in records and bytes. The queue holds the numbers of records, at
/// most as many as have waiting messages, and the devices that wait. Bodies that were read stay with their
/// messages in the delivery log, which forgets the oldest past its bound; these are read again.
struct BodyReads {
    private var queue: [Sequence] = []
    /// The devices that wait for each record that is to be read, or is being read.
    private var readers: [Sequence: Set<UInt32>] = [:]
    private var asked: (records: [Sequence], token: UInt64)?

    mutating func want(_ records: [Sequence], for index: UInt32) {
        for record in records {
            if readers[record] == nil { queue.append(record) }
            readers[record, default: []].insert(index)
        }
    }

    /// The records to be read now, ascending; `nil` if there is none, or a read is under way.
    mutating func next(_ count: Int, token: UInt64) -> [Sequence]? {
        guard asked == nil, !queue.isEmpty else { return nil }
        let records = queue.prefix(count).sorted()
        queue.removeFirst(records.count)
        asked = (records, token)
        return records
    }

    /// The records that the journal looked at, and their readers, each with the number of these records that
    /// it waited for. Records behind `through` are read again.
    mutating func answered(
        through: Sequence, token: UInt64
    ) -> (records: Set<Sequence>, readers: [(index: UInt32, count: Int)])? {
        guard let (records, number) = asked, number == token else { return nil }
        asked = nil
        let seen = records.prefix { $0 <= through }
        queue.insert(contentsOf: records[seen.endIndex...], at: 0)
        var counts: [UInt32: Int] = [:]
        for record in seen {
            for index in readers.removeValue(forKey: record) ?? [] { counts[index, default: 0] += 1 }
        }
        return (Set(seen), counts.sorted { $0.key < $1.key }.map { ($0.key, $0.value) })
    }
}
