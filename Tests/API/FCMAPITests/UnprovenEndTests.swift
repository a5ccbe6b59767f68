import HTTPMessages
import Model
import RegistrationIDs
import Testing

@testable import FCMAPI

/// The API knows the projects `shop` (5) and `other` (6), and number 6 is the highest.
@Suite("Without proof that a device is gone")
struct UnprovenEndTests {
    /// Requests about the device TOKEN, relative to the project.
    private static let ofDevice: [(HTTPMethod, String)] = [
        (.get, "registrations/TOKEN"), (.delete, "registrations/TOKEN"), (.patch, "registrations/TOKEN"),
        (.get, "registrations/TOKEN:listen"), (.post, "registrations/TOKEN:acknowledge"),
        (.get, "registrations/TOKEN/topicSubscriptions"), (.get, "registrations/TOKEN/topicSubscriptions/a"),
        (.post, "registrations/TOKEN/topicSubscriptions/a:subscribe"),
        (.post, "registrations/TOKEN/topicSubscriptions/a:unsubscribe"),
        (.delete, "installations/TOKEN"), (.post, "installations/TOKEN/authTokens:generate"),
    ]
    private static let ofBackend: [(HTTPMethod, String)] = [
        (.get, "registrations/TOKEN"), (.delete, "registrations/TOKEN"),
        (.post, "registrations/TOKEN/topicSubscriptions?topic_name=a"),
        (.get, "registrations/TOKEN/topicSubscriptions"),
        (.patch, "registrations/TOKEN/topicSubscriptions/a?allowMissing=true"),
        (.delete, "registrations/TOKEN/topicSubscriptions/a?allow_missing=true"),
    ]

    /// A token under a key that the server does not have, as after the loss of its data.
    private var foreign: String {
        let keys = RegistrationKeys([RegistrationKey(number: 1, material: Array(2...33))])
        let device = Registration(
            project: ProjectNumber(5), partition: PartitionID(3), index: DeviceIndex(9), nonce: 77, key: 1)
        return String(decoding: keys.token(device, secret: 99), as: UTF8.self)
    }

    /// The answer to a request with the device's credential, or with `bearer`.
    private func ask(
        _ row: (HTTPMethod, String), of token: String, in project: String, _ harness: APIHarness,
        bearer: String? = nil
    ) -> HTTPResponse? {
        let credential = String(decoding: harness.keys.credential(secret: 99), as: UTF8.self)
        let isInstallation = row.1.hasPrefix("installations")
        let refresh = "FIS_v2 \(credential).\(token.split(separator: ":").last ?? "")"
        let own = isInstallation ? refresh : "Bearer \(credential)"
        let named = isInstallation ? String(token.prefix(22)) : token
        return harness.route(
            row.0, "/v1/projects/\(project)/\(row.1.replacing("TOKEN", with: named))", "{}", bearer: nil,
            headers: [("authorization", bearer.map { "Bearer \($0)" } ?? own)]
        ).response
    }

    /// Whether an Admin SDK takes the device for gone, or its token for invalid. `docs/admin-sdks.md`
    private func endsToken(_ response: HTTPResponse?) -> Bool {
        let answer = error(response)
        return ["UNREGISTERED", "NOT_FOUND", "INVALID_ARGUMENT"].contains(answer.fcm ?? answer.status)
    }

    @Test("a missing project is refused as another's", arguments: [true, false], ofDevice)
    func missing(isDev: Bool, row: (HTTPMethod, String)) {
        let harness = APIHarness(isDev: isDev)
        for token in [harness.token(), foreign] {
            let answer = error(ask(row, of: token, in: "nothing", harness))
            // A device that was never made here begins again, whatever the project.
            let isUnknown = token == foreign && answer.http == 400 && answer.field == "name"
            let isMismatch = answer.http == 403 && answer.fcm == "SENDER_ID_MISMATCH"
            #expect(answer.http == 401 || answer.http == 403 || isUnknown, "\(row)")
            #expect(answer.fcm == nil || isMismatch || isUnknown, "\(row)")
            // SDKs forget an installation on 401 and 404.
            #expect(!row.1.hasPrefix("installations") || answer.http != 401, "\(row)")
        }
    }

    @Test("a missing project is refused as another's to a backend too", arguments: ofBackend)
    func missingForBackend(row: (HTTPMethod, String)) {
        let harness = APIHarness(isDev: true)
        for token in [harness.token(), foreign] {
            let response = ask(row, of: token, in: "nothing", harness, bearer: "owner")
            #expect(response?.status == 403 && !endsToken(response), "\(row)")
        }
    }

