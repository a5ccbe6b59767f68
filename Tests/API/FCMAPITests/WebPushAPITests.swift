import Credentials
import HTTPMessages
import Model
import Partitions
import PushMessages
import RegistrationIDs
import Routing
import Testing

@testable import FCMAPI

/// A subscription's keys, from RFC 8291 appendix A.
private let p256dh =
    "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4"
private let auth = "BTBZMqHH6r4Tts7J_aSIgg"

@Suite("Web Push in the API") struct WebPushAPITests {
    private let harness = APIHarness()
    private let device = Registration(
        project: ProjectNumber(5), partition: PartitionID(3), index: DeviceIndex(9), nonce: 77, key: 1)
    private let registrations = "/v1/projects/shop/registrations"
    private let former: WebPushSettings.Key
    private let newest: WebPushSettings.Key
    private let appKey = [("x-goog-api-key", "tck_app")]

    init() throws {
        func key(_ time: Int64) throws -> WebPushSettings.Key {
            let pair = try P256Key.generate()
            return WebPushSettings.Key(
                privateBytes: pair.privateBytes, publicBytes: pair.publicBytes,
                created: WallTime(milliseconds: time))
        }
        (former, newest) = (try key(1), try key(2))
        var settings = WebPushSettings(subject: "mailto:push@example.com", key: former)
        try settings.add(newest)
        settings.hosts = ["push.example.com:8443"]
        harness.api.directory.webPush[ProjectNumber(5)] = WebPushProject(settings)
    }

