import Foundation
import HTTPMessages
import Model
import Testing

@testable import FCMAPI

/// Requests from a seed, with right parts and very wrong parts. The answer must be an operation or an error
/// of the API, and the event for devices must be JSON on one line.
@Suite("Random requests")
struct RandomRequestTests {
    private static let values = [
        "null", "true", "false", "0", "-1", "1.5", "1e308", "-1e-308", "9223372036854775807",
        "9223372036854775808", "18446744073709551615", "-9223372036854775808", "\"\"", "\"a\"", "\"3s\"",
        "\"3.5s\"", "\"-1s\"", "\"9999999999s\"", "\"18446744073709551615s\"", "\"0.000000001s\"", "\"s\"",
        "\".s\"", "\"high\"", "\"HIGH\"", "\"#aabbcc\"", "\"#aabbc\"", "\"2026-11-20T10:00:00Z\"",
        "\"2026-02-30T10:00:00Z\"", "\"9223372036854775807\"", "\"-9223372036854775808\"", "\"\\u0000\"",
        "\"\\ud83d\\ude00\"", "\"'a' in topics\"", "\"https://x\"", "[]", "{}", "[[]]", "{\"a\":{}}",
        "{\"\":\"\"}", "[\"a\",\"b\"]", "[1,null]", "\"/topics/\"", "\"\u{7f}\"",
    ]

    private func value(_ random: inout SeededGenerator, _ type: FieldType?, _ depth: Int) -> String {
        if depth > 8 || random.next() % 8 == 0 {
            return RandomRequestTests.values[Int(random.next() % UInt64(RandomRequestTests.values.count))]
        }
        func some(_ texts: String...) -> String { texts[Int(random.next() % UInt64(texts.count))] }
        switch type {
        case .object(let schema): return object(&random, schema, depth + 1)
        case .list(let element):
            let elements = (0..<random.next() % 3).map { _ in value(&random, element, depth + 1) }
            return "[\(elements.joined(separator: ","))]"
        case .stringMap:
            let names = [
                "k", "from", "google.x", "TTL", "apns-expiration", "apns-collapse-id", "Topic", "", "z",
            ]
            let fields = (0..<random.next() % 4).map { _ in
                let name = names[Int(random.next() % UInt64(names.count))]
                return
                    "\"\(name)\":"
                    + some("\"1\"", "\"x\"", "\"-9223372036854775808\"", "\"18446744073709551615\"")
            }
            return "{\(fields.joined(separator: ","))}"
        case .free:
            return "{\"x\":\(value(&random, nil, depth + 1)),\"y\":\(value(&random, .free, depth + 1))}"
        case .duration: return some("\"0s\"", "\"3.5s\"", "\"2419200s\"", "\"2419201s\"")
        case .bool: return some("true", "false")
        case .int32: return some("0", "1", "2147483647", "2147483648", "-1", "1.0", "1e40")
        case .word(let list): return "\"\(list.words[Int(random.next() % UInt64(list.words.count))])\""
        case .color: return some("\"#00FF7f\"", "\"#00FF7g\"")
        case .fraction: return some("0", "1", "0.5", "-0.0", "1.0000001")
        case .timestamp: return some("\"2026-11-20T10:00:00.5+01:00\"", "\"2026-11-20T24:00:00Z\"")
        default:
            return RandomRequestTests.values[Int(random.next() % UInt64(RandomRequestTests.values.count))]
        }
    }

    private func object(_ random: inout SeededGenerator, _ schema: Schema, _ depth: Int) -> String {
        var fields: [String] = []
        for index in schema.types.indices where random.next() % (depth == 1 ? 4 : 3) == 0 {
            let name = random.next() % 2 == 0 ? schema.camel[index] : schema.snake[index]
            fields.append("\"\(name)\":\(value(&random, schema.types[index], depth))")
        }
        if random.next() % 40 == 0 { fields.append("\"unknown\":1") }
        return "{\(fields.joined(separator: ","))}"
    }

