import Model

/// Records whose bodies are to be read for streams that come back: each once for all who wait for it.
///
/// One read is under way at a time, bounded in records and bytes. What waits here is the numbers of records,
/// no more than there are with waiting messages, and who waits for them. Bodies that were read stay with
/// their messages in the delivery log, which forgets the oldest past its bound; they are read again then.
struct BodyReads {
    private var queue: [Sequence] = []
    /// Who waits for each record that is to be read, or is being read.
    private var readers: [Sequence: Set<UInt32>] = [:]
    private var asked: (records: [Sequence], token: UInt64)?

    mutating func want(_ records: [Sequence], for index: UInt32) {
        for record in records {
            if readers[record] == nil { queue.append(record) }
            readers[record, default: []].insert(index)
        }
    }

    /// What is to be read now, ascending; `nil` where nothing is, or a read is under way.
    mutating func next(_ count: Int, token: UInt64) -> [Sequence]? {
        guard asked == nil, !queue.isEmpty else { return nil }
        let records = queue.prefix(count).sorted()
        queue.removeFirst(records.count)
        asked = (records, token)
        return records
    }

    /// The records that were looked at, and who waits for them. Those behind are asked for again.
    mutating func answered(
        through: Sequence, token: UInt64
    ) -> (records: Set<Sequence>, readers: [UInt32])? {
        guard let (records, number) = asked, number == token else { return nil }
        asked = nil
        let seen = records.prefix { $0 <= through }
        queue.insert(contentsOf: records[seen.endIndex...], at: 0)
        var waiting: Set<UInt32> = []
        for record in seen { waiting.formUnion(readers.removeValue(forKey: record) ?? []) }
        return (Set(seen), waiting.sorted())
    }
}
