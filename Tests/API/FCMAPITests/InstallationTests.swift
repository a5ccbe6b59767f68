import HTTPMessages
import Model
import Partitions
import RegistrationIDs
import Routing
import Testing

@testable import FCMAPI

/// The calls with which the SDKs for the web and for iOS register an app.
@Suite("Installations of apps")
struct InstallationTests {
    private let harness = APIHarness()
    private let path = "/v1/projects/shop/installations"
    private let key = [("x-goog-api-key", "tck_app")]
    private let device = Registration(
        project: ProjectNumber(5), partition: PartitionID(3), index: DeviceIndex(9), nonce: 77, key: 1)

    /// A new installation's answer.
    private func installed() throws -> [String: Any] {
        let body = #"{"fid":"cAAAAAAAAAAAAAAAAAAAAA","authVersion":"FIS_v2","appId":"1:5:web:a"}"#
        let action = harness.route(.post, path, body, bearer: nil, headers: key)
        guard case .operation(.register(let project), let form) = action else {
            Issue.record("the installation was not made")
            return [:]
        }
        #expect(project == ProjectNumber(5))
        let new = NewRegistration(registration: device, secret: 99, created: harness.now)
        return object(harness.api.render(.registered(new), form).body)
    }

    private func authToken() throws -> String {
        try #require((try installed()["authToken"] as? [String: Any])?["token"] as? String)
    }

    @Test("an app gets the server's FID, a refresh token and an auth token for a week")
    func create() throws {
        let answer = try installed()
        let fid = String(decoding: harness.keys.fid(device), as: UTF8.self)
        #expect(answer["fid"] as? String == fid)
        #expect(answer["name"] as? String == "projects/shop/installations/\(fid)")
        #expect((answer["authToken"] as? [String: Any])?["expiresIn"] as? String == "604800s")
        #expect((answer["refreshToken"] as? String)?.isEmpty == false)
        // The iOS SDK ends the path with a slash.
        guard
            case .operation(.register, _) = harness.route(.post, path + "/", "{}", bearer: nil, headers: key)
        else { Issue.record("a path with a slash at its end is another path"); return }
    }

    @Test("without an app's key, or with a body that is no object, there is no installation")
    func refused() {
        #expect(error(harness.route(.post, path, "{}", bearer: nil).response).http == 401)
        #expect(error(harness.route(.post, path, "[]", bearer: nil, headers: key).response).http == 400)
        #expect(error(harness.route(.get, path, bearer: nil, headers: key).response).http == 404)
    }

    @Test("a refresh token gets another auth token, and the partition checks the credential in it")
    func generate() throws {
        let answer = try installed()
        let fid = try #require(answer["fid"] as? String)
        let refresh = try #require(answer["refreshToken"] as? String)
        let generate = "\(path)/\(fid)/authTokens:generate"
        func ask(_ token: String) -> APIAction {
            harness.route(.post, generate, "{}", bearer: nil, headers: [("authorization", "FIS_v2 \(token)")])
        }
        guard case .operation(.device(let asked, .device(let shown)), let form) = ask(refresh) else {
            Issue.record("no auth token was made")
            return
        }
        #expect(asked.isSameDevice(as: device))
        #expect(shown == harness.keys.parseProof(harness.keys.credential(secret: 99)))
        let state = DeviceState(
            index: DeviceIndex(9), nonce: 77, lastSeen: Day(1), topicCount: 0, waitingCount: 0)
        let token = object(harness.api.render(.device(state, []), form).body)["token"] as? String
        #expect(token?.hasPrefix("tci.") == true)
        // SDKs forget an installation on 401 and 404, and stop for a day on 403.
        #expect(error(harness.api.render(.refused(.wrongCredential), form)).http == 401)
        #expect(error(harness.api.render(.refused(.unregistered), form)).http == 404)
        for bad in ["", "x", "\(refresh)x", refresh.replacing(".", with: ":"), String(refresh.dropFirst())] {
            #expect(error(ask(bad).response).http == 401)
        }
        #expect(error(harness.route(.post, generate, "{}", bearer: nil, headers: key).response).http == 401)
    }

