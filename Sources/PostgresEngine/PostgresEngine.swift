import Journal
import Model

/// Journals in PostgreSQL, for a cluster: it brings its own replication, failover and backup.
///
/// One connection, used synchronously; everything that is asked in normal work is *one statement*, so that a
/// process that freezes holds no lock (rule: no-lock-outlives-a-statement). The tables are in `Schema`.
///
/// **Writing** takes a shared lock on the writer's session row, if that session lives, and inserts at places
/// that nobody has taken. Fencing updates that row, so it waits for the append in flight; whoever waited for
/// the fence in turn looks at the row again and finds the session dead.
///
/// **A lost connection** is nothing to give up for. An append under way is `unknown`, and the next call
/// connects again, over all hosts of the connection string, to one that takes writes. All other calls may be
/// repeated: the engine does so once by itself, then says `refused`, and the caller asks again. Only what can
/// no longer be trusted sets `failure`: another database or an older timeline answers, a journal ends earlier
/// than it did, commits are less durable than asked for, or the database says that it is damaged.
///
/// **The two meanings of seen.** What an append put in under a lost reply is visible, and a failover may
/// still forget it. Each append, also one that puts nothing in, locks its session's row, and a row lock is
/// written to the database's log: so the transaction commits with a record behind everything that it saw,
/// synced and replicated before it is answered. `isAlive` reads in the same way, since an old primary that
/// is cut off from its standby would answer a plain read.
public final class PostgresEngine: ClusterEngine {
    public static let serverVersionMin = 130_000

    public struct Options: Sendable {
        public var synchronousCommit = SynchronousCommit.on
        /// Whether a synchronous standby must be configured, else nothing is acknowledged.
        public var demandsStandby = false
        /// How long a statement waits for a lock before it is refused.
        public var lockMilliseconds = 1000
        /// How long an answer is waited for in which no byte comes; then the connection counts as lost.
        public var silenceMilliseconds = 30_000

        /// Which partitions live in this database.
        public var share = EngineShare()
        /// What the database must say of itself on each new connection; `nil` for no matter what.
        public var identity: DatabaseIdentity?
        /// The past that the database was in when the cluster last looked: it must not go on in one that may
        /// lack something of that.
        public var knownPast: EnginePast?

        /// What all connections of this process to the database share.
        public var ends = JournalEnds()

        /// Acknowledge although the server does not sync its log. For tests.
        public var allowsVolatile = false

        public init() {}
    }

    public internal(set) var failure: String?
    /// What the database said of itself last: when it was connected to, or a lease was renewed.
    public internal(set) var lastSettings: PostgresSettings?
    /// What the database said of its own losses when it was connected to.
    var lastLossSeen: UInt64?
    /// Where this engine's renewals have brought a lease.
    var lastRenewal: (session: SessionID, counter: UInt64)?
    let conninfo: String
    let options: Options
    private var current: Connection?

    /// Connects, and makes or migrates the tables. Throws `refused` with a sentence where that cannot be.
    /// `conninfo` as libpq takes it: `postgres://user@one,two/database` or `host=one,two dbname=database`.
    public init(_ conninfo: String, options: Options = Options()) throws(EngineError) {
        self.conninfo = conninfo
        self.options = options
        do throws(Fault) {
            current = try open()
        } catch {
            throw translate(error)
        }
    }

    /// Connects when it is first asked for something, and until it can refuses what it is asked for.
    public init(lazily conninfo: String, options: Options) {
        self.conninfo = conninfo
        self.options = options
    }

    func works() throws(Fault) {
        if let failure { throw .engine(.ioFailure(failure)) }
    }

    /// Gives up for good.
    func distrust(_ reason: String) -> Fault {
        if failure == nil { failure = reason }
        current = nil
        return .engine(.ioFailure(reason))
    }

    /// The connection, made again if need be.
    func connection() throws(Fault) -> Connection {
        try works()
        if let current, !current.isOver { return current }
        current = nil
        do throws(Fault) {
            let new = try open()
            current = new
            return new
        } catch {
            // Whatever went wrong on the way, nothing was asked yet.
            switch error {
            case .lost(let reason), .unconfirmed(let reason): throw .unsent(reason)
            default: throw error
            }
        }
    }

    /// Asks the database, and once more if the connection was lost meanwhile or the answer is not certain.
    /// `body` must come to the same when it is done twice.
    func ask<Result>(_ body: (Connection) throws(Fault) -> Result) throws(EngineError) -> Result {
        var isRepeat = false
        while true {
            do throws(Fault) {
                return try body(try connection())
            } catch {
                settle(error)
                switch error {
                case .lost where !isRepeat, .unconfirmed where !isRepeat: isRepeat = true
                default: throw translate(error)
                }
            }
        }
    }

    /// What a fault means for the connection.
    func settle(_ fault: Fault) {
        switch fault {
        case .lost: current = nil
        case .rejected(let state, _) where State.asksForAnotherConnection(state): current = nil
        case .rejected(let state, let message) where State.isDamage(state):
            _ = distrust("the database is damaged: \(message)")
        default: break
        }
    }

    static let unreachable = "cannot reach the database"
    private static let lost = "the connection to the database was lost"

    /// Whether a refusal is one of the way to the database, which may be open a moment later.
    public static func isOfConnection(_ reason: String) -> Bool {
        reason.contains(unreachable) || reason.contains(lost)
    }

    /// What a fault means for whoever asked, of anything but an append.
    func translate(_ fault: Fault) -> EngineError {
        switch fault {
        case .engine(let error): error
        case .unsent(let reason): .refused(reason)
        case .lost(let reason): .refused("\(PostgresEngine.lost): \(reason); ask again")
        case .unconfirmed(let reason): .refused("the commit is not confirmed: \(reason); ask again")
        case .rejected(let state, let message) where State.isDamage(state):
            .corrupt("the database is damaged: \(message)")
        case .rejected(let state, let message): .refused(State.sentence(state, message))
        }
    }

    /// Integers of the database are signed; ids and sequences stay far below that.
    static func check(_ row: Row) throws(Fault) {
        guard row.sequence > .zero, row.sequence <= EngineRules.sequenceMax else {
            throw .engine(.refused("no sequence of a record: \(row.sequence.rawValue)"))
        }
        guard row.payload.count <= RecordCodec.payloadBytesMax else {
            throw .engine(.refused("a record of \(row.payload.count) bytes"))
        }
    }

    /// Texts of the database hold no NUL.
    static func check(key: String, value: [UInt8]) throws(EngineError) {
        try EngineRules.check(key: key, value: value)
        guard !key.utf8.contains(0) else { throw .refused("a key has no NUL in it") }
    }
}
