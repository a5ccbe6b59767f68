import Journal
import Model

// Leases and releases of the engine in memory.

extension MemoryEngine: ClusterEngine {
    public func renewLease(_ session: SessionID, info: [UInt8]) throws(EngineError) {
        try works()
        guard isLiving(session) else { throw .fenced }
        leases[session, default: (0, [])].counter += 1
        leases[session]?.info = info
    }

    public func fence(_ session: SessionID, at counter: UInt64) throws(EngineError) -> Bool {
        try works()
        guard leases[session]?.counter == counter else { return false }
        try fence(session)
        return true
    }

    public func sessions() throws(EngineError) -> [SessionRow] {
        try works()
        var rows: [SessionRow] = []
        for (index, session) in sessionList.enumerated() where session.isAlive {
            let id = SessionID(UInt64(index) + 1)
            guard let lease = leases[id] else { continue }
            rows.append(SessionRow(id: id, node: session.node, counter: lease.counter, info: lease.info))
        }
        return rows
    }

    public func past() throws(EngineError) -> EnginePast? { currentPast }
    public func wallClock() throws(EngineError) -> WallTime? { clock }

    public func register(_ session: SessionID, node: String) throws(EngineError) {
        try works()
        guard !share.isHome, session.rawValue > 0 else { throw .refused("in the home a session begins") }
        if isLiving(session) {
            let holder = sessionList[Int(session.rawValue) - 1].node
            guard holder == node else {
                throw .refused("session \(session.rawValue) is of node \(holder) here")
            }
            return
        }
        makeRoom(for: session)
        let index = Int(session.rawValue) - 1
        let isSuperseded = sessionList[(index + 1)...].contains { $0.node == node && $0.isAlive }
        guard unknownSessions.contains(session), !isSuperseded else { throw .fenced }
        unknownSessions.remove(session)
        for former in 0..<index where sessionList[former].node == node { sessionList[former].isAlive = false }
        sessionList[index] = (node: node, isAlive: true)
        leases[session] = (0, [])
    }

    public func skipSessions(through last: SessionID) throws(EngineError) {
        try works()
        while sessionList.count < last.rawValue { sessionList.append((node: "", isAlive: false)) }
    }

    /// Gives sessions that began in the home, and are not known here yet, their places in the list.
    func makeRoom(for session: SessionID) {
        while sessionList.count < session.rawValue {
            sessionList.append((node: "", isAlive: false))
            unknownSessions.insert(SessionID(UInt64(sessionList.count)))
        }
    }

    public func release(_ partition: PartitionID, by session: SessionID) throws(EngineError) {
        let index = try owned(partition, by: session)
        partitionsByID[index].row.owner = nil
    }
}
