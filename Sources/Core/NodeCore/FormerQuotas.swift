import Bytes
import Journal
import Model
import Quotas

/// The tokens that the node's previous process left in the buckets of its projects.
///
/// A node that ends in order writes them down, and its next start takes them away again before it serves. If
/// none are written although the node has run before, the node crashed. Every project that the node knew may
/// have spent its burst just before, so these buckets begin empty.
public struct FormerQuotas: Sendable {
    private struct Left: Sendable {
        var tokens: [UInt64]
        /// For how long the buckets have filled before the node began.
        var filledFor: TimeSpan
    }
    private var left: [ProjectNumber: Left] = [:]
    /// Projects of which nothing is known after a crash.
    public private(set) var unknown: Set<ProjectNumber> = []

    public init() {}

    private static let key = "quotas-left"
    private static let version: UInt8 = 1

    public func beginning(of project: ProjectNumber, started: MonotonicTime) -> QuotaGrantor.Beginning {
        if unknown.contains(project) { return .empty(since: started) }
        guard let left = left[project] else { return .full }
        return .holding(left.tokens, since: started.rewound(by: left.filledFor))
    }

    // MARK: The engine's row

    public static func claim(
        from engine: any Engine, projects: [ProjectNumber], now: WallTime
    ) throws -> FormerQuotas {
        var former = FormerQuotas()
        guard let row = try engine.get(.setting, key: key) else {
            // The first start of this folder: no project has spent anything.
            try engine.put(.setting, key: key, value: [version, 0])
            return former
        }
        if row == [version, 0] {
            former.unknown = Set(projects)
            return former
        }
        var reader = ByteReader(row)
        // Before anything is changed: a newer tidecast, which wrote the row, may come back to it.
        _ = try reader.version(of: "what is left of the quotas", version...version)
        try engine.put(.setting, key: key, value: [version, 0])
        guard try reader.u8() == 1 else { throw reader.fail("what is left of the quotas") }
        let written = Int64(bitPattern: try reader.u64())
        let filledFor = TimeSpan.milliseconds(UInt64(min(max(0, now.milliseconds - written), 86_400_000)))
        for _ in 0..<(try reader.count(max: Int(ProjectNumber.limit), elementBytesMin: 2)) {
            let number = try reader.varint()
            guard number < UInt64(ProjectNumber.limit) else { throw reader.fail("a project's number") }
            var tokens: [UInt64] = []
            for _ in 0..<(try reader.count(max: 16)) { tokens.append(try reader.varint()) }
            former.left[ProjectNumber(UInt32(number))] = Left(
                tokens: tokens, filledFor: filledFor)
        }
        return former
    }

    public static func put(_ left: [ProjectNumber: [UInt64]], to engine: any Engine, now: WallTime) throws {
        var out = ByteWriter()
        out.u8(version)
        out.u8(1)
        out.u64(UInt64(bitPattern: now.milliseconds))
        out.varint(left.count)
        for (project, tokens) in left.sorted(by: { $0.key.rawValue < $1.key.rawValue }) {
            out.varint(UInt64(project.rawValue))
            out.varint(tokens.count)
            for count in tokens { out.varint(count) }
        }
        try engine.put(.setting, key: key, value: out.bytes)
    }
}
