import FCMAPI
import Model
import PushMessages

/// What clients and push services send about push messages, for a fuzzer: the URL and keys of a subscription,
/// services' answers, entries of the operator's list, and the event of a message.
enum FuzzedPush {
    private static let open = EndpointPolicy(listed: ["*", "*.a:1", "[::1]:1", "127.0.0.1:1"])
    private static let now = WallTime(milliseconds: 1_800_000_000_000)

    /// The first byte chooses the reader.
    static func run(_ input: [UInt8]) {
        guard let choice = input.first else { return }
        let bytes = Array(input.dropFirst())
        let text = String(decoding: bytes, as: UTF8.self)
        switch choice % 6 {
        case 0: endpoint(text)
        case 1: answers(bytes)
        case 2: _ = EndpointPolicy.check(listed: text)
        case 3: _ = try? WebPushKeys(p256dh: Array(bytes.prefix(65)), auth: Array(bytes.dropFirst(65)))
        case 4:
            _ = VAPID.check(subject: text)
            _ = try? P256Key(pem: text)
            _ = APNsMessage.uuid(reading: text)
            _ = try? RSAKey(pem: text)
            if let host = APNsHost(text) { precondition(APNsHost(host.text) == host) }
        default: compose(bytes)
        }
    }

    /// A URL that is taken must be taken again as it is written, and must not bring a line break or another
    /// host into a request.
    private static func endpoint(_ text: String) {
        guard let endpoint = try? PushEndpoint.parse("https://" + text, policy: open) else { return }
        precondition((try? PushEndpoint.parse(endpoint.url, policy: open)) == endpoint)
        precondition(endpoint.url.utf8.allSatisfy { $0 > 0x20 && $0 < 0x7F })
        precondition(!endpoint.host.utf8.contains { "/@?#\\ ".utf8.contains($0) })
        precondition(endpoint.path.hasPrefix("/"))
    }

    /// Two bytes of status, then the value of `Retry-After` up to the first line break, then the body.
    private static func answers(_ bytes: [UInt8]) {
        guard bytes.count > 2 else { return }
        let status = Int(bytes[0]) << 8 | Int(bytes[1])
        let field = bytes[2...].prefix { $0 != 0x0A }
        let body = Array(bytes[2...].dropFirst(field.count + 1))
        let retryAfter = String(decoding: field, as: UTF8.self)
        let web = WebPushAnswer.outcome(
            status: status, host: "a", retryAfter: retryAfter, body: body, now: now)
        let apple = APNsAnswer.verdict(
            status: status, body: body, retryAfter: retryAfter, registered: now, now: now)
        let relayed = FCMAnswer.verdict(status: status, body: body, retryAfter: retryAfter, now: now)
        for outcome in [web, apple.outcome, relayed.outcome] {
            switch outcome {
            case .refusedContent(let text), .unexplained(let text), .credentials(let text),
                .platformKey(let text), .unsent(let text):
                precondition(text.utf8.count < 1000 && text.utf8.allSatisfy { $0 >= 0x20 && $0 < 0x7F })
            case .throttled(let seconds), .transient(let seconds), .formerEnd(let seconds),
                .overQuota(let seconds):
                precondition(seconds.map { (0...2_419_200).contains($0) } ?? true)
            case .accepted, .gone, .unset, .expired: break
            }
        }
        _ = APNsAnswer.reason(ofGoAway: body)
        token(status, retryAfter: retryAfter, body: body)
    }

    /// The answer of an account's token host. A token must be fit for a header field.
    private static func token(_ status: Int, retryAfter: String, body: [UInt8]) {
        switch AccessTokenAnswer(status: status, body: body, retryAfter: retryAfter, now: now) {
        case .token(let text, let seconds):
            precondition((1...2048).contains(text.utf8.count) && seconds > 0)
            precondition(text.utf8.allSatisfy { $0 > 0x20 && $0 < 0x7F })
        case .refused(let text):
            precondition(text.utf8.count < 1000 && text.utf8.allSatisfy { $0 >= 0x20 && $0 < 0x7F })
        case .failed(let seconds): precondition(seconds.map { (0...2_419_200).contains($0) } ?? true)
        case .notTried: preconditionFailure("an answer was tried")
        }
    }

    /// An event as a partition stores it. What is composed must keep the services' bounds.
    static func compose(_ event: [UInt8]) {
        let composer = PushComposer()
        let project = ProjectNumber(5)
        if let web = try? composer.web(event, project: project) {
            precondition(web.payload.count <= WebPushEncryption.plaintextBytesMax)
            precondition(WebPushMessage.isTopic(web.topic.utf8))
        }
        if let apns = try? composer.apns(event, project: project, fid: "f") {
            precondition(apns.payload.count <= apns.pushType.payloadMax)
        }
        _ = try? composer.relay(event, token: "t", ttlSeconds: 1)
    }
}
