import Credentials
import HTTPMessages
import Model
import Routing

// Answers: outcomes in the form of the API that the request used.

extension API {
    public func render(_ outcome: Outcome, _ form: ResponseForm) -> HTTPResponse {
        var response = answer(outcome, form)
        if form.kind.isForPages { response.fields += HTTPResponse.forPages }
        return response
    }

    private func answer(_ outcome: Outcome, _ form: ResponseForm) -> HTTPResponse {
        switch form.kind {
        case .pushPost(let post), .pushed(let post): return answer(outcome, to: post)
        default: break
        }
        if case .refused(let refusal) = outcome { return refused(refusal, form) }
        switch (outcome, form.kind) {
        case (.accepted(let id), _):
            settings.emulator?.accepted(id)
            return API.object { out in
                out.key("name")
                out.beginString("projects/")
                out.part(form.project.id)
                out.part("/messages/" as StaticString)
                out.part(id)
                out.endString()
            }
        case (.changes(let changes), .batch(let errors)): return batch(changes, errors)
        case (.changes(let changes), _):
            guard let change = changes.first else { break }
            return changed(change, form)
        case (.subscriptions(let list), _): return subscriptions(list, form)
        case (.reachable(let list, let kinds), _): return subscriptions(list, form, by: kinds)
        case (.registered(let new), .installation): return installed(new, form)
        case (.registered(let new), _): return registered(new, form)
        case (.device, .authToken(let token)): return API.object { write(authToken: token, out: &$0) }
        case (.done, .appToken(let text)), (.device, .appToken(let text)): return API.classic(text)
        case (.done, .upsert(let token)), (.device, .upsert(let token)): return upserted(token, form)
        case (.device(let device, let transports, let pushes), .device(let shown)):
            return API.object {
                write(device, transports, pushes: pushes, shown: shown, project: form.project, out: &$0)
            }
        case (.done, .refusedSend(let answer)), (.done, .refusedBatch(let answer)): return answer.response
        case (.done, .send):
            // FCM gives this answer to a message that it only validates.
            return API.object { $0.field("name", "projects/\(form.project.id)/messages/fake_message_id") }
        case (.done, _): return API.object { _ in }
        case (.topic(let members), .topicCount(let topic)):
            return API.object {
                $0.field("topicName", topic.utf8)
                $0.key("memberCount")
                $0.number(members)
            }
        case (.topics(let topics, let next), _): return self.topics(topics, next)
        case (.devices(let devices, let next), _): return self.devices(devices, next, form: form)
        case (.pushes(let tallies), .messagePushes(let id)): return pushes(tallies, of: id, form.project)
        default: break
        }
        return APIError(
            status: .internalError, message: "The server has no form for this answer.", fcmCode: "INTERNAL"
        )
        .response()
    }

    static func object(status: Int = 200, _ body: (inout JSONWriter) -> Void) -> HTTPResponse {
        var out = JSONWriter(capacity: 128)
        out.beginObject()
        body(&out)
        out.endObject()
        return HTTPResponse(status: status, fields: jsonFields, body: out.bytes)
    }

    static let jsonFields = [(name: "content-type", value: APIError.jsonType)]

    // MARK: Refusals

    private func refused(_ refusal: Refusal, _ form: ResponseForm) -> HTTPResponse {
        let isSend = if case .send = form.kind { true } else { false }
        var error = APIError(refusal, project: form.project.id, field: isSend ? "message.token" : "name")
        switch form.kind {
        case .batch, .refusedBatch, .relation:
            return form.isOfIID ? error.iidResponse() : error.response(retryAfter: true)
        case .info:
            if case .unregistered = refusal {
                return error.iidResponse("No information found about this instance id.")
            }
            return error.iidResponse()
        case .classic: return API.classic("Error=\(API.classicWord(refusal))")
        case .appToken: return API.classic("Error=\(API.appTokenWord(refusal))")
        case .authToken, .endInstallation:
            // SDKs forget an installation on 401 and 404, and stop for a day on 403.
            if case .wrongCredential = refusal { error.status = .unauthenticated }
            return error.response(retryAfter: true)
        case .send, .refusedSend:
            // firebase-admin for Python blocks its caller for a `Retry-After`, four times.
            return error.response()
        default:
            if case .quota = refusal { error.fcmCode = "RESOURCE_EXHAUSTED" }
            return error.response(retryAfter: true)
        }
    }

    static func classicWord(_ refusal: Refusal) -> String {
        switch refusal {
        case .unregistered: "INVALID_SENDER"
        case .invalidToken, .senderMismatch: "INVALID_PARAMETERS"
        case .wrongCredential, .pushKeyRefused: "AUTHENTICATION_FAILED"
        case .tooManyTopics: "TOO_MANY_TOPICS"
        case .quota: "QUOTA_EXCEEDED"
        case .unavailable, .deadlineExceeded: "SERVICE_NOT_AVAILABLE"
        }
    }

    /// The IID API's result for one token of a batch. Node's SDK calls a token with `INVALID_ARGUMENT`
    /// invalid, and backends delete it. Another project's token lives, and the backend may have the wrong
    /// account.
    static func iidWord(_ refusal: Refusal) -> String {
        switch refusal {
        case .unregistered: "NOT_FOUND"
        case .invalidToken: "INVALID_ARGUMENT"
        case .senderMismatch, .wrongCredential: "PERMISSION_DENIED"
        case .tooManyTopics: "TOO_MANY_TOPICS"
        case .quota: "RESOURCE_EXHAUSTED"
        case .pushKeyRefused: "UNAUTHENTICATED"
        case .unavailable: "INTERNAL"
        case .deadlineExceeded: "DEADLINE_EXCEEDED"
        }
    }

    // MARK: Changes

