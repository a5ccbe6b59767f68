import CPQ
import Glibc

/// One connection to the database, and the judge of its answers.
///
/// **When is a commit acknowledged?** The server sends a statement's rows and "command complete" *before* it
/// commits; only "ready for query" comes after. So an answer counts when the whole exchange is over and the
/// connection is idle outside a transaction. If an operator cancels the wait for a standby, a *warning* comes
/// beside an answer that looks like success: such an answer is unconfirmed (`Field.leavesDoubt`).
final class PostgresConnection {
    /// Warnings that the server sent beside its answer.
    private final class Notices {
        var doubt: String?
    }

    private let handle: OpaquePointer
    private let notices = Notices()
    private var names: [String: String] = [:]
    /// Milliseconds without a byte from the server after which the engine stops waiting for an answer.
    private let silenceMax: Int

    /// Connects to the first host that takes writes. Values of `conninfo` override those of `defaults`.
    init(_ conninfo: String, defaults: [(String, String)], silenceMax: Int) throws(Fault) {
        self.silenceMax = silenceMax
        var keywords: [String?] = defaults.map(\.0)
        var values: [String?] = defaults.map(\.1)
        // The connection string goes into the field for the database's name; of two values the last counts.
        keywords += ["dbname", "client_encoding", nil]
        values += [conninfo, "UTF8", nil]
        let opened = PostgresConnection.withCStrings(keywords) { keywords in
            PostgresConnection.withCStrings(values) { values in PQconnectdbParams(keywords, values, 1) }
        }
        guard let opened else { throw .unsent("no memory for a connection to the database") }
        guard PQstatus(opened) == CONNECTION_OK else {
            let reason = PQerrorMessage(opened).map { Reply.trimmed(String(cString: $0)) } ?? ""
            PQfinish(opened)
            throw .unsent("\(PostgresEngine.unreachable): \(reason)")
        }
        handle = opened
        // Otherwise a server that reads nothing would hold this thread in the middle of a large statement.
        PQsetnonblocking(handle, 1)
        // The receiver is called only inside calls of this class, while `notices` lives.
        PQsetNoticeReceiver(
            handle,
            { context, result in
                guard let context, let result else { return }
                guard Field.leavesDoubt(result) else { return }
                Unmanaged<Notices>.fromOpaque(context).takeUnretainedValue().doubt =
                    Field.message.text(of: result) ?? "a warning without words"
            }, Unmanaged.passUnretained(notices).toOpaque())
    }

    deinit { PQfinish(handle) }

    private static func withCStrings<Result>(
        _ strings: [String?], _ body: (UnsafePointer<UnsafePointer<CChar>?>?) -> Result
    ) -> Result {
        var bytes: [CChar] = []
        let offsets = strings.map { string -> Int? in
            guard let string else { return nil }
            defer { bytes.append(contentsOf: string.utf8CString) }
            return bytes.count
        }
        return bytes.withUnsafeBufferPointer { bytes in
            let pointers = offsets.map { $0.flatMap { offset in bytes.baseAddress?.advanced(by: offset) } }
            return pointers.withUnsafeBufferPointer { body($0.baseAddress) }
        }
    }

    var serverVersion: Int { Int(PQserverVersion(handle)) }

    /// Whether the server is known to have hung up since the last answer: one read that does not wait. It
    /// spares an append after a restart of the server the outcome "unknown".
    var isOver: Bool { PQconsumeInput(handle) == 0 || PQstatus(handle) != CONNECTION_OK }

    /// Runs a statement by its text, prepared the first time.
    func run(_ sql: StaticString, _ parameters: [Parameter] = []) throws(Fault) -> Reply {
        try run("\(sql)", parameters)
    }

