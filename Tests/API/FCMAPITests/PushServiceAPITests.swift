import Credentials
import Foundation
import HTTPMessages
import Model
import Partitions
import PushMessages
import Testing

@testable import FCMAPI

private enum TestPEM {
    /// PKCS #8 (RFC 5958) around an ECPrivateKey (RFC 5915).
    static func pkcs8(_ pair: P256Key) -> String {
        let head: [UInt8] = [
            0x30, 0x81, 0x87, 2, 1, 0, 0x30, 0x13, 6, 7, 0x2A, 0x86, 0x48, 0xCE, 0x3D, 2, 1, 6, 8, 0x2A, 0x86,
            0x48, 0xCE, 0x3D, 3, 1, 7, 4, 0x6D, 0x30, 0x6B, 2, 1, 1, 4, 0x20,
        ]
        let bytes = head + pair.privateBytes + [0xA1, 0x44, 3, 0x42, 0] + pair.publicBytes
        let text = Data(bytes).base64EncodedString()
        return "-----BEGIN PRIVATE KEY-----\n\(text)\n-----END PRIVATE KEY-----\n"
    }
}

@Suite("Apple's push service and the relay in the API") struct PushServiceAPITests {
    private let harness = APIHarness()
    private let path = "/admin/projects/shop/push"
    private let key: String

    init() throws {
        key = TestPEM.pkcs8(try P256Key.generate())
    }

    private func admin(_ method: HTTPMethod, _ path: String, _ body: String = "") -> APIAction {
        var fields = HTTPFields()
        fields.append(name: "content-type".utf8, value: "application/json".utf8)
        let request = HTTPRequest(
            method: method, target: Array(path.utf8), fields: fields, body: Array(body.utf8))
        return harness.route(request, isAdmin: true)
    }

    private func quoted(_ text: String) -> String {
        "\"" + text.replacing("\\", with: "\\\\").replacing("\"", with: "\\\"").replacing("\n", with: "\\n")
            + "\""
    }

    private func apns(_ changed: [String: String] = [:], without: String = "") -> String {
        var fields = [
            "key": quoted(key), "keyId": "\"ABC123DEFG\"", "teamId": "\"DEF123GHIJ\"",
            "bundleId": "\"org.example.app\"",
        ]
        for (name, value) in changed { fields[name] = value }
        fields[without] = nil
        return "{"
            + fields.sorted { $0.key < $1.key }.map { "\"\($0.key)\":\($0.value)" }.joined(separator: ",")
            + "}"
    }

    private func push(_ action: APIAction) -> PushSettingsRequest? {
        if case .admin(.push(let wanted)) = action { wanted } else { nil }
    }

    @Test("a backend reads how push services have answered to a message, by its id")
    func answersToMessage() throws {
        let id = MessageID(time: 1, random: 2)
        let path = "/v1/projects/shop/messages/"
        guard case .operation(.pushes(_, let asked), let form) = harness.route(.get, path + id.text) else {
            Issue.record("no question"); return
        }
        #expect(asked == id)
        let tallies = [
            PushTally(kind: .apns, outcome: .accepted, count: 3, newest: harness.now),
            PushTally(kind: .web, outcome: .refusedContent("too long"), count: 1, newest: harness.now),
        ]
        let shown = object(harness.api.render(.pushes(tallies), form).body)
        #expect(shown["name"] as? String == "projects/shop/messages/\(id.text)")
        let pushes = try #require(shown["pushes"] as? [[String: Any]])
        #expect(pushes.map { $0["kind"] as? String } == ["ios", "web"])
        #expect(pushes.map { $0["count"] as? Int } == [3, 1])
        #expect(pushes[0]["reason"] == nil && pushes[1]["reason"] as? String == "too long")
        for wrong in ["x", String(repeating: "g", count: 32), id.text + "0"] {
            #expect(error(harness.route(.get, path + wrong).response).http == 400)
        }
        #expect(error(harness.route(.get, path + id.text, bearer: nil).response).http == 401)
    }

