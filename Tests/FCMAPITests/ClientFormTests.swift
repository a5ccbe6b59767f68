import HTTPMessages
import Model
import Partitions
import Quotas
import Routing
import Testing

@testable import FCMAPI

/// What SDKs and clients written by hand send and look at, beyond what FCM's documents say.
@Suite("Forms of real clients")
struct ClientFormTests {
    let bench = Bench()

    /// `error` of an answer in the v1 envelope.
    private func envelope(_ response: HTTPResponse?) -> [String: Any] {
        object(response?.body ?? [])["error"] as? [String: Any] ?? [:]
    }

    // MARK: What users see

    @Test(
        "the message of an error is its first violation's description: SDKs show nothing else",
        arguments: [
            (#"{"token":"a:APA91b"}"#, "The registration token is not a valid FCM registration token"),
            (#"{"topic":"a b"}"#, "Invalid topic name."),
            (#"{"topic":"a","data":{"from":"x"}}"#, "Invalid data payload key: from"),
            (#"{"topic":"a","android":{"ttl":"x"}}"#, "Invalid TTL: a duration such as \"3.5s\" is wanted."),
            ("{}", "Recipient of the message is not set."),
        ])
    func messages(message: String, wanted: String) {
        let error = envelope(bench.send(message).response)
        #expect(error["message"] as? String == wanted)
        let details = error["details"] as? [[String: Any]]
        let violations = details?.first?["fieldViolations"] as? [[String: Any]]
        #expect(violations?.first?["description"] as? String == wanted)
    }

    @Test("a refusal for the quota of sends says it for a minute, as FCM does and as it is set")
    func sendQuota() {
        let form = ResponseForm(kind: .send, project: bench.project)
        let refusal = QuotaRefusal(kind: .sends, limit: 5, retryDelay: .seconds(12))
        let error = envelope(bench.api.render(.refused(.quota(refusal)), form))
        let details = error["details"] as? [[String: Any]] ?? []
        func detail(_ type: String) -> [String: Any] {
            details.first { ($0["@type"] as? String)?.hasSuffix(type) ?? false } ?? [:]
        }
        let violations = detail("QuotaFailure")["violations"] as? [[String: Any]]
        #expect(
            violations?.first?["description"] as? String
                == "Quota exceeded for the project's sends. The limit is 5 (1/min/{project}).")
        let metadata = detail("ErrorInfo")["metadata"] as? [String: String]
        #expect(metadata?["quota_limit"] == "SendsPerMinutePerProject")
        #expect(metadata?["quota_limit_value"] == "5" && metadata?["quota_unit"] == "1/min/{project}")
    }

    @Test("a message that was only validated has FCM's id for such, whatever its target")
    func fakeID() {
        let form = ResponseForm(kind: .send, project: bench.project)
        let name = object(bench.api.render(.done, form).body)["name"] as? String
        #expect(name == "projects/shop/messages/fake_message_id")
    }
}