    private func batch(_ changes: [ChangeOutcome], _ errors: [String?]) -> HTTPResponse {
        var out = JSONWriter(capacity: 32 + errors.count * 4)
        out.beginObject()
        out.key("results")
        out.beginArray()
        var next = 0
        for known in errors {
            var word = known
            if known == nil, next < changes.count {
                if case .refused(let refusal) = changes[next] { word = API.iidWord(refusal) }
                next += 1
            }
            out.beginObject()
            if let word { out.field("error", word) }
            out.endObject()
        }
        out.endArray()
        out.endObject()
        return HTTPResponse(status: 200, fields: API.jsonFields, body: out.bytes)
    }

    private func changed(_ change: ChangeOutcome, _ form: ResponseForm) -> HTTPResponse {
        if case .refused(let refusal) = change { return refused(refusal, form) }
        let missing = APIError(
            status: .notFound, message: "The device is not subscribed to the topic.")
        switch (form.kind, change) {
        case (.topicCreate, .unchanged):
            return APIError(status: .alreadyExists, message: "The device is subscribed to the topic already.")
                .response()
        case (.topicDelete(allowMissing: false), .unchanged): return missing.response()
        case (.topicCreate(let device, let topic), .changed(let day)),
            (.topicUpsert(let device, let topic), .changed(let day)),
            (.topicUpsert(let device, let topic), .unchanged(.some(let day))):
            return API.object { write(device, topic, since: day, project: form.project, out: &$0) }
        case (.classic(let token), _): return API.classic("token=\(token)")
        default: return API.object { _ in }
        }
    }

    private func write(
        _ device: String, _ topic: TopicName, since: Day, project: Project, out: inout JSONWriter
    ) {
        out.field("name", "projects/\(project.id)/registrations/\(device)/topicSubscriptions/\(topic)")
        out.field("topicName", topic.utf8)
        out.field("createTime", "\(Timestamp.date(Int(since.rawValue)))T00:00:00Z")
    }

    // MARK: Reading

    private func subscriptions(
        _ list: [Subscription], _ form: ResponseForm, by kinds: [Transport.Kind] = []
    ) -> HTTPResponse {
        switch form.kind {
        case .topicGet(let device, let topic):
            guard let found = list.first(where: { $0.topic == topic }) else {
                return APIError(
                    status: .notFound, message: "The device is not subscribed to the topic."
                ).response()
            }
            return API.object { write(device, topic, since: found.since, project: form.project, out: &$0) }
        case .topicList(let device, let size, let after):
            return show(
                SubscriptionPage(of: list, size: size, after: after), device: device, project: form.project)
        default:
            let details = if case .info(details: true) = form.kind { true } else { false }
            return API.object { writeInfo(details ? list : [], form.project, kinds: kinds, out: &$0) }
        }
    }

    private func show(_ page: SubscriptionPage, device: String, project: Project) -> HTTPResponse {
        API.object { out in
            out.key("topicSubscriptions")
            out.beginArray()
            for subscription in page.shown {
                out.beginObject()
                write(device, subscription.topic, since: subscription.since, project: project, out: &out)
                out.endObject()
            }
            out.endArray()
            let last = page.isLast ? nil : page.shown.last?.topic.utf8
            out.field("nextPageToken", last.map { Base64URL.encode($0) } ?? [])
        }
    }

    private func writeInfo(
        _ list: [Subscription], _ project: Project, kinds: [Transport.Kind], out: inout JSONWriter
    ) {
        out.field("application", "tidecast")
        out.field("authorizedEntity", "\(project.number.rawValue)")
        out.field("applicationVersion", "1")
        out.field("platform", API.platform(kinds))
        guard !list.isEmpty else { return }
        out.key("rel")
        out.beginObject()
        out.key("topics")
        out.beginObject()
        for subscription in list {
            out.key(subscription.topic.utf8)
            out.beginObject()
            out.field("addDate", Timestamp.date(Int(subscription.since.rawValue)))
            out.endObject()
        }
        out.endObject()
        out.endObject()
    }

    private func registered(_ new: NewRegistration, _ form: ResponseForm) -> HTTPResponse {
        let fid = keys.fid(new.registration)
        return API.object { out in
            out.field("name", Array("projects/\(form.project.id)/registrations/".utf8) + fid)
            out.field("token", keys.token(new.registration, secret: new.secret))
            out.field("credential", keys.credential(secret: new.secret))
            out.field("createTime", Timestamp.text(new.created.milliseconds))
        }
    }

    private func topics(_ topics: [(name: TopicName, members: UInt64)], _ next: PageToken?) -> HTTPResponse {
        API.object { out in
            out.key("topics")
            out.beginArray()
            for topic in topics {
                out.beginObject()
                out.field("topicName", topic.name.utf8)
                out.key("memberCount")
                out.number(topic.members)
                out.endObject()
            }
            out.endArray()
            out.field("nextPageToken", API.text(next))
        }
    }

    private func devices(_ devices: [DeviceSummary], _ next: PageToken?, form: ResponseForm) -> HTTPResponse {
        API.object { out in
            out.key("registrations")
            out.beginArray()
            for device in devices {
                out.beginObject()
                out.field(
                    "name",
                    Array("projects/\(form.project.id)/registrations/".utf8) + keys.fid(device.registration))
                out.field("lastSeenDate", Timestamp.date(Int(device.lastSeen.rawValue)))
                out.key("topicCount")
                out.number(device.topicCount)
                out.key("waitingCount")
                out.number(device.waitingCount)
                out.endObject()
            }
            out.endArray()
            out.field("nextPageToken", API.text(next))
        }
    }

    private static func text(_ token: PageToken?) -> String {
        token.map { "\($0.partition.rawValue).\($0.cursor)" } ?? ""
    }
}
