import Model

/// One message in the delivery log: who still waits for it, until when, and where its body stands.
struct LogEntry {
    var position: Position
    var expires: WallTime
    var project: UInt32
    /// The collapse key's number in the log's index; 0 for none.
    var key: UInt32
    /// The record whose `ordinal`-th event is the body.
    var record: Sequence
    var ordinal: UInt32
    var bytes: UInt32
    /// Exactly those who wait for it: whoever acknowledged, passed, collapsed or overflowed it has left.
    var targets: DeviceSet
    /// The body itself, while it is recent.
    var body: [UInt8]?
}

/// 64 entries in order of position, with a union of their targets that may hold too much, never too little.
final class LogBlock {
    static let entriesMax = 64
    var entries: [LogEntry] = []
    let union = Bitmap()
    /// Entries with targets.
    var occupied = 0

    var first: Position { entries.first?.position ?? .zero }
    var last: Position { entries.last?.position ?? .zero }
    var isFull: Bool { entries.count == LogBlock.entriesMax }
}

/// 64 blocks, with the union of their unions, so that whoever looks for one device's few messages in a busy
/// log skips four thousand entries at a time.
final class LogSpan {
    static let blocksMax = 64
    var blocks: [LogBlock] = []
    let union = Bitmap()
    var isFull: Bool { blocks.count == LogSpan.blocksMax && blocks[LogSpan.blocksMax - 1].isFull }
    var last: Position { blocks.last?.last ?? .zero }
}

extension Bitmap {
    func mayShare(with set: DeviceSet) -> Bool {
        switch set.storage {
        case .none: false
        case .one(let only): contains(only)
        case .few(let indices): indices.contains { contains($0) }
        case .many(let bitmap): intersects(bitmap)
        }
    }

    func formUnion(_ set: DeviceSet) {
        switch set.storage {
        case .none: break
        case .one(let only): _ = add(only)
        case .few(let indices): indices.withUnsafeBufferPointer { add($0) }
        case .many(let bitmap): formUnion(bitmap)
        }
    }
}
