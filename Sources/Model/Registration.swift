/// A device as a registration id (FID or token) names it, deciphered. Says nothing of whether the device is
/// still there: only its partition knows, by the nonce.
public struct Registration: Hashable, Sendable {
    public var project: ProjectNumber
    public var partition: PartitionID
    public var index: DeviceIndex
    /// 24 random bits that the device got with its index.
    public var nonce: UInt32
    /// Which of the cluster's keys deciphered it; the device's secrets are made with the same.
    public var key: UInt8
    /// What stood behind the colon of a token; `nil` for a bare FID.
    public var suffix: DeviceProof?

    public init(
        project: ProjectNumber, partition: PartitionID, index: DeviceIndex, nonce: UInt32, key: UInt8,
        suffix: DeviceProof? = nil
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
public struct DeviceProof: Hashable, Sendable {
    public var high: UInt64
    public var low: UInt64
    public init(high: UInt64, low: UInt64) {
        self.high = high
        self.low = low
    }
    public func matches(_ other: DeviceProof) -> Bool { (high ^ other.high) | (low ^ other.low) == 0 }
}

/// A message's id: microseconds since 1970 and 64 random bits, so that it is unique without asking anybody.
/// Its text is 32 lower-case hexadecimal digits.
public struct MessageID: Hashable, Sendable {
    public var time: UInt64
    public var random: UInt64
    public init(time: UInt64, random: UInt64) {
        self.time = time
        self.random = random
    }

    /// The random half is enough to tell ids apart.
    public func hash(into hasher: inout Hasher) { hasher.combine(random) }
}

/// Where in a partition's delivery log an entry stands. Microseconds since 1970, made strictly increasing,
/// so that an event id orders and resumes, but tells nobody how much went to others
/// (rule: ids-leak-nothing).
public struct Position: Hashable, Comparable, Sendable {
    public let rawValue: UInt64
    public init(_ rawValue: UInt64) { self.rawValue = rawValue }
    public static let zero = Position(0)
    public static func < (left: Position, right: Position) -> Bool { left.rawValue < right.rawValue }
}

/// `(history, number)` as a stream's `id:` shows it: 16 hexadecimal digits of position, a dot, and 4 of the
/// history, so that ids of one device sort as text.
public struct EventID: Hashable, Sendable {
    public var position: Position
    /// The low 16 bits of the partition's history.
    public var history: UInt16
    public init(position: Position, history: UInt16) {
        self.position = position
        self.history = history
    }
}
