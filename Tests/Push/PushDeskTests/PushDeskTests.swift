import Model
import PushMessages
import PushScheduling
import Testing

@testable import PushDesk

/// A desk with one project, and what the desk says.
final class DeskWorld {
    typealias Desk = PushDesk<String>
    static let wall: Int64 = 1_800_000_000_000
    let project = ProjectNumber(5)
    let key: P256Key
    var desk = Desk()
    private(set) var effects: [Desk.Effect] = []
    private var last: UInt64 = 0

    init() throws { key = try P256Key.generate() }

    static func instant(_ seconds: UInt64) -> Instant {
        Instant(
            monotonic: MonotonicTime(.seconds(seconds)),
            wall: WallTime(milliseconds: wall + Int64(seconds) * 1000))
    }

    func fcm(_ name: String) throws -> FCMRoute {
        FCMRoute(
            messages: try PushEndpoint.parse(operators: "https://fcm.example/\(name)"),
            tokens: try PushEndpoint.parse(operators: "https://tokens.example/\(name)"), grant: { _ in [] })
    }

    func web(_ hosts: [String] = ["push.example.com"]) -> [UInt64: WebPushRoute] {
        [7: WebPushRoute(vapid: VAPID(key: key, subject: "mailto:a@b.example"), policy: .init(listed: hosts))]
    }

    func apns(_ keyID: String = "ABC123DEFG") -> [APNsApp: APNsRoute] {
        let pool = APNsPool(host: "apple.example", teamID: "DEF123GHIJ", keyID: keyID)
        let signer = APNsSigner(key: key, keyID: keyID, teamID: "DEF123GHIJ")
        return [APNsApp(isSandbox: false, bundleID: "app"): APNsRoute(pool: pool, signer: signer)]
    }

    func change(of project: ProjectNumber? = nil, _ body: (inout PushRoutes) -> Void = { _ in }) {
        let project = project ?? self.project
        var routes = desk.routes[project] ?? PushRoutes()
        body(&routes)
        effects = []
        desk.change([project: routes], into: &effects)
        #expect(desk.brokenInvariant == nil)
    }

    func want(_ target: Desk.Target, _ content: String = "a", at seconds: UInt64 = 100) {
        let kind: Transport.Kind =
            switch target {
            case .web: .web
            case .apns: .apns
            case .fcm: .fcm
            }
        last += 1
        let ticket = PushTicket(loop: 0, number: last, kind: kind, project: project)
        effects = []
        desk.want(ticket, to: target, content, now: DeskWorld.instant(seconds).monotonic, into: &effects)
        #expect(desk.brokenInvariant == nil)
    }

    func answered(_ number: UInt64?, _ result: PushResult, at seconds: UInt64 = 101) throws {
        effects = []
        desk.answered(try #require(number), result, now: DeskWorld.instant(seconds), into: &effects)
        #expect(desk.brokenInvariant == nil)
    }

    func answered(_ number: UInt64?, _ status: Int, _ body: String = "", at seconds: UInt64 = 101)
        throws
    {
        try answered(number, .answered(status: status, retryAfter: nil, body: Array(body.utf8)), at: seconds)
    }

    // MARK: What the desk says

    /// The numbers, hosts and tokens of the messages that leave.
    var sent: [(number: UInt64, place: String)] {
        effects.compactMap { effect in
            guard case .send(let number, _, let way, let content) = effect else { return nil }
            switch way {
            case .web(_, let endpoint): return (number, "\(content) to \(endpoint.host)")
            case .fcm(let route, let token):
                return (number, "\(content) to \(route.messages.path) with \(token)")
            case .apns(let route, _): return (number, "\(content) to \(route.pool.keyID)")
            }
        }
    }
    var fetched: [UInt64] {
        effects.compactMap { effect in
            guard case .fetchToken(let number, _, _) = effect else { return nil }
            return number
        }
    }
    var ends: [PushInFlight.End] {
        effects.compactMap { effect in
            guard case .end(_, let end) = effect else { return nil }
            return end
        }
    }
    var renewed: [String] {
        effects.compactMap { effect in
            guard case .renew(let pool, let connection) = effect else { return nil }
            return "\(pool.keyID)\(connection == nil ? "" : ", one")"
        }
    }

    static func token(_ text: String) -> String {
        #"{"access_token":"\#(text)","expires_in":3600,"token_type":"Bearer"}"#
    }
    static let unauthenticated = #"{"error":{"status":"UNAUTHENTICATED"}}"#
    static let wrongProject = #"{"error":{"details":[{"errorCode":"SENDER_ID_MISMATCH"}]}}"#
}

@Suite("The desk of pushes") struct PushDeskTests {
    private let browser = DeskWorld.Desk.Target.web(keyID: 7, endpoint: "https://push.example.com/a")
    private let phone = DeskWorld.Desk.Target.apns(
        APNsApp(isSandbox: false, bundleID: "app"),
        APNsPush(id: "id", registered: WallTime(milliseconds: DeskWorld.wall)))

