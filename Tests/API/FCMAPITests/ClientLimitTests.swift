import Credentials
import Foundation
import HTTPMessages
import Model
import Quotas
import RegistrationIDs
import Testing

@testable import FCMAPI

private func address(_ text: String) -> ClientAddress? { ClientAddress(text: text) }

@Suite("What one client's address may do")
struct ClientLimitTests {
    private func harness(_ change: (inout ClientLimits.Settings) -> Void) -> APIHarness {
        var settings = APISettings()
        var limits = ClientLimits.Settings()
        change(&limits)
        settings.clients = ClientLimits(limits, salt: 3)
        return APIHarness(settings)
    }

    private func ask(
        _ harness: APIHarness, _ path: String, _ body: String = "{}", method: HTTPMethod = .post,
        from client: String?, _ headers: [(String, String)] = []
    ) -> HTTPResponse? {
        var fields = HTTPFields()
        for (name, value) in headers { fields.append(name: name.utf8, value: value.utf8) }
        let request = HTTPRequest(
            method: method, target: Array(path.utf8), fields: fields, body: Array(body.utf8),
            client: client.flatMap(address))
        let action = harness.route(request)
        if case .respond(let response) = action { return response }
        return nil
    }

    private func register(_ harness: APIHarness, from client: String?, _ more: [(String, String)] = [])
        -> HTTPResponse?
    {
        ask(
            harness, "/v1/projects/shop/registrations", from: client,
            [("x-goog-api-key", "tck_app")] + more)
    }

    /// The path of a subscription of a device; the harness's project becomes a push service.
    private func subscription(_ harness: APIHarness) -> String {
        harness.api.directory.pushServices[harness.project.number] = PushServiceProject(
            .init(origin: "https://push.example.com"))
        let device = Registration(
            project: harness.project.number, partition: PartitionID(3), index: DeviceIndex(9), nonce: 77,
            key: 1)
        let address = ChannelAddress(
            device: device, channel: ChannelID(high: 1, low: 2), senderKeyHash: nil)
        return "/push/v1/" + String(decoding: harness.keys.seal(address), as: UTF8.self)
    }

