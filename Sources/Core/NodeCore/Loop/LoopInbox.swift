import DequeModule
import Model
import Partitions

/// The messages for a loop from the other loops of its node, the engines, the control side, and connections
/// to other processes. Bounded in entries and in bytes.
///
/// - A loop that has requests for a loop that is *behind* refuses them before anything has happened, and
///   streams as well (`LoopCore.ask`, `attach`). For a loop that is *full* it also leaves out what a protocol
///   repeats.
/// - The inbox of a loop that is *full* leaves out a frame of another process. Instead it reports to the loop
///   that the link to that process broke: the loop asks again and sends a gap notice, as after a lost
///   connection.
/// - The inbox always takes the outcome of a record, an order, and an answer that somebody waits for. There
///   are never more of them than the loop has asked for, or than others wait for at the same time.
public struct LoopInbox: Sendable {
    public static let bound = Backlog.Bound(entries: 1 << 19, bytes: 128 << 20)

    public typealias Batch = Deque<LoopMessage>

    private var messages: Batch = []
    private var backlog: Backlog
    /// Processes of which the inbox has left a frame out since the loop last took everything.
    private var cutOff: Set<ProcessID> = []

    public init(_ bound: Backlog.Bound = LoopInbox.bound) { backlog = Backlog(bound) }

    public var pressure: Pressure { backlog.pressure }

    /// Takes a message of the node itself, which keeps to the bound when it hands over.
    public mutating func post(_ message: LoopMessage) {
        messages.append(message)
        backlog.add(bytes: message.weight)
    }

    public mutating func post(_ batch: [LoopMessage]) {
        for message in batch { post(message) }
    }

    /// Moves the messages out of `batch`, which gets the memory of the inbox if that is empty.
    public mutating func post(taking batch: inout Batch) {
        var bytes = 0
        for index in batch.indices { bytes += batch[index].weight }
        backlog.add(entries: batch.count, bytes: bytes)
        if messages.isEmpty {
            swap(&messages, &batch)
        } else {
            while let message = batch.popFirst() { messages.append(message) }
        }
    }

    /// Takes what a frame of another process has for the loop. False if it was left out.
    public mutating func post(_ batch: [LoopMessage], from processID: ProcessID) -> Bool {
        guard backlog.pressure == .full else {
            post(batch)
            return true
        }
        if cutOff.insert(processID).inserted { post(.linkReset(processID)) }
        return false
    }

    /// Takes out everything that has come.
    public mutating func drain() -> Batch {
        var taken: Batch = []
        drain(into: &taken)
        return taken
    }

    /// Takes out everything that has come. `taken` must be empty, and the inbox gets its memory.
    public mutating func drain(into taken: inout Batch) {
        precondition(taken.isEmpty, "messages that were drained before would go back into the inbox")
        swap(&taken, &messages)
        backlog.clear()
        cutOff.removeAll()
    }
}

extension LoopMessage {
    /// The bytes that the message keeps, about.
    var weight: Int {
        switch self {
        case .request(_, _, let request, _): 128 + request.weight
        case .partition(_, .offered(let frame)), .peerEvent(_, _, _, .offered(let frame)): 128 + frame.weight
        case .partition(_, .records(let bodies, _)): bodies.records.reduce(128) { $0 + $1.body.count }
        case .stream(_, let frame), .peerStream(_, _, let frame): 128 + frame.weight
        default: 128
        }
    }

    /// Whether the message's protocol sends it again if it was lost.
    public var isRepeated: Bool {
        switch self {
        case .partition(_, .offered), .partition(_, .acknowledged), .partition(_, .asked),
            .partition(_, .told), .quotaRequest, .quotaGrant:
            true
        default: false
        }
    }
}