    @Test("a key is taken with its app and environment, and the audit log has no secret")
    func takesKey() throws {
        let body = apns(["sandbox": "true", "host": "\"Localhost:8443\""])
        let wanted = try #require(push(admin(.post, "\(path)/apns", body)))
        guard case .setAPNs(let project, let taken?) = wanted else {
            Issue.record("\(wanted)")
            return
        }
        #expect(project.id == "shop" && taken.isSandbox && taken.bundleID == "org.example.app")
        #expect(taken.keyID == "ABC123DEFG" && taken.teamID == "DEF123GHIJ" && taken.host == "localhost:8443")
        #expect(taken.privateBytes.count == 32 && taken.created == harness.now)
        let words = try #require(wanted.change)
        #expect(words.action == "project.push")
        #expect(
            words.subject == "shop apns on, org.example.app in sandbox, key ABC123DEFG of team DEF123GHIJ,"
                + " host localhost:8443")
        var settings = APNsSettings()
        try settings.put(taken)
        let shown = object(PushView.apns(settings).body)
        let keys = try #require(shown["keys"] as? [[String: Any]])
        #expect(shown["state"] as? String == "on" && keys.count == 1)
        #expect(
            keys[0].keys.sorted()
                == ["authorities", "bundleId", "createTime", "environment", "host", "keyId", "teamId"])
        #expect(keys[0]["host"] as? String == "localhost:8443")
        #expect(
            APNsHost.text(
                of: APNsSettings.Key(
                    isSandbox: false, bundleID: "a", keyID: "", teamID: "", privateBytes: taken.privateBytes,
                    created: harness.now)) == "api.push.apple.com:443")
    }

    @Test(
        "what is wrong with a key is said with the field's name",
        arguments: [
            ("key", #""nothing""#), ("key", "7"), ("keyId", #""short""#), ("teamId", #""abc123defg""#),
            ("bundleId", #""a b""#), ("bundleId", #""""#), ("sandbox", "1"),
            ("host", #""a b""#), ("host", #""h:0""#), ("ca", #""none""#), ("pigeon", "1"),
        ])
    func wrongKeys(name: String, value: String) {
        let said = error(admin(.post, "\(path)/apns", apns([name: value])).response)
        #expect(said.http == 400 && (said.field == name || name == "pigeon"), "\(said)")
    }

    @Test("a key needs its ids and its app; nothing at all switches the service on")
    func missing() throws {
        for name in ["key", "keyId", "teamId", "bundleId"] {
            let said = error(admin(.post, "\(path)/apns", apns(without: name)).response)
            #expect(said.http == 400 && said.field == name)
        }
        let empty = push(admin(.post, "\(path)/apns", "{}"))
        guard case .setAPNs(_, nil)? = empty else {
            Issue.record("an empty change is refused")
            return
        }
        #expect(empty?.change?.subject == "shop apns on")
    }

    @Test("services are switched off by their name, and a key is removed by its app and environment")
    func off() {
        for (word, kind) in [("web", Transport.Kind.web), ("apns", .apns), ("fcm", .fcm)] {
            guard case .switchOff(_, let found)? = push(admin(.delete, "\(path)/\(word)")) else {
                Issue.record("\(word) is not known")
                continue
            }
            #expect(found == kind)
        }
        guard
            case .removeKey(_, isSandbox: true, bundleID: "org.example.app")? = push(
                admin(.delete, "\(path)/apns/sandbox/org.example.app"))
        else {
            Issue.record("the key is not removed")
            return
        }
        let all = push(admin(.delete, path))
        guard case .switchOff(_, nil)? = all else {
            Issue.record("the services are not switched off together")
            return
        }
        #expect(all?.change?.subject.hasSuffix(" web, apns and fcm off") == true)
        for wrong in ["apns/moon/org.example.app", "fcm/sandbox/a", "pigeons", "apns/sandbox"] {
            #expect(error(admin(.delete, "\(path)/\(wrong)").response).http == 404)
        }
        #expect(error(admin(.delete, "\(path)/apns/sandbox/a%20b").response).http == 400)
    }

    // MARK: The relay

    private func account(_ changed: [String: String?] = [:]) throws -> String {
        let made = try #require(ServiceAccountKey.make())
        let file = ServiceAccountFile(
            project: Project(id: "theirs", number: ProjectNumber(9)),
            tokenURI: "https://oauth2.googleapis.com/token", key: made,
            keyID: [UInt8](repeating: 9, count: 20))
        var members = object(Array(file.json.utf8)).compactMapValues { $0 as? String }
        for (name, value) in changed { members[name] = value }
        return "{" + members.map { "\(quoted($0.key)):\(quoted($0.value))" }.joined(separator: ",") + "}"
    }

    @Test("a service account is taken with its project, and never shown")
    func takesAccount() throws {
        let body = #"{"serviceAccount":\#(quoted(try account())),"endpoint":"https://F.example:8443/x/"}"#
        let wanted = try #require(push(admin(.post, "\(path)/fcm", body)))
        guard case .setRelay(_, let change) = wanted, let account = change.account else {
            Issue.record("\(wanted)")
            return
        }
        #expect(account.projectID == "theirs" && change.endpoint == "https://f.example:8443/x")
        #expect(account.clientEmail == "tidecast@theirs.iam.gserviceaccount.com")
        #expect(account.tokenURI == "https://oauth2.googleapis.com/token")
        #expect(wanted.change?.subject.contains("PRIVATE") == false)
        let settings = RelaySettings(account: account, created: harness.now)
        let shown = PushView.status(
            of: harness.project, web: nil, apns: nil, relay: settings, service: nil
        ).body
        #expect(!String(decoding: shown, as: UTF8.self).contains("PRIVATE"))
        let fcm = object(shown)["fcm"] as? [String: Any]
        #expect(fcm?["clientEmail"] as? String == account.clientEmail)
        #expect(fcm?["endpoint"] as? String == "https://fcm.googleapis.com")
        #expect((object(shown)["apns"] as? [String: Any])?["state"] as? String == "none")
    }

    @Test("a file that is no service account's is refused with the reason")
    func wrongAccounts() throws {
        let wrong: [(String, String)] = [
            ("nothing", "no JSON"), ("{}", "type is not service_account"),
            (try account(["type": "authorized_user"]), "type is not"),
            (try account(["project_id": nil]), "no project_id"),
            (try account(["project_id": "a/b"]), "no project's id"),
            (try account(["client_email": ""]), "client_email"),
            (try account(["private_key": "PEM"]), "private_key is refused"),
            (try account(["private_key": key]), "no RSA key"),
            (try account(["client_email": String(repeating: "a", count: 600)]), "1 to 512"),
        ]
        for (text, reason) in wrong {
            let response = admin(.post, "\(path)/fcm", #"{"serviceAccount":\#(quoted(text))}"#).response
            let said = error(response)
            #expect(said.http == 400 && said.field == "serviceAccount", "\(said)")
            let body = String(decoding: response?.body ?? [], as: UTF8.self)
            #expect(body.contains(reason), "\(reason): \(body)")
        }
        for endpoint in ["http://a.example", "https://a.example/?q", "https://u@a.example", "a"] {
            let said = error(admin(.post, "\(path)/fcm", "{\"endpoint\":\(quoted(endpoint))}").response)
            #expect(said.http == 400 && said.field == "endpoint")
        }
    }

    // MARK: Registrations

    @Test("a token of FCM is taken as an address of its own kind, and bounded")
    func registered() throws {
        let reader = TransportReader(project: nil)
        func read(_ body: String) throws -> Transport? {
            let parser = JSONParser()
            return try reader.read(try parser.parse(Array(body.utf8)))
        }
        let token = "dXy_9:APA91b-" + String(repeating: "x", count: 140)
        let taken = try #require(try read(#"{"fcm":{"token":"\#(token)","later":1}}"#))
        #expect(taken.kind == .fcm && FCMAddress(packed: taken.address)?.token == token)
        #expect(try read(#"{"fcm":null}"#) == nil)
        let longest = String(repeating: "x", count: 1024)
        #expect(try read(#"{"fcm":{"token":"\#(longest)"}}"#)?.address.count == 1025)
        for wrong in [
            #"{"fcm":[]}"#, #"{"fcm":{}}"#, #"{"fcm":{"token":7}}"#, #"{"fcm":{"token":""}}"#,
            #"{"fcm":{"token":"a b"}}"#, #"{"fcm":{"token":"\#(longest)x"}}"#, #"{"fcm":{"token":"ä"}}"#,
            #"{"fcm":{"token":"a\"b"}}"#,
        ] { #expect(throws: APIError.self, "\(wrong.prefix(40))") { try read(wrong) } }
        for bytes in [[], [1], [2, 65], [1, 32], [1] + [UInt8](repeating: 65, count: 1025)] as [[UInt8]] {
            #expect(FCMAddress(packed: bytes) == nil)
        }
    }
}
