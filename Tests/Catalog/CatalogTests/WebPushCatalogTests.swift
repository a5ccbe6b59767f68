import Credentials
import Journal
import MemoryEngine
import Model
import Testing

@testable import Catalog

@Suite("Settings for Web Push in the catalog") struct WebPushCatalogTests {
    private let shop = Project(id: "shop", number: ProjectNumber(5))
    private let row = "web-push:5"

    private func key(_ byte: UInt8) -> WebPushSettings.Key {
        WebPushSettings.Key(
            privateBytes: [UInt8](repeating: byte, count: 32),
            publicBytes: [4] + [UInt8](repeating: byte, count: 64), created: WallTime(milliseconds: 1))
    }

    private func change(
        _ engine: MemoryEngine, _ vault: Vault = .plain, _ body: (inout CatalogDraft) throws -> Void
    ) throws -> Catalog.Contents {
        var draft = try CatalogDraft(engine, vault)
        try body(&draft)
        return try #require(try draft.commit())
    }

    /// A catalog with a project that has Web Push.
    private func catalog(_ vault: Vault = .plain) throws -> MemoryEngine {
        let engine = MemoryEngine()
        _ = try change(engine, vault) { draft in
            Catalog.put(shop, [:], to: &draft.writes)
            draft.contents.directory.add(shop)
            try draft.put(
                WebPushSettings(subject: "mailto:push@example.com", key: key(7)), of: shop.number)
        }
        return engine
    }

    @Test("are read as they were written, and the API gets the public keys, the newest first")
    func roundTrip() throws {
        let engine = try catalog()
        let done = try change(engine) { draft in
            var settings = try #require(draft.contents.webPush[shop.number])
            try settings.add(key(8))
            settings.hosts = ["push.example.com:8443"]
            settings.authority = Array("PEM".utf8)
            try draft.put(settings, of: shop.number)
        }
        let read = try Catalog.load(engine, .plain)
        #expect(read.webPush == done.webPush)
        for contents in [read, done] {
            let known = try #require(contents.directory.webPush[shop.number])
            #expect(known.keys.map(\.publicBytes) == [key(8).publicBytes, key(7).publicBytes])
            #expect(known.hasAuthority && known.hosts == ["push.example.com:8443"] && known.isOn)
        }
    }

    @Test("stand beside those of a project that is a push service itself, and go with the project")
    func service() throws {
        let engine = try catalog()
        _ = try change(engine) {
            try $0.put(PushServiceSettings(origin: "https://push.example.com"), of: shop.number)
        }
        let read = try Catalog.load(engine, .plain)
        #expect(read.directory.pushServices[shop.number]?.origin == "https://push.example.com")
        #expect(read.directory.webPush[shop.number] != nil)
        let left = try change(engine) { draft in
            draft.contents.directory.remove(shop)
            draft.removePush(shop.number)
        }
        #expect(left.pushServices.isEmpty && left.directory.pushServices.isEmpty)
        #expect(try engine.get(.setting, key: "push-service:5") == nil)
    }

    @Test("are sealed under the secrets key, and sealed again under another one")
    func sealed() throws {
        let one = try SecretsKeys.make()
        let vault = Vault(try SecretsKeys(one))
        let engine = try catalog(vault)
        let stored = try #require(try engine.get(.setting, key: row))
        #expect(Vault.isSealed(stored))
        #expect(try Catalog.load(engine, vault).webPush[shop.number]?.keys.first == key(7))
        #expect(throws: NodeError.self) { try Catalog.load(engine, .plain) }
        let next = Vault(try SecretsKeys("\(try SecretsKeys.make())\n\(one)"))
        try Catalog.sealAnew(
            engine, next, by: .init(name: "the server", source: "test"), now: WallTime(milliseconds: 5))
        #expect(next.isCurrent(try #require(try engine.get(.setting, key: row))))
        #expect(try Catalog.load(engine, next).webPush[shop.number]?.keys.first == key(7))
    }

    @Test("go with their project")
    func deleted() throws {
        let engine = try catalog()
        let done = try change(engine) { $0.remove(shop) }
        #expect(done.webPush.isEmpty && done.directory.webPush.isEmpty)
        #expect(try engine.get(.setting, key: row) == nil)
    }

    @Test("of a newer build are refused in a sentence")
    func newer() throws {
        let engine = try catalog()
        let value = try #require(try engine.get(.setting, key: row))
        try engine.put(.setting, key: row, value: [2] + value.dropFirst())
        #expect { try Catalog.load(engine, .plain) } throws: { "\($0)".contains("from a newer tidecast") }
    }

    private var apns: APNsSettings {
        get throws {
            var settings = APNsSettings()
            try settings.put(
                APNsSettings.Key(
                    isSandbox: true, bundleID: "org.example.app", keyID: "ABC123DEFG", teamID: "DEF123GHIJ",
                    privateBytes: [UInt8](repeating: 7, count: 32), created: WallTime(milliseconds: 1)))
            return settings
        }
    }
    private let relay = RelaySettings(
        account: RelaySettings.Account(
            projectID: "theirs", clientEmail: "a@b.example", keyID: "k1", privateKey: "SECRET", tokenURI: ""),
        created: WallTime(milliseconds: 5))

    @Test("settings for Apple's push service and for the relay are sealed, read, and go with their project")
    func others() throws {
        let vault = Vault(try SecretsKeys(try SecretsKeys.make()))
        let engine = try catalog(vault)
        let done = try change(engine, vault) { draft in
            try draft.put(try apns, of: shop.number)
            try draft.put(relay, of: shop.number)
        }
        let read = try Catalog.load(engine, vault)
        for contents in [read, done] {
            #expect(contents.apns[shop.number] == (try apns) && contents.relays[shop.number] == relay)
            #expect(contents.webPush[shop.number] != nil)
        }
        for row in ["apns-push:5", "fcm-relay:5"] {
            #expect(Vault.isSealed(try #require(try engine.get(.setting, key: row))))
        }
        let removed = try change(engine, vault) { $0.remove(shop) }
        #expect(removed.apns.isEmpty && removed.relays.isEmpty)
        for row in ["apns-push:5", "fcm-relay:5"] { #expect(try engine.get(.setting, key: row) == nil) }
    }

    @Test("settings for a service that are newer are refused in a sentence")
    func newerOthers() throws {
        for row in ["apns-push:5", "fcm-relay:5"] {
            let engine = try catalog()
            try engine.put(.setting, key: row, value: [2, 1])
            #expect { try Catalog.load(engine, .plain) } throws: { "\($0)".contains("from a newer tidecast") }
        }
    }
}
