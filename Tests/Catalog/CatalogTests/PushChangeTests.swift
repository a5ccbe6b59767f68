import Credentials
import MemoryEngine
import Model
import NodeCore
import Testing

@testable import Catalog

@Suite("An operator's change of a project's push services") struct PushChangeTests {
    private let engine = MemoryEngine()
    private let project: Project
    private let now = WallTime(milliseconds: 1_800_000_000_000)

    init() throws {
        var draft = try CatalogDraft(engine, .plain)
        project = try draft.ensureProject("shop", in: NodeMap(partitionCount: 8)).project
        _ = try draft.commit()
    }

    /// Makes the change; returns its value, and whether it wrote something.
    private func change<Value>(
        _ body: (inout CatalogDraft) throws -> Value
    ) throws -> (value: Value, isWritten: Bool) {
        var draft = try CatalogDraft(engine, .plain)
        let value = try body(&draft)
        _ = try #require(try draft.commit())
        return (value, !draft.writes.isEmpty)
    }

    private func reason(_ body: (inout CatalogDraft) throws -> some Any) throws -> ChangeRefusal.Reason? {
        do { _ = try change(body) } catch let error as ChangeRefusal { return error.reason }
        return nil
    }

    private var stored: Catalog.Contents { get throws { try Catalog.load(engine, .plain) } }

    private func web(_ byte: UInt8) -> WebPushSettings.Key {
        WebPushSettings.Key(
            privateBytes: [UInt8](repeating: byte, count: 32),
            publicBytes: [4] + [UInt8](repeating: byte, count: 64), created: now)
    }

    private func apns(_ bundleID: String) -> APNsSettings.Key {
        APNsSettings.Key(
            isSandbox: false, bundleID: bundleID, keyID: "ABC123DEFG", teamID: "DEF123GHIJ",
            privateBytes: [UInt8](repeating: 1, count: 32), created: now)
    }

    @Test("begins Web Push with a subject, and makes another key only if the operator wants one")
    func webPush() throws {
        #expect(
            try reason { try $0.setWebPush(WebPushChange(), of: project, newKey: web(1)) }
                == .wrong(field: "subject"))
        var wanted = WebPushChange(subject: "mailto:a@example.com")
        wanted.hosts = ["push.example.com"]
        wanted.authority = Array("PEM".utf8)
        let first = try change { try $0.setWebPush(wanted, of: project, newKey: web(1)) }
        #expect(first.isWritten && first.value.keys == [web(1)] && first.value.authority != nil)
        let same = try change { try $0.setWebPush(WebPushChange(), of: project, newKey: web(2)) }
        #expect(!same.isWritten && same.value == first.value)
        wanted = WebPushChange()
        wanted.wantsNewKey = true
        wanted.authority = []
        let next = try change { try $0.setWebPush(wanted, of: project, newKey: web(2)) }.value
        #expect(next.keys.first == web(2) && next.keys.count == 2 && next.authority == nil)
        #expect(next.subject == first.value.subject && next.hosts == first.value.hosts)
        #expect(try stored.webPush[project.number] == next)
    }

    @Test("keeps one of Apple's keys for each app, and removes one that is there")
    func appleKeys() throws {
        #expect(try reason { try $0.setAPNs(nil, of: project) } == .precondition)
        #expect(try change { try $0.setAPNs(apns("org.a"), of: project) }.isWritten)
        #expect(try !change { try $0.setAPNs(nil, of: project) }.isWritten)
        #expect(
            try reason { try $0.removeAPNsKey(of: "org.b", isSandbox: false, in: project) } == .unknown)
        let left = try change { try $0.removeAPNsKey(of: "org.a", isSandbox: false, in: project) }.value
        #expect(left.keys.isEmpty)
        #expect(try stored.apns[project.number] == left)
    }

    @Test("relays under an account, whose token host must be Google's without an endpoint")
    func relay() throws {
        #expect(try reason { try $0.setRelay(RelayChange(), of: project, now: now) } == .precondition)
        let account = RelaySettings.Account(
            projectID: "p", clientEmail: "e", keyID: "k", privateKey: "s",
            tokenURI: "https://127.0.0.1/token")
        var wanted = RelayChange(account: account)
        #expect(
            try reason { try $0.setRelay(wanted, of: project, now: now) } == .wrong(field: "serviceAccount"))
        wanted.endpoint = "https://127.0.0.1:8443"
        let first = try change { try $0.setRelay(wanted, of: project, now: now) }
        #expect(first.isWritten && first.value.account == account && first.value.created == now)
        let later = WallTime(milliseconds: now.milliseconds + 1)
        let same = try change { try $0.setRelay(RelayChange(), of: project, now: later) }
        #expect(!same.isWritten && same.value == first.value)
        let renewed = try change { try $0.setRelay(wanted, of: project, now: later) }
        #expect(renewed.value.created == later)
    }

    @Test("ends one service or all, without their settings being lost, and begins them again")
    func ends() throws {
        for kind in [nil] + Transport.Kind.allCases.map(Optional.some) {
            #expect(try reason { try $0.endPush(kind, of: project) } == .precondition)
        }
        let wanted = WebPushChange(subject: "mailto:a@example.com")
        _ = try change { try $0.setWebPush(wanted, of: project, newKey: web(1)) }
        _ = try change { try $0.setAPNs(apns("org.a"), of: project) }
        #expect(try change { try $0.endPush(.web, of: project) }.isWritten)
        #expect(try !change { try $0.endPush(.web, of: project) }.isWritten)
        #expect(try stored.webPush[project.number]?.isOn == false)
        #expect(try stored.apns[project.number]?.isOn == true)
        _ = try change { try $0.endPush(nil, of: project) }
        #expect(try stored.apns[project.number]?.isOn == false)
        #expect(try change { try $0.setAPNs(nil, of: project) }.value.keys.count == 1)
        #expect(try stored.apns[project.number]?.isOn == true)
    }

    @Test("makes the project a push service at an origin, and ends it")
    func service() throws {
        #expect(try reason { try $0.serve(project, origin: nil) } == .wrong(field: "origin"))
        #expect(try reason { try $0.endService(of: project) } == .precondition)
        let origin = "https://push.example.com"
        #expect(try change { try $0.serve(project, origin: origin) }.isWritten)
        #expect(try !change { try $0.serve(project, origin: nil) }.isWritten)
        #expect(try !change { try $0.endService(of: project) }.value.isOn)
        #expect(try stored.directory.pushServices[project.number]?.isOn == false)
        #expect(try change { try $0.serve(project, origin: nil) }.value.origin == origin)
    }
}
