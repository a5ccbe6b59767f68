import Credentials
import HTTPMessages
import Model
import PushMessages
import Quotas
import RegistrationIDs
import Routing
import Testing

@testable import FCMAPI

@Suite("A sender's message to a subscription") struct PushPostTests {
    private let harness = APIHarness()
    private let origin = "https://push.example.com"
    private let channel = ChannelID(high: 1, low: 2)
    private let device = Registration(
        project: ProjectNumber(5), partition: PartitionID(3), index: DeviceIndex(9), nonce: 77, key: 1)
    private let key: P256Key
    private let body = [UInt8](repeating: 7, count: 120)

    init() throws {
        key = try P256Key.generate()
        harness.api.directory.pushServices[device.project] = PushServiceProject(.init(origin: origin))
    }

    private func path(_ bound: P256Key? = nil, _ device: Registration? = nil) -> String {
        let address = ChannelAddress(
            device: device ?? self.device, channel: channel,
            senderKeyHash: bound.map { Crypto.sha256($0.publicBytes) })
        return "/push/v1/" + String(decoding: harness.keys.seal(address), as: UTF8.self)
    }

    private func post(
        _ path: String, body: [UInt8]? = nil, ttl: String? = "60", coding: String? = "aes128gcm",
        token: String? = nil, _ more: [(String, String)] = []
    ) -> APIAction {
        var headers = more
        if let ttl { headers.append(("ttl", ttl)) }
        if let coding { headers.append(("content-encoding", coding)) }
        if let token { headers.append(("authorization", token)) }
        return harness.route(.post, path, bytes: body ?? self.body, bearer: nil, headers: headers)
    }

    private func token(
        by signer: P256Key, shown: P256Key? = nil, audience: String? = nil, seconds: Int64 = 3600,
        algorithm: String = "ES256"
    ) throws -> String {
        let end = harness.now.milliseconds / 1000 + seconds
        let head = Base64URL.encode("{\"typ\":\"JWT\",\"alg\":\"\(algorithm)\"}".utf8)
        let claims = Base64URL.encode("{\"aud\":\"\(audience ?? origin)\",\"exp\":\(end)}".utf8)
        let signed = head + [0x2E] + claims
        let signature = Base64URL.encode(try signer.sign(signed))
        let key = Base64URL.encode((shown ?? signer).publicBytes)
        return "vapid t=" + String(decoding: signed + [0x2E] + signature, as: UTF8.self) + ", k="
            + String(decoding: key, as: UTF8.self)
    }

    /// The send that follows where the device has these channels.
    private func next(_ action: APIAction, topics: [TopicName]) -> (Send, ResponseForm)? {
        guard let form = action.form,
            case (.send(let send), let next)? = harness.api.next(
                after: .subscriptions(topics.map { Subscription(topic: $0, since: Day(1)) }), form)
        else { return nil }
        return (send, next)
    }

    @Test("is accepted with 201, its place and its time to live, where the channel is the device's")
    func accepted() throws {
        let action = post(path(), [("topic", "a_b-C"), ("urgency", "high")])
        // The device may have 2,000 channels: the question names the one.
        guard case .operation(.subscription(device, let asked, .backend), _) = action else {
            Issue.record("\(action)")
            return
        }
        #expect(asked == PushSession.topic(of: channel))
        let (send, form) = try #require(next(action, topics: [PushSession.topic(of: channel)]))
        guard case .device(device) = send.target else {
            Issue.record("\(send.target)")
            return
        }
        #expect(send.message.times == TimesToLive(60))
        #expect(send.message.collapseKey == Array("a_b-C".utf8) && send.message.share == channel.text)
        let (plain, _) = try #require(next(post(path()), topics: [PushSession.topic(of: channel)]))
        #expect(plain.message.collapseKey.isEmpty && plain.message.share == channel.text)
        let event = object(send.message.event)
        #expect(event["channelID"] as? String == String(decoding: channel.text, as: UTF8.self))
        #expect(event["data"] as? String == String(decoding: Base64URL.encode(body), as: UTF8.self))
        let answer = harness.api.render(.accepted(send.message.id), form)
        #expect(answer.status == 201)
        let fields = Dictionary(uniqueKeysWithValues: answer.fields.map { ($0.name, $0.value) })
        #expect(fields["ttl"] == "60" && fields["access-control-allow-origin"] == "*")
        #expect(fields["location"]?.hasPrefix("\(origin)/push/v1/messages/") ?? false)
    }

