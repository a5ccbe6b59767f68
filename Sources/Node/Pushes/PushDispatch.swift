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
}

private struct NoClient: Error, CustomStringConvertible {
    let description = "there is no client for push services"
}

/// A node's way to push services over HTTP: one client for all loops and for all services but Apple's. The
/// answers go back to the loops' mailboxes.
///
/// The client begins with the first message, so a node without push services has no thread for them.
final class PushDispatch: Sendable {
    /// So long after the loop handed a message over it may still leave, or leave again: later the loop's
    /// sender would count the message as failed before the service answers, and send it again.
    static let againWithin: TimeSpan = .seconds(25)
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
    let notices: PushNotices

    /// - Parameter mailboxes: the loops' mailboxes, in the order of the loops.
    init(
        connectionsMax: Int, mailboxes: @escaping @Sendable () -> [Mailbox], notices: PushNotices
    ) {
        self.connectionsMax = connectionsMax
        self.mailboxes = mailboxes
        self.notices = notices
    }

    /// Sends a message of Web Push.
    func send(_ request: PushHTTPRequest, _ ticket: PushTicket) {
        submit(request) { result in self.post(self.outcome(result, ticket), ticket) }
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

    private func outcome(_ result: PushHTTPAnswer.Result, _ ticket: PushTicket) -> PushOutcome {
        switch result {
        case .answered(let status, let fields, let body):
            let outcome = WebPushAnswer.outcome(
                status: status, host: ticket.host, retryAfter: PushDispatch.retryAfter(fields), body: body,
                now: Clock.now().wall)
            notices.tell(outcome, ticket)
            return outcome
        case .notPrepared(let error): return withheld(ticket, because: error)
        case .notTried(let reason): return untried(ticket, because: reason)
        case .failed(let reason, _): return unreached(ticket, because: reason)
        }
    }

    /// The outcome of a message that had no turn in the client, which says nothing of the service.
    func untried(_ ticket: PushTicket, because reason: String) -> PushOutcome {
        let outcome = PushOutcome.unsent(reason)
        notices.tell(outcome, ticket)
        return outcome
    }

    /// The outcome of a message that the service has not answered.
    func unreached(_ ticket: PushTicket, because reason: String) -> PushOutcome {
        notices.unreached(ticket.kind, at: ticket.host, because: reason)
        return .transient(retryAfterSeconds: nil)
    }

    /// The outcome of a message that did not leave.
    func withheld(_ ticket: PushTicket, because error: any Error) -> PushOutcome {
        let outcome = PushDispatch.withheld(error)
        notices.tell(outcome, ticket)
        return outcome
    }

    /// What it means that `mayLeave` or the making of a request threw this.
    static func withheld(_ error: any Error) -> PushOutcome {
        error is TimeIsOver ? .expired : .unsent("\(error)")
    }

    static func retryAfter(_ fields: [(name: String, value: String)]) -> String? {
        fields.first { $0.name == "retry-after" }?.value
    }

    func post(_ outcome: PushOutcome, _ ticket: PushTicket) {
        let boxes = mailboxes()
        if boxes.indices.contains(ticket.loop) { boxes[ticket.loop].post(.pushed(ticket.number, outcome)) }
    }
}