    @Test("are so many messages of a sender, whatever becomes of them")
    func posts() throws {
        let harness = harness { $0.callsPerMinute = 3 }
        let path = subscription(harness)
        func post(_ path: String, from client: String) -> Int? {
            ask(harness, path, "", from: client, [("ttl", "60")])?.status
        }
        // Whether the message is taken is not known yet: the answer comes later.
        #expect((0..<4).map { _ in post(path, from: "192.0.2.1") } == [nil, nil, nil, 429])
        #expect((0..<4).map { _ in post("/push/v1/AAAA", from: "192.0.2.2") } == [404, 404, 404, 429])
        harness.api.refusalOfSend = { _ in .init(kind: .sends, limit: 1, retryDelay: .seconds(7)) }
        #expect((0..<4).map { _ in post(path, from: "192.0.2.3") } == [429, 429, 429, 429])
        let refused = ask(harness, path, "", from: "192.0.2.3", [("ttl", "60")])
        let text = String(decoding: try #require(refused).body, as: UTF8.self)
        #expect(text.contains("address"), "\(text)")
        #expect(harness.api.settings.clients.callsRefused == 4)
    }

    @Test("are so many registrations with the app's key; then 429 says which limit it was")
    func registrations() throws {
        let harness = harness { $0.registrationsPerMinute = 2 }
        for _ in 0..<2 { #expect(register(harness, from: "192.0.2.1") == nil) }
        let refused = try #require(register(harness, from: "192.0.2.1"))
        #expect(refused.status == 429)
        let text = String(decoding: refused.body, as: UTF8.self)
        for wanted in [
            "RESOURCE_EXHAUSTED", "RegistrationsPerMinutePerAddress", "\"quota_limit_value\":\"2\"",
            "RetryInfo",
        ] {
            #expect(text.contains(wanted), "\(wanted) in \(text)")
        }
        #expect(refused.fields.contains { $0.name == "retry-after" && $0.value == "30" })
        #expect(refused.fields.contains { $0.name == "access-control-allow-origin" })
        #expect(harness.api.settings.clients.registrationsRefused == 1)
        // The limit leaves out other addresses, and clients that show more than the app's key.
        #expect(register(harness, from: "192.0.2.2") == nil)
        #expect(register(harness, from: nil) == nil)
        #expect(register(harness, from: "192.0.2.1", [("authorization", "Bearer tcb_secret")]) == nil)
        harness.moment = MonotonicTime(.seconds(31))
        #expect(register(harness, from: "192.0.2.1") == nil)
    }

    @Test("are so many subscription changes with what looks like a device's credential")
    func changes() throws {
        let harness = harness { $0.changesPerMinute = 2 }
        let path = "/v1/projects/shop/registrations/\(harness.token())/topicSubscriptions/news:subscribe"
        let credential = ("authorization", "Bearer AAAAAAAAAAAAAAAAAAAAAA")
        func change(_ client: String, _ header: (String, String)) -> HTTPResponse? {
            ask(harness, path, from: client, [header])
        }
        for _ in 0..<2 { #expect(change("192.0.2.1", credential) == nil) }
        let refused = try #require(change("192.0.2.1", credential))
        #expect(refused.status == 429)
        let text = String(decoding: refused.body, as: UTF8.self)
        #expect(text.contains("SubscriptionChangesPerMinutePerAddress"))
        let form = "token=\(harness.token())&X-gcm.topic=/topics/news"
        let login = ("authorization", "AidLogin 1:AAAAAAAAAAAAAAAAAAAAAA")
        let classic = ask(harness, "/iid/register", form, from: "192.0.2.1", [login])
        #expect(classic.map { String(decoding: $0.body, as: UTF8.self) } == "Error=QUOTA_EXCEEDED")
        #expect(harness.api.settings.clients.changesRefused == 2)
        #expect(change("192.0.2.2", credential) == nil)
        #expect(change("192.0.2.1", ("authorization", "Bearer tcb_secret")) == nil)
        let none = self.harness { $0.changesPerMinute = 0 }
        for _ in 0..<4000 { #expect(ask(none, path, from: "192.0.2.1", [credential]) == nil) }
    }

    /// Only the device partition can check the credential, so each of these asks a partition.
    @Test(
        "are so many other calls with what looks like a device's credential",
        arguments: [
            (HTTPMethod.get, ":listen"), (.post, ":acknowledge"), (.get, ""), (.delete, ""),
            (.get, "/topicSubscriptions"), (.get, "/topicSubscriptions/news"),
        ])
    func calls(method: HTTPMethod, tail: String) throws {
        let harness = harness { $0.callsPerMinute = 2 }
        let path = "/v1/projects/shop/registrations/\(harness.token())\(tail)"
        let body = #"{"eventId":"000660bdeed60db8.2b40"}"#
        let credential = ("authorization", "Bearer AAAAAAAAAAAAAAAAAAAAAA")
        func call(_ client: String, _ header: (String, String)) -> HTTPResponse? {
            ask(harness, path, body, method: method, from: client, [header])
        }
        for _ in 0..<2 { #expect(call("192.0.2.1", credential) == nil) }
        let refused = try #require(call("192.0.2.1", credential))
        #expect(refused.status == 429)
        #expect(String(decoding: refused.body, as: UTF8.self).contains("DeviceCallsPerMinutePerAddress"))
        #expect(refused.fields.contains { $0.name == "retry-after" && $0.value == "30" })
        #expect(harness.api.settings.clients.callsRefused == 1)
        #expect(call("192.0.2.2", credential) == nil)
        guard tail != ":listen", tail != ":acknowledge" else { return }
        #expect(call("192.0.2.1", ("authorization", "Bearer tcb_secret")) == nil)
    }

    @Test("are so many auth tokens of installations, together with the other calls")
    func authTokens() {
        let harness = harness { $0.callsPerMinute = 2 }
        let fid = String(harness.token().prefix(22))
        let path = "/v1/projects/shop/installations/\(fid)"
        let part = String(repeating: "A", count: 22)
        let header = ("authorization", "FIS_v2 \(part).\(part)")
        #expect(ask(harness, "\(path)/authTokens:generate", from: "192.0.2.1", [header]) == nil)
        #expect(ask(harness, path, method: .delete, from: "192.0.2.1", [header]) == nil)
        let refused = ask(harness, "\(path)/authTokens:generate", from: "192.0.2.1", [header])
        #expect(refused?.status == 429)
    }

    @Test("are a day's registrations, too; a key that is none costs nothing")
    func day() throws {
        let harness = harness { $0.registrationsPerDay = 1 }
        for _ in 0..<5 {
            #expect(
                ask(
                    harness, "/v1/projects/shop/registrations", from: "192.0.2.1", [("x-goog-api-key", "no")]
                )?.status == 401)
        }
        #expect(register(harness, from: "192.0.2.1") == nil)
        let text = try #require(register(harness, from: "192.0.2.1")).body
        #expect(String(decoding: text, as: UTF8.self).contains("RegistrationsPerDayPerAddress"))
    }

    @Test("is not bounded for this machine's own addresses unless that is said, nor where the bound is 0")
    func exempt() {
        let standard = harness { _ in }
        for _ in 0..<2000 { #expect(register(standard, from: "127.0.0.1") == nil) }
        let none = harness { ($0.registrationsPerMinute, $0.registrationsPerDay) = (0, 0) }
        for _ in 0..<11_000 { #expect(register(none, from: "192.0.2.1") == nil) }
    }

    @Test("is counted for whom a proxy speaks, by what the proxy itself wrote")
    func proxies() throws {
        let range = try #require(AddressRange(text: "10.0.0.0/8"))
        let harness = harness { ($0.registrationsPerMinute, $0.proxies) = (1, [range]) }
        func status(_ peer: String, _ forwarded: String...) -> Int? {
            register(harness, from: peer, forwarded.map { ("x-forwarded-for", $0) })?.status
        }
        #expect(status("10.1.2.3", "192.0.2.1") == nil)
        #expect(status("10.9.9.9", "192.0.2.7, 192.0.2.1") == 429)
        #expect(status("10.1.2.3", "192.0.2.8", " 192.0.2.1:4711 ") == 429)
        #expect(status("10.1.2.3", "192.0.2.1, 192.0.2.2") == nil)
        #expect(status("10.1.2.3", "[2001:db8::1]:80") == nil)
        #expect(status("10.1.2.3", "2001:db8::2") == 429)
        // A proxy that names no client has no bound. The API ignores the client that a stranger names.
        for _ in 0..<3 { #expect(status("10.1.2.3") == nil) }
        #expect(status("198.51.100.1", "192.0.2.50") == nil)
        #expect(status("198.51.100.1", "192.0.2.51") == 429)
    }

    @Test("is named by its address alone, whatever else a proxy passes on")
    func forwarded() throws {
        let range = try #require(AddressRange(text: "10.0.0.0/8"))
        let harness = harness { $0.proxies = [range] }
        func name(_ forwarded: String, by peer: String = "10.1.2.3") -> String? {
            var fields = HTTPFields()
            fields.append(name: "x-forwarded-for".utf8, value: forwarded.utf8)
            return harness.api.forwarded(
                HTTPRequest(method: .get, target: [], fields: fields, body: [], client: address(peer)))
        }
        #expect(name("192.0.2.7, \t192.0.2.1:4711 ") == "192.0.2.1")
        #expect(name("192.0.2.1:\u{1B}[2J") == "192.0.2.1")
        #expect(name("[2001:db8::1]\u{1B}]0;x") == "2001:db8::1")
        #expect(name("192.0.2.1\u{1B}[2J") == nil && name("") == nil)
        #expect(name("192.0.2.1", by: "198.51.100.1") == nil)
    }

    @Test("are so many assertions that are refused; then none is looked at, and other addresses go on")
    func assertions() throws {
        let harness = harness { $0.badAssertionsPerMinute = 3 }
        let form = "grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer&assertion=a.b.c"
        for _ in 0..<3 { #expect(ask(harness, "/token", form, from: "192.0.2.1")?.status == 400) }
        for _ in 0..<3 {
            let refused = try #require(ask(harness, "/token", form, from: "192.0.2.1"))
            #expect(refused.status == 429)
            #expect(String(decoding: refused.body, as: UTF8.self).contains("temporarily_unavailable"))
            #expect(refused.fields.contains { $0.name == "retry-after" && $0.value == "21" })
        }
        #expect(harness.api.settings.clients.assertionsRefused == 3)
        #expect(ask(harness, "/token", form, from: "192.0.2.2")?.status == 400)
        harness.moment = MonotonicTime(.seconds(21))
        #expect(ask(harness, "/token", form, from: "192.0.2.1")?.status == 400)
    }

    @Test("ranges of addresses are read as they are written")
    func ranges() throws {
        let some = try #require(AddressRange(text: "172.16.0.0/12"))
        #expect(try some.contains(#require(address("172.31.255.255"))))
        #expect(try !some.contains(#require(address("172.32.0.0"))))
        #expect(try #require(AddressRange(text: "0.0.0.0/0")).contains(#require(address("198.51.100.9"))))
        #expect(try !#require(AddressRange(text: "192.0.2.1")).contains(#require(address("192.0.2.2"))))
        let six = try #require(AddressRange(text: "2001:db8::/32"))
        #expect(try six.contains(#require(address("2001:db8:9::1"))))
        #expect(try !six.contains(#require(address("2001:db9::1"))))
        for text in ["", "x", "1.2.3.4/33", "1.2.3.4/-1", "1.2.3.4/1/1", "::/129"] {
            #expect(AddressRange(text: text) == nil, "\(text)")
        }
    }
}
