import Journal

/// How two ends write frames to each other.
///
/// Each greets in version 1, whatever it speaks, and says from which version to which it speaks and which
/// features it knows; both then speak the highest common version with the common features. So a cluster is
/// taken from one version to the next node by node, as long as no two of its nodes are without a common one.
/// A greeting may get longer at its end, and is else the same for ever. A kind of frame or of message that a
/// former version does not have is sent only to ends that speak a version which has it.
struct Dialect: Hashable, Sendable {
    struct Features: OptionSet, Hashable, Sendable {
        let rawValue: UInt32
        /// Payloads may be packed. Since version 2.
        static let lz4 = Features(rawValue: 1)
    }
    var version: UInt8
    var features: Features

    static let greeting = Dialect(version: 1, features: [])
    /// What this program speaks.
    static let versions: ClosedRange<UInt8> = 1...3
    static let features: Features = [.lz4]

    /// Whether both ends prove who they are.
    var hasProofs: Bool { version >= 3 }

    /// `nil` where the two have no common version.
    static func common(_ one: PeerIdentity, _ other: PeerIdentity) -> Dialect? {
        let version = min(one.versions.upperBound, other.versions.upperBound)
        guard version >= max(one.versions.lowerBound, other.versions.lowerBound) else { return nil }
        return Dialect(
            version: version, features: version > 1 ? one.features.intersection(other.features) : [])
    }
}

/// Who is at one end of a connection.
public struct PeerIdentity: Hashable, Sendable {
    /// 16 random bytes that a cluster got when it was made.
    public var cluster: [UInt8]
    /// The process, for as long as it runs: 24 bits.
    public var life: UInt32
    public var name: String
    /// Which of the process's loops speaks, and the how manieth connection to this peer it is: what comes
    /// over an older one is late.
    public var loop: UInt16 = 0
    var turn: UInt64 = 0
    var versions = Dialect.versions
    var features = Dialect.features
    /// New for each connection; empty before version 3.
    var nonce: [UInt8] = []

    public init(cluster: [UInt8], life: UInt32, name: String) {
        self.cluster = cluster
        self.life = life
        self.name = name
    }

    /// For one connection.
    func withNonce(_ nonce: [UInt8]) -> PeerIdentity {
        guard versions.upperBound >= 3 else { return self }
        var identity = self
        identity.nonce = nonce
        return identity
    }

    /// For a sentence.
    var speech: String {
        let (low, high) = (versions.lowerBound, versions.upperBound)
        return "\(name) speaks \(low == high ? "version \(low)" : "versions \(low) to \(high)")"
    }

    var encoded: [UInt8] {
        var out = ByteWriter()
        out.string(cluster)
        out.u32(life)
        out.string(name.utf8)
        out.u16(loop)
        out.u64(turn)
        out.u8(versions.lowerBound)
        out.u8(versions.upperBound)
        out.u32(features.rawValue)
        if !nonce.isEmpty { out.string(nonce) }
        return out.bytes
    }

    /// What stands behind is for later versions.
    init?(decoding bytes: [UInt8]) {
        var reader = ByteReader(bytes)
        do {
            cluster = try reader.string(max: 16)
            life = try reader.u32()
            name = String(decoding: try reader.string(max: 1024), as: UTF8.self)
            loop = try reader.u16()
            turn = try reader.u64()
            // The first version did not say more.
            guard !reader.isAtEnd else {
                (versions, features) = (1...1, [])
                return
            }
            let (lowest, highest) = (try reader.u8(), try reader.u8())
            guard lowest > 0, lowest <= highest else { return nil }
            versions = lowest...highest
            features = Dialect.Features(rawValue: try reader.u32())
            guard highest >= 3 else { return }
            nonce = try reader.string(max: Greeting.nonceBytes)
            guard nonce.count == Greeting.nonceBytes else { return nil }
        } catch {
            return nil
        }
    }
}