    @Test(
        "a device of a project that may be new here may come back, also if an earlier project had its name",
        arguments: [true, false], ofDevice)
    func new(isDev: Bool, row: (HTTPMethod, String)) {
        let harness = APIHarness(isDev: isDev)
        for project in ["nothing", "shop"] where row.1 != "registrations/TOKEN" || row.0 != .patch {
            let response = ask(row, of: harness.token(project: 7), in: project, harness)
            #expect(response?.status == 503 && error(response).fcm == "UNAVAILABLE", "\(row) \(project)")
        }
    }

    @Test("a token of a new project under the name of an earlier one is not called another's")
    func newForBackend() {
        let harness = APIHarness()
        let token = harness.token(project: 7)
        let send = harness.send("{\"token\":\"\(token)\"}")
        #expect(send.response?.status == 503)
        for row in UnprovenEndTests.ofBackend {
            #expect(ask(row, of: token, in: "shop", harness, bearer: "tcb_secret")?.status == 503, "\(row)")
        }
        #expect(batch([token], harness) == ["INTERNAL"])
    }

    @Test("an access token of a new project is not called ended, also before a large body is read")
    func newAccessToken() {
        let harness = APIHarness()
        for (number, status) in [(UInt32(7), 503), (4, 401)] {
            let token = harness.api.authenticator.makeAccessToken(
                ProjectNumber(number), key: "k", now: harness.now
            ).token
            let bearer = String(decoding: token, as: UTF8.self)
            let iid = harness.route(
                .post, "/iid/v1:batchAdd", "{}", bearer: bearer, headers: [("access_token_auth", "true")])
            #expect(iid.response?.status == status)
            for project in ["nothing", "shop"] {
                let path = "/v1/projects/\(project)/messages:send"
                #expect(harness.route(.post, path, "{}", bearer: bearer).response?.status == status)
                var fields = HTTPFields()
                fields.append(name: "authorization".utf8, value: "Bearer \(bearer)".utf8)
                let request = HTTPRequest(method: .post, target: Array(path.utf8), fields: fields)
                guard
                    case .answer(let answer, _) = harness.api.bodyBound(
                        of: request, isAdmin: false, now: harness.now)
                else {
                    Issue.record("a large body was let in")
                    continue
                }
                #expect(answer.status == status)
            }
        }
    }

    @Test("a device whose project is gone has its proof", arguments: [true, false], ofDevice)
    func gone(isDev: Bool, row: (HTTPMethod, String)) {
        let harness = APIHarness(isDev: isDev)
        for project in ["nothing", "shop"] where row.1 != "registrations/TOKEN" || row.0 != .patch {
            let answer = error(ask(row, of: harness.token(project: 4), in: project, harness))
            #expect(answer.http == 404 && answer.fcm == "UNREGISTERED", "\(row) \(project)")
        }
    }

    @Test("a device learns on each path that the server has never made its id, and a stranger on none")
    func neverMade() {
        let harness = APIHarness()
        for row in UnprovenEndTests.ofDevice where row.0 != .patch {
            let answer = error(ask(row, of: foreign, in: "shop", harness))
            #expect(answer.http == 400 && answer.field == "name", "\(row)")
            let path = "/v1/projects/shop/\(row.1.replacing("TOKEN", with: foreign))"
            #expect(harness.route(row.0, path, "{}", bearer: nil).response?.status == 401, "\(row)")
        }
        harness.api.areKeysCurrent = { false }
        for row in UnprovenEndTests.ofDevice where row.0 != .patch {
            #expect(ask(row, of: foreign, in: "shop", harness)?.status == 503, "\(row)")
        }
    }

    private func batch(_ tokens: [String], _ harness: APIHarness) -> [String?] {
        let list = tokens.map { "\"\($0)\"" }.joined(separator: ",")
        let action = harness.route(
            .post, "/iid/v1:batchAdd", "{\"to\":\"/topics/a\",\"registration_tokens\":[\(list)]}",
            headers: [("access_token_auth", "true")])
        if case .batch(let errors) = action.form?.kind { return errors }
        let results = object(action.response?.body ?? [])["results"] as? [[String: String]] ?? []
        return results.map { $0["error"] }
    }

    @Test("a batch with the wrong account does not call other projects' tokens invalid")
    func wrongAccount() {
        let harness = APIHarness()
        let tokens = [harness.token(project: 6), harness.token(), foreign]
        #expect(batch(tokens, harness) == ["PERMISSION_DENIED", nil, "INVALID_ARGUMENT"])
        #expect(batch([harness.token(project: 6)], harness) == ["PERMISSION_DENIED"])
    }
}