    @Test("may be encrypted by the draft, whose fields the user agent gets")
    func draft() throws {
        let fields = [("encryption", "salt=abc;rs=4096"), ("crypto-key", "dh=def;p256ecdsa=ghi")]
        let action = post(path(), coding: "AESGCM", fields)
        let (send, _) = try #require(next(action, topics: [PushSession.topic(of: channel)]))
        let headers = object(send.message.event)["headers"] as? [String: String]
        #expect(
            headers == [
                "encoding": "aesgcm", "encryption": "salt=abc;rs=4096",
                "crypto_key": "dh=def;p256ecdsa=ghi",
            ])
        let long = String(repeating: "a", count: PushContentCoding.fieldBytesMax)
        for wrong in [
            [], [fields[0]], [fields[1]], [("encryption", "rs=4096"), fields[1]],
            [("encryption", "salt="), fields[1]], [fields[0], ("crypto-key", "xdh=def")],
            [fields[0], ("crypto-key", "dh=\(long)")], [("encryption", "salt=\u{e9}"), fields[1]],
        ] {
            #expect(post(path(), coding: "aesgcm", wrong).response?.status == 400, "\(wrong)")
        }
    }

    @Test("may be signed as the draft had it: WebPush, and the key in Crypto-Key")
    func draftToken() throws {
        let signed = try token(by: key)
        let parts = signed.dropFirst("vapid t=".count).split(separator: ", k=")
        let webPush = "WebPush \(parts[0])"
        let keys = [("crypto-key", "dh=def; p256ecdsa=\"\(parts[1])\""), ("encryption", "salt=abc")]
        #expect(post(path(key), coding: "aesgcm", token: webPush, keys).form != nil)
        #expect(post(path(key), token: webPush, keys).form != nil)
        let other = try P256Key.generate()
        #expect(post(path(other), coding: "aesgcm", token: webPush, keys).response?.status == 403)
        #expect(post(path(key), token: webPush).response?.status == 403)
    }

    @Test("is 410 where the device or the channel has ended")
    func gone() throws {
        let action = post(path())
        #expect(next(action, topics: []) == nil)
        let form = try #require(action.form)
        #expect(harness.api.render(.subscriptions([]), form).status == 410)
        #expect(harness.api.render(.refused(.unregistered), form).status == 410)
        let deleted = Registration(
            project: ProjectNumber(3), partition: PartitionID(3), index: DeviceIndex(9), nonce: 77, key: 1)
        #expect(post(path(nil, deleted)).response?.status == 410)
    }

    @Test(
        "is 404 where nobody has sealed the address, and 503 where the keys may be old or the service is off")
    func unknown() {
        #expect(post("/push/v1/AAAA").response?.status == 404)
        var changed = path()
        changed.removeLast()
        #expect(post(changed).response?.status == 404)
        let other = RegistrationKeys([RegistrationKey(number: 9, material: Array(33...64))])
        let strange =
            "/push/v1/"
            + String(decoding: other.seal(ChannelAddress(device: device, channel: channel)), as: UTF8.self)
        #expect(post(strange).response?.status == 404)
        harness.api.areKeysCurrent = { false }
        #expect(post(strange).response?.status == 503)
        harness.api.directory.pushServices[device.project]?.isOn = false
        let answer = post(path()).response
        #expect(answer?.status == 503)
        #expect(answer?.fields.contains { $0.name == "retry-after" } ?? false)
    }

    @Test("is 400, 413 or 415 where it breaks a rule of RFC 8030")
    func rules() {
        #expect(post(path(), ttl: nil).response?.status == 400)
        for ttl in ["", "-1", "1.5", "x", " 1"] { #expect(post(path(), ttl: ttl).response?.status == 400) }
        for topic in ["", String(repeating: "a", count: 33), "a b", "a=", "ä"] {
            #expect(post(path(), [("topic", topic)]).response?.status == 400, "\(topic)")
        }
        #expect(post(path(), [("urgency", "highest")]).response?.status == 400)
        #expect(post(path(), coding: nil).response?.status == 400)
        #expect(post(path(), coding: "deflate").response?.status == 415)
        #expect(post(path(), coding: "aesgcm").response?.status == 400)
        #expect(post(path(), coding: "gzip").response?.status == 415)
        #expect(post(path(), body: [UInt8](repeating: 0, count: 4097)).response?.status == 413)
        #expect(post(path(), body: [UInt8](repeating: 0, count: 4096)).form != nil)
        #expect(post(path(), body: [], coding: nil).form != nil)
    }

    @Test("is kept for four weeks at most, and the answer says so")
    func longTime() throws {
        for ttl in ["2419201", "99999999999999999999999999"] {
            let sent = next(post(path(), ttl: ttl), topics: [PushSession.topic(of: channel)])
            #expect(try #require(sent).0.message.times == TimesToLive(2_419_200))
        }
        let zero = next(post(path(), ttl: "0"), topics: [PushSession.topic(of: channel)])
        #expect(try #require(zero).0.message.times == TimesToLive(0))
    }

    @Test("must be signed by the sender for whom the subscription is")
    func signed() throws {
        let bound = path(key)
        let missing = post(bound).response
        #expect(missing?.status == 401)
        #expect(missing?.fields.contains { $0.name == "www-authenticate" } ?? false)
        #expect(post(bound, token: try token(by: key)).form != nil)
        let other = try P256Key.generate()
        for bad in [
            try token(by: other), try token(by: other, shown: key), try token(by: key, audience: "https://x"),
            try token(by: key, seconds: -61), try token(by: key, seconds: 86_461),
            try token(by: key, algorithm: "none"), "vapid", "vapid t=a", "Bearer x", "vapid t=a.b.c, k=d",
            "WebPush " + (try token(by: key)).dropFirst(8), String(repeating: "v", count: 5000),
        ] { #expect(post(bound, token: bad).response?.status == 403, "\(bad.prefix(60))") }
        // Without a key the URL alone counts.
        #expect(post(path(), token: "vapid t=a, k=b").form != nil)
    }

    @Test("is 429 with a time where the project's sends are spent, before anything is verified")
    func quota() {
        harness.api.refusalOfSend = { _ in .init(kind: .sends, limit: 1, retryDelay: .seconds(7)) }
        let answer = post(path(key)).response
        #expect(answer?.status == 429)
        #expect(answer?.fields.contains { $0.name == "retry-after" && $0.value == "8" } ?? false)
    }

    @Test("is 429 at once while its device is past its own limit, and takes no token of the project")
    func busyDevice() throws {
        let topics = [PushSession.topic(of: channel)]
        let (_, form) = try #require(next(post(path()), topics: topics))
        let refusal = QuotaRefusal(kind: .deviceMinute, limit: 240, retryDelay: .seconds(30))
        #expect(harness.api.render(.refused(.quota(refusal)), form).status == 429)
        harness.moment = harness.moment.advanced(by: .seconds(20))
        let answer = post(path(key)).response
        #expect(answer?.status == 429)
        #expect(answer?.fields.contains { $0.name == "retry-after" && $0.value == "11" } ?? false)
        // Another device of the project, and this one when its time has come.
        let other = Registration(
            project: device.project, partition: PartitionID(3), index: DeviceIndex(8), nonce: 77, key: 1)
        #expect(post(path(nil, other)).form != nil)
        harness.moment = harness.moment.advanced(by: .seconds(10))
        #expect(post(path()).form != nil)
        // The project's own quota says nothing about the device.
        let sends = QuotaRefusal(kind: .sends, limit: 1, retryDelay: .seconds(30))
        #expect(harness.api.render(.refused(.quota(sends)), form).status == 429)
        #expect(post(path()).form != nil)
    }

    @Test("of devices past their limits, the gateway remembers a bounded number")
    func busyDevices() {
        let busy = BusyDevices()
        var refusal = QuotaRefusal(kind: .deviceHour, limit: 5000, retryDelay: .seconds(300))
        func device(_ index: Int) -> Registration {
            Registration(
                project: ProjectNumber(5), partition: PartitionID(3), index: DeviceIndex(UInt32(index)),
                nonce: 77, key: 1)
        }
        var now = MonotonicTime(nanoseconds: 1)
        for index in 0..<(3 * BusyDevices.countMax) {
            busy.note(device(index), refusal, now: now)
            #expect(busy.count <= BusyDevices.countMax)
            #expect(busy.refusal(of: device(index), now: now) == refusal)
        }
        now = now.advanced(by: .seconds(59))
        refusal.retryDelay = .seconds(241)
        #expect(busy.refusal(of: device(3 * BusyDevices.countMax - 1), now: now) == refusal)
        now = now.advanced(by: .seconds(1))
        #expect(busy.refusal(of: device(3 * BusyDevices.countMax - 1), now: now) == nil)
        for index in 1...BusyDevices.countMax { busy.note(device(index), refusal, now: now) }
        #expect(busy.refusal(of: device(BusyDevices.countMax), now: now) == refusal)
    }

    @Test("has an address that tells UnifiedPush senders of itself, and that pages of any origin may call")
    func discovery() throws {
        let answer = try #require(harness.route(.get, path(), bearer: nil).response)
        #expect(String(decoding: answer.body, as: UTF8.self) == "{\"unifiedpush\":{\"version\":1}}")
        let preflight = try #require(harness.route(.options, path(), bearer: nil).response)
        let allowed = preflight.fields.first { $0.name == "access-control-allow-headers" }?.value ?? ""
        for name in ["ttl", "topic", "urgency", "content-encoding", "authorization"] {
            #expect(allowed.contains(name))
        }
        #expect(harness.route(.delete, path(), bearer: nil).response?.status == 404)
    }

    @Test("comes to a project that is a push service, which user agents find by its name")
    func sockets() {
        guard case .socket(harness.project, nil) = harness.route(.get, "/push/shop", bearer: nil) else {
            Issue.record("no socket")
            return
        }
        #expect(harness.route(.get, "/push/other", bearer: nil).response?.status == 404)
        #expect(harness.route(.post, "/push/shop", bearer: nil).response?.status == 404)
        harness.api.directory.pushServices[device.project]?.isOn = false
        #expect(harness.route(.get, "/push/shop", bearer: nil).response?.status == 404)
    }

    @Test("goes to an origin: https, and http for this machine alone")
    func origins() {
        for good in [
            "https://push.example.com", "https://push.example.com:8443", "http://127.0.0.1:8787",
            "http://localhost", "http://[::1]:80", "https://[::1]",
        ] { #expect(PushServiceProject.check(origin: good) == nil, "\(good)") }
        for bad in [
            "", "push.example.com", "https://", "https://push.example.com/", "https://Push.example.com",
            "https://user@push.example.com", "https://push.example.com:0", "https://push.example.com:080",
            "https://push.example.com:65536", "https://a?b", "ftp://a", "http://push.example.com",
            "https://" + String(repeating: "a", count: 300),
        ] { #expect(PushServiceProject.check(origin: bad) != nil, "\(bad)") }
    }
}