    @Test("an auth token counts with the word FIS and without, until its end, and for its own device alone")
    func authTokens() throws {
        let token = try authToken()
        let fid = String(decoding: harness.keys.fid(device), as: UTF8.self)
        let subscribe = "/v1/projects/shop/registrations/\(fid)/topicSubscriptions/news:subscribe"
        func ask(_ path: String, _ token: String) -> APIAction {
            harness.route(
                .post, path, bearer: nil, headers: key + [("x-goog-firebase-installations-auth", token)])
        }
        for shown in [token, "FIS \(token)"] {
            let change = try #require(ask(subscribe, shown).change)
            #expect(change.devices.count == 1 && change.caller == .backend)
        }
        let other = Registration(
            project: ProjectNumber(5), partition: PartitionID(3), index: DeviceIndex(9), nonce: 78, key: 1)
        let others = String(decoding: harness.keys.fid(other), as: UTF8.self)
        let foreign = subscribe.replacing(fid, with: others)
        #expect(error(ask(foreign, token).response).http == 403)
        let damaged = String(token.dropLast()) + (token.hasSuffix("A") ? "Q" : "A")
        for bad in [damaged, String(token.dropFirst()), "FIS", "tci.", String(repeating: "tci.A", count: 99)]
        {
            #expect(error(ask(subscribe, bad).response).http == 401)
        }
        let late = WallTime(milliseconds: harness.now.milliseconds + InstallationToken.lifetime * 1000)
        let request = HTTPRequest(
            method: .post, target: Array(subscribe.utf8),
            fields: {
                var fields = HTTPFields()
                fields.append(name: "x-goog-firebase-installations-auth".utf8, value: token.utf8)
                return fields
            }(), body: [])
        let action = harness.route(request, now: late)
        #expect(error(action.response).http == 401)
    }

    @Test("an access token of a backend is no auth token, and the other way round")
    func kinds() throws {
        let signing = [UInt8](repeating: 7, count: 32)
        let text = "tci." + (try authToken()).dropFirst(4)
        #expect(InstallationToken(Array(text.utf8), signedWith: signing) != nil)
        let swapped = Array("tca.".utf8) + text.utf8.dropFirst(4)
        #expect(AccessToken(swapped[...], signedWith: signing) == nil)
        let access = AccessToken(project: ProjectNumber(5), key: "0a", end: harness.now)
            .signed(with: signing)
        #expect(InstallationToken(Array("tci.".utf8) + access.dropFirst(4), signedWith: signing) == nil)
    }

