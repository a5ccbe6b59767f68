// Distinct integer types for distinct things. No bare `Int` with one of these meanings crosses a module's
// boundary.

/// One partition of the cluster or node: the unit of ownership. 12 bits, so at most 4,096 of them.
public struct PartitionID: Hashable, Comparable, Sendable {
    /// The largest number of partitions that a registration id can name.
    public static let countMax = 4096
    public let rawValue: UInt16
    public init(_ rawValue: UInt16) {
        precondition(Int(rawValue) < PartitionID.countMax, "a partition id has 12 bits")
        self.rawValue = rawValue
    }
    public static func < (left: PartitionID, right: PartitionID) -> Bool { left.rawValue < right.rawValue }

    /// The database, of `count`, in which the partition lives; 0 is the home. PostgresEngine's
    /// `createPartitions` says the same in SQL.
    public func database(of count: Int) -> Int { Int(rawValue) % count }
}

/// A device's index in its partition. 28 bits, dense, never used twice.
public struct DeviceIndex: Hashable, Comparable, Sendable {
    public static let limit: UInt32 = 1 << 28
    public let rawValue: UInt32
    public init(_ rawValue: UInt32) {
        precondition(rawValue < DeviceIndex.limit, "a device index has 28 bits")
        self.rawValue = rawValue
    }
    public static func < (left: DeviceIndex, right: DeviceIndex) -> Bool { left.rawValue < right.rawValue }
}

/// A project's number inside registration ids and journals. 24 bits; 0 is no project.
public struct ProjectNumber: Hashable, Comparable, Sendable {
    public static let limit: UInt32 = 1 << 24
    public let rawValue: UInt32
    public init(_ rawValue: UInt32) {
        precondition(rawValue < ProjectNumber.limit, "a project number has 24 bits")
        self.rawValue = rawValue
    }
    public static func < (left: ProjectNumber, right: ProjectNumber) -> Bool {
        left.rawValue < right.rawValue
    }
}

/// The position of a record in a partition's journal. The first record has sequence 1; 0 means "before the
/// first".
public struct Sequence: Hashable, Comparable, Sendable {
    public let rawValue: UInt64
    public init(_ rawValue: UInt64) { self.rawValue = rawValue }
    public static let zero = Sequence(0)
    public var next: Sequence { Sequence(rawValue + 1) }
    /// The sequence before; of 0, itself.
    public var former: Sequence { Sequence(rawValue - min(rawValue, 1)) }
    public static func < (left: Sequence, right: Sequence) -> Bool { left.rawValue < right.rawValue }
}

/// The number of one ownership of a partition; rises with each change of owner.
public struct Epoch: Hashable, Comparable, Sendable {
    public let rawValue: UInt64
    public init(_ rawValue: UInt64) { self.rawValue = rawValue }
    public static func < (left: Epoch, right: Epoch) -> Bool { left.rawValue < right.rawValue }
}

/// One run of a shard node, as the engine numbers it.
public struct SessionID: Hashable, Comparable, Sendable {
    public let rawValue: UInt64
    public init(_ rawValue: UInt64) { self.rawValue = rawValue }
    public static func < (left: SessionID, right: SessionID) -> Bool { left.rawValue < right.rawValue }
}

/// One run of a process in frames and ids: 24 bits, on a cluster's node those of its session. No two
/// processes of a cluster that live at the same time have the same number.
public struct ProcessID: Hashable, Comparable, Sendable, CustomStringConvertible,
    ExpressibleByIntegerLiteral
{
    public static let rawMax: UInt32 = 0xFF_FFFF
    public let rawValue: UInt32
    public init(_ rawValue: UInt32) { self.rawValue = rawValue }
    public init(integerLiteral value: UInt32) { rawValue = value }
    public static func < (left: ProcessID, right: ProcessID) -> Bool { left.rawValue < right.rawValue }
    public var description: String { "\(rawValue)" }
}

/// Names one append, so that the appender can look up its fate after a lost reply.
public struct BatchID: Hashable, Sendable {
    public let rawValue: UInt64
    public init(_ rawValue: UInt64) { self.rawValue = rawValue }
}

/// A random number that names one line of a partition's records, created with the partition.
public struct History: Hashable, Sendable {
    public let rawValue: UInt64
    public init(_ rawValue: UInt64) { self.rawValue = rawValue }
}
