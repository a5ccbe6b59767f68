import Journal

/// Faults between a question and the database's answer, distinguished by what the engine knows afterwards.
enum Fault: Error {
    /// The connection ended before the answer was whole. The server may have done the work or not, or a
    /// server process that lives on may still do it.
    case lost(String)
    /// The server committed, but its wait for the standby was cut short: a failover may undo the commit.
    case unconfirmed(String)
    /// No connection could be made: nothing was asked.
    case unsent(String)
    /// The database refused, and the transaction is rolled back: nothing was done.
    case rejected(state: String, message: String)
    case engine(EngineError)
}

/// Codes of the database's errors (PostgreSQL, appendix A) that the engine treats specially.
enum State {
    static let uniqueViolation = "23505"

    /// Codes after which the transaction may still have been committed.
    static func leavesDoubt(_ state: String) -> Bool {
        // statement_completion_unknown, and the class of connection exceptions.
        state == "40003" || state.hasPrefix("08")
    }

    /// The database reports that it is damaged: data_corrupted, index_corrupted.
    static func isDamage(_ state: String) -> Bool { state == "XX001" || state == "XX002" }

    /// After these codes the connection is of no more use, and another may be: the server became read-only,
    /// or a proxy between us and the server has forgotten our prepared statements.
    static func asksForAnotherConnection(_ state: String) -> Bool { state == "25006" || state == "26000" }

    /// A sentence for the codes that an operator meets.
    static func sentence(_ state: String, _ message: String) -> String {
        switch state {
        case "55P03": "the database did not grant a lock in time"
        case "53100": "the database's disk is full"
        case "53300": "the database has too many connections"
        case "25006": "the database accepts no writes: \(message)"
        default: "the database refused (\(state)): \(message)"
        }
    }
}
