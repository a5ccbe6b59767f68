import Bytes
import Model

/// Which of a cluster's partitions live in one of its databases: partition p in database p mod `count`.
///
/// Number 0 is the cluster's *home*, which also holds what a cluster has once: nodes, leases, sessions,
/// projects, keys, settings. The spread is created with the cluster and never changes.
public struct EngineShare: Hashable, Sendable {
    /// Databases of a cluster, including the home.
    public static let countMax = 64

    /// From 0.
    public let number: Int
    public let count: Int

    /// Everything in one database.
    public init() { (number, count) = (0, 1) }

    /// `nil` if there is no such database.
    public init?(number: Int, of count: Int) {
        guard (1...EngineShare.countMax).contains(count), (0..<count).contains(number) else { return nil }
        (self.number, self.count) = (number, count)
    }

    public var isHome: Bool { number == 0 }

    public func holds(_ partition: PartitionID) -> Bool { partition.database(of: count) == number }

    /// How many of `total` partitions live here.
    public func size(of total: Int) -> Int { total > number ? (total - number - 1) / count + 1 : 0 }

    /// The partition whose row is the `index`th here.
    public func partition(at index: Int) -> Int { number + index * count }
}

/// What a database other than the home stores about itself, so that nobody takes it for another database.
public struct DatabaseIdentity: Hashable, Sendable {
    public static let clusterBytes = 16
    /// The setting that holds the identity.
    public static let key = "database"
    private static let version: UInt8 = 1

    /// `clusterBytes` random bytes, created with the cluster.
    public var cluster: [UInt8]
    public var share: EngineShare

    public init(cluster: [UInt8], share: EngineShare) {
        self.cluster = cluster
        self.share = share
    }

    public var encoded: [UInt8] {
        var out = ByteWriter()
        out.u8(DatabaseIdentity.version)
        out.string(cluster)
        out.varint(share.number)
        out.varint(share.count)
        return out.bytes
    }

    /// Throws `corrupt` for bytes that `encoded` did not make.
    public init(decoding bytes: [UInt8]) throws(EngineError) {
        var reader = ByteReader(bytes)
        do {
            _ = try reader.version(of: "an identity", DatabaseIdentity.version...DatabaseIdentity.version)
            cluster = Array(try reader.string(max: DatabaseIdentity.clusterBytes))
            let number = try reader.count(max: EngineShare.countMax, elementBytesMin: 0)
            let count = try reader.count(max: EngineShare.countMax, elementBytesMin: 0)
            guard let share = EngineShare(number: number, of: count), reader.isAtEnd else {
                throw reader.fail("a number that no database of this many has")
            }
            self.share = share
        } catch {
            throw .corrupt("the identity that the database holds cannot be read: \(error)")
        }
    }

    /// Why the database with the identity `found` is not this one, and what to do; `nil` if it is this
    /// one. The text counts databases from 1.
    public func mistake(in found: DatabaseIdentity?) -> String? {
        let place = "database \(share.number + 1) of \(share.count)"
        guard let found else {
            return
                "what is named as \(place) of this cluster is not that database: it has no identity of a"
                + " cluster; name the database that this cluster was made with"
        }
        guard found.cluster == cluster else {
            return "what is named as \(place) of this cluster belongs to another cluster: name the one that"
                + " this cluster was made with"
        }
        guard found.share == share else {
            return "what is named as \(place) of this cluster is database \(found.share.number + 1) of"
                + " \(found.share.count): name the databases in the order in which the cluster was made, the"
                + " home with --engine, each other with --further-engine"
        }
        return nil
    }
}
