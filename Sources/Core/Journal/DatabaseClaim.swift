import Bytes
import Model

/// A database among the databases of all servers.
public struct DatabasePlace: Hashable, Sendable, CustomStringConvertible {
    /// The identifier of the server; copies of its files have the same one. 0 if it is not known.
    public var system: UInt64
    /// The database's number in its server.
    public var database: UInt32

    public init(system: UInt64, database: UInt32) {
        self.system = system
        self.database = database
    }

    public init(_ past: EnginePast?) {
        self.init(system: past?.system ?? 0, database: past?.database ?? 0)
    }

    public var description: String { "database \(database) of server \(system)" }
}

/// To which home a further database belongs. A node of that home writes the claim there, and each connection
/// of each node compares it (rule: copies-are-strangers).
public struct DatabaseClaim: Hashable, Sendable {
    /// The setting of the further database that holds the claim.
    public static let key = "claim"
    public static let lifeBytes = 16
    private static let version: UInt8 = 1

    /// The life of the home's cluster, and its generation.
    public var life: [UInt8]
    public var generation: UInt64
    public var home: DatabasePlace
    /// The database in which the claim was written; a copy of it has another place.
    public var own: DatabasePlace

    public init(life: [UInt8], generation: UInt64, home: DatabasePlace, own: DatabasePlace) {
        self.life = life
        self.generation = generation
        self.home = home
        self.own = own
    }

    public var encoded: [UInt8] {
        var out = ByteWriter()
        out.u8(DatabaseClaim.version)
        out.string(life)
        out.u64(generation)
        for place in [home, own] {
            out.u64(place.system)
            out.u32(place.database)
        }
        return out.bytes
    }

    /// Throws `corrupt` for bytes that `encoded` did not make.
    public init(decoding bytes: [UInt8]) throws(EngineError) {
        var reader = ByteReader(bytes)
        do {
            _ = try reader.version(of: "a claim", DatabaseClaim.version...DatabaseClaim.version)
            life = Array(try reader.string(max: DatabaseClaim.lifeBytes))
            generation = try reader.u64()
            home = DatabasePlace(system: try reader.u64(), database: try reader.u32())
            own = DatabasePlace(system: try reader.u64(), database: try reader.u32())
            guard reader.isAtEnd else { throw reader.fail("a claim with bytes behind its end") }
        } catch {
            throw .corrupt("the claim that the database holds cannot be read: \(error)")
        }
    }
}

/// What a node knows of its home when it meets the further databases.
public struct HomeIdentity: Sendable {
    public enum Verdict: Equatable, Sendable {
        /// The database belongs to this home.
        case holds
        /// The home may take the database if no node renews a lease there.
        case follows
        /// There is no claim, and other nodes of this home live: they are of a build without claims.
        case isFree
        /// The database belongs to another home, or nothing shows that it belongs to this one.
        case strange
    }

    public var life: [UInt8]
    public var generation: UInt64
    /// Lives that the home's cluster has left.
    public var formers: Set<[UInt8]>
    public var place: DatabasePlace
    /// Whether other nodes of this home lived when this node began.
    public var isServed: Bool
    /// The life of another home that this one is to succeed, by the operator's word.
    public var adopted: [UInt8]?

    public init(
        life: [UInt8], generation: UInt64, formers: Set<[UInt8]> = [], place: DatabasePlace,
        isServed: Bool = false, adopted: [UInt8]? = nil
    ) {
        self.life = life
        self.generation = generation
        self.formers = formers
        self.place = place
        self.isServed = isServed
        self.adopted = adopted
    }

    /// A dump of the home has another place, and an older copy of its files lacks the claim's life. In a copy
    /// of the further database the claim does not name its own place, and the home's place says nothing.
    public func verdict(on claim: DatabaseClaim?, in own: DatabasePlace) -> Verdict {
        guard let claim else { return isServed ? .isFree : .follows }
        if claim.life == life { return .holds }
        if claim.life == adopted { return .follows }
        guard formers.contains(claim.life) else { return .strange }
        return claim.own != own || claim.home == place ? .follows : .strange
    }

    public func claim(in own: DatabasePlace) -> DatabaseClaim {
        DatabaseClaim(life: life, generation: generation, home: place, own: own)
    }

    /// Names both homes, and what to do. `nodes` are those that renew leases in the database.
    public func sentence(on claim: DatabaseClaim?, _ share: EngineShare, nodes: [String] = []) -> String {
        let other = claim.map { Hex.text($0.life) } ?? "unknown"
        let names = Set(nodes).sorted().joined(separator: ", ")
        var text = "database \(share.number + 1) of \(share.count) belongs to another home, \(other)"
        if let claim { text += " (\(claim.home))" }
        if !nodes.isEmpty { text += ", whose nodes (\(names)) \(HomeIdentity.stillRenew)" }
        text += ", and this node's home is \(Hex.text(life)) (\(place)): "
        text += "with a copy of a home name copies of all its further databases, of the same moment"
        guard claim != nil else { return text + ", or end those nodes" }
        return text + "; if this home replaces the other one for good, end all nodes of the other one and"
            + " start this node with --adopt-from \(other)"
    }

    /// Part of each sentence that names `nodes`.
    public static let stillRenew = "still renew their leases there"
}
