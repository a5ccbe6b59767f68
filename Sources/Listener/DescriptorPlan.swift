import HTTPMessages

/// How a process spends its descriptors: so many for clients' connections, so many for connections between
/// nodes, and some kept back for what must go on when clients have taken all of theirs: the journal,
/// snapshots, the database, operators, event loops.
public struct DescriptorPlan: Hashable, Sendable {
    /// Connections of clients.
    public let clients: Int
    /// Connections that other nodes make to this one. It may make as many itself.
    public let peers: Int
    /// Connections of operators, over the admin socket.
    public let operators: Int
    /// Whether fewer connections were planned than were asked for.
    public let isCut: Bool

    /// Files, listeners and timers besides those of loops; some of a start's own are closed again.
    static let files = 40
    /// What an event loop has open by itself.
    static let ofLoop = 4
    /// A device that is listened for at the command line keeps one.
    static let operatorsMax = 32
    static let peersMax = 2048
    /// A quarter of the connections may be of one address, where nothing else is said.
    static let addressShare = 4

    /// `limit`: descriptors that the process may have. `asked`: connections, as the settings have them.
    public init(limit: Int, loops: Int, isClustered: Bool, asked: Int? = nil) {
        operators = DescriptorPlan.operatorsMax
        peers = isClustered ? min(max(limit / 16, 16), DescriptorPlan.peersMax) : 0
        let kept = DescriptorPlan.files + DescriptorPlan.ofLoop * loops + operators + 2 * peers
        // Where there are too few for both, clients have a quarter and the rest is the server's.
        let most = max(limit - kept, limit / 4, 1)
        clients = min(asked ?? most, most)
        isCut = clients < asked ?? 0
    }

    /// What the gate of clients' connections holds. `perAddress`: as the settings have it, 0 for no bound.
    public func bounds(perAddress: Int?, exempt: [AddressRange] = []) -> ConnectionGate.Bounds {
        ConnectionGate.Bounds(
            connectionsMax: clients,
            perAddressMax: perAddress == 0
                ? nil : perAddress ?? max(1, clients / DescriptorPlan.addressShare),
            countsLoopback: perAddress != nil, exempt: exempt)
    }
}
