import Bytes
import Glibc
import Journal
import NodeCore

/// How often the cluster's databases may have lost the end of what they acknowledged. Event ids carry this
/// number. So a device that says that it has read up to a lost event does not acknowledge an event that came
/// in its place (rule: lost-ends-raise-the-generation).
package enum Generation {
    static let key = "generation"
    private static let version: UInt8 = 1
    static let lifeBytes = 16

    private struct Known {
        var number: UInt64
        var past: EnginePast
        var life: [UInt8] = []

        var encoded: [UInt8] {
            var out = ByteWriter()
            out.u8(version)
            out.u64(number)
            out.u64(past.system)
            out.u32(past.database)
            out.u32(past.timeline)
            out.u8(past.isReplicated ? 1 : 0)
            out.u64(past.lossSeen)
            out.string(life)
            return out.bytes
        }

        /// False if another node has changed the record since it was read. Each record differs from all
        /// earlier ones.
        func replace(
            _ stored: [UInt8]?, in engine: any ClusterEngine, with writes: CatalogWrites = CatalogWrites()
        ) throws -> Bool {
            let next = encoded + (try Catalog.random(8))
            return try engine.change(CatalogStep(key: Generation.key, from: stored, to: next), writes)
        }

        init(number: UInt64, past: EnginePast) {
            self.number = number
            self.past = past
        }

        init(decoding bytes: [UInt8]) throws {
            var reader = ByteReader(bytes)
            _ = try reader.version(of: "a generation", Generation.version...Generation.version)
            number = try reader.u64()
            past = EnginePast(
                system: try reader.u64(), database: try reader.u32(),
                timeline: try reader.u32(),
                isReplicated: try reader.u8() == 1, lossSeen: try reader.u64())
            life = try reader.string(max: Generation.lifeBytes)
        }
    }

    /// The generation and the pasts with which a node begins.
    package struct Standing {
        package var number: UInt64
        /// Drawn at random with each generation, and when a node begins while no other node lives
        /// (`settled`): a cluster on a copy of the database has another life than the cluster on the
        /// original, also if both have the same number. Nodes of different lives believe nothing of each
        /// other. Empty for an engine of one past.
        package var life: [UInt8] = []
        /// This look has drawn the life.
        package var isNew = false
        /// The nodes whose sessions were fenced, since no node of the cluster lived (`settled`).
        package var fenced: [String] = []
        /// Another node of the cluster lives (`settled`).
        package var isServed = false
        /// The lives that the cluster has left (`settled`).
        package var formers: [[UInt8]] = []
        /// The past of each database but the home at that generation, as far as the cluster knows. A node
        /// must not continue in a past that may lack something of this one.
        package var pasts: [Int: EnginePast] = [:]
        /// The losses that this look found.
        package var losses: [Loss] = []
    }

    /// A database that may have lost the end of what it acknowledged.
    package struct Loss {
        /// 0 for the home.
        package var database: Int
        package var former: EnginePast
        package var now: EnginePast
    }

    /// The generation that holds now, raised by one for each database that may have lost its end. Must come
    /// before the node takes anything. `pasts` reads the pasts of the databases that are there, except the
    /// home.
    ///
    /// Several nodes may do this concurrently, and one of them may be stopped in the middle. A write demands
    /// that the record is still the one from which it was computed. If another node has written the record
    /// meanwhile, this node reads the pasts again and computes again.
    package static func current(
        _ home: any ClusterEngine, databases: Int = 1, further pasts: () throws -> [Int: EnginePast] = { [:] }
    ) throws -> Standing {
        var tries = ChangeTries()
        var random = SystemRandomNumberGenerator()
        while true {
            let stored = try home.get(.setting, key: key)
            var look = try Look(stored: stored, home: try home.past())
            let found = try pasts()
            for database in 1..<max(1, databases) {
                let known = try knownPast(of: database, home)
                if let past = found[database] ?? known { look.see(past, of: database, known: known) }
            }
            if try look.settle(home, from: stored) { return look.standing }
            guard let pause = tries.pause(using: &random) else { throw CatalogDraft.overtaken }
            usleep(UInt32(pause.microseconds))
        }
    }

    /// The result of one look at the databases.
    private struct Look {
        var standing: Standing
        private var home: EnginePast?
        /// The record to write; `nil` if the record need not change.
        private var changed: Known?
        private var writes = CatalogWrites()

        init(stored: [UInt8]?, home: EnginePast?) throws {
            let known = try stored.map { try Known(decoding: $0) }
            standing = Standing(number: known?.number ?? 0, life: known?.life ?? [])
            self.home = home ?? known?.past
            guard let home, known?.past != home else { return }
            if let known, home.mayLack(known.past) {
                standing.number += 1
                standing.losses.append(Loss(database: 0, former: known.past, now: home))
            }
            changed = Known(number: standing.number, past: home)
        }

        mutating func see(_ past: EnginePast, of database: Int, known: EnginePast?) {
            standing.pasts[database] = past
            guard known != past else { return }
            if let known, past.mayLack(known) {
                standing.number += 1
                standing.losses.append(Loss(database: database, former: known, now: past))
            }
            writes.put(
                .setting, key: Generation.key(of: database), value: Known(number: 0, past: past).encoded)
            changed = Known(number: standing.number, past: home ?? past)
        }

        /// Writes the result. False if another node has changed the record since it was read.
        mutating func settle(_ engine: any ClusterEngine, from stored: [UInt8]?) throws -> Bool {
            guard var changed else { return try engine.get(.setting, key: Generation.key) == stored }
            if standing.life.isEmpty || !standing.losses.isEmpty {
                try FormerLives.add(standing.life, to: &writes, engine)
                standing.life = try Catalog.random(Generation.lifeBytes)
                standing.isNew = true
            }
            changed.life = standing.life
            return try changed.replace(stored, in: engine, with: writes)
        }
    }

    static func holds(_ standing: Standing, in stored: [UInt8]) throws -> Bool {
        let known = try Known(decoding: stored)
        return known.number == standing.number && known.life == standing.life
    }

    static func life(in stored: [UInt8]) throws -> [UInt8] { try Known(decoding: stored).life }

    /// Writes the record again with this life, and with a generation above `generation`, together with
    /// `writes`. False if it is another record by now.
    static func replace(
        _ stored: [UInt8], life: [UInt8], above generation: UInt64? = nil,
        with writes: CatalogWrites = CatalogWrites(), _ home: any ClusterEngine
    ) throws -> Bool {
        var known = try Known(decoding: stored)
        var writes = writes
        if life != known.life { try FormerLives.add(known.life, to: &writes, home) }
        if let generation { known.number = max(known.number, generation) + 1 }
        known.life = life
        return try known.replace(stored, in: home, with: writes)
    }

    fileprivate static func key(of database: Int) -> String { "past:\(database)" }

    /// The past of a database that is not the home, at the last look of the cluster.
    package static func knownPast(of database: Int, _ home: any Engine) throws -> EnginePast? {
        try home.get(.setting, key: key(of: database)).map { try Known(decoding: $0).past }
    }
}
