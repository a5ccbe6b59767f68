import Credentials
import HTTPMessages
import Model

extension AdminRequest {
    /// The audit log's words for this request; `nil` if the request changes nothing.
    public var change: (action: String, subject: String)? {
        switch self {
        case .projects, .cluster, .audit: nil
        case .createProject(let id, _): ("project.create", id)
        case .deleteProject(let project): ("project.delete", project.id)
        case .setQuota(let project, let limits):
            (
                "project.quota",
                ([project.id] + limits.sorted { $0.key < $1.key }.map { "\($0.key)=\($0.value)" })
                    .joined(separator: " ")
            )
        case .push(let wanted): wanted.change
        case .drain(let node, let force): ("cluster.drain", force ? "\(node), forced" : node)
        case .uncordon(let node): ("cluster.uncordon", node)
        case .refuse(let certificate, let force):
            ("cluster.refuse", force ? "\(certificate.text), forced" : certificate.text)
        case .accept(let certificate): ("cluster.accept", certificate.text)
        case .credentials(let wanted): wanted.change
        case .serverKeys(let wanted): wanted.change
        }
    }
}

extension CredentialRequest {
    fileprivate var change: (action: String, subject: String)? {
        switch self {
        case .list: return nil
        case .create(let new):
            var words = [new.kind.word]
            if let role = new.role { words.append("with the role \(role.word)") }
            if let project = new.project { words.append("of \(project.id)") }
            if !new.label.isEmpty { words.append("named \(new.label)") }
            if let end = new.expires { words.append("until \(Timestamp.text(end.milliseconds))") }
            return ("key.create", words.joined(separator: " "))
        case .revoke(let id): return ("key.revoke", Credential.id(of: id))
        case .expire(let id, let end):
            let word = end.map { "until \(Timestamp.text($0.milliseconds))" } ?? "never ends"
            return ("key.expire", "\(Credential.id(of: id)) \(word)")
        case .rotate(let id, _, _): return ("key.rotate", Credential.id(of: id))
        }
    }
}

extension ServerKeyRequest {
    fileprivate var change: (action: String, subject: String)? {
        switch self {
        case .list: nil
        case .rotateSigning(let atOnce): ("key.rotate", atOnce ? "signing, at once" : "signing")
        case .rotateRegistration: ("key.rotate", "registration")
        case .retireRegistration(let number): ("key.retire", "registration \(number)")
        }
    }
}

/// The answer with the entries of the audit log, the newest first.
public enum AuditView {
    public static func answer(_ entries: [AuditEntry]) -> HTTPResponse {
        APIAnswer.object([
            (
                "entries",
                .list(
                    entries.map { entry in
                        .object([
                            ("time", .text(Timestamp.text(entry.time.milliseconds))),
                            ("who", .text(entry.author.name)), ("from", .text(entry.author.source)),
                            ("action", .text(entry.action)), ("what", .text(entry.subject)),
                        ])
                    })
            )
        ])
    }
}
