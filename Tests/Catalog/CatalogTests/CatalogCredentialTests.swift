import Bytes
import Credentials
import Journal
import MemoryEngine
import Model
import Testing

@testable import Catalog

private func at(_ milliseconds: Int64) -> WallTime { WallTime(milliseconds: milliseconds) }

@Suite("Credentials in the catalog") struct CatalogCredentialTests {
    private let shop = Project(id: "shop", number: ProjectNumber(5))
    private let hash = KeyHash.of("tcb_new".utf8)

    /// A catalog with a project, a bearer key, and a key of the project's service account.
    private func catalog() throws -> MemoryEngine {
        let engine = MemoryEngine()
        _ = try Catalog.load(engine, .plain)
        var writes = CatalogWrites()
        Catalog.put(shop, [:], to: &writes)
        Catalog.put("00", Credential(kind: .bearer, project: shop.number), account: nil, to: &writes)
        let account = Directory.ServiceAccount(
            project: shop.number, email: "e@x", publicKey: "PEM", tokenURI: "https://x/token")
        Catalog.put(
            "0a", Credential(kind: .serviceAccount, project: shop.number), account: account, to: &writes)
        let step = CatalogStep(key: Catalog.versionKey, from: nil, to: try Catalog.version(after: nil))
        #expect(try engine.change(step, writes))
        return engine
    }

