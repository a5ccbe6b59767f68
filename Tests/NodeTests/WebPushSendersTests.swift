import Credentials
import FCMAPI
import Model
import PushMessages
import Testing

@testable import Node

@Suite("What the node pushes with") struct WebPushSendersTests {
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
        let senders = WebPushSenders([project: settings])
        let found = try #require(senders.sender(project, key: one))
        #expect(found.vapid.key.publicBytes == first.publicBytes && found.authority == nil)
        #expect(found.vapid.subject == "mailto:push@example.com")
        #expect(senders.sender(project, key: two) == nil)
        #expect(senders.sender(ProjectNumber(6), key: one) == nil)
        // The same settings leave the same key.
        senders.update([project: settings])
        #expect(senders.sender(project, key: one)?.vapid.key === found.vapid.key)
        try settings.add(second)
        settings.hosts = ["push.example.com:8443"]
        settings.authority = Array("PEM".utf8)
        senders.update([project: settings])
        for id in [one, two] {
            let sender = try #require(senders.sender(project, key: id))
            #expect(sender.authority == Array("PEM".utf8))
            #expect(throws: Never.self) {
                try PushEndpoint.parse("https://push.example.com:8443/a", policy: sender.policy)
            }
        }
        settings.isOn = false
        senders.update([project: settings])
        #expect(senders.sender(project, key: one) == nil && !senders.hasSender(project))
        settings.isOn = true
        senders.update([project: settings])
        #expect(senders.sender(project, key: two) != nil && senders.hasSender(project))
        senders.update([:])
        #expect(senders.sender(project, key: two) == nil)
    }

    @Test("shows a push service one token for hours, also where clients bring thousands of other services")
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

    @Test("leaves out a damaged key, and has the project's other keys")
    func damaged() throws {
        var settings = WebPushSettings(
            subject: "mailto:push@example.com",
            key: WebPushSettings.Key(
                privateBytes: [UInt8](repeating: 0, count: 32),
                publicBytes: [4] + [UInt8](repeating: 0, count: 64), created: WallTime(milliseconds: 1)))
        let good = try key()
        try settings.add(good)
        let senders = WebPushSenders([project: settings])
        #expect(senders.sender(project, key: WebPushProject.keyID(settings.keys[1].publicBytes)) == nil)
        #expect(senders.sender(project, key: WebPushProject.keyID(good.publicBytes)) != nil)
    }
}
