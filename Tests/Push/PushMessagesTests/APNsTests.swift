import Model
import Testing

@testable import PushMessages

@Suite("Apple's push service")
struct APNsTests {
    private let now = WallTime(milliseconds: 1_800_000_000_000)
    private let registered = WallTime(milliseconds: 1_799_000_000_000)

    @Test("gets a token with the key's and the team's id, signed by the key")
    func token() throws {
        let key = try P256Key.generate()
        let signer = APNsSigner(key: key, keyID: "ABC123DEFG", teamID: "DEF123GHIJ")
        let value = try signer.authorization(issuedAt: APNsSigner.issuedAt(now))
        #expect(value.hasPrefix("bearer "))
        let parts = value.dropFirst("bearer ".count).split(separator: ".").map(String.init)
        #expect(parts.count == 3)
        #expect(
            String(decoding: try base64(parts[0]), as: UTF8.self) == #"{"alg":"ES256","kid":"ABC123DEFG"}"#)
        #expect(
            String(decoding: try base64(parts[1]), as: UTF8.self)
                == #"{"iss":"DEF123GHIJ","iat":1799997600}"#)
        #expect(
            verifies(
                Array("\(parts[0]).\(parts[1])".utf8), signature: try base64(parts[2]),
                publicBytes: key.publicBytes))
    }

    @Test("sees one time of signing for 40 minutes, never one ahead, never one that is an hour old")
    func issuedAt() {
        var seen: Set<Int64> = []
        for second in stride(from: Int64(1_800_000_000), to: 1_800_007_200, by: 7) {
            let time = APNsSigner.issuedAt(WallTime(milliseconds: second * 1000))
            #expect((second - 2405...second - 5).contains(time))
            #expect(time % 2400 == 0)
            seen.insert(time)
        }
        #expect(seen.count == 4)
    }

    @Test("has ids of 10 capital letters and digits")
    func ids() {
        #expect(APNsSigner.check(id: "ABC123DEFG") == nil)
        for id in ["", "ABC123DEF", "ABC123DEFGH", "abc123defg", "ABC123DEF\"", "ABC123DEÖ"] {
            #expect(APNsSigner.check(id: id) != nil)
        }
    }

    private func verdict(
        _ status: Int, _ body: String, retryAfter: String? = nil
    ) -> (PushOutcome, APNsRemedy?) {
        let verdict = APNsAnswer.verdict(
            status: status, body: Array(body.utf8), retryAfter: retryAfter, registered: registered, now: now)
        return (verdict.outcome, verdict.remedy)
    }

    private enum Wanted { case accepted, gone, refused, credentials, throttled, transient }
    private static func kind(_ outcome: PushOutcome) -> Wanted {
        switch outcome {
        case .accepted: .accepted
        case .gone: .gone
        case .refusedContent, .unexplained: .refused
        case .credentials, .platformKey, .unset: .credentials
        case .throttled, .overQuota: .throttled
        case .transient, .formerEnd, .unsent, .expired: .transient
        }
    }

    private struct Row {
        var status: Int
        var reason: String
        var outcome: Wanted
        var remedy: APNsRemedy?
        var alarms: Set<PushAlarm>
        init(
            _ status: Int, _ reason: String, _ outcome: Wanted, _ remedy: APNsRemedy? = nil,
            alarms: Set<PushAlarm> = []
        ) {
            (self.status, self.reason, self.outcome) = (status, reason, outcome)
            (self.remedy, self.alarms) = (remedy, alarms)
        }
    }

    private static let rows: [Row] = [
        Row(200, "", .accepted),
        Row(400, "BadDeviceToken", .gone, alarms: [.wrongTarget]),
        Row(400, "DeviceTokenNotForTopic", .gone, alarms: [.wrongTarget]),
        Row(400, "BadCollapseId", .refused),
        Row(400, "BadExpirationDate", .refused),
        Row(400, "BadMessageId", .refused),
        Row(400, "BadPriority", .refused),
        Row(400, "BadTopic", .refused),
        Row(400, "InvalidPushType", .refused),
        Row(400, "DuplicateHeaders", .refused, alarms: [.ownMistake]),
        Row(400, "PayloadEmpty", .refused, alarms: [.ownMistake]),
        Row(400, "MissingDeviceToken", .refused, alarms: [.ownMistake]),
        Row(400, "MissingTopic", .refused, alarms: [.ownMistake]),
        Row(400, "TopicDisallowed", .credentials, alarms: [.credentials]),
        Row(400, "IdleTimeout", .transient, .newConnection),
        Row(403, "ExpiredProviderToken", .credentials, .newToken, alarms: [.credentials]),
        Row(403, "InvalidProviderToken", .credentials, alarms: [.credentials]),
        Row(403, "MissingProviderToken", .credentials, alarms: [.credentials, .ownMistake]),
        Row(403, "UnrelatedKeyIdInToken", .transient, .newConnection, alarms: [.ownMistake]),
        Row(403, "BadEnvironmentKeyIdInToken", .credentials, alarms: [.credentials]),
        Row(403, "BadEnvironmentKeyInToken", .credentials, alarms: [.credentials]),
        Row(403, "BadCertificate", .credentials, alarms: [.credentials]),
        Row(403, "BadCertificateEnvironment", .credentials, alarms: [.credentials]),
        Row(403, "Forbidden", .refused, alarms: [.credentials]),
        Row(404, "BadPath", .refused, alarms: [.ownMistake]),
        Row(405, "MethodNotAllowed", .refused, alarms: [.ownMistake]),
        Row(410, "Unregistered", .gone),
        Row(410, "ExpiredToken", .gone),
        Row(413, "PayloadTooLarge", .refused),
        Row(429, "TooManyRequests", .throttled),
        Row(429, "TooManyProviderTokenUpdates", .throttled, .formerToken, alarms: [.ownMistake]),
        Row(500, "InternalServerError", .transient),
        Row(503, "ServiceUnavailable", .transient),
        Row(503, "Shutdown", .transient, .newConnection),
        Row(418, "Newer", .refused),
        Row(403, "Newer", .refused),
        Row(599, "Newer", .transient),
        Row(0, "", .transient),
        Row(301, "", .refused, alarms: [.unexplained]),
    ]

    @Test("answers, row by row", arguments: rows.indices)
    func answers(index: Int) {
        let row = APNsTests.rows[index]
        let found = APNsAnswer.verdict(
            status: row.status, body: Array("{\"reason\":\"\(row.reason)\"}".utf8), registered: registered,
            now: now)
        #expect(APNsTests.kind(found.outcome) == row.outcome && found.remedy == row.remedy)
        #expect(Set([found.alarm, found.outcome.alarm].compactMap { $0 }) == row.alarms)
    }

    @Test("ends a registration by 410 only where the device has not told its token again since")
    func timestamps() {
        func outcome(_ timestamp: String) -> PushOutcome {
            verdict(410, "{\"reason\":\"Unregistered\"\(timestamp)}").0
        }
        #expect(outcome(#","timestamp":1799000000000"#) == .gone)
        #expect(outcome(#","timestamp":1800000000000"#) == .gone)
        #expect(outcome(#","timestamp":1798999940000"#) == .gone)
        #expect(outcome(#","timestamp":1798999939999"#) == .formerEnd(retryAfterSeconds: nil))
        #expect(outcome(#","timestamp":"1""#) == .gone)
        #expect(outcome("") == .gone)
    }

    @Test("about a token or topic of the message's own ends no registration")
    func aboutTheMessage() {
        func verdict(
            _ status: Int, _ reason: String, isAboutAddress: Bool
        ) -> APNsAnswer.Verdict {
            APNsAnswer.verdict(
                status: status, body: Array(#"{"reason":"\#(reason)","timestamp":1}"#.utf8),
                registered: WallTime(milliseconds: 1_800_000_000_000), isAboutAddress: isAboutAddress,
                now: WallTime(milliseconds: 1_800_000_000_001))
        }
        for reason in ["BadDeviceToken", "DeviceTokenNotForTopic", "TopicDisallowed"] {
            let own = verdict(400, reason, isAboutAddress: false)
            #expect(APNsTests.kind(own.outcome) == .refused && own.alarm == nil && own.remedy == nil)
            #expect(APNsTests.kind(verdict(400, reason, isAboutAddress: true).outcome) != .refused)
        }
        #expect(verdict(400, "BadDeviceToken", isAboutAddress: true).alarm == .wrongTarget)
        #expect(verdict(400, "BadPath", isAboutAddress: false).alarm == .ownMistake)
    }

    @Test("that is old news gets one more try, whatever failed before, and a second one ends the message")
    func oldNews() {
        var news = APNsOldNews()
        func answer(_ status: Int, _ timestamp: Int64 = 1) -> Wanted {
            let verdict = APNsAnswer.verdict(
                status: status, body: Array(#"{"reason":"","timestamp":\#(timestamp)}"#.utf8),
                registered: registered, now: now, isRepeated: { news.isRepeated("a") })
            return APNsTests.kind(verdict.outcome)
        }
        #expect((0..<3).map { _ in answer(503) } == [.transient, .transient, .transient])
        #expect(answer(410) == .transient && news.count == 1)
        #expect(answer(503) == .transient && answer(410, now.milliseconds) == .gone)
        #expect(answer(410) == .refused && news.count == 0, "the message is given up, and forgotten")
    }

    @Test("that is old news is remembered for the newest messages only")
    func oldNewsOfMany() {
        var news = APNsOldNews()
        for number in 0..<20_000 {
            #expect(!news.isRepeated("\(number)") && news.count <= APNsOldNews.messagesMax)
        }
        #expect(news.isRepeated("19999") && news.isRepeated("16000") && !news.isRepeated("0"))
    }

    @Test("is read also where the answer is no JSON, and for how long to wait")
    func bodies() {
        for status in [301, 400, 403, 404, 405, 407, 413] {
            #expect(verdict(status, "<html>").0 == .unexplained("Apple: \(status) <html>"))
        }
        for status in [408, 421, 425] {
            #expect(verdict(status, "").0 == .transient(retryAfterSeconds: nil))
        }
        #expect(verdict(400, #"{"reason":"BadTopic"}"#).0 == .refusedContent("Apple: 400 BadTopic"))
        #expect(verdict(429, "", retryAfter: "7").0 == .throttled(retryAfterSeconds: 7))
        #expect(verdict(503, "", retryAfter: "9").0 == .transient(retryAfterSeconds: 9))
        #expect(verdict(500, #"{"reason":["Shutdown"]}"#).1 == nil)
        #expect(APNsAnswer.reason(ofGoAway: Array(#"{"reason":"Shutdown"}"#.utf8)) == "Shutdown")
        #expect(APNsAnswer.reason(ofGoAway: [0xFF]) == nil)
    }

    @Test("gets one UUID for one message to one device")
    func identifiers() {
        let message = MessageID(time: 1, random: 2)
        let id = APNsMessage.id(message: message.text, token: [1])
        #expect(id == APNsMessage.id(message: message.text, token: [1]))
        #expect(id != APNsMessage.id(message: message.text, token: [2]))
        #expect(id != APNsMessage.id(message: MessageID(time: 1, random: 3).text, token: [1]))
        #expect(APNsMessage.uuid(reading: id.uppercased()) == id)
        let characters = Array(id)
        #expect(characters[14] == "8" && "89ab".contains(characters[19]))
        for text in [
            "", "0a", id + "0", String(id.dropLast()), id.replacing("-", with: ""), "g" + id.dropFirst(),
        ] {
            #expect(APNsMessage.uuid(reading: text) == nil)
        }
    }
}