    @Test("sends a message by its service's route, and tells its end once")
    func sends() throws {
        let world = try DeskWorld()
        world.change { ($0.web, $0.isWebOn, $0.apns) = (world.web(), true, world.apns()) }
        world.want(browser)
        #expect(world.sent.map(\.place) == ["a to push.example.com"] && world.ends.isEmpty)
        let number = try #require(world.sent.first?.number)
        #expect(world.desk.place(of: number)?.host == "push.example.com")
        try world.answered(number, 201)
        #expect(world.ends == [PushInFlight.End(.accepted)])
        try world.answered(number, 201)
        #expect(world.effects.isEmpty && world.desk.place(of: number) == nil)
    }

    @Test("has no route where the operator has switched the service off, or lists it no more")
    func noRoute() throws {
        let world = try DeskWorld()
        for target in [browser, phone, .fcm] {
            world.want(target)
            guard case .unset? = world.ends.first?.outcome else {
                Issue.record("\(world.effects)")
                continue
            }
        }
        world.change { ($0.web, $0.isWebOn) = (world.web([]), true) }
        world.want(browser)
        #expect(world.ends.first?.outcome.word == "credentials" && world.ends.first?.outcome.alarm == nil)
        world.want(.web(keyID: 8, endpoint: "https://push.example.com/a"))
        #expect(world.ends.first?.outcome.alarm == .credentials)
    }

    @Test("judges an answer by the settings under which its message left, and says so after a change")
    func former() throws {
        let world = try DeskWorld()
        let route = try world.fcm("one")
        world.change { $0.fcm = route }
        world.want(.fcm, "a")
        let fetch = world.fetched.first
        try world.answered(fetch, 200, DeskWorld.token("t"))
        let first = world.sent.first?.number
        world.want(.fcm, "b")
        let second = world.sent.first?.number
        try world.answered(first, 403, DeskWorld.wrongProject)
        #expect(world.ends.first?.alarm == .wrongTarget && world.ends.first?.isFormer == false)
        world.change()
        world.want(.fcm, "c")
        let third = world.sent.first?.number
        try world.answered(second, 403, DeskWorld.wrongProject)
        #expect(world.ends.first?.alarm == nil && world.ends.first?.isFormer == true)
        try world.answered(third, 403, DeskWorld.wrongProject)
        #expect(world.ends.first?.alarm == .wrongTarget && world.ends.first?.isFormer == false)
    }

    @Test("gives a message no token of a former account, whether the message waits for one or for another")
    func formerAccount() throws {
        let world = try DeskWorld()
        let routes = (try world.fcm("one"), try world.fcm("two"), try world.fcm("three"))
        world.change { $0.fcm = routes.0 }
        world.want(.fcm, "a")
        let first = world.fetched.first
        world.change { $0.fcm = routes.1 }
        world.want(.fcm, "b")
        let second = world.fetched.first
        try world.answered(first, 200, DeskWorld.token("t1"))
        #expect(world.sent.isEmpty && world.ends.map(\.outcome) == [.unsent(PushInFlight.changed)])
        #expect(world.desk.accounts.count == 1)
        try world.answered(second, 200, DeskWorld.token("t2"))
        #expect(world.sent.map(\.place) == ["b to /two with t2"])
        let sent = world.sent.first?.number
        try world.answered(sent, 401, DeskWorld.unauthenticated, at: 120)
        let again = world.fetched.first
        #expect(again != nil && world.ends.isEmpty)
        world.change { $0.fcm = routes.2 }
        try world.answered(again, 200, DeskWorld.token("t3"), at: 121)
        #expect(world.sent.isEmpty && world.ends.first?.outcome == .unsent(PushInFlight.changed))
        world.want(.fcm, "c")
        #expect(world.sent.isEmpty && world.fetched.count == 1)
        world.change { $0.fcm = nil }
        #expect(world.desk.accounts.count == 1, "a message still waits for the account's token")
    }

