import PushScheduling

/// A request under way on a connection, and what has come of its answer.
final class ClientStream {
    let ticket: ConnectionPools.Ticket
    let body: [UInt8]
    var sent = 0
    var id: Int32 = 0
    /// Its index among the session's open streams.
    var index = 0
    /// Whether any of the request has left. Before that the service cannot have it.
    var hasLeft = false
    /// The status of the final header block, once that block has begun.
    var status: Int?
    /// Whether the final header block is whole.
    var isHeaded = false
    var fields: [(name: String, value: String)] = []
    var fieldBytes = 0
    var answer: [UInt8] = []
    /// Whether somebody has the outcome already. libnghttp2 refers to the stream until it is closed.
    var isDone = false

    init(ticket: ConnectionPools.Ticket, body: [UInt8]) {
        self.ticket = ticket
        self.body = body
    }
}

/// How a stream ended.
enum StreamEnd {
    /// The final header block is there, with all or a part of the body.
    case answered(status: Int)
    /// The service has surely not processed the request.
    case refused(reason: String)
    /// The request may have been processed.
    case lost(reason: String)
}
