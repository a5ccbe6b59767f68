import Credentials
import Journal
import MemoryEngine
import Model
import Testing

@testable import Catalog

/// Rule: damage-stays-in-its-row.
@Suite("A damaged row of the small tables") struct DamagedRowTests {
    private let shop = Project(id: "shop", number: ProjectNumber(5))
    private let hash = KeyHash.of("tcb_key".utf8)

    private func change(
        _ engine: MemoryEngine, _ vault: Vault = .plain, _ body: (inout CatalogDraft) throws -> Void
    ) throws {
        var draft = try CatalogDraft(engine, vault)
        try body(&draft)
        _ = try #require(try draft.commit())
    }

    private func certificate(_ byte: UInt8) throws -> CertificateFingerprint {
        try #require(CertificateFingerprint([UInt8](repeating: byte, count: 32)))
    }

    /// A catalog with a row of each kind that may be damaged alone.
    private func catalog(_ vault: Vault = .plain) throws -> MemoryEngine {
        let engine = MemoryEngine()
        _ = try Catalog.load(engine, vault)
        let credential = Credential(
            kind: .bearer, project: shop.number, created: WallTime(milliseconds: 1))
        try change(engine, vault) { draft in
            Catalog.put(shop, [:], to: &draft.writes)
            Catalog.put("a", Credential(kind: .device, project: shop.number), account: nil, to: &draft.writes)
            Catalog.putBirth(shop.number, Epoch(3), to: &draft.writes)
            Catalog.refuse(try certificate(7), to: &draft.writes)
            draft.contents.directory.add(shop)
            try draft.put(PushServiceSettings(origin: "https://push.example.com"), of: shop.number)
            try draft.add(key: "tcb_key", credential, now: WallTime(milliseconds: 1))
        }
        return engine
    }

    @Test("that refuses no certificate hides none that another row refuses")
    func refusedCertificate() throws {
        let engine = try catalog()
        try engine.put(.setting, key: "refused-certificate:serial-7", value: [1])
        let found = try Catalog.load(engine, .plain)
        #expect(found.refusedCertificates == [try certificate(7)])
        #expect(found.damaged.map(\.key) == ["refused-certificate:serial-7"])
        #expect(found.directory.project("shop") != nil)
    }

    @Test("leaves one project without a push service, until the setting is written again")
    func pushService() throws {
        for vault in [Vault.plain, Vault(try SecretsKeys(try SecretsKeys.make()))] {
            let engine = try catalog(vault)
            let (key, settings) = ("push-service:5", PushServiceSettings(origin: "https://push.example.com"))
            let value = try #require(try engine.get(.setting, key: key))
            try engine.put(.setting, key: key, value: Array(value.dropLast()))
            try engine.put(.setting, key: "web-push:shop", value: value)
            let found = try Catalog.load(engine, vault)
            #expect(found.pushServices.isEmpty && found.damaged.map(\.key) == [key, "web-push:shop"])
            try change(engine, vault) { try $0.put(settings, of: shop.number) }
            let mended = try Catalog.load(engine, vault)
            #expect(mended.pushServices.count == 1 && mended.damaged.map(\.key) == ["web-push:shop"])
        }
    }

    @Test("goes with its project")
    func deleted() throws {
        let engine = try catalog()
        try engine.put(.setting, key: "push-service:5", value: [1])
        try change(engine) { $0.remove(shop) }
        #expect(try engine.get(.setting, key: "push-service:5") == nil)
    }

    /// The secrets of other rows are sealed again all the same.
    @Test("keeps no server from taking another secrets key")
    func sealing() throws {
        let (old, new) = (try SecretsKeys.make(), try SecretsKeys.make())
        let engine = try catalog(Vault(try SecretsKeys(old)))
        let value = try #require(try engine.get(.setting, key: "push-service:5"))
        try engine.put(.setting, key: "push-service:5", value: Array(value.dropLast()))
        let next = Vault(try SecretsKeys("\(new)\n\(old)"))
        let count = try Catalog.sealAnew(
            engine, next, by: .init(name: "the server", source: "test"), now: WallTime(milliseconds: 5))
        #expect(count > 0)
        #expect(try Catalog.load(engine, next).damaged.map(\.key) == ["push-service:5"])
    }

    /// The project waits until the grants of a former owner are over, as a project of a former build does.
    @Test("leaves a project without a birth")
    func birth() throws {
        let engine = try catalog()
        try engine.put(.setting, key: "birth:5", value: [1, 2])
        let found = try Catalog.load(engine, .plain)
        #expect(found.births.isEmpty && found.damaged.map(\.key) == ["birth:5"])
    }

    @Test("is left as it is by a change of another credential")
    func untouched() throws {
        let engine = try catalog()
        try engine.put(.credential, key: hash, value: [1])
        try Catalog.putUses([hash: WallTime(milliseconds: 9)], to: engine)
        let other = Credential(kind: .device, project: shop.number, created: WallTime(milliseconds: 2))
        try change(engine) { try $0.add(key: "tcb_other", other, now: WallTime(milliseconds: 2)) }
        #expect(try engine.get(.credential, key: hash) == [1])
    }

    /// The credential may have been revoked, or the bytes that are left may be another credential's.
    @Test("withholds its credential, and no other one")
    func credential() throws {
        let engine = try catalog()
        #expect(try Catalog.load(engine, .plain).directory.keys.count == 2)
        let value = try #require(try engine.get(.credential, key: hash))
        for count in value.indices {
            try engine.put(.credential, key: hash, value: Array(value[..<count]))
            let found = try Catalog.load(engine, .plain)
            #expect(Array(found.directory.keys.keys) == ["a"] && found.damaged.map(\.key) == [hash])
            #expect(found.credentials.all[hash] == nil)
        }
    }
}
