import Credentials
import Model
import PushDesk
import PushMessages
import PushScheduling
import Testing

@testable import Node

@Suite("The tokens of Web Push") struct VAPIDTokensTests {
    @Test("show a push service one token for hours, also where clients bring thousands of other services")
    func tokens() throws {
        let tokens = VAPIDTokens()
        let vapid = VAPID(key: try P256Key.generate(), subject: "mailto:push@example.com")
        let now = WallTime(milliseconds: 1_800_000_000_000)
        let google = "https://fcm.googleapis.com"
        let first = try tokens.token(of: vapid, origin: google, now: now)
        #expect(try tokens.token(of: vapid, origin: google, now: now) == first)
        #expect(try tokens.token(of: vapid, origin: "https://a.example", now: now) != first)
        for number in 0..<5000 {
            _ = try tokens.token(of: vapid, origin: "https://\(number).example", now: now)
        }
        #expect(try tokens.token(of: vapid, origin: google, now: now) == first)
        let tomorrow = WallTime(milliseconds: now.milliseconds + 86_400_000)
        #expect(try tokens.token(of: vapid, origin: google, now: tomorrow) != first)
    }
}

@Suite("The route to browsers' push services") struct WebPushRouteTests {
    private let project = ProjectNumber(5)

    private func key() throws -> WebPushSettings.Key {
        let pair = try P256Key.generate()
        return WebPushSettings.Key(
            privateBytes: pair.privateBytes, publicBytes: pair.publicBytes, created: WallTime(milliseconds: 1)
        )
    }

    @Test("is found by project and key, for former keys also, and follows the catalog")
    func follows() throws {
        let (first, second) = (try key(), try key())
        let (one, two) = (
            WebPushProject.keyID(first.publicBytes), WebPushProject.keyID(second.publicBytes)
        )
        var settings = WebPushSettings(subject: "mailto:push@example.com", key: first)
        var book = PushRouteBook()
        let found = try #require(book.update(web: [project: settings])[project]?.web[one])
        #expect(found.vapid.key.publicBytes == first.publicBytes && found.authority == nil)
        #expect(found.vapid.subject == "mailto:push@example.com")
        #expect(book.routes.keys.elementsEqual([project]) && book.routes[project]?.web[two] == nil)
        let changed = book.update(web: [project: settings])
        #expect(changed.isEmpty)
        #expect(book.routes[project]?.web[one]?.vapid.key === found.vapid.key)
        try settings.add(second)
        settings.hosts = ["push.example.com:8443"]
        settings.authority = Array("PEM".utf8)
        book.update(web: [project: settings])
        for id in [one, two] {
            let route = try #require(book.routes[project]?.web[id])
            #expect(route.authority == "PEM")
            #expect(throws: Never.self) {
                try PushEndpoint.parse("https://push.example.com:8443/a", policy: route.policy)
            }
        }
        settings.isOn = false
        let off = book.update(web: [project: settings])[project]
        #expect(off?.web.isEmpty == true && off?.isWebOn == false && !book.services(of: project).web)
        settings.isOn = true
        book.update(web: [project: settings])
        #expect(book.routes[project]?.web[two] != nil && book.services(of: project).web)
        let gone = book.update()[project]
        #expect(gone?.web.isEmpty == true && book.routes.isEmpty && book.services.isEmpty)
    }

    @Test("leaves out a damaged key, and has the project's other keys")
    func damaged() throws {
        var settings = WebPushSettings(
            subject: "mailto:push@example.com",
            key: WebPushSettings.Key(
                privateBytes: [UInt8](repeating: 0, count: 32),
                publicBytes: [4] + [UInt8](repeating: 0, count: 64), created: WallTime(milliseconds: 1)))
        let good = try key()
        try settings.add(good)
        var book = PushRouteBook()
        let routes = book.update(web: [project: settings])[project]
        #expect(routes?.web.keys.elementsEqual([WebPushProject.keyID(good.publicBytes)]) == true)
    }
}

@Suite("The route to Apple's push service") struct APNsRouteTests {
    private let project = ProjectNumber(5)

    private func key(_ bundleID: String, id: String = "ABC123DEFG", sandbox: Bool = false) throws
        -> APNsSettings.Key
    {
        APNsSettings.Key(
            isSandbox: sandbox, bundleID: bundleID, keyID: id, teamID: "DEF123GHIJ",
            privateBytes: try P256Key.generate().privateBytes, created: WallTime(milliseconds: 1))
    }

    private func settings(_ keys: APNsSettings.Key...) throws -> APNsSettings {
        var settings = APNsSettings()
        for key in keys { try settings.put(key) }
        return settings
    }

