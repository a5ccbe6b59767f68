import Credentials
import Journal
import MemoryEngine
import Model
import NodeCore
import Testing

@testable import Catalog

/// Entries of a cluster's small tables carry a version. A node refuses another version in a sentence, and
/// also an entry that makes no sense.
@Suite("Small tables of another version") struct NewerFormatsTests {
    private let newer = "it is from a newer tidecast"

    private func sentence(_ body: () throws -> Void) -> String {
        do { try body() } catch { return "\(error)" }
        return ""
    }

    private func certificate(_ byte: UInt8) throws -> CertificateFingerprint {
        try #require(CertificateFingerprint([UInt8](repeating: byte, count: 32)))
    }

    /// A catalog with one entry of each kind.
    private func catalog() throws -> MemoryEngine {
        let engine = MemoryEngine()
        _ = try Catalog.load(engine, .plain)
        var writes = CatalogWrites()
        let project = Project(id: "shop", number: ProjectNumber(5))
        let account = Directory.ServiceAccount(
            project: project.number, email: "a@b", publicKey: "PEM", tokenURI: "https://x/token")
        Catalog.put(project, ["sends": 9], to: &writes)
        Catalog.put(
            "05", Credential(kind: .serviceAccount, project: project.number), account: account, to: &writes)
        Catalog.put("a", Credential(kind: .device, project: project.number), account: nil, to: &writes)
        Catalog.put("b", Credential(kind: .bearer, project: project.number), account: nil, to: &writes)
        Catalog.putBirth(project.number, Epoch(3), to: &writes)
        Catalog.cordon("away", to: &writes)
        Catalog.refuse(try certificate(7), to: &writes)
        let step = CatalogStep(key: Catalog.versionKey, from: nil, to: try Catalog.version(after: nil))
        #expect(try engine.change(step, writes))
        return engine
    }

