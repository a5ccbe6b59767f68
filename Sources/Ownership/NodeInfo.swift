import Bytes
import Journal
import Model

// How a node's description of itself stands in the engine's table.

extension Ownership.NodeInfo {
    private static let version: UInt8 = 1
    private static let textBytesMax = 200

    public init(
        isShard: Bool, isGateway: Bool, weight: UInt8 = 1, peer: String, gossip: String = "",
        zone: String = "",
        build: String = "", provesKey: Bool = false
    ) {
        self.isShard = isShard
        self.isGateway = isGateway
        isLeaving = false
        isCutOff = false
        self.provesKey = provesKey
        self.weight = weight
        self.peer = peer
        self.gossip = gossip
        self.zone = zone
        self.build = build
    }

    public var encoded: [UInt8] {
        var out = ByteWriter(capacity: 64)
        out.u8(Self.version)
        out.u8(
            (isShard ? 1 : 0) | (isGateway ? 2 : 0) | (isLeaving ? 4 : 0) | (isCutOff ? 8 : 0)
                | (provesKey ? 16 : 0))
        out.u8(weight)
        for text in [peer, gossip, zone, build] { out.string(Array(text.utf8.prefix(Self.textBytesMax))) }
        let hasConditions = stalledConditions.count > 0
        if stalled.count > 0 || certificate != nil || hasConditions { Self.write(stalled, &out) }
        if certificate != nil || hasConditions { out.string(certificate?.bytes ?? []) }
        if hasConditions { Self.write(stalledConditions, &out) }
        return out.bytes
    }

    private static func write(_ stalled: Stalled, _ out: inout ByteWriter) {
        out.varint(UInt64(stalled.count))
        out.varint(UInt64(stalled.first.count))
        for pair in stalled.first {
            out.u16(pair.from.rawValue)
            out.u16(pair.to.rawValue)
        }
    }

    /// Former builds write nothing of outboxes, or nothing of conditions.
    private static func readStalled(_ reader: inout ByteReader) throws(DecodeError) -> Stalled {
        var stalled = Stalled()
        stalled.count = UInt32(clamping: try reader.varint())
        for _ in 0..<(try reader.count(max: Stalled.listedMax, elementBytesMin: 4)) {
            let (from, to) = (try reader.u16(), try reader.u16())
            stalled.first.append(Stalled.Pair(from: PartitionID(from), to: PartitionID(to)))
        }
        return stalled
    }

    private static func readVersion(_ reader: inout ByteReader) throws(DecodeError) -> UInt8 {
        try reader.version(of: "what it says of itself", version...version)
    }

    /// Why a node's description cannot be read; `nil` where it can, or where the node has not written one
    /// yet.
    static func mistake(_ bytes: [UInt8]) -> String? {
        guard !bytes.isEmpty, Self(decoding: bytes) == nil else { return nil }
        var reader = ByteReader(bytes)
        do throws(DecodeError) {
            _ = try readVersion(&reader)
            return "what it says of itself makes no sense"
        } catch {
            return "\(error)"
        }
    }

    /// `nil` for a description that this version cannot read: such a node gets no partitions. Bytes behind
    /// the last text are for later builds. A later build raises the version only where this build must not go
    /// on without those bytes.
    public init?(decoding bytes: [UInt8]) {
        var reader = ByteReader(bytes)
        do {
            _ = try Self.readVersion(&reader)
            let flags = try reader.u8()
            let weight = try reader.u8()
            var texts: [String] = []
            for _ in 0..<4 { texts.append(String(decoding: try reader.string(max: 1024), as: UTF8.self)) }
            self.init(
                isShard: flags & 1 != 0, isGateway: flags & 2 != 0, weight: weight, peer: texts[0],
                gossip: texts[1], zone: texts[2], build: texts[3], provesKey: flags & 16 != 0)
            isLeaving = flags & 4 != 0
            isCutOff = flags & 8 != 0
            guard let outboxes = try? Self.readStalled(&reader) else { return }
            stalled = outboxes
            guard let bytes = try? reader.string(max: CertificateFingerprint.byteCount) else { return }
            certificate = CertificateFingerprint(bytes)
            if let conditions = try? Self.readStalled(&reader) { stalledConditions = conditions }
        } catch {
            return nil
        }
    }
}

extension Ownership.Member {
    /// `nil` where the row's description cannot be read.
    init?(_ row: SessionRow) {
        guard let info = Ownership.NodeInfo(decoding: row.info) else { return nil }
        self.init(session: row.id, name: row.node, info: info)
    }
}

extension Ownership {
    /// Names the nodes whose descriptions cannot be read, each time that these nodes or the reasons change.
    mutating func tellStrangers(_ turn: inout Turn) {
        var found: [String: String] = [:]
        for row in last.sessions { found[row.node] = NodeInfo.mistake(row.info) }
        guard found != strangers else { return }
        strangers = found
        turn.effects.append(.strangers(found))
    }
}
