import PushClient
import PushStandIn
import Testing

@Suite("The push client", .timeLimit(.minutes(5)))
struct AnswerTests {
    @Test("sends a POST as it was prepared, and gives the whole answer", arguments: StandIn.Version.allCases)
    func post(version: StandIn.Version) async throws {
        let server = try await StandIn.start(version) { _ in
            .answer(201, fields: [("Location", "/m/1"), ("TTL", "60")], body: Array("kept".utf8))
        }
        let sender = try Sender()
        let body = (0..<5_000).map { UInt8(truncatingIfNeeded: $0) }
        let result = try await sender.answer(
            server.request(
                path: "/a/../b?token=%2F",
                fields: [("TTL", "60"), ("Urgency", "high"), ("Topic", "")], body: body))
        guard case .answered(let status, let fields, let answer) = result else {
            Issue.record("\(result)")
            return
        }
        #expect(status == 201)
        #expect(fields.first { $0.name == "location" }?.value == "/m/1")
        #expect(fields.first { $0.name == "ttl" }?.value == "60")
        #expect(answer == Array("kept".utf8))
        let request = try #require(server.seen.requests.first)
        #expect(server.seen.requests.count == 1)
        #expect(request.path == "/a/../b?token=%2F")
        #expect(request.body == body)
        let names = Set(request.fields.map { $0.name.lowercased() })
        #expect(request[":method"] == "POST")
        #expect(request["ttl"] == "60")
        #expect(request["urgency"] == "high")
        #expect(request["topic"] == "")
        #expect(names.isDisjoint(with: ["accept", "user-agent", "expect", "cookie", "content-type"]))
        sender.client.stop()
    }

    @Test(
        "gives each status with its fields", arguments: StandIn.Version.allCases,
        [201, 404, 410, 429, 500])
    func statuses(version: StandIn.Version, status: Int) async throws {
        let server = try await StandIn.start(version) { _ in
            .answer(status, fields: [("Retry-After", "17")], body: Array("{}".utf8))
        }
        let sender = try Sender()
        let result = try await sender.answer(server.request())
        guard case .answered(let found, let fields, let body) = result else {
            Issue.record("\(result)")
            return
        }
        #expect(found == status)
        #expect(fields.first { $0.name == "retry-after" }?.value == "17")
        #expect(body == Array("{}".utf8))
    }

    @Test("gives an interim answer no meaning", arguments: StandIn.Version.allCases)
    func interim(version: StandIn.Version) async throws {
        let server = try await StandIn.start(version) { _ in
            .answer(410, fields: [("X-Final", "yes")], interim: true)
        }
        let result = try await Sender().answer(server.request())
        guard case .answered(410, let fields, []) = result else {
            Issue.record("\(result)")
            return
        }
        #expect(fields.contains { $0.name == "x-final" })
        #expect(!fields.contains { $0.name == "x-interim" })
    }

    @Test("follows no redirect", arguments: StandIn.Version.allCases, [301, 302, 307, 308])
    func redirect(version: StandIn.Version, status: Int) async throws {
        let server = try await StandIn.start(version) { _ in
            .answer(status, fields: [("Location", "/elsewhere")])
        }
        let sender = try Sender()
        #expect(try await sender.answer(server.request()).status == status)
        sender.client.stop()
        #expect(server.seen.requests.map(\.path) == ["/push"])
    }

    @Test("keeps a bounded beginning of a long answer", arguments: StandIn.Version.allCases)
    func longAnswer(version: StandIn.Version) async throws {
        let server = try await StandIn.start(version) { request in
            request.path == "/long"
                ? .answer(
                    400, fields: (0..<200).map { ("x-\($0)", String(repeating: "v", count: 200)) },
                    body: [UInt8](repeating: 7, count: 300_000)) : .answer(201)
        }
        let sender = try Sender()
        guard
            case .answered(400, let fields, let body) = try await sender.answer(server.request(path: "/long"))
        else {
            Issue.record("no answer 400")
            return
        }
        #expect(body == [UInt8](repeating: 7, count: 4_096))
        #expect(fields.reduce(0) { $0 + $1.name.utf8.count + $1.value.utf8.count } <= 16 << 10)
        #expect(fields.count > 50)
        // Over HTTP/2 only the stream ends.
        #expect(try await sender.answer(server.request(path: "/short")).status == 201)
        #expect(server.seen.connections == (version == .http2 ? 1 : 2))
    }

