import Catalog
import Credentials
import Edge
import FCMAPI
import Glibc
import Logging
import Model

extension Administrator {
    /// The operator who made a request.
    enum Requester: Sendable {
        /// Over the admin socket.
        case local(Peer)
        case named(String, Peer)

        /// Must be read on the engine's thread, because the system may look a user's name up on another
        /// machine.
        var author: AuditEntry.Author {
            switch self {
            case .local(.user(let uid, let process)):
                AuditEntry.Author(name: Requester.user(uid), source: "admin socket, process \(process)")
            case .local: AuditEntry.Author(name: "unknown", source: "admin socket")
            case .named(let name, .address(let address)): AuditEntry.Author(name: name, source: address)
            case .named(let name, _): AuditEntry.Author(name: name, source: "unknown")
            }
        }

        private static func user(_ uid: UInt32) -> String {
            var entry = passwd()
            var found: UnsafeMutablePointer<passwd>?
            var buffer = [CChar](repeating: 0, count: 4096)
            guard getpwuid_r(uid, &entry, &buffer, buffer.count, &found) == 0, found != nil,
                let name = entry.pw_name
            else { return "user \(uid)" }
            return String(cString: name)
        }
    }

    /// A change that an operator asked for, as the audit log and the log show it.
    struct Work: Sendable {
        private let change: (action: String, subject: String)
        private let requester: Requester
        private let now: WallTime
        private let logger: Logger

        init?(_ request: AdminRequest, by requester: Requester, now: WallTime, log: Logger) {
            guard let change = request.change else { return nil }
            self.change = change
            self.requester = requester
            self.now = now
            logger = log
        }

        func entry(_ detail: String) -> AuditEntry {
            AuditEntry(
                time: now, author: requester.author, action: change.action,
                subject: detail.isEmpty ? change.subject : "\(change.subject): \(detail)")
        }

        func log(_ entry: AuditEntry) {
            logger.notice(
                "an operator changed something",
                metadata: [
                    "who": "\(entry.author.name)", "from": "\(entry.author.source)",
                    "action": "\(entry.action)", "what": "\(entry.subject)",
                ])
        }
    }

    /// Logs refused attempts and adds them to the audit log. A write that fails is not tried again.
    func tellRefused(_ entries: [AuditEntry], _ log: Logger) {
        guard !entries.isEmpty else { return }
        for entry in entries {
            log.notice(
                "an operator was refused",
                metadata: [
                    "who": "\(entry.author.name)", "from": "\(entry.author.source)",
                    "what": "\(entry.subject)",
                ])
        }
        engine.perform({ try Catalog.putRefused(entries, to: $0) }) { _ in }
    }

    func audit(_ limit: Int, on loop: NodeLoop, _ finish: @escaping Finish) {
        let mailbox = loop.mailboxes[loop.number]
        engine.perform({ AuditView.answer(try Catalog.audit($0, limit: limit)) }) { result in
            mailbox.run { finish($0, result) }
        }
    }
}
