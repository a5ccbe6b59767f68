/// A device as a registration id (FID or token) names it, deciphered. Only the device's partition knows, by
/// the nonce, whether the device is still there.
public struct Registration: Hashable, Sendable {
    public var project: ProjectNumber
    public var partition: PartitionID
    public var index: DeviceIndex
    /// 24 random bits that the device got with its index.
    public var nonce: UInt32
    /// The number of the cluster's key that deciphered the id; the device's proofs are made under the same
    /// key.
    public var key: UInt8
    /// The text behind a token's colon; `nil` for a bare FID.
    public var suffix: DeviceMAC?

    public init(
        project: ProjectNumber, partition: PartitionID, index: DeviceIndex, nonce: UInt32, key: UInt8,
        suffix: DeviceMAC? = nil
    ) {
        self.project = project
        self.partition = partition
        self.index = index
        self.nonce = nonce
        self.key = key
        self.suffix = suffix
    }
}

/// 128 bits made from a device's secret under a cluster key: a token's suffix or a credential. Compared in
/// constant time.
public struct DeviceMAC: Hashable, Sendable {
    public var high: UInt64
    public var low: UInt64
    public init(high: UInt64, low: UInt64) {
        self.high = high
        self.low = low
    }
    public func matches(_ other: DeviceMAC) -> Bool { (high ^ other.high) | (low ^ other.low) == 0 }
}

/// A message's id: microseconds since 1970 and 64 random bits, so that it is unique without a question to
/// other nodes. Its text is 32 lower-case hexadecimal digits.
public struct MessageID: Hashable, Sendable {
    public var time: UInt64
    public var random: UInt64
    public init(time: UInt64, random: UInt64) {
        self.time = time
        self.random = random
    }

    /// The random half is enough to distinguish ids.
    public func hash(into hasher: inout Hasher) { hasher.combine(random) }
}

/// The position of an entry in a partition's delivery log. Microseconds since 1970, made strictly increasing,
/// so that an event id orders and resumes, but does not reveal how much went to other devices
/// (rule: ids-leak-nothing).
public struct Position: Hashable, Comparable, Sendable {
    public let rawValue: UInt64
    public init(_ rawValue: UInt64) { self.rawValue = rawValue }
    public static let zero = Position(0)
    public static func < (left: Position, right: Position) -> Bool { left.rawValue < right.rawValue }
}

/// `(history, position)` as a stream's `id:` shows it: 16 hexadecimal digits of the position, a dot, and 4
/// digits of the history, so that ids of one device sort as text.
public struct EventID: Hashable, Sendable {
    public var position: Position
    /// The low 16 bits of the partition's history plus the generation.
    public var history: UInt16
    public init(position: Position, history: UInt16) {
        self.position = position
        self.history = history
    }
}
