import HTTPMessages
import Model
import RegistrationIDs
import Testing

@testable import FCMAPI

@Suite("A client without a credential")
struct StrangerTests {
    private let harness = APIHarness()

    @Test(
        "gets the same answer for a project that exists and one that does not",
        arguments: [
            (.post, "registrations"), (.get, "registrations"), (.get, "registrations/TOKEN"),
            (.patch, "registrations/TOKEN"), (.delete, "registrations/TOKEN"),
            (.get, "registrations/TOKEN:listen"), (.post, "registrations/TOKEN:acknowledge"),
            (.get, "registrations/TOKEN/topicSubscriptions"), (.post, "installations"), (.get, "webPushKey"),
            (.delete, "installations/TOKEN"), (.post, "installations/TOKEN/authTokens:generate"),
            (.get, "quotas"), (.get, "topics"), (.post, "messages:send"), (.get, "messages/TOKEN"),
        ] as [(HTTPMethod, String)])
    func projects(row: (method: HTTPMethod, path: String)) {
        let headers = [
            [], [("x-goog-api-key", "tck_wrong")],
            [("x-goog-firebase-installations-auth", String(repeating: "A", count: 32))],
        ]
        for (headers, token) in headers.flatMap({ [($0, harness.token()), ($0, "x")] }) {
            let answers = ["shop", "nothing"].map { project in
                let path = row.path.replacing("TOKEN", with: token)
                let action = harness.route(
                    row.method, "/v1/projects/\(project)/\(path)", "{}", bearer: nil, headers: headers)
                return (action.response?.status ?? 0, action.response?.body ?? [])
            }
            #expect(answers[0].0 == answers[1].0, "\(row.path)")
            #expect(answers[0].1 == answers[1].1, "\(row.path)")
            #expect(answers[0].0 >= 400)
        }
    }

    /// Anybody can make up a credential, and may have a device of another project.
    @Test("learns nothing of a project by an id of a device and a credential that is made up")
    func madeUp() {
        let (mine, keys) = (harness.token(project: 6), [RegistrationKey(number: 1, material: Array(2...33))])
        let device = Registration(
            project: ProjectNumber(5), partition: PartitionID(3), index: DeviceIndex(9), nonce: 77, key: 1)
        let never = String(decoding: RegistrationKeys(keys).token(device, secret: 99), as: UTF8.self)
        let credential = String(repeating: "A", count: 22)
        for (method, path) in [
            (.get, "registrations/ID"), (.delete, "registrations/ID"), (.get, "registrations/ID:listen"),
            (.post, "registrations/ID:acknowledge"), (.get, "registrations/ID/topicSubscriptions"),
            (.post, "registrations/ID/topicSubscriptions/a:subscribe"),
        ] as [(HTTPMethod, String)] {
            for (id, status) in [("x", 400), (never, 400), (mine, 403), (harness.token(project: 4), 404)] {
                for headers in [[], [("authorization", "Bearer \(credential)")]] {
                    let answers = ["shop", "nothing"].map { project in
                        let target = "/v1/projects/\(project)/\(path.replacing("ID", with: id))"
                        return harness.route(method, target, "{}", bearer: nil, headers: headers).response
                    }
                    #expect(answers[0]?.status == (headers.isEmpty ? 401 : status), "\(path) \(id)")
                    #expect(answers[0]?.status == answers[1]?.status, "\(path) \(id)")
                    #expect(answers[0]?.body == answers[1]?.body, "\(path) \(id)")
                }
            }
        }
    }