    @Test("keeps an account's tokens while its route stays")
    func keptAccount() throws {
        let world = try DeskWorld()
        let route = try world.fcm("one")
        world.change { $0.fcm = route }
        world.want(.fcm)
        let fetch = world.fetched.first
        try world.answered(fetch, 200, DeskWorld.token("t"))
        world.change { $0.isWebOn = true }
        world.want(.fcm, "b")
        #expect(world.sent.map(\.place) == ["b to /one with t"])
    }

    @Test("sends a message to Apple once more with another token, and not under settings that have changed")
    func apple() throws {
        for isChanged in [false, true] {
            let world = try DeskWorld()
            world.change { $0.apns = world.apns() }
            world.want(phone, at: 2000)
            let number = try #require(world.sent.first?.number)
            let first = try world.desk.authorization(for: number, now: DeskWorld.instant(2000).wall)
            if isChanged { world.change { $0.isWebOn = true } }
            try world.answered(number, 403, #"{"reason":"ExpiredProviderToken"}"#, at: 2001)
            if isChanged {
                #expect(world.ends.first?.outcome == .unsent(PushInFlight.changed) && world.sent.isEmpty)
                #expect(throws: NoToken.self) {
                    try world.desk.authorization(for: number, now: DeskWorld.instant(2001).wall)
                }
            } else {
                #expect(world.sent.map(\.number) == [number])
                let second = try world.desk.authorization(for: number, now: DeskWorld.instant(2001).wall)
                #expect(second != first)
            }
        }
    }

    @Test(
        "closes connections with a key that no project uses, and has one token for a key of several projects")
    func keys() throws {
        let world = try DeskWorld()
        let other = ProjectNumber(6)
        for project in [world.project, other] { world.change(of: project) { $0.apns = world.apns() } }
        #expect(world.desk.appleTokens.count == 1 && world.renewed.isEmpty)
        world.want(phone)
        let number = try #require(world.sent.first?.number)
        let token = try world.desk.authorization(for: number, now: DeskWorld.instant(100).wall)
        world.change { $0.apns = world.apns("XYZ123DEFG") }
        #expect(world.renewed.isEmpty)
        #expect(try world.desk.authorization(for: number, now: DeskWorld.instant(100).wall) == token)
        world.change(of: other) { $0.apns = [:] }
        #expect(world.renewed == ["ABC123DEFG"])
        try world.answered(number, 503, #"{"reason":"Shutdown"}"#)
        #expect(world.renewed == ["ABC123DEFG"] && world.ends.first?.isFormer == true)
    }

    @Test("has invariants, and each is seen where it is broken")
    func invariants() throws {
        let world = try DeskWorld()
        let route = try world.fcm("one")
        world.change { $0.fcm = route }
        world.want(.fcm)
        let number = try #require(world.desk.messages.keys.first)
        let account = try #require(world.desk.accounts.keys.first)
        func isSeen(_ invariant: String, _ damage: (inout DeskWorld.Desk) -> Void) {
            var desk = world.desk
            damage(&desk)
            #expect(desk.brokenInvariant == invariant)
        }
        isSeen("a message leaves under settings that are to come") { $0.messages[number]?.revision = 9 }
        isSeen("an account's messages are counted wrong") { $0.accounts[account]?.messages = 2 }
        isSeen("a message's account is forgotten") { $0.accounts = [:] }
        isSeen("an account that nothing uses is kept") {
            $0.accounts[99] = $0.accounts[account]
            $0.accounts[99]?.messages = 0
            $0.messages = [:]
            $0.accounts[account] = nil
        }
        isSeen("a token is kept waiting for a message that has its end") {
            $0.messages[number] = nil
            $0.accounts[account]?.messages = 0
        }
        isSeen("messages of project 5 leave by another account than the settings name") {
            $0.routes[world.project]?.fcm = nil
        }
    }
}
