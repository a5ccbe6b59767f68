extension MemoryEngine {
    /// Another database with the same content, as after a backup was restored.
    public func copy() -> MemoryEngine {
        let copy = MemoryEngine(share: share)
        (copy.currentPast, copy.leasesFromBirth) = (currentPast, leasesFromBirth)
        (copy.partitionsByID, copy.uploads, copy.catalog) = (partitionsByID, uploads, catalog)
        (copy.sessionList, copy.unknownSessions, copy.leases) = (sessionList, unknownSessions, leases)
        #if DEBUG
            copy.trimsToNewest = trimsToNewest
        #endif
        return copy
    }
}