    private func change(_ engine: MemoryEngine, _ body: (inout CatalogDraft) throws -> Void) throws {
        var draft = try CatalogDraft(engine, .plain)
        try body(&draft)
        let done = try #require(try draft.commit())
        // A node goes on with the contents that it would read.
        let read = try Catalog.load(engine, .plain)
        #expect(
            read.credentials.all == done.credentials.all && read.credentials.used == done.credentials.used)
        #expect(Set(read.directory.keys.keys) == Set(done.directory.keys.keys))
        #expect(read.directory.keys.mapValues(\.end) == done.directory.keys.mapValues(\.end))
        #expect(read.directory.accounts.mapValues(\.end) == done.directory.accounts.mapValues(\.end))
        #expect(read.tokenURIs.isSubset(of: done.tokenURIs))
    }

    @Test("are made, get another end and are revoked")
    func areMadeEndedAndRevoked() throws {
        let engine = try catalog()
        let made = Credential(
            kind: .bearer, project: shop.number, label: "ci", created: at(1), expires: at(9))
        try change(engine) { try $0.add(key: "tcb_new", made, now: at(1)) }
        #expect(try Catalog.load(engine, .plain).directory.keys[hash]?.end == at(9))
        try change(engine) { draft in
            let name = try draft.contents.credentials.expire(hash, at: at(20), now: at(2))
            draft.record(name)
        }
        #expect(try Catalog.load(engine, .plain).directory.keys[hash]?.end == at(20))
        try change(engine) { draft in
            let name = try draft.contents.credentials.revoke(hash, now: at(3))
            draft.record(name)
        }
        let contents = try Catalog.load(engine, .plain)
        #expect(contents.directory.keys[hash] == nil && contents.credentials.all[hash]?.revoked == at(3))
    }

    @Test("of a service account keep what verifies its assertions until they are revoked")
    func accounts() throws {
        let engine = try catalog()
        func changed(_ body: (inout Credential) -> Void) throws -> Catalog.Contents {
            // The book's own change wants a name with more digits than this credential has.
            try change(engine) { draft in
                var life = try #require(draft.contents.credentials.all["0a"])
                body(&life)
                draft.contents.credentials.insert("0a", life)
                draft.record("0a")
            }
            return try Catalog.load(engine, .plain)
        }
        let ending = try changed { $0.expires = at(20) }
        #expect(
            ending.directory.accounts["0a"]?.publicKey == "PEM" && ending.tokenURIs == ["https://x/token"])
        #expect(ending.directory.accounts["0a"]?.end == at(20))
        let revoked = try changed { $0.revoked = at(7) }
        #expect(revoked.directory.accounts.isEmpty && revoked.credentials.all["0a"]?.revoked == at(7))
    }

    @Test("go with their project, and so do the notes of their uses")
    func goWithTheirProject() throws {
        let engine = try catalog()
        let made = Credential(kind: .device, project: shop.number, created: at(1))
        try change(engine) { try $0.add(key: "tck_new", made, now: at(1)) }
        try Catalog.putUses(["00": at(4)], to: engine)
        try change(engine) { $0.remove(shop) }
        #expect(try engine.all(.credential).isEmpty && engine.all(.project).isEmpty)
        #expect(try !engine.all(.setting).contains { $0.key.contains(":") })
    }

    @Test("are noted when they are used, and the time of a use never goes back")
    func noted() throws {
        let engine = try catalog()
        let version = try Catalog.load(engine, .plain).version
        try Catalog.putUses(["00": at(1000), "gone": at(5)], to: engine)
        try Catalog.putUses(["00": at(900)], to: engine)
        let contents = try Catalog.load(engine, .plain)
        #expect(contents.credentials.used["00"] == at(1000) && contents.version == version)
        // A use of a credential that is not there goes with the next change of credentials.
        try change(engine) {
            try $0.add(
                key: "tck_new", Credential(kind: .device, project: shop.number, created: at(1)), now: at(1))
        }
        #expect(
            try engine.get(.setting, key: "used:gone") == nil && engine.get(.setting, key: "used:00") != nil)
    }

    @Test("the server's own keys are kept with their times")
    func serverKeys() throws {
        let engine = try catalog()
        let first = try Catalog.load(engine, .plain)
        try change(engine) { draft in
            try draft.contents.signingKeys.rotate(
                [UInt8](repeating: 7, count: 32), atOnce: false, now: at(1000))
            try Catalog.put(draft.contents.signingKeys, .plain, to: &draft.writes)
            let key = try RegistrationKeyRules.next(
                to: draft.contents.registrationKeys, [UInt8](repeating: 8, count: 32), now: at(1000))
            try Catalog.put(key, .plain, to: &draft.writes)
        }
        let next = try Catalog.load(engine, .plain)
        #expect(
            next.signingKeys.all.map(\.material) == [
                first.signingKeys.all[0].material, .init(repeating: 7, count: 32),
            ])
        #expect(next.registrationKeys.map(\.number) == [1, 2])
        #expect(next.registrationKeys[1].from == at(1000 + RegistrationKeyRules.announcement))
        #expect(try engine.get(.key, key: "2") == [0] + [UInt8](repeating: 8, count: 32))
        for key in ["signing-keys", "registration-key:2"] {
            let value = try #require(try engine.get(.setting, key: key))
            for wrong in [[], Array(value.dropLast()), value + [0], [9] + value.dropFirst()] {
                try engine.put(.setting, key: key, value: wrong)
                #expect(throws: (any Error).self, "\(key) \(wrong)") { try Catalog.load(engine, .plain) }
            }
            try engine.put(.setting, key: key, value: value)
        }
        #expect(try Catalog.load(engine, .plain).signingKeys == next.signingKeys)
    }

    /// An entry goes in with its change or not at all, and the log keeps no more than its bound.
    @Test("the audit log keeps the newest changes, and none that was not made")
    func auditBound() throws {
        let engine = try catalog()
        func entry(_ number: Int) -> AuditEntry {
            AuditEntry(
                time: at(Int64(number)), author: .init(name: "root", source: "here"),
                action: "cluster.cordon",
                subject: "\(number)")
        }
        for number in 2...AuditEntry.countMax {
            let digits = String(number, radix: 16)
            let key = "audit:" + String(repeating: "0", count: 16 - digits.count) + digits
            try engine.put(.setting, key: key, value: entry(number).encoded)
        }
        let version = (0..<8).map { UInt8(truncatingIfNeeded: AuditEntry.countMax >> ($0 * 8)) }
        try engine.put(.setting, key: Catalog.versionKey, value: version)
        for number in (AuditEntry.countMax + 1)...(AuditEntry.countMax + 4) {
            var draft = try CatalogDraft(engine, .plain)
            Catalog.cordon("away", to: &draft.writes)
            draft.tell(entry(number))
            // Another change was faster: the log must not tell of the late one.
            let isLate = number == AuditEntry.countMax + 3
            if isLate { try change(engine) { Catalog.cordon("other", to: &$0.writes) } }
            let done = try draft.commit()
            #expect((done == nil) == isLate)
        }
        #expect(try Catalog.load(engine, .plain).audit.count == AuditEntry.countMax)
        #expect(try Catalog.audit(engine, limit: 2).map(\.subject) == ["2004", "2002"])
        // Readers pass over an entry of a newer build.
        let last = try #require(try engine.all(.setting).last { Catalog.auditNumber($0) != nil })
        try engine.put(.setting, key: last.key, value: [2])
        #expect(try Catalog.audit(engine, limit: 2).map(\.subject) == ["2002"])
    }

    /// Refused attempts stand between the changes, push no change out, and have a bound of their own.
    @Test("the audit log has refused attempts between the changes, with a bound of their own")
    func auditRefusals() throws {
        let engine = try catalog()
        func entry(_ time: Int64, _ what: String) -> AuditEntry {
            AuditEntry(
                time: at(time), author: .init(name: "x", source: "192.0.2.7"), action: what, subject: what)
        }
        for time in [10, 30, 20] as [Int64] {
            try change(engine) {
                Catalog.cordon("\(time)", to: &$0.writes)
                $0.tell(entry(time, "change \(time)"))
            }
        }
        let version = try Catalog.load(engine, .plain).version
        try Catalog.putRefused([entry(15, "refused 15"), entry(15, "again 15")], to: engine)
        try Catalog.putRefused([entry(40, "refused 40"), entry(5, "refused 5")], to: engine)
        let all = try Catalog.audit(engine, limit: 10).map(\.action)
        #expect(
            all.prefix(4) == ["refused 40", "change 20", "change 30", "refused 15"]
                || all.prefix(4) == ["refused 40", "change 20", "change 30", "again 15"])
        #expect(all.count == 7 && all.last == "refused 5" && all[5] == "change 10")
        #expect(try Catalog.audit(engine, limit: 2).map(\.action) == ["refused 40", "change 20"])
        let many = (0..<600).map { entry(100 + Int64($0), "many \($0)") }
        try Catalog.putRefused(many, to: engine)
        let kept = try Catalog.audit(engine, limit: 2000)
        #expect(kept.count == RefusedAttempts.entriesMax + 3 && kept.first?.action == "many 599")
        // The version stays, so no node reads the catalog again for a refused attempt.
        #expect(try Catalog.load(engine, .plain).version == version)
    }

    @Test("of a newer build are refused in a sentence")
    func ofANewerBuildAreRefused() throws {
        let engine = try catalog()
        let made = Credential(kind: .device, project: shop.number, created: at(1))
        try change(engine) { try $0.add(key: "tcb_new", made, now: at(1)) }
        let value = try #require(try engine.get(.credential, key: hash))
        try engine.put(.credential, key: hash, value: [2] + value.dropFirst())
        let error = #expect(throws: DecodeError.self) { try Catalog.load(engine, .plain) }
        #expect(error?.description.contains("it is from a newer tidecast") == true)
        // A date that makes no sense counts as no date.
        try engine.put(.credential, key: hash, value: value)
        try engine.put(.setting, key: "used:\(hash)", value: [1])
        #expect(try Catalog.load(engine, .plain).credentials.used.isEmpty)
    }
}
