import Model
import PushMessages
import Testing

@Suite("The answer of FCM to a relayed message")
struct FCMAnswerTests {
    private func verdict(
        _ status: Int, _ body: String = "", retryAfter: String? = nil
    ) -> FCMAnswer.Verdict {
        FCMAnswer.verdict(
            status: status, body: Array(body.utf8), retryAfter: retryAfter, now: WallTime(milliseconds: 0))
    }

    private func body(_ status: String, code: String? = nil, field: String? = nil) -> String {
        var details: [String] = []
        if let field {
            details.append(
                #"{"@type":"type.googleapis.com/google.rpc.BadRequest","fieldViolations":"#
                    + #"[{"field":"message.data"},{"field":"\#(field)","description":"d"}]}"#)
        }
        if let code {
            details.append(
                #"{"@type":"type.googleapis.com/google.firebase.fcm.v1.FcmError","errorCode":"\#(code)"}"#)
        }
        return #"{"error":{"code":1,"message":"m","status":"\#(status)","details":["#
            + details.joined(separator: ",") + "]}}"
    }

    @Test("200 means accepted")
    func accepted() { #expect(verdict(200, #"{"name":"x"}"#).outcome == .accepted) }

    @Test("404 means that the token is gone only with FCM's own code; without, the project is wrong")
    func notFound() {
        #expect(verdict(404, body("NOT_FOUND", code: "UNREGISTERED")).outcome == .gone)
        #expect(verdict(404, body("NOT_FOUND")).outcome == .credentials("FCM: 404 NOT_FOUND: m"))
        #expect(verdict(404, "<html>").outcome == .credentials("FCM: 404 <html>"))
    }

    @Test("400 ends the token only where the token is the field that is wrong")
    func badRequest() {
        let token = body("INVALID_ARGUMENT", code: "INVALID_ARGUMENT", field: "message.token")
        #expect(verdict(400, token).outcome == .gone)
        let other = body("INVALID_ARGUMENT", code: "INVALID_ARGUMENT", field: "message.android.ttl")
        #expect(verdict(400, other).outcome == .refusedContent("FCM: 400 INVALID_ARGUMENT: m"))
        #expect(verdict(400, "").outcome == .unexplained("FCM: 400 "))
    }

    @Test("401 asks for another access token, unless FCM lacks the key of a third party")
    func unauthenticated() {
        let plain = verdict(401, body("UNAUTHENTICATED"))
        #expect(plain.outcome == .credentials("FCM: 401 UNAUTHENTICATED: m") && plain.needsAccessToken)
        let third = verdict(401, body("UNAUTHENTICATED", code: "THIRD_PARTY_AUTH_ERROR"))
        #expect(third.outcome == .platformKey("FCM: 401 THIRD_PARTY_AUTH_ERROR: m"))
        #expect(!third.needsAccessToken)
    }

    @Test("403 ends the token of another project; otherwise the account lacks a role")
    func forbidden() {
        let mismatch = verdict(403, body("PERMISSION_DENIED", code: "SENDER_ID_MISMATCH"))
        #expect(mismatch.outcome == .gone && mismatch.alarm == .wrongTarget)
        #expect(verdict(404, body("NOT_FOUND", code: "UNREGISTERED")).alarm == nil)
        #expect(
            verdict(403, body("PERMISSION_DENIED")).outcome
                == .credentials("FCM: 403 PERMISSION_DENIED: m"))
    }

    @Test("429 means a wait of a minute at least, unless FCM says how long")
    func quota() {
        let body = body("RESOURCE_EXHAUSTED", code: "QUOTA_EXCEEDED")
        #expect(verdict(429, body).outcome == .overQuota(retryAfterSeconds: 60))
        #expect(verdict(429, body, retryAfter: "5").outcome == .overQuota(retryAfterSeconds: 5))
        func failure(_ text: String) -> String {
            """
            {"error": {"status": "RESOURCE_EXHAUSTED", "details": [
              {"@type": "type.googleapis.com/google.firebase.fcm.v1.FcmError", "errorCode": "QUOTA_EXCEEDED"},
              {"@type": "type.googleapis.com/google.rpc.QuotaFailure",
               "violations": [{"description": "\(text)"}]}]}}
            """
        }
        #expect(
            verdict(429, failure("Device message rate exceeded")).outcome
                == .throttled(retryAfterSeconds: 60), "one device has had too much, and no other")
        #expect(verdict(429, failure("Messages per minute")).outcome == .overQuota(retryAfterSeconds: 60))
    }

    @Test("5xx and what is no answer mean another try", arguments: [0, 100, 408, 500, 503, 599])
    func transient(status: Int) {
        #expect(verdict(status, body("UNAVAILABLE")).outcome == .transient(retryAfterSeconds: nil))
    }

    @Test("503 is tried again after its Retry-After")
    func retryAfter() {
        #expect(verdict(503, retryAfter: "30").outcome == .transient(retryAfterSeconds: 30))
    }

    @Test(
        "without FCM's words explains nothing: the message waits",
        arguments: [302, 308, 400, 405, 407, 411, 413, 418, 451])
    func other(status: Int) { #expect(verdict(status, "x").outcome == .unexplained("FCM: \(status) x")) }

    @Test("of a front that passes nothing on means another try", arguments: [421, 425])
    func misdirected(status: Int) {
        #expect(verdict(status, "").outcome == .transient(retryAfterSeconds: nil))
    }
}