    @Test("is found by project, app and environment, and leads to Apple's host or the operator's")
    func found() throws {
        var own = try key("b", id: "ABC123DEFH")
        own.host = "apns.example:8443"
        own.authority = Array("PEM".utf8)
        var book = PushRouteBook()
        book.update(apns: [project: try settings(key("a"), key("a", sandbox: true), own)])
        func pool(_ bundleID: String, sandbox: Bool = false) -> APNsPool? {
            book.routes[project]?.apns[APNsApp(isSandbox: sandbox, bundleID: bundleID)]?.pool
        }
        #expect(pool("a")?.host == "api.push.apple.com" && pool("a")?.port == 443)
        #expect(pool("a", sandbox: true)?.host == "api.sandbox.push.apple.com")
        #expect(pool("b")?.host == "apns.example" && pool("b")?.port == 8443 && pool("b")?.caPEM == "PEM")
        #expect(pool("b")?.teamID == "DEF123GHIJ" && pool("b")?.keyID == "ABC123DEFH")
        #expect(pool("b", sandbox: true) == nil && pool("c") == nil)
        let services = book.services(of: project)
        for (bundleID, sandbox, isServed) in [("a", true, true), ("b", false, true), ("b", true, false)] {
            let token = [UInt8](repeating: 1, count: 32)
            let address = APNsAddress(isSandbox: sandbox, bundleID: bundleID, token: token)
            #expect(services.serves(Transport(kind: .apns, address: address.packed)) == isServed)
        }
        #expect(book.services(of: ProjectNumber(6)) == PushServices())
    }

    @Test("has another pool of connections with another key under the same id, and follows the catalog")
    func follows() throws {
        let app = APNsApp(isSandbox: false, bundleID: "a")
        var book = PushRouteBook()
        let first = book.update(apns: [project: try settings(key("a"))])[project]?.apns[app]?.pool
        var next = try settings(key("a"))
        let second = book.update(apns: [project: next])[project]?.apns[app]?.pool
        #expect(first != nil && second != nil && first != second)
        let same = book.update(apns: [project: next])
        #expect(same.isEmpty && book.routes[project]?.apns[app]?.pool == second)
        next.isOn = false
        let off = book.update(apns: [project: next])
        #expect(off[project]?.apns.isEmpty == true && book.services(of: project).apps.isEmpty)
    }
}

@Suite("The route to FCM") struct FCMRouteTests {
    private let project = ProjectNumber(5)

    private func settings(_ endpoint: String = "", key: String) -> RelaySettings {
        var settings = RelaySettings(
            account: RelaySettings.Account(
                projectID: "theirs", clientEmail: "a@b.example", keyID: "k1", privateKey: key, tokenURI: ""),
            created: WallTime(milliseconds: 5))
        settings.endpoint = endpoint
        return settings
    }

    private func pem() throws -> String {
        let made = try #require(ServiceAccountKey.make())
        let file = ServiceAccountFile(
            project: Project(id: "theirs", number: ProjectNumber(9)), tokenURI: "", key: made,
            keyID: [UInt8](repeating: 9, count: 20))
        let start = try #require(file.json.range(of: "-----BEGIN"))
        let end = try #require(file.json.range(of: "END PRIVATE KEY-----"))
        return file.json[start.lowerBound..<end.upperBound].replacing("\\n", with: "\n") + "\n"
    }

    private func route(_ settings: RelaySettings) -> FCMRoute? {
        var book = PushRouteBook()
        return book.update(relays: [project: settings])[project]?.fcm
    }

    @Test("leads to Google's public addresses, or to what the operator has named, wherever that is")
    func places() throws {
        let pem = try pem()
        let google = try #require(route(settings(key: pem)))
        #expect(google.messages.url == "https://fcm.googleapis.com/v1/projects/theirs/messages:send")
        #expect(google.tokens.url == "https://oauth2.googleapis.com/token")
        let (loopback, open): ([UInt8], [UInt8]) = ([127, 0, 0, 1], [142, 250, 1, 1])
        for endpoint in [google.messages, google.tokens] {
            #expect(google.mayDial(open, for: endpoint) && !google.mayDial(loopback, for: endpoint))
        }
        let own = try #require(route(settings("https://localhost:8443/x", key: pem)))
        #expect(own.messages.url == "https://localhost:8443/x/v1/projects/theirs/messages:send")
        #expect(own.tokens.url == "https://localhost:8443/x/token")
        #expect(own.mayDial(loopback, for: own.messages) && own.mayDial(loopback, for: own.tokens))
        #expect(route(settings(key: "damaged")) == nil)
    }

    @Test("stays while its settings stay, whatever the others, and is another one with other settings")
    func follows() throws {
        let pem = try pem()
        var book = PushRouteBook()
        let first = book.update(relays: [project: settings(key: pem)])[project]?.fcm
        let apns = book.update(apns: [project: APNsSettings()], relays: [project: settings(key: pem)])
        #expect(first != nil && apns[project]?.fcm === first)
        var next = settings("https://localhost:1", key: pem)
        let other = book.update(relays: [project: next])[project]?.fcm
        #expect(other != nil && other !== first && book.services(of: project).fcm)
        next.isOn = false
        let off = book.update(relays: [project: next])
        #expect(off[project]?.fcm == nil && !book.services(of: project).fcm)
    }
}
