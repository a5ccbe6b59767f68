import Journal

/// What can go wrong between a question and the database's answer, told apart by what is known afterwards.
enum Fault: Error {
    /// The connection ended before the answer was whole: what was asked for may have been done, or not, or
    /// may still be done by a server process that lives on.
    case lost(String)
    /// It was done here, and the wait for the standby was cut short: a failover may undo it.
    case unconfirmed(String)
    /// No connection could be made: nothing was asked.
    case unsent(String)
    /// The database said no, and the transaction is rolled back: nothing was done.
    case rejected(state: String, message: String)
    case engine(EngineError)
}

/// Codes of the database's errors (PostgreSQL, appendix A) that mean something of their own here.
enum State {
    static let uniqueViolation = "23505"

    /// Answers under which the transaction may have been committed all the same.
    static func leavesDoubt(_ state: String) -> Bool {
        // statement_completion_unknown, and the class of connection exceptions.
        state == "40003" || state.hasPrefix("08")
    }

    /// The database says of itself that it is damaged: data_corrupted, index_corrupted.
    static func isDamage(_ state: String) -> Bool { state == "XX001" || state == "XX002" }

    /// After these the connection is of no more use, and another server may be: it became read-only, or
    /// something between us and it has forgotten our prepared statements.
    static func asksForAnotherConnection(_ state: String) -> Bool { state == "25006" || state == "26000" }

    /// A sentence for those that an operator meets.
    static func sentence(_ state: String, _ message: String) -> String {
        switch state {
        case "55P03": "a lock of the database was not to be had in time"
        case "53100": "the database's disk is full"
        case "53300": "the database has too many connections"
        case "25006": "the database accepts no writes: \(message)"
        default: "the database refused (\(state)): \(message)"
        }
    }
}
