import Bytes
import Journal
import Model
import Partitions

/// The newest wall time that a process on this folder, or a node of this cluster, has believed. The next
/// process compares its first reading with it (rule: wall-time-is-a-witness).
public enum ClockWitness {
    static let key = "clockWitness"
    private static let version: UInt8 = 1

    /// The time of the last run, for the node's loops; `nil` at the first start. The reading becomes the next
    /// witness if the last run bears it out.
    public static func claim(from engine: any Engine, now: Instant) throws -> WallTime? {
        let witness = try read(from: engine)
        if TrustedClock(now, witness: witness).isTrusted { try write(now.wall, to: engine) }
        return witness
    }

    static func read(from engine: any Engine) throws -> WallTime? {
        guard let row = try engine.get(.setting, key: key) else { return nil }
        var reader = ByteReader(row)
        _ = try reader.version(of: "the time of the last run", version...version)
        let milliseconds = Int64(bitPattern: try reader.u64())
        try reader.expectEnd()
        return WallTime(milliseconds: milliseconds)
    }

    public static func write(_ time: WallTime, to engine: any Engine) throws {
        var out = ByteWriter()
        out.u8(version)
        out.u64(UInt64(bitPattern: time.milliseconds))
        try engine.put(.setting, key: key, value: out.bytes)
    }
}
