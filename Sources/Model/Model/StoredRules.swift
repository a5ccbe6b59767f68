/// Constants that are part of a format (docs/formats.md). They look like settings and are none: a partition
/// that replays the same records under another value has another state, and nodes with other values
/// misunderstand each other. So a build that changes one changes a format.
///
/// The first record of an owner and each snapshot have the digest `ofPartitions`, a greeting between nodes
/// has `ofClusters`. A reader with another digest refuses in a sentence.
public enum StoredRules {
    // What the fold of a partition's records reads.

    /// Messages without a collapse key that wait for an absent device (FCM: 100, past which all are dropped
    /// and the device is told).
    public static let waitingMax: UInt16 = 100
    /// Distinct collapse keys that wait for one device (FCM: 4).
    public static let collapsibleMax: UInt8 = 4
    /// A listening device's unacknowledged messages pass in steps, so that many messages share the cost: at
    /// `waitingMax + passDepth` messages the `passDepth` oldest pass as delivered.
    public static let passDepth: UInt16 = 64
    /// What even a listening device may not exceed, if its gateway has not confirmed writing the oldest.
    public static let waitingHardMax: UInt16 = 1000
    /// The most topics of one device (FCM: 2,000).
    public static let topicsMax = 2000
    /// The days without a fact that shows a day after which a partition has rested, and ends no device for
    /// being absent before.
    public static let restDaysMax: UInt16 = 3

    // What nodes of a cluster must have in common.

    /// How many of the last numbers of a gateway loop's sends a partition knows as repeats. Gateways ask
    /// again within half of this.
    public static let requestWindow = 1024
    /// A new owner knows by these three for how long the former owner's grants of tokens bind it. For how
    /// long leased tokens are valid at least:
    public static let quotaLease: TimeSpan = .milliseconds(100)
    /// For how long a fallback share is valid, and a lease at most.
    public static let quotaShare: TimeSpan = .seconds(1)
    /// For how long tokens flow into a bucket that began empty before its owner grants any.
    public static let quotaInflow: TimeSpan = .milliseconds(100)

    public static let ofPartitions = digest([
        UInt64(waitingMax), UInt64(collapsibleMax), UInt64(passDepth), UInt64(waitingHardMax),
        UInt64(topicsMax), UInt64(restDaysMax), UInt64(requestWindow),
    ])
    public static let ofClusters = digest([
        ofPartitions, quotaLease.nanoseconds, quotaShare.nanoseconds, quotaInflow.nanoseconds,
    ])

    /// FNV-1a of the numbers' bytes.
    static func digest(_ values: [UInt64]) -> UInt64 {
        var hash: UInt64 = 0xCBF2_9CE4_8422_2325
        for value in values {
            for shift in stride(from: UInt64(0), to: 64, by: 8) {
                hash = (hash ^ (value >> shift & 0xFF)) &* 0x100_0000_01B3
            }
        }
        return hash
    }

    /// Why bytes with the digest `found` are refused; `nil` if it is `digest`.
    public static func refusal(of what: String, _ found: UInt64, here digest: UInt64) -> String? {
        guard found != digest else { return nil }
        return
            "\(what) under stored rules \(String(found, radix: 16)), as only another tidecast has them: this"
            + " one has \(String(digest, radix: 16))"
    }
}
