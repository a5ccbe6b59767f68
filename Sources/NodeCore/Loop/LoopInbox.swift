import Model
import Partitions
import Routing

/// What others have for a loop: the other loops of its node, the engines, the control side, and connections
/// to other processes. Bounded in entries and in bytes.
///
/// - A loop that has requests for one that is *behind* refuses them before anything has happened, and streams
///   as well (`LoopCore.ask`, `attach`). Where it is *full*, what a protocol repeats anyway is left out too.
/// - A frame of another process for a loop that is *full* is left out, and the loop is told in its place that
///   the link to that process broke: it asks again and says so there, as when a connection is lost.
/// - What became of a record, an order, an answer that somebody waits for: these are always taken. There are
///   never more of them than the loop has asked for, or others wait for at the same time.
public struct LoopInbox: Sendable {
    public static let bound = Backlog.Bound(entries: 1 << 19, bytes: 128 << 20)

    private var messages: [LoopMessage] = []
    private var backlog: Backlog
    /// Processes of which something was left out since the loop has last taken everything.
    private var cutOff: Set<UInt32> = []

    public init(_ bound: Backlog.Bound = LoopInbox.bound) { backlog = Backlog(bound) }

    public var pressure: Pressure { backlog.pressure }

    /// From the node itself, which keeps to the bound where it hands over.
    public mutating func post(_ message: LoopMessage) {
        messages.append(message)
        backlog.add(bytes: message.weight)
    }

    public mutating func post(_ batch: [LoopMessage]) {
        var bytes = 0
        for place in batch.indices { bytes += batch[place].weight }
        backlog.add(entries: batch.count, bytes: bytes)
        if messages.isEmpty { messages = batch } else { messages.append(contentsOf: batch) }
    }

    /// What a frame of another process has for the loop. False where it was left out.
    public mutating func post(_ batch: [LoopMessage], from life: UInt32) -> Bool {
        guard backlog.pressure == .full else {
            post(batch)
            return true
        }
        if cutOff.insert(life).inserted { post(.linkReset(life)) }
        return false
    }

    /// Everything that has come.
    public mutating func take() -> [LoopMessage] {
        var taken: [LoopMessage] = []
        swap(&taken, &messages)
        backlog.clear()
        cutOff.removeAll()
        return taken
    }
}

extension LoopMessage {
    /// Bytes that it keeps, about.
    var weight: Int {
        switch self {
        case .request(_, _, let request, _): 128 + request.weight
        case .partition(_, .offered(let frame)): 128 + frame.weight
        case .partition(_, .records(let bodies, _)): bodies.records.reduce(128) { $0 + $1.body.count }
        case .stream(_, let frame), .peerStream(_, _, let frame): 128 + frame.weight
        default: 128
        }
    }

    /// Whether it is said again by its protocol where it was lost.
    public var isRepeated: Bool {
        switch self {
        case .partition(_, .offered), .partition(_, .acknowledged), .partition(_, .asked),
            .partition(_, .told), .quotaRequest, .quotaGrant:
            true
        default: false
        }
    }
}
