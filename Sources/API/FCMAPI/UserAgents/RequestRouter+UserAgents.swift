import Credentials
import HTTPMessages
import Model
import RegistrationIDs
import Routing

// /push/{project}: the WebSocket of user agents. /push/v1/{address}: the URL of a subscription, to which
// senders post (RFC 8030 §5).

/// A sender's message for a channel, read and checked.
final class PushPost: Sendable {
    let device: Registration
    let channel: ChannelID
    let message: Envelope
    let origin: String

    init(device: Registration, channel: ChannelID, message: Envelope, origin: String) {
        self.device = device
        self.channel = channel
        self.message = message
        self.origin = origin
    }
}

/// Answers to senders. A page of any origin may read them.
enum PushPostAnswer {
    /// Seconds after which a sender may try again if the server has no better value.
    static let retrySeconds = 60

    static func refusal(_ status: Int, _ reason: String, retrySeconds: Int? = nil) -> HTTPResponse {
        var response = API.object(status: status) { out in
            out.key("error")
            out.beginObject()
            out.key("code")
            out.number(status)
            out.field("message", reason)
            out.endObject()
        }
        if status == 401 { response.fields.append(("www-authenticate", "vapid")) }
        if let retrySeconds { response.fields.append(("retry-after", "\(retrySeconds)")) }
        return open(response)
    }

    static func accepted(_ post: PushPost) -> HTTPResponse {
        open(
            HTTPResponse(
                status: 201,
                fields: [
                    ("location", "\(post.origin)/push/v1/messages/\(post.message.id.text)"),
                    ("ttl", "\(post.message.times.stream)"),
                ]))
    }

    static let gone = refusal(410, "The subscription has ended.")

    static func refusal(_ refusal: Refusal) -> HTTPResponse {
        switch refusal {
        case .unregistered, .invalidToken, .senderMismatch, .wrongCredential, .tooManyTopics: gone
        case .quota(let quota):
            PushPostAnswer.refusal(
                429, QuotaTexts(quota.kind).message, retrySeconds: Int(quota.retryDelay.seconds) + 1)
        case .unavailable(let reason):
            PushPostAnswer.refusal(
                503, "The service is currently unavailable: \(reason).", retrySeconds: retrySeconds)
        // A user agent that is a device of the project has no address at another push service.
        case .pushKeyRefused:
            PushPostAnswer.refusal(
                503, "The service is currently unavailable.", retrySeconds: retrySeconds)
        case .deadlineExceeded:
            PushPostAnswer.refusal(
                503, "It is not known whether the message was accepted.", retrySeconds: retrySeconds)
        }
    }

    private static func open(_ response: HTTPResponse) -> HTTPResponse {
        var response = response
        response.fields += [
            ("access-control-allow-origin", "*"),
            ("access-control-expose-headers", "location, ttl, retry-after"),
        ]
        return response
    }
}

extension RequestRouter {
    /// Bytes of an encrypted message (RFC 8030 §7.2).
    static let pushBodyMax = 4096
    static let topicLengthMax = 32

    func socket() throws(APIError) -> APIAction {
        guard let project = api.directory.project(String(decoding: try segment(1), as: UTF8.self)),
            let service = api.directory.pushServices[project.number], service.isOn
        else {
            throw APIError(status: .notFound, message: "There is no push service of this name.")
        }
        if let refusal = api.settings.clients.call(client, now: api.moment) {
            throw exhausted(refusal, project)
        }
        return .socket(project, client)
    }

    static let discovery: HTTPResponse = {
        var response = API.object { out in
            out.key("unifiedpush")
            out.beginObject()
            out.key("version")
            out.number(1)
            out.endObject()
        }
        response.fields += HTTPResponse.forPages
        return response
    }()

    func postPush() -> APIAction {
        let address = target.segment(2)
        let client = api.settings.clients.client(of: request)
        // Anybody can create devices and send to them, so each message counts for the sender's address. A
        // message that is taken counts too, because it takes a token of the project.
        if let refusal = api.settings.clients.call(client, now: api.moment) {
            return .respond(PushPostAnswer.refusal(.quota(refusal)))
        }
        do {
            let post = try read(address)
            // The channel must still be one of the device's.
            return .operation(
                .subscription(of: post.device, to: PushSession.topic(of: post.channel), by: .backend),
                ResponseForm(kind: .pushPost(post), project: Project(id: "", number: post.device.project)))
        } catch {
            return .respond(error.response)
        }
    }

    private struct PostRefusal: Error {
        var response: HTTPResponse
        init(_ response: HTTPResponse) { self.response = response }
        init(_ status: Int, _ reason: String) { response = PushPostAnswer.refusal(status, reason) }
    }