    @Test(
        "#6 #49 a message of any shape is accepted whole or refused with a field", arguments: UInt64(1)...20)
    func messages(seed: UInt64) throws {
        let harness = APIHarness()
        var random = SeededGenerator(seed: seed)
        var accepted = 0
        for round in 0..<300 {
            var body = object(&random, .message, 1)
            // Three of four messages get one target, so that the API checks more than the target.
            if random.next() % 4 != 0 {
                body = body.dropLast() + (body == "{}" ? "" : ",") + "\"topic\":\"t\"}"
            }
            let action = harness.send(body)
            if let send = action.sent {
                accepted += 1
                let event = send.message.event
                let isJSON = (try? JSONSerialization.jsonObject(with: Data(event))) != nil
                #expect(isJSON && !event.contains(0x0A), "seed \(seed), round \(round): \(body)")
                #expect(send.message.times.stream <= 2_419_200, "seed \(seed), round \(round): \(body)")
            } else {
                let got = error(action.response)
                #expect([400, 403, 404].contains(got.http), "seed \(seed), round \(round): \(body)")
                #expect(!got.status.isEmpty, "seed \(seed), round \(round): \(body)")
            }
        }
        // The generator makes good and bad messages. Each seed gives far more than 1 good message in 100.
        #expect(accepted >= 3, "seed \(seed)")
    }

    private static let words = [
        "v1", "projects", "shop", "5", "other", "%", "%2", "%2F", "%zz", "", "messages:send", "registrations",
        "TOKEN", "FID", "x", ":listen", "topicSubscriptions", "news", "a%2525", ":subscribe", "iid",
        "v1:batchAdd", "info", "rel", "topics", "register", "token", "admin", "healthz", "quotas", "batch",
        "..",
        "\u{0}", "é",
    ]

    @Test("#50 any path with any method is answered", arguments: UInt64(1)...10)
    func paths(seed: UInt64) {
        let harness = APIHarness()
        var random = SeededGenerator(seed: seed)
        let methods: [HTTPMethod] = [.get, .post, .put, .patch, .delete, .options, .head, .other("BREW")]
        let queries = [
            "", "?", "?topic_name=news", "?pageToken=%", "?pageSize=99999999999999999999", "?a&b=&=c&%=%",
            "?credential=AAAAAAAAAAAAAAAAAAAAAA", "?allow_missing=true", "?details=true&details=false",
        ]
        let credential = String(decoding: harness.keys.credential(secret: 99), as: UTF8.self)
        for round in 0..<2000 {
            var path = ""
            for _ in 0..<random.next() % 8 {
                let word = RandomRequestTests.words[
                    Int(random.next() % UInt64(RandomRequestTests.words.count))]
                path += random.next() % 16 == 0 ? word : "/\(word)"
            }
            path = path.replacing("TOKEN", with: harness.token())
            path = path.replacing("FID", with: String(harness.token().prefix(22)))
            if random.next() % 8 == 0 { path += [":listen", ":acknowledge", ":unsubscribe"][round % 3] }
            path += queries[Int(random.next() % UInt64(queries.count))]
            var headers: [(String, String)] = []
            if random.next() % 2 == 0 { headers.append(("access_token_auth", "true")) }
            if random.next() % 4 == 0 { headers.append(("x-goog-api-key", "tck_app")) }
            if random.next() % 4 == 0 { headers.append(("x-goog-firebase-installations-auth", credential)) }
            if random.next() % 4 == 0 { headers.append(("last-event-id", "000660bdeed60db8.2b40")) }
            let bearer = ["tcb_secret", "nonsense", nil, credential][Int(random.next() % 4)]
            let body = ["", "{}", "x", "{\"eventId\":\"000660bdeed60db8.2b40\"}", "a=b&c"][
                Int(random.next() % 5)]
            let method = methods[Int(random.next() % UInt64(methods.count))]
            guard let response = harness.route(method, path, body, bearer: bearer, headers: headers).response
            else {
                continue
            }
            #expect((200..<500).contains(response.status), "seed \(seed), round \(round): \(method) \(path)")
            let isJSON = (try? JSONSerialization.jsonObject(with: Data(response.body))) != nil
            let isText =
                [204, 405].contains(response.status) || response.body.starts(with: "Error=".utf8)
                || response.body == APIError.unknownPage.body
            #expect(isJSON || isText, "seed \(seed), round \(round): \(method) \(path)")
        }
    }

    @Test("JSON comes back as it was, but for names that stand twice", arguments: UInt64(1)...20)
    func json(seed: UInt64) throws {
        var random = SeededGenerator(seed: seed)
        let parser = JSONParser()
        for round in 0..<200 {
            let text = "{\"x\":\(value(&random, .free, 0)),\"y\":[\(value(&random, nil, 0))]}"
            var out = JSONWriter()
            out.value(try parser.parse(Array(text.utf8)))
            let before = try JSONSerialization.jsonObject(with: Data(text.utf8)) as? NSDictionary
            let after = try JSONSerialization.jsonObject(with: Data(out.bytes)) as? NSDictionary
            #expect(before != nil && before == after, "seed \(seed), round \(round): \(text)")
        }
    }
}
