import DequeModule

/// Rows in the order in which they came, with the sum of their payloads.
struct RowQueue: Sendable {
    private var rows: Deque<Row> = []
    private(set) var byteCount = 0

    var count: Int { rows.count }
    var isEmpty: Bool { rows.isEmpty }

    mutating func append(_ row: Row) {
        rows.append(row)
        byteCount += row.payload.count
    }

    /// The first rows, up to both bounds, but at least one if there is one.
    mutating func dequeue(rowsMax: Int, bytesMax: Int) -> [Row] {
        var bytes = 0
        var end = 0
        while end < min(rows.count, rowsMax) {
            let next = rows[end].payload.count
            if end > 0, bytes + next > bytesMax { break }
            bytes += next
            end += 1
        }
        let taken = Array(rows.prefix(end))
        rows.removeFirst(end)
        byteCount -= bytes
        return taken
    }

    /// Takes out, in order, all rows that fit.
    mutating func remove(where fits: (Row) -> Bool) -> [Row] {
        let removed = rows.filter(fits)
        rows.removeAll(where: fits)
        byteCount -= removed.reduce(0) { $0 + $1.payload.count }
        return Array(removed)
    }
}