    @Test(
        "may only read what a node says of itself", arguments: ["/healthz", "/readyz", "/metrics"])
    func probes(path: String) {
        for isProbe in [false, true] {
            func action(_ method: HTTPMethod) -> APIAction {
                let request = HTTPRequest(
                    method: method, target: Array(path.utf8), client: ClientAddress(bytes: [127, 0, 0, 1]))
                return isProbe ? API.routeProbe(request) : harness.route(request)
            }
            for method in [HTTPMethod.post, .put, .patch, .delete] {
                let response = action(method).response
                #expect(response?.status == 405)
                #expect(response?.fields.contains { $0.name == "allow" && $0.value == "GET, HEAD" } == true)
            }
            for method in [HTTPMethod.get, .head] { #expect(isOfNode(action(method)), "\(method) \(path)") }
        }
    }

    @Test("hears as 404 that the node is not ready, where it asks so")
    func unready() {
        for (target, status) in [
            ("/readyz", 503), ("/readyz?unready=404", 404), ("/readyz?unready=200", 503),
            ("/readyz?unready", 503),
        ] {
            let request = HTTPRequest(method: .get, target: Array(target.utf8))
            for action in [API.routeProbe(request), harness.route(request)] {
                guard case .node(.ready(let unready, true)) = action else {
                    Issue.record("\(target)")
                    continue
                }
                #expect(unready == status, "\(target)")
            }
        }
    }

    @Test("does not hear behind a balancer why the node is not ready")
    func terse() {
        for isNamed in [true, false] {
            let client = ClientAddress(bytes: [192, 0, 2, 1])
            let request = HTTPRequest(
                method: .get, target: Array("/readyz".utf8), client: isNamed ? client?.named : client)
            guard case .node(.ready(503, let isReasonTold)) = harness.route(request) else {
                Issue.record("no question for the node")
                continue
            }
            #expect(isReasonTold != isNamed)
        }
    }

    private func isOfNode(_ action: APIAction) -> Bool { if case .node = action { true } else { false } }

    private func metrics(
        of client: ClientAddress?, isDev: Bool = false, isAdmin: Bool = false,
        _ headers: [(String, String)] = [], proxy: ClientAddress? = nil
    ) -> APIAction {
        var fields = HTTPFields()
        for (name, value) in headers { fields.append(name: name.utf8, value: value.utf8) }
        let request = HTTPRequest(
            method: .get, target: Array("/metrics".utf8), authority: Array("localhost".utf8), fields: fields,
            client: client)
        guard let proxy else { return APIHarness(isDev: isDev).route(request, isAdmin: isAdmin) }
        var limits = ClientLimits.Settings()
        limits.proxies = [AddressRange(proxy, bits: 32)]
        var settings = APISettings()
        settings.clients = ClientLimits(limits, salt: 1)
        return APIHarness(settings).route(request, isAdmin: isAdmin)
    }

    @Test("reads no metrics where clients are, unless it is on this machine")
    func metricsOfClients() throws {
        let own = try #require(ClientAddress(bytes: [127, 0, 0, 2]))
        let own6 = try #require(ClientAddress(bytes: [UInt8](repeating: 0, count: 15) + [1]))
        let far = try #require(ClientAddress(bytes: [192, 0, 2, 1]))
        #expect(isOfNode(metrics(of: own)))
        #expect(isOfNode(metrics(of: own6)))
        #expect(isOfNode(metrics(of: nil, isAdmin: true)))
        #expect(isOfNode(metrics(of: far, isDev: true)))
        #expect(isOfNode(metrics(of: own, proxy: far)))
        let strangers = [
            metrics(of: own, proxy: own),
            metrics(of: far), metrics(of: far.named), metrics(of: nil), metrics(of: own.named),
            metrics(of: own.named, isDev: true), metrics(of: own, [("x-forwarded-for", "192.0.2.1")]),
            metrics(of: own, [("forwarded", "for=192.0.2.1")]),
        ]
        let unknown = harness.route(.get, "/nothing", bearer: nil).response
        #expect(unknown?.status == 404)
        for (number, action) in strangers.enumerated() {
            #expect(action.response?.status == 404, "\(number)")
            #expect(action.response?.body == unknown?.body, "\(number)")
        }
    }

    @Test("finds no other path at the address for metrics, whatever it shows")
    func probesAlone() {
        for path in ["/", "/token", "/admin/projects", "/v1/projects/shop/messages:send", "/metrics/", "/x"] {
            for method in [HTTPMethod.get, .post, .head, .options] {
                var fields = HTTPFields()
                fields.append(name: "authorization".utf8, value: "Bearer tcb_secret".utf8)
                let request = HTTPRequest(method: method, target: Array(path.utf8), fields: fields)
                #expect(API.routeProbe(request).response?.status == 404, "\(method) \(path)")
            }
        }
    }
}
