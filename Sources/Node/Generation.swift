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
            out.u64(past.lossSeen)
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
                system: try reader.u64(), timeline: try reader.u32(), isReplicated: try reader.u8() == 1,
                lossSeen: try reader.u64())
        }
    }

    /// The number that holds now, one more where the past of any database is another one. Run while nobody
    /// else in the cluster does, before anything is taken. `further` has the pasts of those of the cluster's
    /// other databases that are there, by their numbers.
    static func current(
        _ home: any ClusterEngine, further: [Int: EnginePast] = [:], _ log: Logger
    ) throws -> UInt64 {
        var number = try rise(home, past: try home.past(), log)
        for (database, past) in further.sorted(by: { $0.key < $1.key }) {
            let known = try knownPast(of: database, home)
            guard known != past else { continue }
            if let known, past.mayLack(known) {
                number += 1
                tell(known, past, number, log, database: database)
                let homePast = try home.get(.setting, key: key).map { try Known(decoding: $0).past } ?? past
                try home.put(.setting, key: key, value: Known(number: number, past: homePast).encoded)
            }
            try home.put(.setting, key: key(of: database), value: Known(number: 0, past: past).encoded)
        }
        return number
    }

    private static func rise(
        _ home: any ClusterEngine, past: EnginePast?, _ log: Logger
    ) throws -> UInt64 {
        guard let past else { return 0 }
        let known = try home.get(.setting, key: key).map { try Known(decoding: $0) }
        guard known?.past != past else { return known?.number ?? 0 }
        var next = Known(number: known?.number ?? 0, past: past)
        if let known, past.mayLack(known.past) {
            next.number += 1
            tell(known.past, past, next.number, log, database: 0)
        }
        try home.put(.setting, key: key, value: next.encoded)
        return next.number
    }

    private static func key(of database: Int) -> String { "past:\(database)" }

    /// In which past a database that is not the home was when the cluster last looked.
    static func knownPast(of database: Int, _ home: any Engine) throws -> EnginePast? {
        try home.get(.setting, key: key(of: database)).map { try Known(decoding: $0).past }
    }

    private static func tell(
        _ known: EnginePast, _ past: EnginePast, _ number: UInt64, _ log: Logger, database: Int
    ) {
        log.error(
            "the database is not the one of before: what it acknowledged last may be lost",
            metadata: [
                "database": "\(database + 1)", "timeline": "\(known.timeline) to \(past.timeline)",
                "system": "\(known.system) to \(past.system)", "generation": "\(number)",
            ])
    }
}
