import Logging
import Model
import NodeCore
import PushClient
import PushMessages
import Synchronization

/// A message of a loop's sender, on its way to a push service.
struct PushTicket: Sendable {
    var loop: Int
    /// The number of the loop's sender.
    var number: UInt64
    var kind: Transport.Kind
    var project: ProjectNumber
    /// The service's origin, for logs.
    var host: String
    /// Which settings of the project for push services counted when the loop handed the message over.
    var revision: UInt64 = 0
}

/// The number of each project's settings for push services: how often they have changed since the start.
final class PushRevisions: Sendable {
    private let numbers = Mutex<[ProjectNumber: UInt64]>([:])

    subscript(project: ProjectNumber) -> UInt64 { numbers.withLock { $0[project] ?? 0 } }

    /// Must be called when the new settings are in place, so that nothing of the former settings has the new
    /// number.
    func raise(_ projects: Set<ProjectNumber>) {
        numbers.withLock { numbers in for project in projects { numbers[project, default: 0] += 1 } }
    }
}

private struct NoClient: Error, CustomStringConvertible {
    let description = "there is no client for push services"
}

/// A node's way to push services over HTTP: one client for all loops and for all services but Apple's. The
/// answers go back to the loops' mailboxes. `PushUnderWay` decides what an answer means.
///
/// The client begins with the first message, so a node without push services has no thread for them.
final class PushDispatch: Sendable {
    typealias Done = @Sendable (PushHTTPAnswer.Result) -> Void
    private struct State {
        var client: PushClient?
        var isStopped = false
        var last: UInt64 = 0
        var underWay: [UInt64: Done] = [:]
    }
    private let state = Mutex(State())
    private let connectionsMax: Int
    private let mailboxes: @Sendable () -> [Mailbox]
    let revisions: PushRevisions
    let notices: PushNotices

    /// - Parameter mailboxes: the loops' mailboxes, in the order of the loops.
    init(
        connectionsMax: Int, mailboxes: @escaping @Sendable () -> [Mailbox], revisions: PushRevisions,
        notices: PushNotices
    ) {
        self.connectionsMax = connectionsMax
        self.revisions = revisions
        self.mailboxes = mailboxes
        self.notices = notices
    }

    /// Sends a message of Web Push.
    func send(_ request: PushHTTPRequest, _ ticket: PushTicket) {
        let underWay = PushUnderWay(revision: ticket.revision, now: Clock.monotonic())
        submit(request) { result in
            let end = underWay.judge(
                web: self.result(result, ticket.kind, at: ticket.host, for: ticket.project),
                host: ticket.host,
                revision: self.revisions[ticket.project], now: Clock.now().wall)
            self.finish(end, ticket)
        }
    }

    /// Sends a request, whatever its number. `done` is called once: on the client's thread, or here where
    /// there is no client.
    func submit(_ request: PushHTTPRequest, _ done: @escaping Done) {
        var request = request
        let client: PushClient? = state.withLock { state in
            guard !state.isStopped else { return nil }
            if state.client == nil { state.client = makeClient() }
            guard let client = state.client else { return nil }
            state.last += 1
            request.number = state.last
            state.underWay[state.last] = done
            return client
        }
        guard let client else {
            return done(.notPrepared(NoClient()))
        }
        client.submit([request])
    }

    /// Must run inside the lock.
    private func makeClient() -> PushClient? {
        do throws(PushClientError) {
            var settings = PushClientSettings()
            settings.connectionsMax = connectionsMax
            // Otherwise requests wait inside libcurl, where the queue's shares do not count.
            settings.transfersMax = min(settings.transfersMax, connectionsMax)
            return try PushClient(settings: settings) { [weak self] answers in self?.receive(answers) }
        } catch {
            notices.error("there is no client for push services", "\(error)")
            return nil
        }
    }

    /// Ends the client's thread. Messages that are not answered stay in the journal.
    func stop() {
        let client = state.withLock { state in
            state.isStopped = true
            defer { state.client = nil }
            return state.client
        }
        client?.stop()
    }

    // MARK: Answers

    private func receive(_ answers: [PushHTTPAnswer]) {
        for answer in answers {
            let done = state.withLock { $0.underWay.removeValue(forKey: answer.number) }
            done?(answer.result)
        }
    }

    /// The client's word as the machines read it; tells operators of services that were not reached.
    func result(
        _ result: PushHTTPAnswer.Result, _ kind: Transport.Kind, at host: String, for project: ProjectNumber
    ) -> PushResult {
        switch result {
        case .answered(let status, let fields, let body):
            return .answered(status: status, retryAfter: PushDispatch.retryAfter(fields), body: body)
        case .notPrepared(let error): return PushDispatch.withheld(error)
        case .notTried(let reason): return .notTried(reason)
        case .failed(let reason, _):
            notices.unreached(kind, at: host, for: project, because: reason)
            return .unanswered
        }
    }

    /// What it means that `mayLeave` or the making of a request threw this.
    static func withheld(_ error: any Error) -> PushResult {
        error is TimeIsOver ? .expired : .notMade("\(error)")
    }

    static func retryAfter(_ fields: [(name: String, value: String)]) -> String? {
        fields.first { $0.name == "retry-after" }?.value
    }

    /// Tells operators and the loop what became of a message.
    func finish(_ end: PushUnderWay.End, _ ticket: PushTicket) {
        if let alarm = end.alarm { notices.alarm(alarm, of: ticket, because: end.reason) }
        notices.tell(end.outcome, ticket, isFormer: end.isFormer)
        post(end.outcome, ticket)
    }

    private func post(_ outcome: PushOutcome, _ ticket: PushTicket) {
        let boxes = mailboxes()
        if boxes.indices.contains(ticket.loop) { boxes[ticket.loop].post(.pushed(ticket.number, outcome)) }
    }
}
