/// Rows in the order in which they came, with the sum of their payloads.
struct RowQueue: Sendable {
    private var rows: [Row] = []
    /// Index of the first row. The queue cuts the rows before it off once they are the larger part, so that
    /// taking stays cheap.
    private var head = 0
    private(set) var byteCount = 0

    var count: Int { rows.count - head }
    var isEmpty: Bool { count == 0 }

    mutating func append(_ row: Row) {
        rows.append(row)
        byteCount += row.payload.count
    }

    /// The first rows, up to both bounds, but at least one if there is one.
    mutating func dequeue(rowsMax: Int, bytesMax: Int) -> [Row] {
        var bytes = 0
        var end = head
        while end < rows.count, end - head < rowsMax {
            let next = rows[end].payload.count
            if end > head, bytes + next > bytesMax { break }
            bytes += next
            end += 1
        }
        let taken = Array(rows[head..<end])
        head = end
        byteCount -= bytes
        if head == rows.count {
            rows.removeAll(keepingCapacity: rows.count <= rowsMax)
            head = 0
        } else if head > 1024, head * 2 > rows.count {
            rows.removeFirst(head)
            head = 0
        }
        return taken
    }

    /// Takes out, in order, all rows that fit.
    mutating func remove(where fits: (Row) -> Bool) -> [Row] {
        var removed: [Row] = []
        var kept: [Row] = []
        for row in rows[head...] {
            if fits(row) {
                removed.append(row)
                byteCount -= row.payload.count
            } else {
                kept.append(row)
            }
        }
        rows = kept
        head = 0
        return removed
    }
}
