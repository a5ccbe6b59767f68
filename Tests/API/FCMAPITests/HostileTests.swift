import HTTPMessages
import Model
import Testing

@testable import FCMAPI

/// Bodies that are valid JSON and were made to do harm.
@Suite("Hostile bodies")
struct HostileTests {
    let harness = APIHarness()

    /// The canonical event as text.
    private func event(_ message: String) -> String {
        String(decoding: harness.send(message).sent?.message.event ?? [], as: UTF8.self)
    }

    @Test(
        "every number of JSON comes back as it was",
        arguments: [
            "18446744073709551615", "9223372036854775808", "9223372036854775807", "-9223372036854775808", "0",
            "-1", "0.1", "-2.5e-300",
        ])
    func numbers(text: String) {
        #expect(
            event("{\"topic\":\"a\",\"apns\":{\"payload\":{\"x\":[\(text)]}}}").contains("\"x\":[\(text)]"))
    }

    @Test(
        "a number where another type is wanted is shown as it was",
        arguments: ["18446744073709551615", "9223372036854775808", "-9223372036854775808", "1.5"])
    func shownNumbers(text: String) {
        let response = harness.send("{\"topic\":\"a\",\"data\":{\"k\":\(text)}}").response
        let reply = response.map { String(decoding: $0.body, as: UTF8.self) } ?? ""
        #expect(reply.contains("(TYPE_STRING), \(text)"))
    }

    @Test(
        "an expiry of APNs may be any number; what has passed is now or never",
        arguments: [
            ("-9223372036854775808", 0), ("0", 0), ("9223372036854775807", 2_419_200), ("1800000060", 60),
            ("1800000000", 0), ("99999999999999999999", 2_419_200), ("soon", 2_419_200),
        ])
    func expiry(text: String, seconds: Int) {
        let send = harness.send("{\"topic\":\"a\",\"apns\":{\"headers\":{\"APNS-Expiration\":\"\(text)\"}}}")
            .sent
        #expect(send?.message.times.stream == UInt32(seconds))
    }

    @Test("more names than a message can hold are refused in the time that it takes to read them")
    func manyNames() {
        let names = (0..<40_000).map { "\"k\($0)\":\"\"" }.joined(separator: ",")
        for body in [
            "{\"topic\":\"a\",\"data\":{\(names)}}", "{\"topic\":\"a\",\"android\":{\"data\":{\(names)}}}",
            "{\"topic\":\"a\",\"webpush\":{\"notification\":{\(names)}}}",
            "{\"topic\":\"a\",\"apns\":{\"payload\":{\(names)}}}",
        ] {
            #expect(error(harness.send(body).response).fcm == "INVALID_ARGUMENT")
        }
        let headers = (0..<10_000).map { "\"h\($0)\":\"\"" }.joined(separator: ",")
        #expect(
            error(harness.send("{\"topic\":\"a\",\"apns\":{\"headers\":{\(headers)}}}").response).fcm
                == "INVALID_ARGUMENT", "the bound of the whole event")
    }

    @Test("a query of more than 256 parameters is refused, however short they are")
    func manyParameters() throws {
        let path = "/v1/projects/shop/topics"
        func status(_ query: String) -> Int? {
            harness.route(.get, "\(path)?\(query)", bearer: nil).response?.status
        }
        for pair in ["a", "", "a=b", "%61=b"] {
            let pairs = Array(repeating: pair, count: 255).joined(separator: "&")
            #expect(status("\(pairs)&pageSize=x") == 401)
            #expect(status("\(pairs)&\(pair)&pageSize=x") == 400)
        }
        #expect(status(String(repeating: "a&", count: 7000)) == 400)
    }

    @Test("a parameter of a query is found under each of its names, also encoded, and the last one counts")
    func parameters() {
        func value(_ query: String) -> String? {
            Target(Array("/a?\(query)".utf8)).parameter("page_size", "pageSize")
        }
        #expect(value("pageSize=1&page_size=2") == "2" && value("page%53ize=3&b") == "3")
        #expect(value("pageSize") == "" && value("pageSize=") == "" && value("&&pageSize=a=b&") == "a=b")
        #expect(value("page+size=%31+2%") == nil && value("page_size=%31+2%") == "1 2%")
        #expect(value("") == nil && value("PageSize=1") == nil && value("pageSize%=1") == nil)
    }

    @Test("a name repeated any number of times has its last value, in maps and in free JSON")
    func repeats() {
        let pairs = (0..<100).map { "\"k\($0 % 20)\":\"v\($0)\"" }.joined(separator: ",")
        let wanted = (80..<100).map { "\"k\($0 % 20)\":\"v\($0)\"" }.joined(separator: ",")
        #expect(event("{\"topic\":\"a\",\"data\":{\(pairs)}}").contains("\"data\":{\(wanted)}"))
        #expect(
            event("{\"topic\":\"a\",\"apns\":{\"payload\":{\"in\":{\(pairs)}}}}").contains(
                "\"payload\":{\"in\":{\(wanted)}}"))
    }

    @Test("an event is bounded also where escapes make it long")
    func escapes() {
        let control = String(repeating: "\\u0001", count: 4090)
        let data = "\"data\":{\"k\":\"\(control)\"}"
        #expect(harness.send("{\"topic\":\"a\",\(data),\"android\":{\(data)}}").sent != nil)
        let got = harness.send("{\"topic\":\"a\",\(data),\"android\":{\(data)},\"webpush\":{\(data)}}")
            .response
        #expect(error(got).fcm == "INVALID_ARGUMENT")
    }

    @Test("an event has no line break, whatever it holds: it is one data line of a stream")
    func lines() throws {
        let text = "\\n\\r\\u0000\\u2028\\u0085\\\"\\\\/\\u007f\\ud83d\\ude00"
        let send = try #require(
            harness.send(
                "{\"topic\":\"a\",\"data\":{\"\(text)\":\"\(text)\"},\"apns\":{\"payload\":{\"\(text)\":1}}}"
            )
            .sent)
        #expect(!send.message.event.contains(0x0A) && !send.message.event.contains(0x0D))
        let data = object(send.message.event)["data"] as? [String: String]
        #expect(data?.first?.value == "\n\r\0\u{2028}\u{85}\"\\/\u{7f}😀")
    }

    @Test("nesting is bounded")
    func depth() {
        func nested(_ depth: Int) -> String {
            "{\"topic\":\"a\",\"apns\":{\"payload\":{\"x\":" + String(repeating: "[", count: depth)
                + String(repeating: "]", count: depth) + "}}}"
        }
        #expect(harness.send(nested(40)).sent != nil)
        #expect(error(harness.send(nested(64)).response).http == 400)
    }

    @Test("a list of tokens is not read beyond the thousandth")
    func manyTokens() {
        let tokens = Array(repeating: "\"x\"", count: 100_000).joined(separator: ",")
        let response = harness.route(
            .post, "/iid/v1:batchAdd", "{\"to\":\"/topics/a\",\"registration_tokens\":[\(tokens)]}",
            headers: [("access_token_auth", "true")]
        ).response
        #expect(response?.status == 400 && object(response?.body ?? [])["error"] is String)
    }

    @Test("a form is not read beyond its 256th field, nor at all where it is longer than 32 KiB")
    func forms() {
        let many = String(repeating: "a=b&", count: 255) + "grant_type=x&assertion=y"
        let long = "grant_type=x&assertion=" + String(repeating: ".", count: 32_768)
        for body in [many, long, String(repeating: "a&", count: 30_000), String(repeating: "&", count: 300)] {
            let reply = object(harness.route(.post, "/token", body, bearer: nil).response?.body ?? [])
            #expect(reply["error"] as? String == "invalid_request", "\(reply)")
        }
        let token = harness.token()
        let device = "sender=\(token)&X-gcm.topic=%2Ftopics%2Fa&delete=true"
        func register(_ body: String) -> APIAction {
            harness.route(.post, "/iid/register", body, headers: [("authorization", "AidLogin 1:2")])
        }
        for body in [many + "&" + device, device + "&" + many] {
            let text = register(body).response.map { String(decoding: $0.body, as: UTF8.self) }
            #expect(text == "Error=INVALID_PARAMETERS")
        }
    }

    @Test("of a form the last field of a name counts, however the name is written")
    func formNames() {
        for body in [
            "grant_type=x&grant%5Ftype=urn:ietf:params:oauth:grant-type:jwt-bearer",
            "&&grant_type=urn%3aietf%3Aparams%3aoauth%3Agrant-type%3Ajwt-bearer&=&x&",
        ] {
            let reply = object(harness.route(.post, "/token", body, bearer: nil).response?.body ?? [])
            #expect(reply["error_description"] as? String == "The assertion is missing.", "\(reply)")
        }
    }

    @Test("a body of more values than any message has is refused before one of them is looked at")
    func manyValues() {
        let names = (0..<20_000).map { "\"k\($0)\":1" }.joined(separator: ",")
        let arrays = Array(repeating: "[]", count: 20_000).joined(separator: ",")
        for body in [
            "{\"message\":{\"data\":{\(names)}}}", "{\(names)}", "[\(arrays)]",
            "{\"message\":{\"topic\":\"a\",\"apns\":{\"payload\":{\"x\":[\(arrays)]}}}}",
        ] {
            let response = harness.route(.post, "/v1/projects/shop/messages:send", body).response
            #expect(error(response).fcm == "INVALID_ARGUMENT")
            let message = (object(response?.body ?? [])["error"] as? [String: Any])?["message"] as? String
            #expect(message == "Invalid JSON payload received. The body has more than 8192 names and values.")
        }
    }

    @Test("a message of as many values as its bytes allow passes")
    func muchData() {
        let data = (0..<1000).map { "\"\($0)\":\"\"" }.joined(separator: ",")
        let all = ["android", "webpush"].map { "\"\($0)\":{\"data\":{\(data)}}" }.joined(separator: ",")
        let apns = "\"apns\":{\"payload\":{\(data)}}"
        #expect(harness.send("{\"topic\":\"a\",\"data\":{\(data)},\(all),\(apns)}").sent != nil)
    }
}
