import HTTPMessages
import Testing

@testable import FCMAPI

@Suite("A development server and web pages")
struct DevHostTests {
    private func isAnswered(_ hosts: DevHosts, _ host: String, origin: String? = nil) -> Bool {
        var fields = HTTPFields()
        if let origin { fields.append(name: "origin".utf8, value: origin.utf8) }
        let request = HTTPRequest(
            method: .get, target: Array("/healthz".utf8), authority: Array(host.utf8), fields: fields)
        return hosts.refusal(of: request) == nil
    }

    private let hosts = DevHosts(names: ["Push.Internal", "tidecast"])

    @Test(
        "is called by this machine's names, Google's, and those that the settings give",
        arguments: [
            "", "localhost", "LOCALHOST:8787", "app.localhost:1", "127.0.0.1:8787", "127.9.9.9", "[::1]:80",
            "fcm.googleapis.com", "iid.googleapis.com:443", "push.internal:8787", "tidecast", "localhost.:80",
        ])
    func known(host: String) { #expect(isAnswered(hosts, host)) }

    @Test(
        "is not called by a name that a page could have made resolve to it",
        arguments: [
            "evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "127.evil.example", "127.1",
            "192.0.2.7", "[2001:db8::1]:80", "push.internal.evil.example", ":80", "[::1", "evillocalhost",
            "127.0.0.1\0.evil.example", "127.0.0.1x",
        ])
    func foreign(host: String) { #expect(!isAnswered(hosts, host)) }

    @Test("takes addresses for its own where it listens beyond this machine, names no more than before")
    func addresses() {
        let anywhere = DevHosts(names: [], takesAddresses: true)
        #expect(isAnswered(anywhere, "192.0.2.7:8787"))
        #expect(isAnswered(anywhere, "[2001:db8::1]:80"))
        #expect(!isAnswered(anywhere, "192.0.2.7.evil.example"))
        #expect(!isAnswered(anywhere, "evil.example"))
        // A page from another machine's address is a foreign page.
        #expect(!isAnswered(anywhere, "192.0.2.7:8787", origin: "http://192.0.2.8:8787"))
        #expect(!isAnswered(anywhere, "localhost:8787", origin: "http://192.0.2.8"))
        #expect(isAnswered(anywhere, "192.0.2.7:8787", origin: "http://192.0.2.7:8787"))
    }

    @Test("answers pages of this machine and of names that are known")
    func origins() {
        for origin in ["http://localhost:3000", "https://127.0.0.1", "http://push.internal", "http://[::1]"] {
            #expect(isAnswered(hosts, "localhost:8787", origin: origin), "\(origin)")
        }
        for origin in [
            "https://evil.example", "null", "file://", "", "http://", "http://localhost.evil.example",
            "chrome-extension://localhost",
        ] {
            #expect(!isAnswered(hosts, "localhost:8787", origin: origin), "\(origin)")
        }
    }

    private func status(_ harness: APIHarness, _ method: HTTPMethod, _ headers: [(String, String)]) -> Int? {
        let action = harness.route(
            method, "/v1/projects/any/registrations", "{}", bearer: nil, headers: headers)
        guard case .respond(let response) = action else { return nil }
        return response.status
    }

    @Test("is refused with a sentence, the preflight too; a server in earnest asks nobody whose page it is")
    func routes() {
        let page = [("origin", "https://evil.example")]
        #expect(status(APIHarness(isDev: true), .post, page) == 403)
        #expect(status(APIHarness(isDev: true), .options, page) == 403)
        #expect(status(APIHarness(isDev: true), .post, []) == nil)
        #expect(status(APIHarness(), .options, page) == 204)
    }
}
