import HTTPMessages
import Model
import Partitions
import RegistrationIDs
import Routing
import Testing

@testable import FCMAPI

/// The iOS SDK that registers with tokens: its check-in, its token, and its topics.
@Suite("Apps that register with a token")
struct AppTokenTests {
    private let harness = APIHarness()
    private let device = Registration(
        project: ProjectNumber(5), partition: PartitionID(3), index: DeviceIndex(9), nonce: 77, key: 1)

    private func text(_ action: APIAction) -> String {
        String(decoding: action.response?.body ?? [], as: UTF8.self)
    }

    private var login: DeviceLogin { harness.keys.newLogin(seed: MessageID(time: 1, random: 2)) }

    private var authToken: String {
        let token = InstallationToken(
            registrationToken: harness.keys.token(device, secret: 99), now: harness.now)
        return String(decoding: token?.signed(with: Array(repeating: 7, count: 32)) ?? [], as: UTF8.self)
    }

    private func register(
        _ form: String, login: DeviceLogin? = nil, auth: String? = nil
    ) -> APIAction {
        let login = login ?? self.login
        return harness.route(
            .post, "/register", form, bearer: nil,
            headers: [
                ("authorization", "AidLogin \(login.id):\(login.secret)"),
                ("x-goog-firebase-installations-auth", auth ?? authToken), ("app", "org.example.app"),
            ])
    }

    private func checkIn(_ body: String) -> [String: Any] {
        object(harness.route(.post, "/checkin", body, bearer: nil).response?.body ?? [])
    }

