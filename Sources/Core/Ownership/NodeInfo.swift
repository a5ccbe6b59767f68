import Bytes
import Journal
import Model

// The form of a node's description of itself in the engine's table.

extension Ownership.NodeInfo {
    private static let version: UInt8 = 1
    private static let textBytesMax = 200
    private static let keysMax = 64

    public init(
        isShard: Bool, isGateway: Bool, weight: UInt8 = 1, peer: String, gossip: String = "",
        zone: String = "", build: String = "", secretsKeys: [UInt64] = []
    ) {
        self.isShard = isShard
        self.isGateway = isGateway
        isLeaving = false
        isCutOff = false
        self.weight = weight
        self.peer = peer
        self.gossip = gossip
        self.zone = zone
        self.build = build
        self.secretsKeys = secretsKeys
    }

    public var encoded: [UInt8] {
        var out = ByteWriter(capacity: 64)
        out.u8(Self.version)
        out.u8((isShard ? 1 : 0) | (isGateway ? 2 : 0) | (isLeaving ? 4 : 0) | (isCutOff ? 8 : 0))
        out.u8(weight)
        for text in [peer, gossip, zone, build] { out.string(Array(text.utf8.prefix(Self.textBytesMax))) }
        Self.write(stalled, &out)
        out.string(certificate?.bytes ?? [])
        Self.write(stalledConditions, &out)
        out.varint(UInt64(min(secretsKeys.count, Self.keysMax)))
        for key in secretsKeys.prefix(Self.keysMax) { out.u64(key) }
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

    /// Why a node's description cannot be read; `nil` if it can, or if the node has not written one yet.
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
    /// the last field are for later builds. A later build raises the version only where this build must not
    /// go on without those bytes.
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
                gossip: texts[1], zone: texts[2], build: texts[3])
            isLeaving = flags & 4 != 0
            isCutOff = flags & 8 != 0
            stalled = try Self.readStalled(&reader)
            certificate = CertificateFingerprint(
                try reader.string(max: CertificateFingerprint.byteCount))
            stalledConditions = try Self.readStalled(&reader)
            for _ in 0..<(try reader.count(max: Self.keysMax, elementBytesMin: 8)) {
                secretsKeys.append(try reader.u64())
            }
        } catch {
            return nil
        }
    }
}

extension Ownership.Member {
    /// `nil` if the row's description cannot be read.
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