    @Test("gives an answer whose end never comes", arguments: StandIn.Version.allCases)
    func cutAnswer(version: StandIn.Version) async throws {
        let server = try await StandIn.start(version) { request in
            .answer(410, body: Array("go".utf8), isCut: request.path == "/cut")
        }
        let sender = try Sender {
            $0.answerRestMilliseconds = 100
            // Longer than this test may take.
            $0.totalMilliseconds = 3_600_000
        }
        let result = try await sender.answer(server.request(path: "/cut"))
        guard case .answered(410, _, let body) = result else {
            Issue.record("\(result)")
            return
        }
        #expect(body == Array("go".utf8))
        #expect(try await sender.answer(server.request()).status == 410)
        #expect(server.seen.connections == (version == .http2 ? 1 : 2))
    }

    @Test(
        "refuses what is no URL of https with a host, and sends nothing",
        arguments: [
            "http://localhost/", "HTTP://localhost/", "ftp://localhost/", "file:///etc/passwd",
            "localhost/push", "//localhost/push", "/push", "", "https://", "https:///push", "https://a b/",
            "https://user@localhost/", "https://user:word@localhost/", "https://localhost:0x1/",
            "https://localhost:65536/", "https://localhost/\r\nX: y", "https://localhost/\0", "\0",
            "https://[::1/", "https:/localhost/", "https:localhost/", "https://ok.example\\@localhost/",
            "https://%6cocalhost/", "https://löcalhost/", "https://ⓛocalhost/", "https://localhost%00/",
            "https://localhost:/\t", "https:\\\\localhost/", " https://localhost/", "https://:443/",
            "https://" + String(repeating: "a", count: 300) + ".example/",
            "https://" + String(repeating: "a", count: 2_048),
        ])
    func malformedURL(url: String) async throws {
        let sender = try Sender()
        let request = PushHTTPRequest(number: 7, url: url) { _ in
            Issue.record("an address of \(url) was asked for")
            return false
        } prepare: {
            Issue.record("\(url) was prepared")
            return (fields: [], body: [1])
        }
        let failure = try #require(try await sender.answer(request).failure)
        #expect(!failure.mayHaveArrived)
        #expect(failure.reason.contains("URL"))
    }

    @Test("sends nothing of a request whose preparation fails")
    func notPrepared() async throws {
        struct KeyIsGone: Error {}
        let server = try await StandIn.start(.http2) { _ in .answer(201) }
        let sender = try Sender()
        let request = PushHTTPRequest(number: 3, url: server.url("/"), caPEM: server.caPEM) { _ in
            true
        } prepare: {
            throw KeyIsGone()
        }
        guard case .notPrepared(let error) = try await sender.answer(request) else {
            Issue.record("the request was prepared")
            return
        }
        #expect(error is KeyIsGone)
        #expect(server.seen.connections == 0)
    }

    @Test("sends no header field that would be read as another", arguments: 0..<14)
    func malformedField(row: Int) async throws {
        let fields = [
            ("X\r\nY", "z"), ("X: y", "z"), ("", "z"), ("X Y", "z"), (":path", "/"), ("X\0", "z"),
            ("X", "y\r\nZ: 1"), ("X", "y\nZ: 1"), ("X", "y\0"), ("X", " y"), ("X", "y "),
            ("Content-Length", "1"), ("Host", "elsewhere"), ("transfer-encoding", "chunked"),
        ]
        let server = try await StandIn.start(.http1) { _ in .answer(201) }
        let sender = try Sender()
        let result = try await sender.answer(server.request(fields: [("TTL", "1"), fields[row]]))
        guard case .notPrepared = result else {
            Issue.record("\(result)")
            return
        }
        #expect(server.seen.connections == 0)
        #expect(try await sender.answer(server.request()).status == 201)
    }

    @Test("sends a body of 1 byte to 64 KiB, and no other", arguments: [0, 1, 65_536, 65_537])
    func bodyBound(count: Int) async throws {
        let server = try await StandIn.start(.http2) { request in
            .answer(200 + (request.body.count > 1 ? 2 : 1))
        }
        let result = try await Sender().answer(server.request(body: [UInt8](repeating: 1, count: count)))
        switch count {
        case 1: #expect(result.status == 201)
        case 65_536: #expect(result.status == 202)
        default:
            guard case .notPrepared = result else {
                Issue.record("\(result)")
                return
            }
        }
        #expect(server.seen.requests.map(\.body.count) == (1...65_536 ~= count ? [count] : []))
    }
}