    private func read(_ text: ArraySlice<UInt8>) throws(PostRefusal) -> PushPost {
        let address: ChannelAddress
        switch api.keys.openAddress(text) {
        case .success(let read): address = read
        case .failure(.retiredKey): throw PostRefusal(PushPostAnswer.gone)
        case .failure(.unknownKey) where !api.areKeysCurrent():
            throw PostRefusal(PushPostAnswer.refusal(.unavailable("its keys are not up to date")))
        case .failure: throw PostRefusal(404, "There is no such subscription.")
        }
        let number = address.device.project
        switch api.directory.owner(of: address.device) {
        case .success: break
        case .failure(let refusal): throw PostRefusal(PushPostAnswer.refusal(refusal))
        }
        guard let service = api.directory.pushServices[number], service.isOn else {
            throw PostRefusal(PushPostAnswer.refusal(.unavailable("the push service is switched off")))
        }
        let busy = api.busyDevices.refusal(of: address.device, now: api.moment)
        if let refusal = busy ?? api.refusalOfSend?(number) {
            throw PostRefusal(PushPostAnswer.refusal(.quota(refusal)))
        }
        try checkSender(address, origin: service.origin)
        let seconds = try timeToLive()
        let topic = try pushTopic()
        try checkUrgency()
        let coding = try contentCoding()
        // Each channel has a share of what may wait for its user agent.
        return PushPost(
            device: address.device, channel: address.channel,
            message: Envelope(
                id: id, event: PushServiceEvent.event(id, address.channel, body: request.body, by: coding),
                collapseKey: topic ?? [], share: address.channel.text, sent: now, ttlSeconds: seconds),
            origin: service.origin)
    }

    /// RFC 8292 §4.2: 401 without a token if the subscription demands one, 403 if the token is not its
    /// sender's.
    private func checkSender(_ address: ChannelAddress, origin: String) throws(PostRefusal) {
        guard let wanted = address.senderKeyHash else { return }
        guard let field = PushContentCoding.senderToken(request.fields) else {
            throw PostRefusal(401, "The subscription takes messages of its sender only: sign them (VAPID).")
        }
        let shown: [UInt8]
        do throws(SenderToken.Fault) {
            shown = try api.senderTokens.keyHash(of: field, origin: origin, parser: api.parser, now: now)
        } catch {
            throw PostRefusal(403, "The sender's token does not count: \(error.reason).")
        }
        guard Crypto.equal(shown.span, wanted.span) else {
            throw PostRefusal(403, "The subscription is another sender's.")
        }
    }

    /// RFC 8030 §5.2. The server shortens a time that is longer than four weeks, and says so.
    private func timeToLive() throws(PostRefusal) -> UInt32 {
        guard let field = request.fields["ttl"] else { throw PostRefusal(400, "TTL is missing.") }
        guard (1...64).contains(field.count),
            field.allSatisfy({ (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) })
        else { throw PostRefusal(400, "TTL must be a number of seconds.") }
        let seconds = UInt64(String(decoding: field, as: UTF8.self)) ?? .max
        return UInt32(min(seconds, MessageLimits.ttlSecondsMax))
    }

    /// RFC 8030 §5.4.
    private func pushTopic() throws(PostRefusal) -> [UInt8]? {
        guard let field = request.fields["topic"] else { return nil }
        guard (1...RequestRouter.topicLengthMax).contains(field.count),
            field.allSatisfy({ Base64URL.value($0) != 0xFF })
        else { throw PostRefusal(400, "Topic must have 1 to 32 characters of base64url.") }
        return Array(field)
    }

    /// RFC 8030 §5.3. The user agent is always connected, or away: no urgency delays a message.
    private func checkUrgency() throws(PostRefusal) {
        guard let field = request.fields["urgency"] else { return }
        guard ["very-low", "low", "normal", "high"].contains(String(decoding: field, as: UTF8.self)) else {
            throw PostRefusal(400, "Urgency must be very-low, low, normal or high.")
        }
    }

    /// How the body is encrypted; `nil` for a message without a body.
    private func contentCoding() throws(PostRefusal) -> PushContentCoding? {
        guard !request.body.isEmpty else { return nil }
        guard request.body.count <= RequestRouter.pushBodyMax else {
            throw PostRefusal(413, "A message has at most \(RequestRouter.pushBodyMax) bytes.")
        }
        guard request.fields.count(of: "content-encoding") == 1 else {
            throw PostRefusal(400, "Content-Encoding must be aes128gcm or aesgcm.")
        }
        do throws(PushContentCoding.Fault) { return try PushContentCoding(request.fields) } catch {
            throw PostRefusal(error.status, error.reason)
        }
    }
}

extension API {
    /// The second step of a request that takes two: the send, if the channel is still the device's.
    public func next(after outcome: Outcome, _ form: ResponseForm) -> (Operation, ResponseForm)? {
        guard case .pushPost(let post) = form.kind else { return nil }
        guard case .subscriptions(let found) = outcome,
            found.contains(where: { $0.topic == PushSession.topic(of: post.channel) })
        else { return nil }
        let send = Send(
            project: form.project.number, target: .device(post.device), message: post.message,
            validateOnly: false)
        return (.send(send), ResponseForm(kind: .pushed(post), project: form.project))
    }

    func answer(_ outcome: Outcome, to post: PushPost) -> HTTPResponse {
        switch outcome {
        case .accepted: return PushPostAnswer.accepted(post)
        case .refused(let refusal):
            if case .quota(let quota) = refusal { busyDevices.note(post.device, quota, now: moment) }
            return PushPostAnswer.refusal(refusal)
        // The device has no such channel.
        default: return PushPostAnswer.gone
        }
    }
}
