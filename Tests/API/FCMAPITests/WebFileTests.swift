import HTTPMessages
import Testing

@testable import FCMAPI

@Suite("Files for browsers")
struct WebFileTests {
    private let harness = APIHarness()
    private let development = APIHarness(isDev: true)

    private func answer(
        _ harness: APIHarness, _ path: String, method: HTTPMethod = .get, headers: [(String, String)] = []
    ) throws -> HTTPResponse {
        try #require(harness.route(method, path, bearer: nil, headers: headers).response)
    }

    private func field(_ name: String, _ response: HTTPResponse) -> String? {
        response.fields.first { $0.name == name }?.value
    }

    @Test(
        "any server has the client and its worker, for pages of any origin",
        arguments: ["/client/v1/messaging.js", "/client/v1/messaging-sw.js"])
    func client(path: String) throws {
        for server in [harness, development] {
            let file = try answer(server, path)
            #expect(file.status == 200)
            #expect(field("content-type", file) == "text/javascript; charset=utf-8")
            #expect(field("access-control-allow-origin", file) == "*")
            #expect(field("x-content-type-options", file) == "nosniff")
            #expect(String(decoding: file.body, as: UTF8.self).hasPrefix("// Tidecast in a "))
        }
        #expect(try answer(harness, "\(path)?v=2").body == answer(harness, path).body)
        #expect(try answer(harness, path, method: .head).status == 200)
        for method in [HTTPMethod.post, .put, .delete] {
            #expect(try answer(harness, path, method: method).status == 404)
        }
    }

    @Test("each module that the client imports is there, for pages of any origin")
    func modules() throws {
        var waiting = ["/client/v1/messaging.js"]
        var seen: Set<String> = []
        while let path = waiting.popLast() {
            guard seen.insert(path).inserted else { continue }
            let file = try answer(harness, path)
            #expect(file.status == 200, "\(path)")
            #expect(field("access-control-allow-origin", file) == "*")
            #expect(field("content-type", file) == "text/javascript; charset=utf-8")
            let folder = path.prefix(through: try #require(path.lastIndex(of: "/")))
            let text = String(decoding: file.body, as: UTF8.self)
            for match in text.matches(of: /from "\.\/([^"]+)";/) { waiting.append("\(folder)\(match.1)") }
        }
        #expect(seen.count == 8)
    }

    @Test("a browser's copy is asked for by its tag, and sent again only where it is another")
    func tags() throws {
        let path = "/client/v1/messaging.js"
        let tag = try #require(field("etag", answer(harness, path)))
        #expect(tag.count == 18 && tag.hasPrefix("\"") && tag.hasSuffix("\""))
        #expect(try field("etag", answer(harness, "/client/v1/messaging-sw.js")) != tag)
        for known in [tag, "W/\(tag)", "\"other\", \(tag)", "\(tag),\"other\"", "*"] {
            let current = try answer(harness, path, headers: [("if-none-match", known)])
            #expect(current.status == 304 && current.body.isEmpty && field("etag", current) == tag)
            #expect(!current.hasLength)
        }
        let many = Array(repeating: "\"other\"", count: 64)
        let last = many.dropLast() + [tag]
        let within = [("if-none-match", last.joined(separator: ", "))]
        #expect(try answer(harness, path, headers: within).status == 304)
        let past = [("if-none-match", (many + [tag]).joined(separator: ","))]
        #expect(try answer(harness, path, headers: past).status == 200)
        for other in ["", "\"other\"", String(tag.dropLast()), ",,", "W/", "\(tag)x"] {
            #expect(try answer(harness, path, headers: [("if-none-match", other)]).status == 200, "\(other)")
        }
    }

    @Test("a development server has a page, which runs nothing from elsewhere and nothing from its text")
    func page() throws {
        let page = try answer(development, "/")
        #expect(page.status == 200)
        #expect(field("content-type", page) == "text/html; charset=utf-8")
        let policy = try #require(field("content-security-policy", page))
        #expect(policy.hasPrefix("default-src 'none';") && !policy.contains("unsafe"))
        // Another page must not read this one, nor show it inside itself.
        #expect(field("access-control-allow-origin", page) == nil)
        #expect(policy.contains("frame-ancestors 'none'"))
        let text = String(decoding: page.body, as: UTF8.self)
        for file in ["/client/demo.js", "/client/demo.css"] {
            #expect(text.contains("\"\(file)\""))
            #expect(try answer(development, file).status == 200)
        }
        #expect(text.firstMatch(of: /\s(style|on\w+)=|<style|<script>|https?:/) == nil)
    }

    @Test("a server in earnest has no page")
    func noPage() throws {
        let refused = try answer(harness, "/")
        #expect(refused.status == 404 && refused.body == APIError.unknownPage.body)
        for file in ["/client/demo.js", "/client/demo.css"] {
            #expect(try answer(harness, file).status == 404)
        }
    }

    @Test(
        "a path that is none of them is unknown",
        arguments: [
            "/client", "/client/", "/client/v1", "/client/v1/", "/client/v2/messaging.js",
            "/client/v1/messaging/", "//",
            "/client/v1/messaging.js/", "/client/v1/../v1/messaging.js", "/client/v1/messaging%2Ejs", "/?/",
            "/client/v1/%00", "/index.html", "/demo.html",
        ])
    func unknown(path: String) throws {
        #expect(try answer(harness, path).status == 404)
    }

    @Test("a foreign page gets nothing from a development server")
    func foreign() throws {
        let foreign = [("origin", "https://evil.example")]
        for path in ["/", "/client/v1/messaging.js", "/client/demo.js"] {
            #expect(try answer(development, path, headers: foreign).status == 403)
        }
    }
}
