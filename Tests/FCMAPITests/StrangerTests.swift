import HTTPMessages
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

    @Test(
        "may only read what a node says of itself", arguments: ["/healthz", "/readyz", "/metrics"])
    func probes(path: String) {
        for method in [HTTPMethod.post, .put, .patch, .delete] {
            let response = harness.route(method, path, bearer: nil).response
            #expect(response?.status == 405)
            #expect(response?.fields.contains { $0.name == "allow" && $0.value == "GET, HEAD" } == true)
        }
        for method in [HTTPMethod.get, .head] {
            guard case .node = harness.route(method, path, bearer: nil) else {
                Issue.record("\(method) \(path) is refused")
                continue
            }
        }
    }
}
