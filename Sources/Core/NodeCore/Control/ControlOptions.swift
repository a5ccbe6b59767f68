import Membership
import Model
import Ownership

/// The settings of the control side, fixed for its lifetime.
public struct ControlOptions: Sendable {
    public var session: SessionID
    public var name: String
    /// The node's description of itself, with the address of its gossip.
    public var info: Ownership.NodeInfo
    public var map: NodeMap
    /// By partition number.
    public var histories: [History]
    /// For the order of gossip's probes.
    public var seed: UInt64
    public var ownership = Ownership.Options()
    public var membership = Membership.Options()
    /// How long a look waits for the other databases after the home has answered, and how many looks a silent
    /// database may miss before it is away. A database that cannot be reached is away immediately.
    public var tablePatience: TimeSpan = .milliseconds(500)
    public var looksMissed: UInt64 = 3
    /// The version in which the node read the catalog.
    public var catalogVersion: UInt64 = 0
    #if DEBUG
        public var planted: PlantedInNode = []
    #endif

    public init(
        session: SessionID, name: String, info: Ownership.NodeInfo, map: NodeMap, histories: [History],
        seed: UInt64
    ) {
        self.session = session
        self.name = name
        self.info = info
        self.map = map
        self.histories = histories
        self.seed = seed
    }

    /// The first invariant of the bounds that does not hold; `nil` if all do.
    var mistake: String? {
        looksMissed < 1
            ? "a look is missed before its database is away" : ownership.mistake ?? membership.mistake
    }
}
