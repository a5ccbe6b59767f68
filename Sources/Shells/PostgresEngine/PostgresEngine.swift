import Journal
import Model

/// Journals in PostgreSQL, for a cluster: PostgreSQL brings replication, failover and backup.
///
/// One connection, used synchronously. In normal work each call is *one statement*, so that a process that
/// freezes holds no lock (rule: no-lock-outlives-a-statement). The tables are in `Schema`.
///
/// **Writing** takes a shared lock on the writer's session row, if that session lives, and inserts rows at
/// free sequences. Fencing updates the session's row, so the fence waits for the append in flight. A later
/// append that waited for the fence looks at the row again and finds the session dead.
///
/// **A lost connection** does not make the engine give up. An append under way is `unknown`, and the next
/// call connects again, over all hosts of the connection string, to one that takes writes. All other calls
/// may be repeated: the engine repeats once by itself, then says `refused`, and the caller asks again. Only a
/// database that can no longer be trusted sets `failure`: another database or an older timeline answers, a
/// journal ends earlier than it did, commits are less durable than asked for, or the database reports damage.
///
/// **A row that is visible is not always durable.** Rows that went in under a lost reply are visible, and a
/// failover may still forget them. Each append, also one that puts nothing in, locks its session's row, and
/// the database's log records a row lock. So the transaction commits with a log record behind everything that
/// it saw, synced and replicated before the answer. `isAlive` reads in the same way, because an old primary
/// that is cut off from its standby would answer a plain read.
public final class PostgresEngine: ClusterEngine {
    public static let serverVersionMin = 130_000

    public struct Options: Sendable {
        public var synchronousCommit = SynchronousCommit.on
        /// Whether a synchronous standby must be configured; without one the engine acknowledges nothing
        /// then.
        public var demandsStandby = false
        /// How long a statement waits for a lock before it is refused.
        public var lockMilliseconds = 1000
        /// How long the engine waits for an answer without a byte; then the connection counts as lost.
        public var silenceMilliseconds = 30_000

        /// Which partitions live in this database.
        public var share = EngineShare()
        /// The identity that the database must have on each new connection; `nil` for any.
        public var identity: DatabaseIdentity?
        /// The past in which the cluster last saw the database. The node must not go on in a past that may
        /// lack something of it.
        public var knownPast: EnginePast?

        /// The home of this further database's cluster; `nil`: no claim is compared.
        public var home: HomeIdentity?
        /// Shared by all connections of this process to the database.
        public var claims = ClaimWatch()

        /// How far journals went, shared by all connections of this process to the database.
        public var ends = JournalEnds()

        /// Acknowledge although the server does not sync its log. For tests.
        public var allowsVolatile = false

        public init() {}
    }

    public internal(set) var failure: String?
    /// The database's last known settings, from connecting or from renewing a lease.
    public internal(set) var lastSettings: PostgresSettings?
    /// The database's note of its own losses, as read when connecting.
    var lastLossSeen: UInt64?
    /// The counter to which this engine has renewed a lease.
    var lastRenewal: (session: SessionID, counter: UInt64)?
    let conninfo: String
    let options: Options
    private var current: PostgresConnection?

    /// Connects, and creates or migrates the tables. Throws `refused` with a sentence if that is impossible.
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

    /// Connects with the first call, and refuses calls for as long as it cannot connect.
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
    func connection() throws(Fault) -> PostgresConnection {
        try works()
        if let current, !current.isOver { return current }
        current = nil
        do throws(Fault) {
            let new = try open()
            current = new
            return new
        } catch {
            // Whatever went wrong on the way, the engine has sent no statement of the call yet.
            switch error {
            case .lost(let reason), .unconfirmed(let reason): throw .unsent(reason)
            default: throw error
            }
        }
    }

    /// Asks the database, and once more if the connection was lost or the answer is not certain. `body` must
    /// have the same effect when it runs twice.
    func ask<Result>(_ body: (PostgresConnection) throws(Fault) -> Result) throws(EngineError) -> Result {
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

    /// Drops the connection, or gives up for good if the fault demands it.
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
    private static let unconfirmed = "the commit is not confirmed"

    /// Whether the reason is only that the database cannot be reached, or was not to the end. That may change
    /// a moment later.
    public static func isOfConnection(_ reason: String) -> Bool {
        [unreachable, lost, unconfirmed].contains { reason.contains($0) }
    }

    /// The error that a fault means for the caller of anything but an append.
    func translate(_ fault: Fault) -> EngineError {
        switch fault {
        case .engine(let error): error
        case .unsent(let reason): .refused(reason)
        case .lost(let reason): .refused("\(PostgresEngine.lost): \(reason); ask again")
        case .unconfirmed(let reason): .refused("\(PostgresEngine.unconfirmed): \(reason); ask again")
        case .rejected(let state, let message) where State.isDamage(state):
            .corrupt("the database is damaged: \(message)")
        case .rejected(let state, let message): .refused(State.sentence(state, message))
        }
    }

    /// The database's integers are signed; ids and sequences stay far below their bound.
    static func check(_ row: Row) throws(Fault) {
        guard row.sequence > .zero, row.sequence <= EngineRules.sequenceMax else {
            throw .engine(.refused("\(row.sequence.rawValue) is no sequence of a record"))
        }
        guard row.payload.count <= RecordCodec.payloadBytesMax else {
            throw .engine(.refused("a record of \(row.payload.count) bytes"))
        }
    }

    /// Texts of the database hold no NUL byte.
    static func check(key: String, value: [UInt8]) throws(EngineError) {
        try EngineRules.check(key: key, value: value)
        guard !key.utf8.contains(0) else { throw .refused("a key must not contain NUL") }
    }
}
