import Catalog
import Glibc
import Journal
import Logging
import Model
import PostgresEngine

// A further database belongs to one home (rule: copies-are-strangers). A node that starts makes those that it
// reaches its home's, or ends with a sentence before it takes or fences anything there. A database that is
// away now is compared when the node reaches it, and counts as away while it belongs to another home.

/// The pauses of a start. Meanwhile `StartupListener` says why it is not ready.
final class StartPause {
    private let configuration: NodeConfiguration
    private let log: Logger
    private var listener: StartupListener?
    private var said: String?

    init(_ configuration: NodeConfiguration, _ log: Logger) {
        self.configuration = configuration
        self.log = log
    }

    func close() {
        listener?.close()
        (listener, said) = (nil, nil)
    }

    func wait(_ length: TimeSpan, for reason: String) throws {
        if said != reason {
            log.info("\(reason)")
            if let listener {
                listener.say(reason)
            } else {
                listener = try StartupListener(configuration, reason: reason, log)
            }
            said = reason
        }
        usleep(UInt32(length.microseconds))
    }
}

extension Node {
    /// How long nodes of another home may renew leases in a database that this home could take. A cluster
    /// that begins a new generation has nodes of the former one for some seconds.
    private static let contradictedMax: TimeSpan = .seconds(15)

    /// Gives each database the identity of the home, and makes those that are there the home's.
    static func claim(
        _ further: [PostgresEngine?], of databases: inout [DatabaseSettings], for home: any ClusterEngine,
        standing: inout Generation.Standing, succeeding other: [UInt8]?, pause: StartPause, log: Logger
    ) throws {
        guard !further.isEmpty else { return }
        do {
            try claimAll(
                further, of: &databases, for: home, standing: &standing, succeeding: other, pause: pause,
                log: log)
        } catch let error as NodeError {
            // Another node of this home may have begun a life since, and have claimed the databases with it.
            guard try Generation.isCurrent(standing, home) else { throw Generation.overtaken }
            throw error
        }
    }

    private static func claimAll(
        _ further: [PostgresEngine?], of databases: inout [DatabaseSettings], for home: any ClusterEngine,
        standing: inout Generation.Standing, succeeding other: [UInt8]?, pause: StartPause, log: Logger
    ) throws {
        let place = DatabasePlace(try home.past())
        func identity() -> HomeIdentity {
            HomeIdentity(
                life: standing.life, generation: standing.number, formers: Set(standing.formers),
                place: place, isServed: standing.isServed)
        }
        var own = identity()
        if let generation = try succeeded(by: own, in: further, of: databases, naming: other) {
            guard !standing.isServed else {
                throw NodeError("end all other nodes of this cluster first: --adopt-from begins it again")
            }
            standing = try Generation.succeed(standing, above: generation, home)
            own = identity()
            own.adopted = other
            log.notice(
                "this home succeeds another one in the further databases",
                metadata: [
                    "former": "\(Hex.text(other ?? []))", "life": "\(Hex.text(own.life))",
                    "generation": "\(standing.number)",
                ])
        }
        for number in databases.indices.dropFirst() {
            databases[number].options.home = own
            guard let reached = further[number - 1] else { continue }
            let found = try claim(in: reached)
            if let contradiction = try take(databases[number], pause: pause, log: log) {
                // A home that has just lost its end may meet its own nodes, which have not noticed it yet.
                let isOwn = standing.isNew || !standing.losses.isEmpty
                if let found, found.life != other, !isOwn { try Generation.forget(found.life, home) }
                throw NodeError(contradiction)
            }
        }
    }

    private static func claim(in engine: PostgresEngine) throws -> DatabaseClaim? {
        try engine.get(.setting, key: DatabaseClaim.key).map { try DatabaseClaim(decoding: $0) }
    }

    /// The highest generation of the databases that belong to the home which this one is to succeed; `nil` if
    /// none does. Throws a sentence if one belongs to yet another home.
    private static func succeeded(
        by own: HomeIdentity, in further: [PostgresEngine?], of databases: [DatabaseSettings],
        naming other: [UInt8]?
    ) throws -> UInt64? {
        var highest: UInt64?
        for (index, engine) in further.enumerated() {
            guard let engine else { continue }
            let found = try claim(in: engine)
            guard own.verdict(on: found, in: DatabasePlace(try engine.past())) == .strange else { continue }
            guard let found, found.life == other else {
                throw NodeError(own.sentence(on: found, databases[index + 1].options.share))
            }
            highest = max(highest ?? 0, found.generation)
        }
        return highest
    }

    /// Connects until the database is the home's. Returns why it cannot be.
    private static func take(
        _ database: DatabaseSettings, pause: StartPause, log: Logger
    ) throws -> String? {
        let engine = database.engine(silence: 4000)
        var contradictedAt: MonotonicTime?
        while let reason = try refusal(of: engine) {
            if reason.contains(HomeIdentity.stillRenew) {
                let first = contradictedAt ?? Clock.monotonic()
                contradictedAt = first
                if Clock.monotonic().since(first) >= contradictedMax { return reason }
            } else if PostgresEngine.isOfConnection(reason) {
                log.warning(
                    "a database is away: the partitions in it wait",
                    metadata: ["database": "\(database.number + 1)", "reason": "\(reason)"])
                return nil
            } else if !PostgresEngine.isOfLooking(reason) {
                throw NodeError(reason)
            }
            let what = "the node looks whether nodes of another home use database \(database.number + 1)"
            try pause.wait(.milliseconds(100), for: what)
        }
        return nil
    }

    /// Why the engine refuses to connect; `nil` if it is connected.
    private static func refusal(of engine: PostgresEngine) throws -> String? {
        do throws(EngineError) {
            _ = try engine.past()
            return nil
        } catch {
            guard case .refused(let reason) = error else { throw error }
            return reason
        }
    }
}
