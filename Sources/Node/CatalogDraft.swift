import Journal
import NodeCore

/// A change of the catalog on its way: computed from what was read, then written as a whole, if nobody has
/// changed the catalog meanwhile. Nothing is held in between, so a process that is stopped there hinders
/// nobody, and what it writes later is refused.
struct CatalogDraft {
    /// To read what else is needed; written is by `writes` alone.
    let engine: any Engine
    var contents: Catalog.Contents
    var writes = CatalogWrites()
    /// What the audit log is to say besides, once it is known.
    var detail = ""

    init(_ engine: any Engine, _ vault: Vault) throws {
        self.engine = engine
        contents = try Catalog.load(engine, vault)
    }

    /// What the catalog is now; `nil` where somebody else was faster, and the change is to be computed anew.
    func commit() throws -> Catalog.Contents? {
        guard !writes.isEmpty else { return contents }
        var next = contents
        let version = try Catalog.version(after: contents.version)
        next.version = version
        let step = CatalogStep(key: Catalog.versionKey, from: contents.version, to: version)
        return try engine.change(step, writes) ? next : nil
    }

    static let overtaken = EngineError.refused(
        "others changed projects at the same time, again and again: nothing was done; try again")
}
