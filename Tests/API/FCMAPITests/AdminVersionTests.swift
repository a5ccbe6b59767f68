import HTTPMessages
import Testing

@testable import FCMAPI

/// A command line of one build may ask a server of another build.
@Suite("The admin socket's version") struct AdminVersionTests {
    private func answer(_ version: String?) -> APIAction {
        let harness = APIHarness()
        var fields = HTTPFields()
        if let version { fields.append(name: "tidecast-admin".utf8, value: version.utf8) }
        let request = HTTPRequest(
            method: .get, target: Array("/admin/projects".utf8), fields: fields, body: [])
        return harness.route(request, isAdmin: true)
    }

    @Test("is served where it is this server's or is left out", arguments: [nil, "1"] as [String?])
    func served(_ version: String?) {
        guard case .admin(.projects) = answer(version) else {
            Issue.record("refused")
            return
        }
    }

    @Test(
        "is refused with both versions named where it is another one", arguments: ["2", "99", "", "x", "1.0"])
    func anotherOneIsToldWhatToDo(_ version: String) {
        guard case .respond(let response) = answer(version) else {
            Issue.record("served")
            return
        }
        #expect(response.status == 400)
        let body = String(decoding: response.body, as: UTF8.self)
        #expect(
            body.contains("speaks version \(version) of the admin socket, and this server speaks version 1"))
    }
}
