import Bytes
import Journal
import Model

/// The tokens that were left in the buckets of a partition's projects when its owner gave it up in order, for
/// the next owner. No other node knows them, so after any other change of owner the buckets begin empty.
public enum QuotaHandover {
    private static let version: UInt8 = 1

    private static func key(_ partition: PartitionID) -> String { "quotas:\(partition.rawValue)" }

    public static func put(
        _ left: [ProjectNumber: [UInt64]], of partition: PartitionID, epoch: Epoch, to engine: any Engine
    ) throws(EngineError) {
        guard !left.isEmpty else { return }
        var out = ByteWriter()
        out.u8(version)
        out.u64(epoch.rawValue)
        out.varint(left.count)
        for (project, tokens) in left.sorted(by: { $0.key < $1.key }) {
            out.u32(project.rawValue)
            out.varint(tokens.count)
            for count in tokens { out.varint(count) }
        }
        try engine.put(.setting, key: key(partition), value: out.bytes)
    }

    /// The tokens that the owner of the epoch before has left; none if another owner came between. The
    /// caller removes them before any spender gets one, once nothing can fail any more.
    public static func left(
        _ partition: PartitionID, epoch: Epoch, from engine: any Engine
    ) throws -> [ProjectNumber: [UInt64]] {
        guard let stored = try engine.get(.setting, key: key(partition)) else { return [:] }
        var reader = ByteReader(stored)
        _ = try reader.version(of: "what is left of quotas", version...version)
        guard try reader.u64() &+ 1 == epoch.rawValue else { return [:] }
        var left: [ProjectNumber: [UInt64]] = [:]
        for _ in 0..<(try reader.count(max: Int(ProjectNumber.limit), elementBytesMin: 5)) {
            let number = try reader.u32()
            guard number < ProjectNumber.limit else { throw reader.fail("a project's number") }
            var tokens: [UInt64] = []
            for _ in 0..<(try reader.count(max: 16)) { tokens.append(try reader.varint()) }
            left[ProjectNumber(number)] = tokens
        }
        try reader.expectEnd()
        return left
    }

    public static func remove(_ partition: PartitionID, from engine: any Engine) throws {
        guard try engine.get(.setting, key: key(partition)) != nil else { return }
        try engine.remove(.setting, key: key(partition))
    }
}
