import Journal

// How a node's words of itself stand in the engine's table.

extension Ownership.NodeInfo {
    private static let version: UInt8 = 1
    private static let textBytesMax = 200

    public init(
        isShard: Bool, isGateway: Bool, weight: UInt8 = 1, peer: String, gossip: String = "",
        zone: String = "",
        build: String = ""
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
    }

    public var encoded: [UInt8] {
        var out = ByteWriter(capacity: 64)
        out.u8(Self.version)
        out.u8((isShard ? 1 : 0) | (isGateway ? 2 : 0) | (isLeaving ? 4 : 0) | (isCutOff ? 8 : 0))
        out.u8(weight)
        for text in [peer, gossip, zone, build] { out.string(Array(text.utf8.prefix(Self.textBytesMax))) }
        return out.bytes
    }

    /// `nil` for what a node of this version does not understand: such a node gets no partitions.
    public init?(decoding bytes: [UInt8]) {
        var reader = ByteReader(bytes)
        do {
            guard try reader.u8() == Self.version else { return nil }
            let flags = try reader.u8()
            let weight = try reader.u8()
            var texts: [String] = []
            for _ in 0..<4 { texts.append(String(decoding: try reader.string(max: 1024), as: UTF8.self)) }
            self.init(
                isShard: flags & 1 != 0, isGateway: flags & 2 != 0, weight: weight, peer: texts[0],
                gossip: texts[1], zone: texts[2], build: texts[3])
            isLeaving = flags & 4 != 0
            isCutOff = flags & 8 != 0
        } catch {
            return nil
        }
    }
}