    @Test("each platform's time to live is its own, and a stream has the first that is set")
    func timesToLive() {
        let most: UInt32 = 2_419_200
        let (android, web) = (#""android":{"ttl":"9s"}"#, #""webpush":{"headers":{"TTL":"15"}}"#)
        let now = harness.now.milliseconds / 1000
        func apns(_ text: String) -> String { #""apns":{"headers":{"apns-expiration":"\#(text)"}}"# }
        let rows: [(String, TimesToLive)] = [
            (#""data":{}"#, TimesToLive(most)),
            (android, TimesToLive(stream: 9, web: most, apns: most, fcm: 9)),
            (web, TimesToLive(stream: 15, web: 15, apns: most, fcm: most)),
            (apns("\(now + 60)"), TimesToLive(stream: 60, web: most, apns: 60, fcm: most)),
            (apns("\(now + 9_000_000)"), TimesToLive(most)),
            (apns("0"), TimesToLive(stream: 0, web: most, apns: 0, fcm: most)),
            ("\(android),\(web)", TimesToLive(stream: 9, web: 15, apns: most, fcm: 9)),
            (
                "\(web),\(apns("\(now - 5)")),\(android)",
                TimesToLive(stream: 9, web: 15, apns: 0, fcm: 9)
            ),
            (#""android":{"ttl":"0s"}"#, TimesToLive(stream: 0, web: most, apns: most, fcm: 0)),
        ]
        for (rest, times) in rows {
            let message = "{\"topic\":\"a\",\(rest)}"
            #expect(harness.send(message).sent?.message.times == times, "\(rest)")
            // Where no push service can be, one time is enough.
            let other = APIHarness()
            let plain = other.send(message).sent?.message.times
            #expect(plain == TimesToLive(times.stream), "\(rest)")
            other.api.directory.otherPush = [ProjectNumber(5)]
            #expect(other.send(message).sent?.message.times == times, "\(rest)")
        }
    }

    private func text(_ key: WebPushSettings.Key) -> String {
        String(decoding: Base64URL.encode(key.publicBytes), as: UTF8.self)
    }

    /// The headers of an app with an installation, as the web SDK sends them.
    private var signed: [(String, String)] {
        let token = harness.keys.token(device, secret: 99)
        let auth = InstallationToken(registrationToken: token, now: harness.now)?
            .signed(with: [UInt8](repeating: 7, count: 32))
        return appKey + [
            ("x-goog-firebase-installations-auth", "FIS \(String(decoding: auth ?? [], as: UTF8.self))")
        ]
    }

    private func block(_ changed: [String: String] = [:], without: String = "") -> String {
        var fields = [
            "endpoint": #""https://updates.push.services.mozilla.com/wpush/v2/abc""#,
            "p256dh": #""\#(p256dh)""#, "auth": #""\#(auth)""#, "origin": #""shop.example""#,
            "applicationPubKey": #""\#(text(newest))""#,
        ]
        for (name, value) in changed { fields[name] = value }
        fields[without] = nil
        let members = fields.sorted { $0.key < $1.key }.map { "\"\($0.key)\":\($0.value)" }
        return "{\"web\":{\(members.joined(separator: ","))}}"
    }

    /// The headers of a client that does not name the scheme of its auth token.
    private var bare: [(String, String)] { signed.map { ($0.0, $0.1.replacing("FIS ", with: "")) } }

    private func address(
        _ body: String, _ method: HTTPMethod = .post, _ path: String? = nil,
        headers: [(String, String)]? = nil
    ) throws -> WebAddress {
        let action = harness.route(
            method, path ?? registrations, body, bearer: nil, headers: headers ?? signed)
        guard case .operation(.setTransport(let asked, .backend, let transport), let form) = action else {
            Issue.record("the subscription was not taken: \(error(action.response))")
            throw APIError.unauthenticated
        }
        #expect(asked.isSameDevice(as: device) && transport.kind == .web)
        let answer = object(harness.api.render(.done, form).body)
        #expect(answer["token"] as? String == harness.token())
        return try #require(WebAddress(packed: transport.address))
    }

    @Test("a browser's subscription is taken with the key for which the page has made it")
    func registered() throws {
        let taken = try address(block())
        #expect(taken.endpoint == "https://updates.push.services.mozilla.com/wpush/v2/abc")
        #expect(taken.keyID == WebPushProject.keyID(newest.publicBytes))
        #expect(Base64URL.encode(taken.p256dh) == Array(p256dh.utf8))
        #expect(Base64URL.encode(taken.auth) == Array(auth.utf8))
        // A former key goes on, and of a client other than the SDK no key stands for the newest.
        let older = try address(block(["applicationPubKey": "\"\(text(former))\""]))
        #expect(older.keyID == WebPushProject.keyID(former.publicBytes))
        let asked = try address(block(without: "applicationPubKey"), headers: bare)
        #expect(asked.keyID == taken.keyID)
        let path = "\(registrations)/\(harness.token())"
        #expect(try address(block(), .patch, path) == taken)
    }

    @Test("the SDK's subscription under Google's own key, which it does not name, gets the key to pass")
    func defaultKey() {
        for body in [block(without: "applicationPubKey"), block(["applicationPubKey": "null"])] {
            let response = harness.route(.post, registrations, body, bearer: nil, headers: signed).response
            #expect(error(response).http == 400 && error(response).field == "web.application_pub_key")
            let said = object(response?.body ?? [])["error"] as? [String: Any]
            #expect((said?["message"] as? String)?.hasSuffix("Pass vapidKey: \(text(newest))") == true)
        }
    }

    @Test("fields may be in snake case, padded, and beside fields of newer SDKs")
    func forms() throws {
        let body =
            #"{"web":{"endpoint":"HTTPS://Push.Example.com:8443/a?b","p256dh":"\#(p256dh)=","#
            + #""auth":"\#(auth)==","application_pub_key":"\#(text(former))=","later":[1]},"#
            + #""fcm_sdk_version":"0.13.2"}"#
        let taken = try address(body)
        #expect(taken.endpoint == "https://push.example.com:8443/a?b")
        #expect(taken.origin == "https://push.example.com:8443")
        #expect(taken.keyID == WebPushProject.keyID(former.publicBytes))
    }

    @Test(
        "a wrong part is refused with the name of its field",
        arguments: [
            ("endpoint", #""http://updates.push.services.mozilla.com/a""#, "web.endpoint"),
            ("endpoint", #""https://127.0.0.1/a""#, "web.endpoint"),
            ("endpoint", #""https://intranet.example/a""#, "web.endpoint"),
            ("endpoint", #""https://push.example.com/a""#, "web.endpoint"),
            ("endpoint", "7", "web.endpoint"),
            ("p256dh", #""BCVxsr7N""#, "web.p256dh"), ("p256dh", #""%""#, "web.p256dh"),
            (
                "p256dh",
                "\"\(p256dh.dropLast())8\"",
                "web.p256dh"
            ),
            ("auth", #""AAAA""#, "web.auth"), ("auth", "null", "web.auth"),
            ("applicationPubKey", #""BDOU""#, "web.application_pub_key"),
            ("applicationPubKey", #""not base64""#, "web.application_pub_key"), ("origin", "7", "web.origin"),
        ])
    func wrongParts(name: String, value: String, field: String) {
        let action = harness.route(
            .post, registrations, block([name: value]), bearer: nil, headers: signed)
        let said = error(action.response)
        #expect(said.http == 400 && said.field == field, "\(said)")
        #expect(action.response?.fields.contains { $0.name == "access-control-allow-origin" } == true)
    }

    @Test("a missing part is refused, and so is an endpoint beyond its length")
    func missing() {
        for name in ["endpoint", "p256dh", "auth"] {
            let said = error(
                harness.route(.post, registrations, block(without: name), bearer: nil, headers: signed)
                    .response)
            #expect(said.http == 400 && said.field == "web.\(name)")
        }
        let long = "\"https://push.example.com:8443/\(String(repeating: "x", count: 2048))\""
        let said = error(
            harness.route(.post, registrations, block(["endpoint": long]), bearer: nil, headers: signed)
                .response)
        #expect(said.http == 400 && said.field == "web.endpoint")
        #expect(
            error(
                harness.route(.post, registrations, #"{"web":[]}"#, bearer: nil, headers: signed).response
            ).field == "web")
    }

    @Test("a key that is not the project's is answered with the project's key, which the SDK shows")
    func foreignKey() {
        let action = harness.route(
            .post, registrations, block(["applicationPubKey": "\"\(p256dh)\""]), bearer: nil, headers: signed)
        let said = object(action.response?.body ?? [])["error"] as? [String: Any]
        #expect((said?["message"] as? String)?.contains("Pass vapidKey: \(text(newest))") == true)
    }

    @Test("without settings, or with Web Push off, a subscription is refused and no key is told")
    func off() {
        let known = harness.api.directory.webPush[ProjectNumber(5)]
        var off = known
        off?.isOn = false
        for push in [off, nil] {
            harness.api.directory.webPush[ProjectNumber(5)] = push
            let action = harness.route(.post, registrations, block(), bearer: nil, headers: signed)
            #expect(error(action.response).http == 400 && error(action.response).field == "web")
            let key = harness.route(.get, "/v1/projects/shop/webPushKey", bearer: nil, headers: appKey)
            #expect(error(key.response).http == 404)
        }
    }

    @Test("the web SDK's DELETE counts as a change of its client's address")
    func deletedTooOften() {
        var settings = APISettings()
        var limits = ClientLimits.Settings()
        limits.changesPerMinute = 1
        settings.clients = ClientLimits(limits, salt: 3)
        let strict = APIHarness(settings)
        let path = "\(registrations)/\(strict.token())"
        func ask() -> APIAction {
            var fields = HTTPFields()
            for (name, value) in signed { fields.append(name: name.utf8, value: value.utf8) }
            let request = HTTPRequest(
                method: .delete, target: Array(path.utf8), fields: fields,
                client: ClientAddress(bytes: [192, 0, 2, 1]))
            return strict.route(request)
        }
        guard case .operation(.endTransport, _) = ask() else {
            Issue.record("the first change was refused")
            return
        }
        #expect(error(ask().response).http == 429)
    }

    @Test("the web SDK's DELETE ends the address alone, so that the SDK can register again")
    func deleted() {
        let path = "\(registrations)/\(harness.token())"
        let action = harness.route(.delete, path, bearer: nil, headers: signed)
        guard case .operation(.endTransport(let asked, .backend, .web), let form) = action else {
            Issue.record("the device would end")
            return
        }
        #expect(asked.isSameDevice(as: device))
        let answer = harness.api.render(.done, form)
        #expect(answer.status == 200 && answer.body == Array("{}".utf8))
        // Other SDKs name the token alone, and a backend ends the device.
        for action in [
            harness.route(.delete, path, bearer: nil, headers: bare),
            harness.route(.delete, path, headers: signed),
        ] {
            guard case .operation(.unregister, _) = action else {
                Issue.record("the device stays")
                continue
            }
        }
    }

    @Test("a device sees the origin of its push service, and not its address")
    func shown() throws {
        let stored = StoredTransport(
            transport: Transport(kind: .web, address: try address(block()).packed),
            registered: harness.now, generation: 3)
        let path = "\(registrations)/\(harness.token())"
        let form = try #require(harness.route(.get, path).form)
        let state = DeviceState(
            index: DeviceIndex(9), nonce: 77, lastSeen: Day(20_000), topicCount: 0, waitingCount: 0)
        let answer = harness.api.render(.device(state, [stored]), form)
        let transports = object(answer.body)["transports"] as? [[String: Any]]
        #expect(transports?.first?["service"] as? String == "https://updates.push.services.mozilla.com")
        #expect(!String(decoding: answer.body, as: UTF8.self).contains("wpush"))
    }

    @Test("a page reads the newest key under any credential of the project, and under no other")
    func key() {
        let path = "/v1/projects/shop/webPushKey"
        let asks = [
            harness.route(.get, path, bearer: nil, headers: appKey),
            harness.route(.get, path, bearer: nil, headers: [signed[1]]), harness.route(.get, path),
            harness.route(.get, path + "?key=tck_app", bearer: nil),
        ]
        for action in asks {
            let answer = action.response
            #expect(object(answer?.body ?? [])["publicKey"] as? String == text(newest))
            #expect(answer?.fields.contains { $0.name == "access-control-allow-origin" } == true)
        }
        let refused = harness.route(.get, path, bearer: nil).response
        #expect(error(refused).http == 401)
        #expect(refused?.fields.contains { $0.name == "access-control-allow-origin" } == true)
        let other = "/v1/projects/other/webPushKey"
        #expect(error(harness.route(.get, other).response).http == 403)
        #expect(error(harness.route(.get, other, bearer: nil, headers: signed).response).http == 401)
        #expect(error(harness.route(.post, path, "{}").response).http == 404)
    }
}

@Suite("Operators' requests about Web Push") struct WebPushAdminTests {
    private let harness = APIHarness()

    private func ask(_ method: HTTPMethod, _ path: String, _ body: String = "") -> APIAction {
        let request = HTTPRequest(
            method: method, target: Array("/admin/projects/\(path)".utf8), fields: HTTPFields(),
            body: Array(body.utf8))
        return harness.route(request, isAdmin: true)
    }

    @Test("a change names its settings, and the audit log has its words")
    func change() throws {
        let body =
            #"{"subject":"mailto:push@example.com","allowHosts":["a.example:8443","a.example:8443"],"#
            + #""newKey":true}"#
        guard case .admin(let request) = ask(.post, "shop/push/web", body),
            case .push(.setWeb(let project, let change)) = request
        else {
            Issue.record("no change was read")
            return
        }
        #expect(project.id == "shop" && change.subject == "mailto:push@example.com")
        #expect(change.hosts == ["a.example:8443"] && change.wantsNewKey && change.authority == nil)
        #expect(
            request.change?.subject
                == "shop web on, subject mailto:push@example.com, hosts a.example:8443, a new key")
        guard case .admin(.push(.show)) = ask(.get, "shop/push"),
            case .admin(.push(.switchOff(_, .web))) = ask(.delete, "shop/push/web")
        else {
            Issue.record("a path is another")
            return
        }
    }

    @Test(
        "a setting that cannot be is refused with its field",
        arguments: [
            (#"{"subject":"mailto:a@localhost"}"#, "subject"), (#"{"subject":7}"#, "subject"),
            (#"{"allowHosts":"a.example"}"#, "allowHosts"), (#"{"allowHosts":["a b"]}"#, "allowHosts"),
            (#"{"allowHosts":[7]}"#, "allowHosts"), (#"{"ca":"nonsense"}"#, "ca"),
            (#"{"ca":"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"}"#, "ca"),
            (#"{"newKey":"yes"}"#, "newKey"),
        ])
    func wrong(body: String, field: String) {
        let said = error(ask(.post, "shop/push/web", body).response)
        #expect(said.http == 400 && said.field == field, "\(said)")
    }

    @Test("an unknown project, an unknown service and an unknown field are refused")
    func unknown() {
        #expect(error(ask(.get, "none/push").response).http == 404)
        #expect(error(ask(.post, "shop/push/pigeon", "{}").response).http == 404)
        #expect(error(ask(.post, "shop/push/web", #"{"colour":"red"}"#).response).http == 400)
    }

    @Test("a body with certificates is read whole where the request has a token, and only there")
    func bound() {
        func bound(_ fields: HTTPFields) -> Int? {
            let request = HTTPRequest(
                method: .post, target: Array("/admin/projects/shop/push/web".utf8), fields: fields, body: [])
            let bound = harness.api.bodyBound(of: request, isAdmin: false, now: harness.now)
            if case .bytes(let count) = bound { return count }
            return nil
        }
        var fields = HTTPFields()
        #expect(bound(fields) == BodyBound.small)
        fields.append(name: "authorization".utf8, value: "Bearer tcb_secret".utf8)
        #expect((bound(fields) ?? 0) > WebPushSettings.authorityBytesMax)
    }
}
