import Credentials
import Journal
import MemoryEngine
import Model
import Testing

@testable import Catalog

private func keys(_ text: String...) throws -> SecretsKeys { try SecretsKeys(text.joined(separator: "\n")) }

private func sentence(_ body: () throws -> Void) -> String {
    do { try body() } catch { return "\(error)" }
    return ""
}

@Suite("Secrets keys as an operator gives them") struct SecretsKeysTests {
    @Test("are read as they are made, in both alphabets of Base64, with padding or without")
    func areReadAsTheyAreMade() throws {
        let (one, other) = (try SecretsKeys.make(), try SecretsKeys.make())
        #expect(one != other && one.utf8.count == 44)
        let both = try SecretsKeys(" \(one)\r\n\(other),\n")
        #expect(both.all.count == 2 && both.sealing?.id == both.all[0].id)
        #expect(try keys(one).sealing?.material == both.all[0].material)
        // A key may use the alphabet of RFC 4648 §5, and may lack its padding.
        let url = one.replacing("+", with: "-").replacing("/", with: "_").replacing("=", with: "")
        #expect(try keys(url).sealing?.material == both.all[0].material)
        #expect(try keys("plain", one).sealing == nil && keys("plain", one).all.count == 1)
    }

    @Test("are refused where they are malformed, and the refusal shows none of them")
    func malformed() throws {
        let good = try SecretsKeys.make()
        let short = String(good.dropLast(5))
        for text in [
            "", " \n", "plain", short, good + "=", "=" + good, good + "A", "\(good)\n\(good)",
            "\(good)\nplain", "\(good) -----", String(repeating: "A", count: 5000),
            (0..<9).map { _ in (try? SecretsKeys.make()) ?? "" }.joined(separator: "\n"),
        ] {
            let said = sentence { _ = try SecretsKeys(text) }
            #expect(!said.isEmpty, "\(text)")
            #expect(!said.contains(short.prefix(8)), "\(said)")
        }
    }
}

@Suite("What the vault seals") struct VaultTests {
    private let secret = [UInt8]((0..<33).map { UInt8($0) })

    @Test("opens under its key and in its row only")
    func opens() throws {
        let (one, other) = (try SecretsKeys.make(), try SecretsKeys.make())
        let vault = Vault(try keys(one))
        let sealed = try vault.seal(secret, .key, row: "1")
        #expect(Vault.isSealed(sealed) && vault.isCurrent(sealed))
        #expect(try vault.open(sealed, .key, row: "1") == secret)
        // No two sealed values are alike, and no part of the secret shows.
        #expect(try vault.seal(secret, .key, row: "1") != sealed)
        #expect(!sealed.indices.dropLast(8).contains { Array(sealed[$0..<$0 + 8]) == Array(secret[0..<8]) })
        for (table, row) in [(CatalogTable.key, "2"), (.setting, "1")] {
            #expect(sentence { _ = try vault.open(sealed, table, row: row) }.contains("is damaged"))
        }
        let newer = Vault(try keys(other, one))
        #expect(try newer.open(sealed, .key, row: "1") == secret && !newer.isCurrent(sealed))
        let wrong = sentence { _ = try Vault(try keys(other)).open(sealed, .key, row: "1") }
        #expect(wrong.contains("was given only") && wrong.contains("--secrets-key-file"))
        let none = sentence { _ = try Vault.plain.open(sealed, .key, row: "1") }
        #expect(none.contains("was given none") && none.contains("TIDECAST_SECRETS_KEY"))
    }

    @Test("is not opened where it is damaged or from a newer build")
    func whatIsDamagedIsNotOpened() throws {
        let vault = Vault(try keys(try SecretsKeys.make()))
        let sealed = try vault.seal(secret, .key, row: "1")
        for index in sealed.indices.dropFirst() {
            var changed = sealed
            changed[index] ^= 1
            #expect(!sentence { _ = try vault.open(changed, .key, row: "1") }.isEmpty, "\(index)")
        }
        for count in 39..<sealed.count {
            #expect(
                !sentence { _ = try vault.open(Array(sealed[..<count]), .key, row: "1") }.isEmpty, "\(count)")
        }
        #expect(!sentence { _ = try vault.open(sealed + [0], .key, row: "1") }.isEmpty)
        var newer = sealed
        newer[1] = 2
        #expect(sentence { _ = try vault.open(newer, .key, row: "1") }.contains("from a newer tidecast"))
    }

    @Test("stays plain where the operator names plain before the keys")
    func whatIsPlainStaysPlain() throws {
        let vault = Vault(try keys("plain", try SecretsKeys.make()))
        #expect(try vault.seal(secret, .key, row: "1") == secret && vault.isCurrent(secret))
        #expect(try vault.open(secret, .key, row: "1") == secret)
        // A key that begins with the mark by chance is too short to be sealed.
        let chance = [0xE5] + [UInt8](repeating: 1, count: 31)
        #expect(try Vault.plain.open(chance, .setting, row: "signing-keys") == chance)
    }
}

@Suite("Secrets in the catalog") struct SealedCatalogTests {
    private let author = AuditEntry.Author(name: "the server", source: "test")

    private func secrets(_ engine: MemoryEngine) throws -> [CatalogEntry] {
        try [CatalogTable.key, .setting].flatMap { table in
            try engine.all(table).filter { Catalog.isSecret(table, $0.key) }
        }
    }

