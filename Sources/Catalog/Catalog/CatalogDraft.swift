import Journal

/// A change of the catalog before its commit: computed from the catalog as it was read, then written as a
/// whole if no other process has changed the catalog meanwhile. A draft holds no lock, so a stopped process
/// blocks no other, and its late write is refused.
package struct CatalogDraft {
    /// For further reads. A draft writes through `writes` alone.
    package let engine: any Engine
    package var contents: Catalog.Contents
    package var writes = CatalogWrites()
    /// Text to add to the entry of the audit log, once it is known.
    package var detail = ""

    package init(_ engine: any Engine, _ vault: Vault) throws {
        self.engine = engine
        contents = try Catalog.load(engine, vault)
    }

    /// Writes the change, and returns the new catalog; `nil` if another process was faster, and the caller
    /// must compute the change again.
    package func commit() throws -> Catalog.Contents? {
        guard !writes.isEmpty else { return contents }
        var next = contents
        let version = try Catalog.version(after: contents.version)
        next.version = version
        let step = CatalogStep(key: Catalog.versionKey, from: contents.version, to: version)
        return try engine.change(step, writes) ? next : nil
    }

    package static let overtaken = EngineError.refused(
        "other changes of projects came first in every try: nothing was done; try again")
}
