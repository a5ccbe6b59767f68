import Journal
import MemoryEngine
import Testing

@testable import Catalog

@Suite("A change of the catalog") struct CatalogDraftTests {
    private let engine = MemoryEngine()

    private func draft(_ engine: any Engine, cordoning node: String) throws -> CatalogDraft {
        var draft = try CatalogDraft(engine, .plain)
        Catalog.cordon(node, to: &draft.writes)
        draft.contents.cordoned.insert(node)
        return draft
    }

    /// Of two drafts from the same version the second one must be made again.
    @Test("is made only where nothing has changed since it was drafted")
    func isDoneOnlyFromWhatIsThere() throws {
        let first = try draft(engine, cordoning: "a")
        let second = try draft(engine, cordoning: "b")
        let (done, late) = (try first.commit(), try second.commit())
        #expect(done?.cordoned == ["a"] && late == nil)
        #expect(try Catalog.load(engine, .plain).cordoned == ["a"])
        let third = try draft(engine, cordoning: "b").commit()
        let again = try #require(third)
        let found = try Catalog.load(engine, .plain)
        #expect(found.version == again.version && found.cordoned == ["a", "b"])
        #expect(Catalog.number(of: found.version ?? []) == 2)
    }

    /// Two nodes that make a cluster's first keys at once have the same ones.
    @Test("leaves the first keys of a cluster as the first node made them")
    func whatIsMadeFirstStands() throws {
        let contents = try Catalog.load(engine, .plain)
        #expect(try Catalog.load(engine, .plain).signingKeys == contents.signingKeys)
        #expect(contents.signingKeys.all.count == 1 && contents.registrationKeys.count == 1)
        let standing = try engine.putIfAbsent(.setting, key: Catalog.signingSetting, value: [])
        #expect(standing == contents.signingKeys.encoded)
    }

    @Test("is not written where it changes nothing")
    func nothing() throws {
        let unchanged = try CatalogDraft(engine, .plain).commit()
        #expect(unchanged != nil)
        #expect(try Catalog.load(engine, .plain).version == nil)
    }
}