    @Test("an app that registers again is the same device, with its topics and its new address")
    func again() throws {
        let sign = key + [("x-goog-firebase-installations-auth", try authToken())]
        let registrations = "/v1/projects/shop/registrations"
        let body =
            #"{"ios":{"apns_token":"00fF","apns_environment":"SANDBOX","bundle_id":"org.example.app","#
            + #""app_version":"1"},"fcm_sdk_version":"fcm-12.19.0"}"#
        let action = harness.route(.post, registrations, body, bearer: nil, headers: sign)
        guard case .operation(.setTransport(let asked, .backend, let transport), let form) = action else {
            Issue.record("the address was not taken")
            return
        }
        #expect(asked.isSameDevice(as: device) && transport.kind == .apns && !transport.keepsMessages)
        #expect(
            APNsAddress(packed: transport.address)
                == APNsAddress(isSandbox: true, bundleID: "org.example.app", token: [0, 255]))
        let answer = object(harness.api.render(.done, form).body)
        #expect(answer["token"] as? String == harness.token())
        #expect((answer["name"] as? String)?.hasPrefix("projects/shop/registrations/") == true)
        let kept = body.dropLast() + #","keepUntilAcknowledged":true}"#
        let patch = harness.route(
            .patch, "\(registrations)/\(harness.token())", String(kept), bearer: nil, headers: sign)
        guard case .operation(.setTransport(_, _, let next), _) = patch else {
            Issue.record("PATCH does not take an address")
            return
        }
        #expect(next.keepsMessages)
        let mistaken = body.dropLast() + #","keepUntilAcknowledged":"yes"}"#
        let refused = harness.route(.post, registrations, String(mistaken), bearer: nil, headers: sign)
        #expect(error(refused.response).field == "keepUntilAcknowledged")
        guard
            case .operation(.device, _) = harness.route(
                .post, registrations, "{}", bearer: nil, headers: sign)
        else { Issue.record("an installation without an address is another device"); return }
    }

    @Test(
        "an address that Apple cannot have given is refused, with its field",
        arguments: [
            (#"{"ios":{"apns_token":"0g","bundle_id":"a.b"}}"#, "ios.apns_token"),
            (#"{"ios":{"apns_token":"0","bundle_id":"a.b"}}"#, "ios.apns_token"),
            (#"{"ios":{"apns_token":"","bundle_id":"a.b"}}"#, "ios.apns_token"),
            (#"{"ios":{"bundle_id":"a.b"}}"#, "ios.apns_token"),
            (#"{"ios":{"apns_token":7,"bundle_id":"a.b"}}"#, "ios.apns_token"),
            (#"{"ios":{"apns_token":"00"}}"#, "ios.bundle_id"),
            (#"{"ios":{"apns_token":"00","bundle_id":"a b"}}"#, "ios.bundle_id"),
            (
                #"{"ios":{"apns_token":"00","bundle_id":"a.b","apns_environment":"BOTH"}}"#,
                "ios.apns_environment"
            ),
            (#"{"ios":[]}"#, "ios"), (#"{"web":{"endpoint":"https://a.b/c"}}"#, "web"),
        ])
    func badAddresses(body: String, field: String) throws {
        let sign = key + [("x-goog-firebase-installations-auth", try authToken())]
        let action = harness.route(
            .post, "/v1/projects/shop/registrations", body, bearer: nil, headers: sign)
        let said = error(action.response)
        #expect(said.http == 400 && said.field == field)
    }

    @Test("an address without an installation's token makes no device")
    func withoutToken() {
        let body = #"{"ios":{"apns_token":"00","bundle_id":"a.b"}}"#
        let registrations = "/v1/projects/shop/registrations"
        #expect(
            error(harness.route(.post, registrations, body, bearer: nil, headers: key).response).http == 401)
        let bad = key + [("x-goog-firebase-installations-auth", "FIS nonsense")]
        #expect(
            error(harness.route(.post, registrations, "{}", bearer: nil, headers: bad).response).http == 401)
    }

    @Test(
        "a device reads its own topics and itself, by its credential or its auth token, and no other device's"
    )
    func own() throws {
        let credential = String(decoding: harness.keys.credential(secret: 99), as: UTF8.self)
        let proof = try #require(harness.keys.parseProof(credential.utf8))
        let base = "/v1/projects/shop/registrations/\(harness.token())"
        let byCredential = [("authorization", "Bearer \(credential)")]
        let byToken = [("x-goog-firebase-installations-auth", try authToken())]
        for path in ["\(base)/topicSubscriptions", "\(base)/topicSubscriptions/news"] {
            guard
                case .operation(.subscriptions(_, .device(proof)), _) = harness.route(
                    .get, path, bearer: nil, headers: byCredential),
                case .operation(.subscriptions(_, .backend), _) = harness.route(
                    .get, path, bearer: nil, headers: byToken)
            else { Issue.record("\(path) is not for its device"); return }
            #expect(error(harness.route(.get, path, bearer: nil).response).http == 401)
            // A change by this path is a backend's.
            #expect(
                error(harness.route(.patch, path, bearer: nil, headers: byCredential).response).http >= 400)
        }
        let other = Registration(
            project: ProjectNumber(5), partition: PartitionID(3), index: DeviceIndex(8), nonce: 1, key: 1)
        let others = String(decoding: harness.keys.fid(other), as: UTF8.self)
        let foreign = harness.route(
            .get, "/v1/projects/shop/registrations/\(others)/topicSubscriptions", bearer: nil,
            headers: byToken)
        #expect(error(foreign.response).http == 403)
        guard
            case .operation(.device(_, .device(proof)), let form) = harness.route(
                .get, base, bearer: nil, headers: byCredential)
        else { Issue.record("a device cannot see itself"); return }
        let address = APNsAddress(isSandbox: false, bundleID: "a.b", token: [1, 2])
        let stored = StoredTransport(
            transport: Transport(kind: .apns, address: address.packed), registered: harness.now, generation: 3
        )
        let state = DeviceState(
            index: DeviceIndex(9), nonce: 77, lastSeen: Day(20_000), topicCount: 2, waitingCount: 1)
        let shown = object(harness.api.render(.device(state, [stored]), form).body)
        #expect(shown["platform"] as? String == "IOS")
        let transports = shown["transports"] as? [[String: Any]]
        #expect(transports?.first?["kind"] as? String == "ios")
        #expect(transports?.first?["environment"] as? String == "PROD")
        let refused = PushHistory.Attempt(
            message: MessageID(time: 1, random: 2), time: harness.now, outcome: .credentials("no key"),
            tries: 2)
        let history = PushHistory(kind: .apns, activity: .paused, failed: refused)
        let told = object(harness.api.render(.device(state, [stored], pushes: [history]), form).body)
        let first = (told["transports"] as? [[String: Any]])?.first
        #expect(first?["pushState"] as? String == "PAUSED" && first?["lastAccepted"] == nil)
        let failure = first?["lastFailure"] as? [String: Any]
        #expect(
            failure?["message"] as? String == "projects/shop/messages/\(MessageID(time: 1, random: 2).text)")
        #expect(failure?["outcome"] as? String == "credentials" && failure?["reason"] as? String == "no key")
        #expect(failure?["tries"] as? Int == 3 && failure?["time"] is String)
        // The address itself is not shown.
        #expect(transports?.first?.keys.sorted() == ["bundleId", "environment", "kind", "registerTime"])
    }

    @Test(
        "the Instance ID API names a device's platform as the device has registered",
        arguments: [([Transport.Kind.apns], "IOS"), ([.web], "CHROME"), ([.fcm], "ANDROID"), ([], "ANDROID")])
    func platform(kinds: [Transport.Kind], word: String) throws {
        let form = try #require(harness.route(.get, "/iid/info/\(harness.token())").form)
        let outcome: Outcome = kinds.isEmpty ? .subscriptions([]) : .reachable([], by: kinds)
        #expect(object(harness.api.render(outcome, form).body)["platform"] as? String == word)
    }

    @Test("an address of Apple's push service survives its packing, and damaged bytes are none")
    func packing() {
        let address = APNsAddress(isSandbox: true, bundleID: "org.example.app", token: Array(0...99))
        #expect(APNsAddress(packed: address.packed) == address)
        for bytes in [
            [], [0], [0, 0], [2, 0, 1], [0, 5, 65, 66], [0, 200] + [UInt8](repeating: 65, count: 300),
        ] {
            #expect(APNsAddress(packed: bytes) == nil)
        }
    }

    @Test("a page of another origin may send what the web SDK sends")
    func preflight() {
        let answer = harness.route(.options, path, bearer: nil).response
        let allowed = answer?.fields.first { $0.name == "access-control-allow-headers" }?.value ?? ""
        for name in [
            "content-type", "accept", "authorization", "x-goog-api-key", "x-goog-firebase-installations-auth",
            "x-firebase-client",
        ] { #expect(allowed.contains(name)) }
        let refused = harness.route(.post, path, "{}", bearer: nil).response
        #expect(refused?.fields.contains { $0.name == "access-control-allow-origin" } == true)
    }
}
