import Credentials
import Journal
import MemoryEngine
import Model
import NodeCore
import Quotas
import RegistrationIDs
import Testing

@testable import Catalog

@Suite("An operator's change of the catalog") final class OperatorChangeTests {
    private let engine = MemoryEngine()
    private let map = NodeMap(partitionCount: 8)
    private let now = WallTime(milliseconds: 1_800_000_000_000)
    private let uri = "https://example.com/token"
    private let key = ServiceAccountKey(secret: "SECRET", open: "OPEN")
    /// Of the newest change.
    private var detail = ""

    /// Makes the change, and returns what it returns. A change that is refused leaves nothing behind.
    @discardableResult
    private func change<Value>(_ body: (inout CatalogDraft) throws -> Value) throws -> Value {
        var draft = try CatalogDraft(engine, .plain)
        let value = try body(&draft)
        detail = draft.detail
        let isWritten = !draft.writes.isEmpty
        let done = try #require(try draft.commit())
        #expect(isWritten == (done.version != draft.contents.version))
        return value
    }

    private func reason(_ body: (inout CatalogDraft) throws -> some Any) throws -> ChangeRefusal.Reason? {
        let before = try stored.version
        var refusal: ChangeRefusal?
        do { try change(body) } catch let error as ChangeRefusal { refusal = error }
        #expect(try stored.version == before)
        return refusal?.reason
    }

    private var stored: Catalog.Contents { get throws { try Catalog.load(engine, .plain) } }

    private func shop() throws -> Project { try change { try $0.ensureProject("shop", in: map).project } }

    // MARK: Projects

    @Test("gives a project a number that no project before it had, and its home's epoch")
    func numbers() throws {
        try engine.createPartitions(
            count: 8, histories: (1...8).map { History($0) })
        let first = try shop()
        let second = try change { try $0.ensureProject("other", in: map).project }
        try change { $0.remove(second) }
        let third = try change { try $0.ensureProject("other", in: map).project }
        #expect([first, second, third].map(\.number.rawValue) == [1, 2, 3])
        let again = try change { try $0.ensureProject("shop", in: map) }
        #expect(again.project == first && !again.isNew)
        let home = map.home(of: first.number)
        let epoch = try #require(try engine.partitions().first { $0.id == home }?.epoch)
        let found = try stored
        #expect(found.births[first.number] == epoch && found.births.keys.contains(third.number))
        #expect(found.directory.byID.keys.sorted() == ["other", "shop"])
    }

    @Test("creates a project once, but gives an account to one that has none")
    func projects() throws {
        let project = try shop()
        let file = try change { try $0.createProject("shop", key, tokenURI: uri, in: map, now: now) }
        #expect(file.project == project && detail == Credential.id(of: file.keyID))
        let account = try #require(try stored.directory.accounts[file.keyID])
        #expect(account.project == project.number && account.publicKey == "OPEN" && account.tokenURI == uri)
        #expect(account.email == "tidecast@shop.iam.gserviceaccount.com")
        let twice = try reason { try $0.createProject("shop", key, tokenURI: uri, in: map, now: now) }
        #expect(twice == .conflict)
    }

    @Test("sets the quotas that it names, and none of a project that was deleted")
    func quotas() throws {
        let project = try shop()
        try change { _ = try $0.setQuotas(of: project, ["fanouts": 7]) }
        let limits = try change { try $0.setQuotas(of: project, ["topics": 9]) }
        #expect(limits.fanouts == 7 && limits.topics == 9)
        #expect(limits.devices == QuotaLimits.standard.devices)
        #expect(try stored.limits[project.number] == ["fanouts": 7, "topics": 9])
        try change { $0.remove(project) }
        #expect(throws: EngineError.self) { try change { _ = try $0.setQuotas(of: project, [:]) } }
    }

    // MARK: Credentials

    private func create(_ kind: CredentialKind, of project: Project) throws -> CatalogDraft.Made {
        let credential = Credential(
            kind: kind, project: kind == .operatorToken ? nil : project.number, label: "it",
            role: kind == .operatorToken ? .read : nil, created: now)
        return try change { try $0.create(credential, of: project, key, tokenURI: uri, now: now) }
    }

