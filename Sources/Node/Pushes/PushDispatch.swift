import Logging
import Model
import NodeCore
import Ownership
import PushClient
import PushMessages
import Synchronization

/// A node's way to push services: one client for all loops. The answers go back to the loops' mailboxes.
///
/// The client begins with the first message, so a node without push services has no thread for them.
final class PushDispatch: Sendable {
    /// A message that is on its way.
    private struct UnderWay {
        var loop: Int
        /// The number of the loop's sender.
        var number: UInt64
        var host: String
    }
    private struct State {
        var client: PushClient?
        var isStopped = false
        var last: UInt64 = 0
        var underWay: [UInt64: UnderWay] = [:]
    }
    private let state = Mutex(State())
    private let mailboxes: @Sendable () -> [Mailbox]
    private let log: Logger
    private let told = Mutex(LogLimit<String>())

    /// - Parameter mailboxes: the loops' mailboxes, in the order of the loops.
    init(mailboxes: @escaping @Sendable () -> [Mailbox], log: Logger) {
        self.mailboxes = mailboxes
        self.log = log
    }

    /// Sends a message for a loop. `request.number` is the number of the loop's sender.
    func send(_ request: PushHTTPRequest, host: String, for loop: Int) {
        var request = request
        let number = request.number
        let client: PushClient? = state.withLock { state in
            guard !state.isStopped else { return nil }
            if state.client == nil { state.client = makeClient() }
            guard let client = state.client else { return nil }
            state.last += 1
            request.number = state.last
            state.underWay[state.last] = UnderWay(loop: loop, number: number, host: host)
            return client
        }
        if let client {
            client.submit([request])
        } else {
            post(.unsent("there is no client for push services"), number, to: loop)
        }
    }

    /// Must run inside the lock.
    private func makeClient() -> PushClient? {
        do throws(PushClientError) {
            return try PushClient { [weak self] answers in self?.take(answers) }
        } catch {
            log.error("there is no client for push services", metadata: ["reason": "\(error)"])
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

    private func take(_ answers: [PushHTTPAnswer]) {
        for answer in answers {
            guard let known = state.withLock({ $0.underWay.removeValue(forKey: answer.number) }) else {
                continue
            }
            post(outcome(answer.result, known.host), known.number, to: known.loop)
        }
    }

    private func outcome(_ result: PushHTTPAnswer.Result, _ host: String) -> PushOutcome {
        switch result {
        case .answered(let status, let fields, let body):
            let retryAfter = fields.first { $0.name == "retry-after" }?.value
            let outcome = WebPushAnswer.outcome(
                status: status, host: host, retryAfter: retryAfter, body: body, now: Clock.now().wall)
            tell(outcome, host)
            return outcome
        case .notPrepared(let reason):
            warn("a message for a push service was not made", host, reason)
            return .unsent(reason)
        case .failed(let reason, _):
            warn("a push service was not reached", host, reason)
            return .transient(retryAfterSeconds: nil)
        }
    }

    func tell(_ outcome: PushOutcome, _ host: String) {
        switch outcome {
        case .credentials(let reason): warn("a push service refuses the project's key", host, reason)
        case .refusedContent(let reason): warn("a push service refuses a message", host, reason)
        case .unsent(let reason): warn("a message for a push service was not made", host, reason)
        case .accepted, .gone, .throttled, .transient: break
        }
    }

    /// One line a minute for each host and kind: a fan-out fails for many devices at once.
    func warn(_ line: Logger.Message, _ host: String, _ reason: String) {
        let withheld = told.withLock { $0.pass("\(line) \(host)", now: Clock.monotonic()) }
        guard let withheld else { return }
        log.warning(
            line, metadata: ["host": "\(host)", "reason": "\(reason)", "withheld": "\(withheld)"])
    }

    private func post(_ outcome: PushOutcome, _ number: UInt64, to loop: Int) {
        let boxes = mailboxes()
        if boxes.indices.contains(loop) { boxes[loop].post(.pushed(number, outcome)) }
    }
}