    @Test("check in and get two JSON numbers that are the login of nobody else")
    func checkIn() throws {
        let body = #"{"checkin":{"type":2,"iosbuild":{"model":"x"}},"version":2,"id":0,"security_token":0}"#
        let raw = text(harness.route(.post, "/checkin", body, bearer: nil))
        #expect(raw.contains(#""android_id":\#(login.id),"security_token":\#(login.secret),"#), "\(raw)")
        #expect(checkIn(body)["time_msec"] as? Int64 == harness.now.milliseconds)
        #expect(checkIn("{}")["android_id"] as? UInt64 == login.id)
        let bad = ["", "[]", "{", #""x""#]
        for body in bad { #expect(error(harness.route(.post, "/checkin", body).response).http == 400) }
        #expect(error(harness.route(.get, "/checkin").response).http == 404)
    }

    @Test("keep a genuine login, and get no secret for an id of their own choice")
    func keepsLogin() {
        let former = harness.keys.newLogin(seed: MessageID(time: 8, random: 9))
        let kept = checkIn(#"{"id":\#(former.id),"security_token":\#(former.secret)}"#)
        #expect(kept["android_id"] as? UInt64 == former.id)
        #expect(kept["security_token"] as? UInt64 == former.secret)
        for (id, secret) in [
            ("\(former.id)", "\(former.secret ^ 1)"), ("\(former.id)", "0"), ("\(former.id)", "null"),
            ("\(former.id)", "\"\(former.secret)\""), ("-1", "-1"), ("1e30", "18446744073709551615"),
        ] {
            let answer = checkIn(#"{"id":\#(id),"security_token":\#(secret)}"#)
            #expect(answer["android_id"] as? UInt64 == login.id, "\(id) \(secret)")
        }
        harness.api.areKeysCurrent = { false }
        let unknown = harness.route(.post, "/checkin", #"{"id":5,"security_token":6}"#)
        #expect(error(unknown.response).http == 503)
    }

    @Test("get their installation's token, bound to their login, whatever FID they name")
    func token() throws {
        // As URLComponents writes it: a plus sign stays as it is.
        let form =
            "X-osv=17.1&device=\(login.id)&X-scope=*&plat=2&app=org.example.app&app_ver=1.0+5"
            + "&X-cliv=fiid-12.19.0&sender=123456789012&X-subtype=123456789012"
            + "&appid=cAAAAAAAAAAAAAAAAAAAAA&apns_token=s_00FF&gmp_app_id=1:5:ios:a"
        guard case .operation(.setTransport(let asked, .backend, let transport), let form) = register(form)
        else { Issue.record("the token was not made"); return }
        #expect(asked.isSameDevice(as: device))
        #expect(
            APNsAddress(packed: transport.address)
                == APNsAddress(isSandbox: true, bundleID: "org.example.app", token: [0, 255]))
        let answer = String(decoding: harness.api.render(.done, form).body, as: UTF8.self)
        #expect(answer.hasPrefix("token=\(harness.token())") && answer.split(separator: "=").count == 2)
        #expect(harness.keys.isBound(Array(answer.utf8.dropFirst(6)), to: login))
        func refused(_ refusal: Refusal) -> String {
            let response = harness.api.render(.refused(refusal), form)
            #expect(response.status == 200)
            return String(decoding: response.body, as: UTF8.self)
        }
        #expect(refused(.unregistered) == "Error=INVALID_SENDER")
        #expect(refused(.unavailable("x")) == "Error=SERVICE_NOT_AVAILABLE:PHONE_REGISTRATION_ERROR")
        // A phone without an address at Apple's push service.
        guard case .operation(.device, let bare) = register("app=a.b") else {
            Issue.record("a token needs an address"); return
        }
        let state = DeviceState(
            index: DeviceIndex(9), nonce: 77, lastSeen: Day(1), topicCount: 0, waitingCount: 0)
        #expect(harness.api.render(.device(state, []), bare).body == Array(answer.utf8))
    }

    @Test("are refused in the SDK's words")
    func refused() {
        let form = "app=a.b&apns_token=p_00"
        #expect(text(register(form, auth: "nonsense")) == "Error=AUTHENTICATION_FAILED")
        #expect(text(register(form, auth: "")) == "Error=AUTHENTICATION_FAILED")
        // The SDK forgets its login and checks in again.
        #expect(text(register(form, login: DeviceLogin(id: 1, secret: 2))) == "Error=RST")
        for bad in [
            "app=a.b&apns_token=00", "app=a.b&apns_token=x_00", "app=a.b&apns_token=p_0g",
            "app=a.b&apns_token=p_", "app=a%20b&apns_token=p_00", "app=a+b&apns_token=p_00",
            "app=&apns_token=p_00", String(repeating: "a=b&", count: 300),
        ] { #expect(text(register(bad)) == "Error=INVALID_PARAMETERS", "\(bad)") }
        harness.api.areKeysCurrent = { false }
        #expect(
            text(register(form, login: DeviceLogin(id: 1, secret: 2)))
                == "Error=SERVICE_NOT_AVAILABLE:PHONE_REGISTRATION_ERROR")
    }

    @Test("delete their token, and the device stays")
    func delete() {
        let form = "app=org.example.app&delete=true&iid-operation=delete"
        guard case .operation(.endTransport(let asked, .backend, .apns), let form) = register(form) else {
            Issue.record("the address goes on"); return
        }
        #expect(asked.isSameDevice(as: device))
        #expect(harness.api.render(.done, form).body == Array("deleted=org.example.app".utf8))
    }

    @Test("subscribe their own token by their login, and no other token")
    func topics() throws {
        let token = harness.keys.token(device, secret: 99)
        let own = String(decoding: try #require(harness.keys.bind(token, to: login)), as: UTF8.self)
        let stranger = harness.keys.newLogin(seed: MessageID(time: 3, random: 4))
        func ask(_ token: String, _ login: DeviceLogin, more: String = "") -> APIAction {
            harness.route(
                .post, "/iid/register",
                "sender=\(token)&app=a.b&device=1&app_ver=1&X-gcm.topic=/topics/a&X-scope=/topics/a\(more)",
                bearer: nil, headers: [("authorization", "AidLogin \(login.id):\(login.secret)")])
        }
        let change = try #require(ask(own, login).change)
        #expect(change.caller == .backend && change.kind == .subscribe)
        #expect(change.devices.first?.suffix != nil)
        #expect(ask(own, login, more: "&delete=true").change?.kind == .unsubscribe)
        let answer = harness.api.render(.changes([.changed(Day(1))]), try #require(ask(own, login).form))
        #expect(answer.body == Array("token=\(own)".utf8))
        let others = String(
            decoding: try #require(harness.keys.bind(token, to: stranger)), as: UTF8.self)
        let forged = DeviceLogin(id: login.id, secret: login.secret ^ 1)
        for (token, login) in [
            (own, stranger), (others, login), (own, forged), (harness.token(), login),
        ] {
            #expect(text(ask(token, login)) == "Error=AUTHENTICATION_FAILED")
        }
    }

    @Test(
        "are bounded by their address, also where they only check in or guess a login",
        arguments: ["/checkin", "/register", "/iid/register"])
    func bounded(path: String) throws {
        var limits = ClientLimits.Settings()
        limits.changesPerMinute = 2
        var settings = APISettings()
        settings.clients = ClientLimits(limits, salt: 1)
        let harness = APIHarness(settings)
        let body = path == "/checkin" ? "{}" : "sender=\(harness.token())&X-gcm.topic=/topics/a"
        let answers = (0..<3).map { _ in
            var fields = HTTPFields()
            fields.append(name: "authorization".utf8, value: "AidLogin 5:6".utf8)
            fields.append(name: "x-goog-firebase-installations-auth".utf8, value: authToken.utf8)
            let request = HTTPRequest(
                method: .post, target: Array(path.utf8), fields: fields, body: Array(body.utf8),
                client: ClientAddress(bytes: [192, 0, 2, 1]))
            return harness.route(request)
        }
        let (before, last) = (answers.prefix(2), answers[2])
        switch path {
        case "/checkin":
            #expect(before.allSatisfy { $0.response?.status == 200 })
            let said = error(last.response)
            #expect(said.http == 429 && said.status == "RESOURCE_EXHAUSTED")
        case "/register":
            #expect(before.map(text) == ["Error=RST", "Error=RST"])
            #expect(text(last) == "Error=QUOTA_EXCEEDED:PHONE_REGISTRATION_ERROR")
        default:
            #expect(before.map(text) == Array(repeating: "Error=AUTHENTICATION_FAILED", count: 2))
            #expect(text(last) == "Error=QUOTA_EXCEEDED")
        }
    }
}