    private func seal(_ engine: MemoryEngine, _ vault: Vault) throws -> Int {
        try Catalog.sealAnew(engine, vault, by: author, now: WallTime(milliseconds: 5))
    }

    /// The catalog of a server without secrets keys, with rotated keys and a cluster's gossip key.
    private func plain() throws -> (MemoryEngine, Catalog.Contents) {
        let engine = MemoryEngine()
        var draft = try CatalogDraft(engine, .plain)
        try draft.contents.signingKeys.rotate(
            try Catalog.random(32), atOnce: false, now: WallTime(milliseconds: 1))
        try Catalog.put(draft.contents.signingKeys, .plain, to: &draft.writes)
        _ = try draft.commit()
        _ = try Catalog.made(.setting, Catalog.gossipSetting, engine: engine, vault: .plain) {
            try Catalog.random(32)
        }
        return (engine, try Catalog.load(engine, .plain))
    }

    private func gossipKey(_ engine: MemoryEngine, _ vault: Vault) throws -> [UInt8] {
        try Catalog.made(.setting, Catalog.gossipSetting, engine: engine, vault: vault) { [] }
    }

    @Test("are sealed at the start, stay the same, and open under no other key")
    func sealedAtStart() throws {
        let (engine, before) = try plain()
        let gossip = try gossipKey(engine, .plain)
        let vault = Vault(try keys(try SecretsKeys.make()))
        #expect(try secrets(engine).count == 3 && secrets(engine).allSatisfy { !Vault.isSealed($0.value) })
        #expect(try seal(engine, vault) == 3)
        #expect(try secrets(engine).count == 3 && secrets(engine).allSatisfy { Vault.isSealed($0.value) })
        let after = try Catalog.load(engine, vault)
        #expect(after.signingKeys == before.signingKeys)
        #expect(after.registrationKeys.map(\.material) == before.registrationKeys.map(\.material))
        #expect(try gossipKey(engine, vault) == gossip)
        // Other nodes look when the version changes, the audit log has the change, and a second run does
        // nothing.
        #expect(after.version != before.version)
        #expect(try Catalog.audit(engine, limit: 1).map(\.action) == ["secrets.seal"])
        #expect(try seal(engine, vault) == 0)
        for load in [Vault.plain, Vault(try keys(try SecretsKeys.make()))] {
            #expect(sentence { _ = try Catalog.load(engine, load) }.contains("--secrets-key-file"))
        }
    }

    @Test("are never plain where there is a key from the beginning")
    func neverPlain() throws {
        let engine = MemoryEngine()
        let vault = Vault(try keys(try SecretsKeys.make()))
        _ = try Catalog.load(engine, vault)
        _ = try Catalog.made(.setting, Catalog.gossipSetting, engine: engine, vault: vault) {
            try Catalog.random(32)
        }
        var draft = try CatalogDraft(engine, vault)
        let now = WallTime(milliseconds: 1)
        try draft.contents.signingKeys.rotate(try Catalog.random(32), atOnce: true, now: now)
        try Catalog.put(draft.contents.signingKeys, draft.contents.vault, to: &draft.writes)
        let key = try RegistrationKeyRules.next(
            to: draft.contents.registrationKeys, try Catalog.random(32), now: now)
        try Catalog.put(key, draft.contents.vault, to: &draft.writes)
        let done = try #require(try draft.commit())
        let all = try secrets(engine)
        #expect(all.count == 4 && all.allSatisfy { vault.isCurrent($0.value) })
        #expect(try Catalog.load(engine, vault).signingKeys == done.signingKeys)
    }

    /// The new key stands behind the old one, then before it, then alone. Then the server goes back to no
    /// key.
    @Test("go from one key to the next, and back to no key")
    func goFromOneKeyToTheNext() throws {
        let (engine, before) = try plain()
        let (old, new) = (try SecretsKeys.make(), try SecretsKeys.make())
        let steps: [(SecretsKeys, Int)] = [
            (try keys("plain", old), 0), (try keys(old), 3), (try keys(old, new), 0),
            (try keys(new, old), 3), (try keys(new), 0), (try keys("plain", new), 3), (.none, 0),
        ]
        for (given, count) in steps {
            #expect(try seal(engine, Vault(given)) == count)
            #expect(try Catalog.load(engine, Vault(given)).signingKeys == before.signingKeys)
        }
        #expect(try secrets(engine).allSatisfy { !Vault.isSealed($0.value) })
    }

    @Test("are refused where one is damaged or stands in another's row")
    func damaged() throws {
        let (engine, _) = try plain()
        let vault = Vault(try keys(try SecretsKeys.make()))
        #expect(try seal(engine, vault) == 3)
        for entry in try engine.all(.setting) where Catalog.isSecret(.setting, entry.key) {
            try engine.put(.setting, key: entry.key, value: Array(entry.value.dropLast()))
            #expect(sentence { _ = try Catalog.load(engine, vault) }.contains("is damaged"), "\(entry.key)")
            try engine.put(.setting, key: entry.key, value: entry.value)
        }
        // The row of another secret does not open in this secret's place.
        let newest = try #require(try engine.get(.setting, key: Catalog.signingSetting))
        try engine.put(.setting, key: Catalog.gossipSetting, value: newest)
        #expect(sentence { _ = try gossipKey(engine, vault) }.contains("is damaged"))
    }
}
