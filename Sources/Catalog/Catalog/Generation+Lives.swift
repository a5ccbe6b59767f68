import Bytes
import Glibc
import Journal
import Model
import Ownership

// A cluster that no node serves begins another life with its next node. So a copy of a database's files,
// which has the same numbers as the original, is another cluster all the same (rule: copies-are-strangers).

extension Generation {
    /// `Settling` for a node called `name` that waits on its thread.
    package static func settled(
        _ home: any ClusterEngine, name: String, now: () -> MonotonicTime,
        pause: (TimeSpan) throws -> Void = { usleep(UInt32($0.microseconds)) }, read: () throws -> Standing
    ) throws -> Standing {
        var settling = Settling(name: name)
        while true {
            if let standing = try settling.step(home, now: now, read: read) { return standing }
            try pause(LeaseWatch.pause)
        }
    }

    /// Whether `standing` still holds, for a node that has begun its session. A node that saw no session, and
    /// was about to begin a life, finds the record changed by this, and looks again.
    package static func confirms(_ standing: Standing, _ home: any ClusterEngine) throws -> Bool {
        while let stored = try home.get(.setting, key: key) {
            guard try holds(standing, in: stored) else { return false }
            if try replace(stored, life: standing.life, home) { return true }
        }
        return true
    }

    /// Whether no other node has raised the generation or begun a life since.
    package static func isCurrent(_ standing: Standing, _ home: any ClusterEngine) throws -> Bool {
        guard let stored = try home.get(.setting, key: key) else { return true }
        return try holds(standing, in: stored)
    }

    package static let overtaken = EngineError.refused("another node has begun the cluster anew meanwhile")

    // MARK: Further databases of another home

    /// The cluster succeeds another home, whose further databases reached `generation`: numbers of the two
    /// must not meet (rule: lost-ends-raise-the-generation).
    package static func succeed(
        _ standing: Standing, above generation: UInt64, _ home: any ClusterEngine
    ) throws -> Standing {
        var next = standing
        next.number = max(standing.number, generation) + 1
        next.life = try Catalog.random(lifeBytes)
        guard let stored = try home.get(.setting, key: key), try holds(standing, in: stored),
            try replace(stored, life: next.life, above: generation, home)
        else { throw overtaken }
        next.formers = try FormerLives.read(home)
        return next
    }

    /// Nodes of another home live in a further database under the claim of `life`, which this cluster has
    /// left: so this home is a copy, and must not take that database when those nodes rest.
    package static func forget(_ life: [UInt8], _ home: any ClusterEngine) throws {
        while let stored = try home.get(.setting, key: key) {
            var writes = CatalogWrites()
            let lives = try FormerLives.read(home)
            guard let index = lives.lastIndex(of: life) else { return }
            FormerLives.put(Array(lives[(index + 1)...]), to: &writes)
            let own = try self.life(in: stored)
            if try replace(stored, life: own, with: writes, home) { return }
        }
    }
}

/// The lives that a cluster has left, the newest last. They change with the record of the generation, by
/// which a home knows the claims in further databases that it has made itself.
enum FormerLives {
    private static let key = "lives"
    private static let version: UInt8 = 1
    private static let countMax = 1024

    static func read(_ home: any Engine) throws -> [[UInt8]] {
        guard let bytes = try home.get(.setting, key: key) else { return [] }
        var reader = ByteReader(bytes)
        _ = try reader.version(of: "former lives", version...version)
        return try (0..<reader.count(max: countMax, elementBytesMin: 1)).map { _ in
            Array(try reader.string(max: Generation.lifeBytes))
        }
    }

    static func put(_ lives: [[UInt8]], to writes: inout CatalogWrites) {
        var out = ByteWriter()
        out.u8(version)
        out.varint(lives.count)
        for life in lives { out.string(life) }
        writes.put(.setting, key: key, value: out.bytes)
    }

    static func add(_ life: [UInt8], to writes: inout CatalogWrites, _ home: any Engine) throws {
        guard !life.isEmpty else { return }
        put(Array((try read(home) + [life]).suffix(countMax)), to: &writes)
    }
}
