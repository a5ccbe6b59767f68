import Model

// Leases and releases of the engine in memory.

extension MemoryEngine: ClusterEngine {
    public func renewLease(_ session: SessionID, info: [UInt8]) throws(EngineError) {
        try works()
        guard lives(session) else { throw .fenced }
        leases[session, default: (0, [])].counter += 1
        leases[session]?.info = info
    }

    public func sessions() throws(EngineError) -> [SessionRow] {
        try works()
        var rows: [SessionRow] = []
        for (place, session) in sessionList.enumerated() where session.isAlive {
            let id = SessionID(UInt64(place) + 1)
            guard let lease = leases[id] else { continue }
            rows.append(SessionRow(id: id, node: session.node, counter: lease.counter, info: lease.info))
        }
        return rows
    }

    public func past() throws(EngineError) -> EnginePast? { currentPast }
    public func wallClock() throws(EngineError) -> WallTime? { clock }

    public func exclusively<Result>(_ body: () throws -> Result) throws -> Result { try body() }

    public func release(_ partition: PartitionID, by session: SessionID) throws(EngineError) {
        let index = try owned(partition, by: session)
        partitionsByID[index].row.owner = nil
    }
}