    func run(_ sql: String, _ parameters: [Parameter] = []) throws(Fault) -> Reply {
        notices.doubt = nil
        let name = try prepare(sql)
        let laid = Parameters(parameters)
        let lengths = laid.ranges.map { Int32(clamping: $0?.count ?? 0) }
        let formats = [Int32](repeating: 1, count: lengths.count)
        let isSent = laid.bytes.withUnsafeBytes { bytes in
            let start = bytes.baseAddress?.assumingMemoryBound(to: CChar.self)
            let pointers = laid.ranges.map { range in range.flatMap { start?.advanced(by: $0.lowerBound) } }
            return PQsendQueryPrepared(handle, name, Int32(lengths.count), pointers, lengths, formats, 1)
        }
        return try judge(try answer(isSent))
    }

    private func prepare(_ sql: String) throws(Fault) -> String {
        if let name = names[sql] { return name }
        let name = "s\(names.count)"
        _ = try judge(try answer(PQsendPrepare(handle, name, sql, 0, nil)))
        names[sql] = name
        return name
    }

    /// Runs one or more statements that are needed once.
    @discardableResult
    func execute(_ sql: String) throws(Fault) -> Reply {
        notices.doubt = nil
        return try judge(try answer(PQsendQuery(handle, sql)))
    }

    /// Waits for the whole answer to a statement, and returns its last part, as `PQexec` does.
    ///
    /// The wait for a frozen server, or for a network that swallows everything, has an end: the connection
    /// then counts as lost, and the outcome as unknown. The engine does not ask the server to cancel: a
    /// commit that waits for a standby goes on waiting (rule: unknown-is-an-outcome).
    private func answer(_ isSent: Int32) throws(Fault) -> OpaquePointer? {
        guard isSent == 1 else { throw .lost(connectionMessage) }
        while true {
            let left = PQflush(handle)
            if left == 0 { break }
            guard left > 0 else { throw .lost(connectionMessage) }
            try awaitServer(alsoToSend: true)
        }
        var last: OpaquePointer?
        do throws(Fault) {
            while true {
                while PQisBusy(handle) == 1 { try awaitServer(alsoToSend: false) }
                guard let next = PQgetResult(handle) else { return last }
                let isFailure = last.map { PQresultStatus($0) == PGRES_FATAL_ERROR } ?? false
                // Nothing behind an error counts.
                if isFailure {
                    PQclear(next)
                } else {
                    PQclear(last)
                    last = next
                }
            }
        } catch {
            PQclear(last)
            throw error
        }
    }

    private func awaitServer(alsoToSend: Bool) throws(Fault) {
        var socket = pollfd(fd: PQsocket(handle), events: Int16(POLLIN), revents: 0)
        if alsoToSend { socket.events |= Int16(POLLOUT) }
        let ready = poll(&socket, 1, Int32(clamping: silenceMax))
        if ready < 0, errno == EINTR { return }
        guard ready > 0 else {
            throw .lost("the database has not answered for \(silenceMax / 1000) s")
        }
        if socket.revents & Int16(POLLIN | POLLHUP | POLLERR) != 0, PQconsumeInput(handle) == 0 {
            throw .lost(connectionMessage)
        }
    }

    private func judge(_ result: OpaquePointer?) throws(Fault) -> Reply {
        guard let result else { throw .lost(connectionMessage) }
        let reply = Reply(result)
        let isUp = PQstatus(handle) == CONNECTION_OK
        switch reply.status {
        case PGRES_TUPLES_OK, PGRES_COMMAND_OK, PGRES_EMPTY_QUERY:
            let standing = PQtransactionStatus(handle)
            guard isUp, standing == PQTRANS_IDLE || standing == PQTRANS_INTRANS else {
                throw .lost(connectionMessage)
            }
            if let doubt = notices.doubt { throw .unconfirmed(doubt) }
            return reply
        case PGRES_FATAL_ERROR:
            guard isUp, !reply.endsConnection, let state = reply.state, !State.leavesDoubt(state) else {
                throw .lost(reply.message)
            }
            throw .rejected(state: state, message: reply.message)
        default:
            throw .lost("the database sent an unexpected answer")
        }
    }

    private var connectionMessage: String {
        PQerrorMessage(handle).map { Reply.trimmed(String(cString: $0)) } ?? "no reason was given"
    }
}
