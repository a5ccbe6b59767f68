import HTTPMessages
import Testing

@testable import FCMAPI

@Suite("The table of routes") struct RouteTests {
    private static let methods: [Route.Method: HTTPMethod] = [
        .get: .get, .post: .post, .patch: .patch, .delete: .delete, .others: .put,
    ]

    /// A path of the row, with texts in place of its parameters.
    private static func path(_ route: Route, of project: String = "shop") -> String {
        "\(route.path)".replacing("{project}", with: project).replacing("{environment}", with: "sandbox")
            .replacing(/\{[a-z]+\}/, with: "some")
    }

    private static func find(
        _ path: String, _ method: HTTPMethod
    ) -> (path: String, verbLength: Int)? {
        Route.tree.find(Target(Array(path.utf8)), method).map { ("\($0.route.path)", $0.verbLength) }
    }

    @Test("has each operation, and describes it once")
    func operations() {
        #expect(Set(Route.all.map(\.endpoint)) == Set(Endpoint.allCases))
        let described = Route.all.filter(\.isDocumented).map(\.endpoint)
        #expect(Set(described).count == described.count && described.count == Endpoint.allCases.count)
    }

    @Test("is found by method and path, with the length of a verb behind a parameter", arguments: Route.all)
    func found(route: Route) throws {
        let method = try #require(RouteTests.methods[route.method])
        let found = try #require(RouteTests.find(RouteTests.path(route), method))
        #expect(found.path == "\(route.path)")
        let verb = "\(route.path)".firstMatch(of: /\}(:[a-z]+)$/)?.1 ?? ""
        #expect(found.verbLength == verb.utf8.count)
    }

    @Test(
        "matches the first of a text, a verb and a parameter that has the method",
        arguments: [
            (.get, "/push/v1/x", "/push/v1/{subscription}"), (.get, "/push/v1", "/push/{project}"),
            (.get, "/push/v1/", "/push/v1/{subscription}"), (.get, "/push/x/", "/push/{project}/"),
            (
                .get, "/v1/projects/p/registrations/a:acknowledge",
                "/v1/projects/{project}/registrations/{registration}"
            ),
            (
                .head, "/v1/projects/p/registrations/:listen",
                "/v1/projects/{project}/registrations/{registration}:listen"
            ),
            (.post, "/v1/projects/p/registrations/a", nil), (.put, "/healthz", "/healthz"),
            (.put, "/token", nil),
            (.post, "/v1/projects/p/messages:send/", nil), (.post, "/v1/projects/p", nil), (.get, "/", nil),
            (.post, "v1/projects/p/messages:send", nil), (.post, "", nil),
        ] as [(HTTPMethod, String, String?)])
    func order(row: (method: HTTPMethod, path: String, found: String?)) {
        #expect(RouteTests.find(row.path, row.method)?.path == row.found)
    }

    @Test("says who may ask: a stranger gets no operation from a row for others", arguments: Route.all)
    func strangers(route: Route) throws {
        let harness = APIHarness()
        let device = harness.token()
        let path = RouteTests.path(route).replacing(
            /\/some(?=$|\/|:)/, with: "/\(device)", maxReplacements: 1)
        let method = try #require(RouteTests.methods[route.method])
        let action = harness.route(method, path, "{}", bearer: nil)
        if case .anyone = route.access { return }
        if case .phone = route.access {
            #expect(action.response?.body.starts(with: "Error=".utf8) == true)
        } else {
            let status = try #require(action.response?.status)
            let isHidden = route.role != nil
            #expect(status == (isHidden ? 404 : 401) || status == 404 && route.endpoint == .postPush)
        }
    }

    @Test("makes the OpenAPI document, in which a development server alone has the emulator")
    func document() throws {
        for isDev in [false, true] {
            let harness = APIHarness(isDev: isDev)
            let answer = try #require(harness.route(.get, "/v1/openapi.json", bearer: nil).response)
            let text = String(decoding: answer.body, as: UTF8.self)
            #expect(answer.status == 200 && text.contains("\"/v1/projects/{project}/messages:send\""))
            #expect(text.contains("/emulator/") == isDev)
        }
    }

    @Test("needs the role of an operator in every row below /admin, and in no other")
    func roles() {
        for route in Route.all { #expect("\(route.path)".hasPrefix("/admin/") == (route.role != nil)) }
    }
}
