import APNsClient
import Credentials
import FCMAPI
import Foundation
import Model
import PushMessages
import PushScheduling
import Synchronization
import Testing

@testable import Node

@Suite("What the node pushes to Apple with") struct APNsSendersTests {
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
        let senders = APNsSenders([project: try settings(key("a"), key("a", sandbox: true), own)])
        func pool(_ bundleID: String, sandbox: Bool = false) -> APNsPool? {
            senders.sender(project, isSandbox: sandbox, bundleID: bundleID)?.pool
        }
        #expect(pool("a")?.host == "api.push.apple.com" && pool("a")?.port == 443)
        #expect(pool("a", sandbox: true)?.host == "api.sandbox.push.apple.com")
        #expect(pool("b")?.host == "apns.example" && pool("b")?.port == 8443 && pool("b")?.caPEM == "PEM")
        #expect(pool("b")?.teamID == "DEF123GHIJ" && pool("b")?.keyID == "ABC123DEFH")
        #expect(pool("b", sandbox: true) == nil && pool("c") == nil)
        #expect(senders.sender(ProjectNumber(6), isSandbox: false, bundleID: "a") == nil)
        let token = [UInt8](repeating: 1, count: 32)
        var services = PushServices()
        services.apps = senders.apps(of: project)
        for (bundleID, sandbox, isServed) in [("a", true, true), ("b", false, true), ("b", true, false)] {
            let address = APNsAddress(isSandbox: sandbox, bundleID: bundleID, token: token)
            let transport = Transport(kind: .apns, address: address.packed)
            #expect(services.serves(transport) == isServed)
        }
        #expect(senders.apps(of: ProjectNumber(6)).isEmpty && !senders.triesOtherEnvironment(project))
        var trying = try settings(key("a"))
        trying.triesOtherEnvironment = true
        #expect(senders.update([project: trying]) == [project] && senders.triesOtherEnvironment(project))
    }

    @Test("has one source of tokens for a key that several apps and projects use")
    func oneSource() throws {
        let one = try key("a")
        var other = one
        other.bundleID = "b"
        let senders = APNsSenders([project: try settings(one, other), ProjectNumber(6): try settings(one)])
        let first = try #require(senders.sender(project, isSandbox: false, bundleID: "a"))
        for (number, bundleID) in [(project, "b"), (ProjectNumber(6), "a")] {
            let found = try #require(senders.sender(number, isSandbox: false, bundleID: bundleID))
            #expect(found.tokens === first.tokens && found.pool == first.pool)
        }
        #expect(try first.tokens.authorization() == first.tokens.authorization())
    }

    @Test("follows the catalog: tells whose settings changed, and which pools are in use no more")
    func follows() throws {
        let retired = Mutex<[APNsPool]>([])
        let senders = APNsSenders([project: try settings(key("a"))])
        senders.tellRetired { pools in retired.withLock { $0 += pools } }
        let first = try #require(senders.sender(project, isSandbox: false, bundleID: "a"))
        var next = try settings(key("a"))
        #expect(senders.update([project: next]) == [project])
        let second = try #require(senders.sender(project, isSandbox: false, bundleID: "a"))
        #expect(second.tokens !== first.tokens)
        #expect(retired.withLock { $0 } == [first.pool], "another key under the same id: new connections")
        #expect(senders.update([project: next]).isEmpty)
        #expect(senders.sender(project, isSandbox: false, bundleID: "a")?.tokens === second.tokens)
        next.isOn = false
        #expect(senders.update([project: next]) == [project])
        #expect(senders.sender(project, isSandbox: false, bundleID: "a") == nil)
        #expect(senders.update([:]) == [project])
    }
}

@Suite("What the node relays with") struct RelaySendersTests {
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
        let file = ServiceAccountFile.make(
            project: Project(id: "theirs", number: ProjectNumber(9)), tokenURI: "", key: made,
            keyID: [UInt8](repeating: 9, count: 20))
        let start = try #require(file.json.range(of: "-----BEGIN"))
        let end = try #require(file.json.range(of: "END PRIVATE KEY-----"))
        return file.json[start.lowerBound..<end.upperBound].replacing("\\n", with: "\n") + "\n"
    }

    @Test("leads to Google's public addresses, or to what the operator has named, wherever that is")
    func places() throws {
        let pem = try pem()
        let google = try #require(RelaySender(settings(key: pem), of: ProjectNumber(1)))
        #expect(google.url == "https://fcm.googleapis.com/v1/projects/theirs/messages:send")
        #expect(google.tokenURL == "https://oauth2.googleapis.com/token")
        let (loopback, open): ([UInt8], [UInt8]) = ([127, 0, 0, 1], [142, 250, 1, 1])
        #expect(google.mayDial(open) && !google.mayDial(loopback) && !google.mayDialForToken(loopback))
        let own = try #require(
            RelaySender(settings("https://localhost:8443/x", key: pem), of: ProjectNumber(1)))
        #expect(own.url == "https://localhost:8443/x/v1/projects/theirs/messages:send")
        #expect(own.tokenURL == "https://localhost:8443/x/token")
        #expect(own.mayDial(loopback) && own.mayDialForToken(loopback))
        #expect(RelaySender(settings(key: "damaged"), of: ProjectNumber(1)) == nil)
    }

    @Test("keeps a sender and its tokens while the settings stay, and makes another with other settings")
    func follows() throws {
        let pem = try pem()
        let senders = RelaySenders([project: settings(key: pem)])
        let first = try #require(senders.sender(project))
        #expect(senders.update([project: settings(key: pem)]).isEmpty && senders.sender(project) === first)
        var next = settings("https://localhost:1", key: pem)
        #expect(senders.update([project: next]) == [project] && senders.sender(project) !== first)
        next.isOn = false
        #expect(senders.update([project: next]) == [project] && senders.sender(project) == nil)
    }
}
