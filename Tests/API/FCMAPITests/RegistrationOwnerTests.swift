import Credentials
import Model
import Testing

@testable import FCMAPI

/// The API knows projects 5 and 6.
@Suite("A registration whose project is not known here")
struct RegistrationOwnerTests {
    private let harness = APIHarness(isDev: true)

    private func batch(_ project: UInt32) -> String {
        let body = "{\"to\":\"/topics/a\",\"registration_tokens\":[\"\(harness.token(project: project))\"]}"
        let response = harness.route(
            .post, "/iid/v1:batchAdd", body, bearer: "owner", headers: [("access_token_auth", "true")]
        ).response
        return String(decoding: response?.body ?? [], as: UTF8.self)
    }

    private func info(_ project: UInt32) -> Int? {
        harness.route(.get, "/iid/info/\(harness.token(project: project))", bearer: "owner").response?.status
    }

    private func classic(_ project: UInt32) -> String {
        let body = "X-gcm.topic=/topics/a&sender=\(harness.token(project: project))"
        return String(
            decoding: harness.route(.post, "/iid/register", body, bearer: nil).response?.body ?? [],
            as: UTF8.self)
    }

    @Test("is not called invalid, on which backends delete it, where the project may be new")
    func new() {
        #expect(batch(7).contains("INTERNAL"))
        #expect(info(7) == 503)
        #expect(classic(7) == "Error=SERVICE_NOT_AVAILABLE")
    }

    @Test("is unregistered where the project is gone")
    func gone() {
        #expect(batch(4).contains("NOT_FOUND"))
        #expect(info(4) == 404)
        #expect(classic(4) == "Error=INVALID_SENDER")
        // The API remembers the newest number, so project 7 is gone and project 8 may be new.
        let newest = Project(id: "newest", number: ProjectNumber(7))
        harness.api.directory.add(newest)
        harness.api.directory.remove(newest)
        #expect(batch(7).contains("NOT_FOUND") && info(7) == 404 && batch(8).contains("INTERNAL"))
    }

    @Test("is as any other where it is known")
    func known() {
        #expect(batch(6).isEmpty && info(6) == nil && classic(6) == "Error=AUTHENTICATION_FAILED")
    }
}
