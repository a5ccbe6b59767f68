import Credentials
import HTTPMessages
import Model
import Partitions
import Routing

// Answers about installations, and about the push services that reach a device.

extension API {
    /// The answer to `CreateInstallation`.
    func installed(_ new: NewRegistration, _ form: ResponseForm) -> HTTPResponse {
        let token = keys.token(new.registration, secret: new.secret)
        guard let auth = InstallationToken(registrationToken: token, now: new.created) else {
            preconditionFailure("a token is a FID, a colon and a proof")
        }
        let refresh = RefreshToken(credential: keys.credential(secret: new.secret), proof: auth.proof)
        return API.object { out in
            out.field("name", Array("projects/\(form.project.id)/installations/".utf8) + auth.fid)
            out.field("fid", auth.fid)
            out.field("refreshToken", refresh.text)
            out.key("authToken")
            out.beginObject()
            write(authToken: auth.signed(with: signingKeys.signing(now: new.created).material), out: &out)
            out.endObject()
        }
    }

    func write(authToken token: [UInt8], out: inout JSONWriter) {
        out.field("token", token)
        out.field("expiresIn", "\(InstallationToken.lifetime)s")
    }

    func upserted(_ token: [UInt8], _ form: ResponseForm) -> HTTPResponse {
        API.object { out in
            let fid = token.prefix { $0 != UInt8(ascii: ":") }
            out.field("name", Array("projects/\(form.project.id)/registrations/".utf8) + fid)
            out.field("token", token)
        }
    }

    func write(
        _ device: DeviceState, _ transports: [StoredTransport], pushes: [PushHistory], shown: String,
        project: Project, out: inout JSONWriter
    ) {
        out.field("name", "projects/\(project.id)/registrations/\(shown)")
        out.field("platform", API.platform(transports.map(\.transport.kind)))
        out.field("lastSeenDate", Timestamp.date(Int(device.lastSeen.rawValue)))
        out.key("topicCount")
        out.number(device.topicCount)
        out.key("waitingCount")
        out.number(device.waitingCount)
        out.key("transports")
        out.beginArray()
        for stored in transports {
            out.beginObject()
            write(stored, out: &out)
            if let history = pushes.first(where: { $0.kind == stored.transport.kind }) {
                write(history, project, out: &out)
            }
            out.endObject()
        }
        out.endArray()
    }

    /// An address is a secret of its device, so the answer shows only what names it.
    private func write(_ stored: StoredTransport, out: inout JSONWriter) {
        out.field("kind", API.word(stored.transport.kind))
        out.field("registerTime", Timestamp.text(stored.registered.milliseconds))
        if stored.transport.kind == .apns, let address = APNsAddress(packed: stored.transport.address) {
            out.field("bundleId", address.bundleID)
            out.field("environment", address.isSandbox ? "SANDBOX" : "PROD")
        }
        if stored.transport.kind == .web, let origin = WebAddress.origin(ofPacked: stored.transport.address) {
            out.field("service", Array(origin))
        }
        if stored.transport.keepsMessages {
            out.key("keepUntilAcknowledged")
            out.bool(true)
        }
    }

    private func write(_ history: PushHistory, _ project: Project, out: inout JSONWriter) {
        out.field("pushState", API.word(history.activity))
        if let attempt = history.accepted {
            out.key("lastAccepted")
            write(attempt, project, out: &out)
        }
        if let attempt = history.failed {
            out.key("lastFailure")
            write(attempt, project, out: &out)
        }
    }

    private func write(_ attempt: PushHistory.Attempt, _ project: Project, out: inout JSONWriter) {
        out.beginObject()
        if let id = attempt.message { out.field("message", "projects/\(project.id)/messages/\(id.text)") }
        out.field("time", Timestamp.text(attempt.time.milliseconds))
        if attempt.outcome != .accepted {
            out.field("outcome", attempt.outcome.word)
            if let reason = attempt.outcome.reason { out.field("reason", reason) }
            out.key("tries")
            out.number(attempt.tries + 1)
        }
        out.endObject()
    }

    /// How push services have answered to a message.
    func pushes(_ tallies: [PushTally], of message: MessageID, _ project: Project) -> HTTPResponse {
        API.object { out in
            out.field("name", "projects/\(project.id)/messages/\(message.text)")
            out.key("pushes")
            out.beginArray()
            for tally in tallies {
                out.beginObject()
                out.field("kind", API.word(tally.kind))
                out.field("outcome", tally.outcome.word)
                out.key("count")
                out.number(tally.count)
                out.field("time", Timestamp.text(tally.newest.milliseconds))
                if let reason = tally.outcome.reason { out.field("reason", reason) }
                out.endObject()
            }
            out.endArray()
        }
    }

    private static func word(_ activity: PushHistory.Activity) -> String {
        switch activity {
        case .idle: "IDLE"
        case .queued: "QUEUED"
        case .sending: "SENDING"
        case .waiting: "WAITING"
        case .paused: "PAUSED"
        }
    }

    private static func word(_ kind: Transport.Kind) -> String {
        switch kind {
        case .web: "web"
        case .apns: "ios"
        case .fcm: "fcm"
        }
    }

    /// The platform of a device in the words of the Instance ID API.
    static func platform(_ kinds: [Transport.Kind]) -> String {
        if kinds.contains(.apns) { return "IOS" }
        return kinds.contains(.web) ? "CHROME" : "ANDROID"
    }
}