    @Test(
        "creates a key whose text it shows once and does not store",
        arguments: [
            (.device, "Atck_", 39), (.bearer, "tcb_", 36), (.operatorToken, "tco_", 36),
        ] as [(CredentialKind, String, Int)])
    func keys(kind: CredentialKind, prefix: String, length: Int) throws {
        let project = try shop()
        guard case .key(let name, let text) = try create(kind, of: project) else {
            Issue.record("no key was made")
            return
        }
        #expect(text.hasPrefix(prefix) && text.utf8.count == length)
        #expect(name == KeyHash.of(text.utf8) && detail == Credential.id(of: name))
        let rows = try CatalogTable.allCases.flatMap { try engine.all($0) }
        #expect(
            !rows.contains {
                $0.key.contains(text) || String(decoding: $0.value, as: UTF8.self).contains(text)
            })
        let found = try stored
        #expect(found.credentials.all[name]?.label == "it")
        #expect((found.directory.keys[name] != nil) == (kind != .operatorToken))
        #expect((found.directory.operators[name] != nil) == (kind == .operatorToken))
        #expect(try change { try $0.revokeCredential(Credential.id(of: name), now: now) } == name)
        let left = try stored.directory
        #expect(left.keys[name] == nil && left.operators[name] == nil)
    }

    @Test("rotates a key into one of its kind, and both count for the overlap", arguments: [true, false])
    func rotation(ofAccount: Bool) throws {
        let project = try shop()
        let old = try create(ofAccount ? .serviceAccount : .bearer, of: project)
        let next = try change {
            try $0.rotateCredential(old.name, overlap: 1000, key, tokenURI: uri, now: now)
        }
        if case .account(let file) = next {
            #expect(ofAccount && file.account.email == "tidecast@shop.iam.gserviceaccount.com")
        } else {
            #expect(!ofAccount)
        }
        let end = WallTime(milliseconds: now.milliseconds + 1000)
        let book = try stored.credentials
        #expect(book.all[old.name]?.expires == end && book.all[next.name]?.expires == nil)
        #expect(try change { try $0.expireCredential(old.name, at: nil, now: now) } == old.name)
        #expect(try stored.credentials.all[old.name]?.expires == nil)
        let wrong = try reason { try $0.rotateCredential("none", overlap: 1, key, tokenURI: uri, now: now) }
        #expect(wrong == .wrong(field: "credential"))
    }

    @Test("replaces the server's own keys, and retires none that is in use")
    func serverKeys() throws {
        let first = try stored
        try change { try $0.rotateSigningKey(atOnce: false, now: now) }
        #expect(try stored.signingKeys.all.count == 2)
        try change { try $0.rotateSigningKey(atOnce: true, now: now) }
        let signing = try stored.signingKeys
        #expect(signing.all.count == 1 && signing.newest != first.signingKeys.newest)
        let early = try reason { try $0.retireRegistrationKey(1, now: now) }
        #expect(early == .wrong(field: "credential"))
        try change { try $0.rotateRegistrationKey(now: now) }
        let later = WallTime(milliseconds: now.milliseconds + RegistrationKeyRules.announcement)
        try change { try $0.retireRegistrationKey(1, now: later) }
        let keys = try stored.registrationKeys.sorted { $0.number < $1.number }
        #expect(keys.map(\.number) == [1, 2] && keys.map(\.isRetired) == [true, false])
    }

    // MARK: Nodes

    @Test("takes no node out that two concurrent drains would leave without a shard")
    func cordons() throws {
        #expect(try reason { try $0.cordon("a", leaving: ["b"], and: []) } == .precondition)
        try change { try $0.cordon("a", leaving: ["b"], and: ["b"]) }
        #expect(try reason { try $0.cordon("b", leaving: ["a"], and: nil) } == .precondition)
        #expect(try reason { try $0.cordon("b", leaving: ["c"], and: ["a"]) } == .precondition)
        try change { try $0.cordon("b", leaving: nil, and: nil) }
        #expect(try stored.cordoned == ["a", "b"])
        #expect(try reason { try $0.uncordon("c", known: ["d"]) } == .unknown)
        try change { try $0.uncordon("a", known: []) }
        #expect(try stored.cordoned == ["b"])
        try change { try $0.uncordon("d", known: ["d"]) }
    }

    @Test("refuses certificates up to a bound, and accepts those that are refused")
    func certificates() throws {
        let all = (0...CatalogDraft.refusedCertificatesMax).compactMap {
            CertificateFingerprint([UInt8](repeating: 0, count: 30) + [UInt8($0 / 256), UInt8($0 % 256)])
        }
        try change { draft in for one in all.dropLast() { try draft.refuse(one) } }
        let last = try #require(all.last)
        #expect(try reason { try $0.refuse(last) } == .precondition)
        try change { try $0.refuse(all[0]) }
        #expect(try reason { try $0.accept(last) } == .unknown)
        try change { try $0.accept(all[0]) }
        try change { try $0.refuse(last) }
        #expect(try stored.refusedCertificates == Set(all.dropFirst()))
    }
}
