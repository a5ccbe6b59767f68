import Glibc
import Journal
import Model
import Ownership
import Synchronization

/// The leases in a further database that this process's home may take, as all connections of the process have
/// seen them.
public final class ClaimWatch: Sendable {
    private let watch = Mutex<LeaseWatch?>(nil)

    fileprivate static func now() -> MonotonicTime {
        var time = timespec()
        clock_gettime(CLOCK_BOOTTIME, &time)
        return MonotonicTime(nanoseconds: UInt64(time.tv_sec) * 1_000_000_000 + UInt64(time.tv_nsec))
    }

    /// A look before the node knows whose the database is, so that it waits no longer then. A look that fails
    /// shows nothing.
    public func look(at engine: PostgresEngine) {
        let asked = ClaimWatch.now()
        if let rows = try? engine.sessions() { _ = look(rows, asked: asked) }
    }

    fileprivate func look(_ rows: [SessionRow], asked: MonotonicTime) -> LeaseWatch.Verdict {
        watch.withLock { watch in
            // No name is this home's own: a copy of the home has nodes of the original's names.
            var looking = watch ?? LeaseWatch(name: "")
            let verdict = looking.look(rows, asked: asked, answered: ClaimWatch.now())
            watch = verdict == .served ? nil : looking
            return verdict
        }
    }
}

// A further database belongs to one home (rule: copies-are-strangers). Nothing else is asked on a connection
// before the database is this home's.

extension PostgresEngine {
    private static let looking = "the node looks whether nodes of another home renew their leases there"

    /// Whether the reason is only that the database is not yet this home's; it changes within seconds.
    public static func isOfLooking(_ reason: String) -> Bool { reason.contains(looking) }

    func checkClaim(
        _ connection: PostgresConnection, _ settings: PostgresSettings
    ) throws(Fault) {
        guard let home = options.home else { return }
        let stored = try get(.setting, DatabaseClaim.key, connection: connection)
        let found = try stored.map { bytes throws(Fault) in
            do throws(EngineError) {
                return try DatabaseClaim(decoding: bytes)
            } catch {
                throw .engine(error)
            }
        }
        let own = DatabasePlace(system: settings.systemIdentifier, database: settings.database)
        switch home.verdict(on: found, in: own) {
        case .holds: return
        case .strange: throw .engine(.refused(home.sentence(on: found, options.share)))
        case .isFree: return try write(home.claim(in: own), over: stored, fencing: false, connection)
        case .follows: break
        }
        let asked = ClaimWatch.now()
        let rows = try sessions(connection)
        switch options.claims.look(rows, asked: asked) {
        case .open: throw .engine(.refused(PostgresEngine.looking))
        case .served:
            throw .engine(.refused(home.sentence(on: found, options.share, nodes: rows.map(\.node))))
        case .unserved: try write(home.claim(in: own), over: stored, fencing: true, connection)
        }
    }

    /// One statement, so that no session of another home lives on in a database that has changed its home.
    private func write(
        _ claim: DatabaseClaim, over stored: [UInt8]?, fencing: Bool, _ connection: PostgresConnection
    ) throws(Fault) {
        func sealed(_ value: [UInt8]) -> Parameter {
            .bytes(PostgresEngine.seal(CatalogTable.setting.rawValue, DatabaseClaim.key, value: value))
        }
        let step =
            stored == nil
            ? "INSERT INTO tidecast.setting (key, value) SELECT $1::text, $3::bytea WHERE $2::bytea IS NULL"
                + " ON CONFLICT (key) DO NOTHING RETURNING key"
            : "UPDATE tidecast.setting SET value = $3::bytea WHERE key = $1::text AND value = $2::bytea"
                + " RETURNING key"
        let fence = "UPDATE tidecast.session SET alive = false WHERE alive AND EXISTS (SELECT FROM step)"
        let reply = try connection.run(
            "WITH step AS (\(step))\(fencing ? ", fenced AS (\(fence))" : "") SELECT count(*) FROM step",
            [.text(DatabaseClaim.key), stored.map(sealed) ?? .null, sealed(claim.encoded)])
        // Another process was faster, perhaps one of this home: the next connection sees.
        guard try reply.int(0, 0) == 1 else { throw .engine(.refused(PostgresEngine.looking)) }
    }
}
