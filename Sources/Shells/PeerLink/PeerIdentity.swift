import Bytes
import Model

/// How two ends write frames to each other.
///
/// Each end greets in version 1, whichever versions it speaks. The greeting names the lowest and the highest
/// version of the end. Both then speak the highest common version. So an operator may update a cluster node
/// by node, as long as every two nodes have a common version. A later version may add to the end of a
/// greeting; the rest of a greeting never changes. A kind of frame or message that a version lacks must go
/// only to ends whose version has it.
struct Dialect: Hashable, Sendable {
    var version: UInt8

    static let greeting = Dialect(version: 1)
    /// The versions that this build speaks.
    static let versions: ClosedRange<UInt8> = 1...1

    /// `nil` if the two have no common version.
    static func common(_ one: PeerIdentity, _ other: PeerIdentity) -> Dialect? {
        let version = min(one.versions.upperBound, other.versions.upperBound)
        guard version >= max(one.versions.lowerBound, other.versions.lowerBound) else { return nil }
        return Dialect(version: version)
    }
}

/// The process and the loop at one end of a connection.
public struct PeerIdentity: Hashable, Sendable {
    /// 16 random bytes that a cluster got when it was created.
    public var cluster: [UInt8]
    /// The process id, 24 bits: one run of a process.
    public var processID: ProcessID
    public var name: String
    /// The loop that speaks, and `connectionNumber`, the number of the connection among all that the loop has
    /// begun. The listening side closes a connection with a lower connectionNumber than the loop's newest
    /// one.
    public var loop: UInt16 = 0
    var connectionNumber: UInt64 = 0
    var versions = Dialect.versions
    var rules = StoredRules.ofClusters
    /// New for each connection.
    var nonce = [UInt8](repeating: 0, count: Greeting.nonceBytes)

    public init(cluster: [UInt8], processID: ProcessID, name: String) {
        self.cluster = cluster
        self.processID = processID
        self.name = name
    }

    /// This identity for one connection.
    func withNonce(_ nonce: [UInt8]) -> PeerIdentity {
        var identity = self
        identity.nonce = nonce
        return identity
    }

    #if DEBUG
        /// Also speaks one version more, as a later build does.
        public mutating func raiseVersions() { versions = versions.lowerBound...versions.upperBound + 1 }
    #endif

    /// The name and the versions, for a sentence.
    var speech: String {
        let (low, high) = (versions.lowerBound, versions.upperBound)
        return "\(name) speaks \(low == high ? "version \(low)" : "versions \(low) to \(high)")"
    }

    var encoded: [UInt8] {
        var out = ByteWriter()
        out.string(cluster)
        out.u32(processID.rawValue)
        out.string(name.utf8)
        out.u16(loop)
        out.u64(connectionNumber)
        out.u8(versions.lowerBound)
        out.u8(versions.upperBound)
        out.string(nonce)
        out.u64(rules)
        return out.bytes
    }

    /// Ignores bytes behind the known fields: later versions may add some.
    init?(decoding bytes: [UInt8]) {
        var reader = ByteReader(bytes)
        do {
            cluster = try reader.string(max: 16)
            processID = ProcessID(try reader.u32())
            name = String(decoding: try reader.string(max: 1024), as: UTF8.self)
            loop = try reader.u16()
            connectionNumber = try reader.u64()
            let (lowest, highest) = (try reader.u8(), try reader.u8())
            guard lowest > 0, lowest <= highest else { return nil }
            versions = lowest...highest
            nonce = try reader.string(max: Greeting.nonceBytes)
            guard nonce.count == Greeting.nonceBytes else { return nil }
            rules = try reader.u64()
        } catch {
            return nil
        }
    }
}
