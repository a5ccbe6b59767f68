import Journal
import Logging

/// How often the cluster's database may have lost the end of what it acknowledged. The number stands in the
/// ids of events, so that a device which says that it has read up to a lost event is not believed to have
/// read what came in its place (design 5.6).
enum Generation {
    private static let key = "generation"
    private static let version: UInt8 = 1

    private struct Known {
        var number: UInt64
        var past: EnginePast

        var encoded: [UInt8] {
            var out = ByteWriter()
            out.u8(version)
            out.u64(number)
            out.u64(past.system)
            out.u32(past.timeline)
            out.u8(past.isReplicated ? 1 : 0)
            return out.bytes
        }

        init(number: UInt64, past: EnginePast) {
            self.number = number
            self.past = past
        }

        init(decoding bytes: [UInt8]) throws {
            var reader = ByteReader(bytes)
            guard try reader.u8() == version else { throw reader.fail("a generation of another version") }
            number = try reader.u64()
            past = EnginePast(
                system: try reader.u64(), timeline: try reader.u32(), isReplicated: try reader.u8() == 1)
        }
    }

    /// The number that holds now, one more where the past is another one. Run while nobody else in the
    /// cluster does, before anything is taken.
    static func current(_ engine: any ClusterEngine, _ log: Logger) throws -> UInt64 {
        guard let past = try engine.past() else { return 0 }
        let known = try engine.get(.setting, key: key).map { try Known(decoding: $0) }
        guard known?.past != past else { return known?.number ?? 0 }
        var next = Known(number: known?.number ?? 0, past: past)
        if let known, past.mayLack(known.past) {
            next.number += 1
            log.error(
                "the database is not the one of before: what it acknowledged last may be lost",
                metadata: [
                    "timeline": "\(known.past.timeline) to \(past.timeline)",
                    "system": "\(known.past.system) to \(past.system)", "generation": "\(next.number)",
                ])
        }
        try engine.put(.setting, key: key, value: next.encoded)
        return next.number
    }
}
