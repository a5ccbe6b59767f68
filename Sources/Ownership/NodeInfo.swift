import Journal

// How a node's words of itself stand in the engine's table.

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
        return out.bytes
    }

    private static func readVersion(_ reader: inout ByteReader) throws(DecodeError) -> UInt8 {
        try reader.version(of: "what it says of itself", version...version)
    }

    /// Why a node's words are not understood; `nil` where they are, or where it has not said anything yet.
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

    /// `nil` for what a node of this version does not understand: such a node gets no partitions. What stands
    /// behind is for later builds, which raise the version only where this one must not go on without it.
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
        } catch {
            return nil
        }
    }
}

extension Ownership.Member {
    /// `nil` where the row's words are not understood.
    init?(_ row: SessionRow) {
        guard let info = Ownership.NodeInfo(decoding: row.info) else { return nil }
        self.init(session: row.id, name: row.node, info: info)
    }
}

extension Ownership {
    /// Says whose words are not understood, once.
    mutating func tellStrangers(_ effects: inout [Effect]) {
        var found: [String: String] = [:]
        for row in last.sessions { found[row.node] = NodeInfo.mistake(row.info) }
        guard found != strangers else { return }
        strangers = found
        effects.append(.strangers(found))
    }
}
