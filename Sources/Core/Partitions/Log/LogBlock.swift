import Model

/// One message in the delivery log: the devices that wait for it, until when, and the place of its body.
struct LogEntry {
    var position: Position
    var ends: EntryEnds
    var project: UInt32
    /// The collapse key's number in the log's index; 0 for none.
    var key: UInt32
    /// Whether the message replaces older ones with its key. A key may name a share and collapse nothing.
    var isCollapsible: Bool { CollapseKeys.collapses(key) }
    /// The record whose `ordinal`-th event is the body.
    var record: Sequence
    var ordinal: UInt32
    var bytes: UInt32
    /// Exactly the devices that still wait. A device leaves when it acknowledges the message, or when the
    /// message passes, collapses or overflows for it.
    var targets: DeviceSet
    /// The body, while the log's cache holds it.
    var body: [UInt8]?
}

/// 64 entries in the order of positions. The union of their targets may hold too many, never too few.
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

/// 64 blocks, with the union of their unions, so that a search for one device's few messages in a busy log
/// skips 4,096 entries at a time.
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
