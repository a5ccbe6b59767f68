import HTTPMessages

/// How a process divides its descriptors: some for clients' connections, some for connections between nodes
/// and to push services, and a reserve. The journal, snapshots, the database, operators and event loops use
/// the reserve, so that they go on when clients have taken all of their descriptors.
public struct DescriptorPlan: Hashable, Sendable {
    /// Connections of clients.
    public let clients: Int
    /// Connections that other nodes make to this node. This node may make as many to them.
    public let peers: Int
    /// Connections to push services.
    public let pushes: Int
    /// Connections of operators, over the admin socket.
    public let operators: Int
    /// Connections of scrapers and probes to their own address.
    public let scrapers: Int
    /// Whether the plan has fewer connections of clients than the settings ask for.
    public let isCut: Bool

    /// Descriptors for files, listeners and timers, without those of event loops. Some of them are open only
    /// while the process starts.
    static let files = 40
    /// Descriptors of one event loop.
    static let ofLoop = 4
    /// Connections of operators. A command that listens for a device holds one while it runs.
    static let operatorsMax = 32
    static let scrapersMax = 16
    static let peersMax = 2048
    public static let pushesMax = 768
    /// Unless the settings say otherwise, one address may have a quarter of the clients' connections.
    static let addressShare = 4
    /// New connections a second of one address, unless the settings say otherwise.
    static let addressSecond = 500

    /// `limit`: descriptors that the process may have. `asked`: connections of clients in the settings.
    public init(limit: Int, loops: Int, isClustered: Bool, asked: Int? = nil) {
        operators = DescriptorPlan.operatorsMax
        scrapers = DescriptorPlan.scrapersMax
        peers = isClustered ? min(max(limit / 16, 16), DescriptorPlan.peersMax) : 0
        pushes = min(max(limit / 16, 16), DescriptorPlan.pushesMax)
        let own = DescriptorPlan.files + DescriptorPlan.ofLoop * loops + operators + scrapers
        let kept = own + 2 * peers + pushes
        // If there are too few descriptors, clients have a quarter and the server has the rest.
        let most = max(limit - kept, limit / 4, 1)
        clients = min(asked ?? most, most)
        isCut = clients < asked ?? 0
    }

    /// The bounds for the gate of clients' connections. `perAddress`, `perSecond`: the settings; 0 means no
    /// bound. If the limit per address is off (behind a balancer), the rate limit is off by default too.
    public func bounds(
        perAddress: Int?, perSecond: Int? = nil, exempt: [AddressRange] = []
    ) -> ConnectionGate.Bounds {
        let fast = perSecond ?? (perAddress == 0 ? 0 : DescriptorPlan.addressSecond)
        return ConnectionGate.Bounds(
            connectionsMax: clients,
            perAddressMax: perAddress == 0
                ? nil : perAddress ?? max(1, clients / DescriptorPlan.addressShare),
            perAddressSecond: fast == 0 ? nil : fast,
            countsLoopback: perAddress != nil || perSecond != nil, exempt: exempt)
    }
}
