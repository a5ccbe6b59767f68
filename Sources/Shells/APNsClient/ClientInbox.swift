import PushScheduling
import Synchronization

/// What other threads hand to the client's thread.
final class ClientInbox: Sendable {
    struct Mail {
        var requests: [APNsRequest] = []
        var renewals: [(pool: APNsPool, connection: APNsConnectionID?)] = []
        var isEmpty: Bool { requests.isEmpty && renewals.isEmpty }
    }
    private struct Content {
        var mail = Mail()
        var isStopped = false
    }

    private let content = Mutex(Content())

    enum Receipt {
        /// The caller must wake the thread.
        case isFirst
        /// The thread will look.
        case isExpected
        /// Nobody looks any more.
        case isRefused
    }

    func post(_ add: (inout Mail) -> Void) -> Receipt {
        content.withLock { content in
            guard !content.isStopped else { return .isRefused }
            let isFirst = content.mail.isEmpty
            add(&content.mail)
            return isFirst ? .isFirst : .isExpected
        }
    }

    func drain() -> Mail {
        content.withLock { content in
            defer { content.mail = Mail() }
            return content.mail
        }
    }

    /// Takes no more mail. False if that was so before.
    func stop() -> Bool {
        content.withLock { content in
            defer { content.isStopped = true }
            return !content.isStopped
        }
    }
}
