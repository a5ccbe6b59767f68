import Foundation
import HTTPMessages
import Testing

@testable import Edge

/// SDKs read FCM's envelope and nothing else.
@Suite("What the edge itself answers") struct EdgeAnswerTests {
    @Test(
        "is FCM's envelope, with its status and details",
        arguments: [
            (EdgeAnswer.tooLong, 413, "INVALID_ARGUMENT"), (EdgeAnswer.tooManyBodies, 503, "UNAVAILABLE"),
            (EdgeAnswer.tooManyAnswers, 503, "UNAVAILABLE"),
        ])
    func isFCMsEnvelope(answer: HTTPResponse, code: Int, word: String) throws {
        #expect(answer.status == code)
        #expect(answer.fields.contains { $0 == ("retry-after", "1") } == (code == 503))
        #expect(
            answer.fields.contains { $0.name == "content-type" && $0.value.hasPrefix("application/json") })
        let read = try JSONSerialization.jsonObject(with: Data(answer.body)) as? [String: Any]
        let error = try #require(read?["error"] as? [String: Any])
        #expect(error["code"] as? Int == code && error["status"] as? String == word)
        #expect((error["message"] as? String)?.isEmpty == false)
        let details = try #require(error["details"] as? [[String: String]])
        #expect(details.map { $0["errorCode"] } == [word])
        #expect(details.first?["@type"] == "type.googleapis.com/google.firebase.fcm.v1.FcmError")
        #expect(answer.fields.contains { $0 == ("access-control-allow-origin", "*") }, "pages may read it")
    }

    @Test("is a stream that ends, where the client reads nothing else", arguments: [false, true])
    func isAStream(hasWaited: Bool) {
        func answer(_ accept: String) -> HTTPResponse {
            var fields = HTTPFields()
            fields.append(name: "accept".utf8, value: accept.utf8)
            let request = HTTPRequest(method: .get, target: Array("/v1/events".utf8), fields: fields)
            return EdgeAnswer.noTurn(for: request, waited: hasWaited)
        }
        let refused = answer("text/event-stream")
        #expect(refused.status == 200 && refused.body.starts(with: "event: reconnect\n".utf8))
        #expect(answer("text/event-stream, application/json").status == 503)
        #expect(EdgeAnswer.noTurn(for: nil, waited: hasWaited).status == 503)
    }
}