    @Test("are refused in the catalog's entries, and so is an entry that is cut or too long")
    func catalogEntries() throws {
        let engine = try catalog()
        let found = try Catalog.load(engine, .plain)
        #expect(found.limits[ProjectNumber(5)] == ["sends": 9])
        #expect(found.births == [ProjectNumber(5): Epoch(3)])
        #expect(found.directory.accounts.count == 1 && found.directory.keys.count == 2)
        #expect(found.cordoned == ["away"])
        for table in [CatalogTable.project, .key] {
            for entry in try engine.all(table) {
                var changed = entry.value
                changed[0] = 2
                try engine.put(table, key: entry.key, value: changed)
                #expect(
                    sentence { _ = try Catalog.load(engine, .plain) }.contains(newer), "\(table) \(entry.key)"
                )
                for count in entry.value.indices {
                    try engine.put(table, key: entry.key, value: Array(entry.value[..<count]))
                    #expect(
                        !sentence { _ = try Catalog.load(engine, .plain) }.isEmpty, "\(table) \(entry.key)")
                }
                try engine.put(table, key: entry.key, value: entry.value + [0])
                #expect(!sentence { _ = try Catalog.load(engine, .plain) }.isEmpty, "\(table) \(entry.key)")
                try engine.put(table, key: entry.key, value: entry.value)
            }
        }
        for entry in try engine.all(.credential) {
            try engine.put(.credential, key: entry.key, value: [2] + entry.value.dropFirst())
            #expect(sentence { _ = try Catalog.load(engine, .plain) }.contains(newer), "\(entry.key)")
            try engine.put(.credential, key: entry.key, value: entry.value)
        }
        #expect(try Catalog.load(engine, .plain).directory.keys.count == 2)
    }

    /// Otherwise the credential would count as one with which a backend may send.
    @Test("hide no credential of an unknown kind: it is not accepted, and not taken for a bearer")
    func unknownKind() throws {
        let engine = try catalog()
        var value = try #require(try engine.get(.credential, key: "a"))
        // Behind the row's version, the length of the terms and their version.
        value[3] = 4
        try engine.put(.credential, key: "a", value: value)
        let found = try Catalog.load(engine, .plain)
        #expect(found.damaged.map(\.key) == ["a"] && Array(found.directory.keys.keys) == ["b"])
    }

    /// No reader looks at a cordon's value: otherwise one version could let a node in that another keeps out.
    @Test("do not lift a cordon: a cordon of any version holds")
    func aCordonOfAnyVersionHolds() throws {
        let engine = try catalog()
        for value in [[1], [2, 3, 4], []] as [[UInt8]] {
            try engine.put(.setting, key: "cordon:away", value: value)
            #expect(
                try Catalog.load(engine, .plain).cordoned == ["away"] && Catalog.isCordoned("away", engine))
        }
    }

    @Test("accept no refused certificate: one of any version holds")
    func refusedCertificates() throws {
        let engine = try catalog()
        let key = "refused-certificate:" + (try certificate(7)).digits
        for value in [[1], [2, 3, 4], []] as [[UInt8]] {
            try engine.put(.setting, key: key, value: value)
            #expect(try Catalog.load(engine, .plain).refusedCertificates == [certificate(7)])
        }
        var writes = CatalogWrites()
        Catalog.accept(try certificate(7), from: &writes)
        let draft = try CatalogDraft(engine, .plain)
        let version = try Catalog.version(after: draft.contents.version)
        #expect(
            try engine.change(
                CatalogStep(key: Catalog.versionKey, from: draft.contents.version, to: version), writes))
        #expect(try Catalog.load(engine, .plain).refusedCertificates.isEmpty)
    }

    @Test("are refused where they hold a generation or the past of a database")
    func generations() throws {
        let engine = MemoryEngine()
        let past = EnginePast(system: 1, timeline: 1, isReplicated: false)
        engine.currentPast = past
        _ = try Generation.current(engine, databases: 2) { [1: past] }
        for key in ["generation", "past:1"] {
            let value = try #require(try engine.get(.setting, key: key))
            try engine.put(.setting, key: key, value: [3] + value.dropFirst())
            #expect(sentence { _ = try Generation.current(engine, databases: 2) }.contains(newer))
            try engine.put(.setting, key: key, value: Array(value[..<20]))
            #expect(!sentence { _ = try Generation.current(engine, databases: 2) }.isEmpty)
            try engine.put(.setting, key: key, value: value)
        }
        #expect(try Generation.current(engine, databases: 2).number == 0)
    }

    @Test("are refused where they hold what is left of quotas")
    func quotas() throws {
        let engine = MemoryEngine()
        let (partition, key) = (PartitionID(3), "quotas:3")
        func left() throws -> [ProjectNumber: [UInt64]] {
            try QuotaHandover.left(partition, epoch: Epoch(8), from: engine)
        }
        try QuotaHandover.put([ProjectNumber(1): [4, 5, 6]], of: partition, epoch: Epoch(7), to: engine)
        #expect(try left() == [ProjectNumber(1): [4, 5, 6]])
        let value = try #require(try engine.get(.setting, key: key))
        try engine.put(.setting, key: key, value: [3] + value.dropFirst())
        #expect(sentence { _ = try left() }.contains(newer))
        for count in value.indices {
            try engine.put(.setting, key: key, value: Array(value[..<count]))
            #expect(!sentence { _ = try left() }.isEmpty)
        }
    }

    @Test("are refused where they hold a spread or the identity of a database")
    func spreads() throws {
        let spread = DatabaseSpread(
            cluster: [UInt8](repeating: 1, count: 16), count: 2, histories: [History(1), History(2)])
        for version in [0, 2, 255] as [UInt8] {
            let said = sentence { _ = try DatabaseSpread(decoding: [version] + spread.encoded.dropFirst()) }
            #expect(said.hasPrefix("a spread of version \(version): "))
            #expect(said.contains(newer) == (version > 1))
            let identity = try spread.identity(1).encoded
            let other = sentence { _ = try DatabaseIdentity(decoding: [version] + identity.dropFirst()) }
            #expect(other.contains("an identity of version \(version): "))
            #expect(other.contains(newer) == (version > 1))
        }
    }
}
