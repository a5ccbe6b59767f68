import Model
import Partitions
import Placement
import Quotas

/// The loop and the database to which a partition belongs, and the partition that keeps a project's buckets.
/// The map is the same on every node of a cluster but for the number of loops.
public struct NodeMap: Hashable, Sendable {
    public var partitionCount: Int
    public var loopCount: Int
    public var databaseCount: Int

    public init(partitionCount: Int, loopCount: Int = 1, databaseCount: Int = 1) {
        self.partitionCount = partitionCount
        self.loopCount = loopCount
        self.databaseCount = databaseCount
    }

    /// Whether the partition exists; a peer may name any number.
    public func contains(_ partition: PartitionID) -> Bool { Int(partition.rawValue) < partitionCount }

    public func loop(of partition: PartitionID) -> Int { Int(partition.rawValue) % loopCount }

    /// 0 is the home database.
    public func database(of partition: PartitionID) -> Int { partition.database(of: databaseCount) }

    /// The partition whose owner keeps the project's buckets. It is always in the home database, so that a
    /// grant needs no other database.
    public func home(of project: ProjectNumber) -> PartitionID {
        let home = Placement.home(of: project, count: partitionCount)
        return PartitionID(home.rawValue - UInt16(home.database(of: databaseCount)))
    }

    public func loop(ofBuckets project: ProjectNumber) -> Int { loop(of: home(of: project)) }
}

extension SpenderID {
    /// The id holds the gateway, so that a grant finds its way; `incarnation` distinguishes this spender from
    /// earlier ones of the same gateway.
    public init(_ gateway: GatewayID, incarnation: UInt64) {
        self.init(incarnation << 32 | UInt64(gateway.rawValue))
    }
    public var gateway: GatewayID { GatewayID(UInt32(truncatingIfNeeded: rawValue)) }
}
