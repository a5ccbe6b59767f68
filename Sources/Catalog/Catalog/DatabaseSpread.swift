import Bytes
import Journal
import Model

/// How a cluster's partitions are spread over its databases. The home holds this record, which is created
/// with the cluster and never changes.
///
/// Creating a spread takes several steps in several databases. First the home's record says that the spread
/// is being created. Then the other databases, which must be empty, get their identities. When all have one,
/// the record says that the spread is created. A node that finds the spread half created goes on, and a node
/// that finds it created compares. Several nodes may do this concurrently: the first write of a step stays,
/// and a step that is repeated comes to the same.
package struct DatabaseSpread: Sendable {
    private static let key = "databases"
    private static let version: UInt8 = 1

    package var isMade: Bool
    /// Random bytes that are in the identity of each database of the cluster.
    package var cluster: [UInt8]
    /// The number of databases, the home counted.
    package var count: Int
    /// Of all partitions, also of partitions in databases that are away.
    package var histories: [History]

    package func share(_ number: Int) throws -> EngineShare {
        guard let share = EngineShare(number: number, of: count) else {
            throw NodeError("a cluster has at most \(EngineShare.countMax) databases")
        }
        return share
    }

    package func identity(_ number: Int) throws -> DatabaseIdentity {
        DatabaseIdentity(cluster: cluster, share: try share(number))
    }

    package var encoded: [UInt8] {
        var out = ByteWriter()
        out.u8(DatabaseSpread.version)
        out.u8(isMade ? 1 : 0)
        out.string(cluster)
        out.varint(count)
        out.varint(histories.count)
        for history in histories { out.u64(history.rawValue) }
        return out.bytes
    }

    package init(cluster: [UInt8], count: Int, histories: [History]) {
        (isMade, self.cluster, self.count, self.histories) = (false, cluster, count, histories)
    }

    package init(decoding bytes: [UInt8]) throws {
        var reader = ByteReader(bytes)
        _ = try reader.version(of: "a spread", DatabaseSpread.version...DatabaseSpread.version)
        isMade = try reader.u8() == 1
        cluster = Array(try reader.string(max: DatabaseIdentity.clusterBytes))
        count = try reader.count(max: EngineShare.countMax, elementBytesMin: 0)
        histories = []
        for _ in 0..<(try reader.count(max: PartitionID.countMax, elementBytesMin: 8)) {
            histories.append(History(try reader.u64()))
        }
        guard count > 1, histories.count >= count, reader.isAtEnd else { throw reader.fail("a spread") }
    }

    /// `nil` if the cluster has one database, or is not created yet.
    package static func read(_ home: any Engine) throws -> DatabaseSpread? {
        try home.get(.setting, key: key).map { try DatabaseSpread(decoding: $0) }
    }

    // MARK: Checks before a node joins

    /// Why the named databases cannot be this cluster's, or `nil`. Looks at the home alone.
    package static func mistake(_ home: any Engine, named count: Int) throws -> String? {
        if let bytes = try home.get(.setting, key: DatabaseIdentity.key) {
            let share = try DatabaseIdentity(decoding: bytes).share
            return "--engine names database \(share.number + 1) of \(share.count) of a cluster, and not its"
                + " home: give the home to --engine, and the others to --further-engine, in their order"
        }
        // Read before the spread, because a node that creates the cluster just now writes the spread first.
        let hasPartitions = try count > 1 && hasPartitions(home)
        if let spread = try read(home) {
            guard spread.count != count else { return nil }
            return "the cluster's partitions are spread over \(spread.count) databases, and \(count)"
                + " \(count == 1 ? "is" : "are") named: name all of them, the home with --engine and each"
                + " other with --further-engine, in the order in which the cluster was made"
        }
        guard hasPartitions else { return nil }
        return "the cluster was made on one database, and partitions do not move: leave out --further-engine"
    }

    /// Creates the spread, or finds it created; in a spread that is created, databases may be away (`nil`).
    /// `further` holds databases 2, 3 and so on.
    package static func settle(
        _ home: any Engine, further: [(any Engine)?], partitions: Int
    ) throws -> DatabaseSpread {
        let count = further.count + 1
        if let mistake = try mistake(home, named: count) { throw NodeError(mistake) }
        guard partitions >= count else {
            throw NodeError("\(partitions) --partitions are too few for \(count) databases")
        }
        let found = try read(home)
        var spread: DatabaseSpread
        if let found {
            spread = found
        } else {
            var random = SystemRandomNumberGenerator()
            spread = DatabaseSpread(
                cluster: try Catalog.random(DatabaseIdentity.clusterBytes), count: count,
                histories: (0..<partitions).map { _ in History(random.next()) })
        }
        // The node looks at each database that is there before it writes anything.
        var empty: [Int] = []
        for (index, engine) in further.enumerated() {
            guard let engine else {
                guard spread.isMade else {
                    throw NodeError(
                        "database \(index + 2) cannot be reached, and making a cluster needs all databases")
                }
                continue
            }
            do {
                if try spread.isEmpty(engine, try spread.identity(index + 1)) { empty.append(index) }
            } catch {
                // The database may be of a spread that another node has begun since this node looked.
                guard try found == nil && read(home) != nil else { throw error }
                return try settle(home, further: further, partitions: partitions)
            }
        }
        if spread.isMade { return spread }
        if found == nil {
            let standing = try home.putIfAbsent(.setting, key: key, value: spread.encoded)
            // Another node was faster: this node goes on with the spread of the other node.
            guard standing == spread.encoded else {
                return try settle(home, further: further, partitions: partitions)
            }
        }
        do {
            try home.createPartitions(count: spread.histories.count, histories: spread.histories)
        } catch {
            // A node that names one database has created a cluster on it: no node can create the spread now.
            if found == nil, try hasForeignPartitions(home) { try home.remove(.setting, key: key) }
            throw error
        }
        for index in empty {
            guard let engine = further[index] else { continue }
            let identity = try spread.identity(index + 1)
            // A database that is named twice was empty at the first look, and throws here.
            _ = try spread.isEmpty(engine, identity)
            let standing = try engine.putIfAbsent(
                .setting, key: DatabaseIdentity.key, value: identity.encoded)
            if let mistake = identity.mistake(in: try DatabaseIdentity(decoding: standing)) {
                throw NodeError(mistake)
            }
        }
        for engine in further {
            try engine?.createPartitions(count: spread.histories.count, histories: spread.histories)
        }
        spread.isMade = true
        // Each node that writes this record writes the same bytes.
        try home.put(.setting, key: key, value: spread.encoded)
        return spread
    }

    /// Whether the database has no identity and may become one of this cluster's. Throws a sentence if the
    /// database belongs elsewhere.
    private func isEmpty(_ engine: any Engine, _ identity: DatabaseIdentity) throws -> Bool {
        let named = "database \(identity.share.number + 1) of \(count)"
        // Read before the identity, because a node that creates the cluster just now writes the identity
        // first.
        let hasPartitions = try DatabaseSpread.hasPartitions(engine)
        let found = try engine.get(.setting, key: DatabaseIdentity.key).map {
            try DatabaseIdentity(decoding: $0)
        }
        let isHome = try engine.get(.setting, key: DatabaseSpread.key) != nil
        if isHome || (found == nil && hasPartitions) {
            throw NodeError(
                "the settings name the home of a cluster as \(named): name an empty database for a new"
                    + " cluster, or the database that this cluster was made with")
        }
        if found == nil, !isMade { return true }
        if let mistake = identity.mistake(in: found) { throw NodeError(mistake) }
        return false
    }

    /// Whether there are rows of partitions that do not belong to a home's share.
    private static func hasForeignPartitions(_ home: any Engine) throws -> Bool {
        do {
            _ = try home.partitions()
            return false
        } catch EngineError.corrupt {
            return true
        }
    }

    /// Rows of partitions that belong into another database count as well.
    private static func hasPartitions(_ engine: any Engine) throws -> Bool {
        do {
            return try !engine.partitions().isEmpty
        } catch EngineError.corrupt {
            return true
        }
    }
}
