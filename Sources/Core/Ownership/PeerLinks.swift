import Model

/// What a node knows of its connections to the other processes of its cluster.
///
/// Each of the node's loops makes its own connections. A link is up if one of them is open and no loop's last
/// try failed. It is down if a try failed, or a connection broke and its loop has not replaced it.
///
/// No I/O, no clock: reports and the time come in, news for the log goes out.
public struct PeerLinks: Sendable {
    public struct Down: Hashable, Sendable {
        public var peer: SessionID
        public var since: MonotonicTime
        public var reason: String
    }

    /// News that deserve a line in the log.
    public enum News: Hashable, Sendable {
        case isDown(SessionID, reason: String)
        case isUpAgain(SessionID, down: TimeSpan)
    }

    struct Link: Sendable {
        var session: SessionID
        var standing: Set<Int> = []
        /// For each loop whose connection failed or broke: the reason.
        var reasons: [Int: String] = [:]
        var downSince: MonotonicTime?
        /// The log says that the link is down, and not yet that it is up again.
        var wasTold = false
        var toldAt: MonotonicTime?
    }

    /// The time between two lines about one link that stays down, or goes down again and again.
    public static let tellingInterval: TimeSpan = .seconds(60)
    /// For how long a node that has just lost its last connection to an owner still counts as able:
    /// loops make broken connections again, and other nodes take over the partitions of a dead owner.
    public static let patience: TimeSpan = .seconds(5)
    private static let reasonLengthMax = 200

    var links: [ProcessID: Link] = [:]
    /// When the node could last serve something.
    private var lastAble: MonotonicTime?

    public init() {}

    /// The other processes that are members now.
    public mutating func setPeers(_ peers: [SessionID]) {
        let processIDs = Set(peers.map(\.processID))
        links = links.filter { processIDs.contains($0.key) }
        for peer in peers where links[peer.processID] == nil { links[peer.processID] = Link(session: peer) }
    }

    // MARK: Reports

    public mutating func stands(_ processID: ProcessID, loop: Int, now: MonotonicTime) -> News? {
        guard var link = links[processID] else { return nil }
        link.standing.insert(loop)
        link.reasons[loop] = nil
        defer { links[processID] = link }
        guard link.reasons.isEmpty, let since = link.downSince else { return nil }
        link.downSince = nil
        guard link.wasTold else { return nil }
        link.wasTold = false
        return .isUpAgain(link.session, down: now.since(since))
    }

    /// An open connection has ended. The loop tries again immediately, so there is nothing to log yet.
    public mutating func broke(_ processID: ProcessID, loop: Int, now: MonotonicTime) {
        links[processID]?.standing.remove(loop)
        links[processID]?.reasons[loop] = "the connection ended"
        if links[processID]?.downSince == nil { links[processID]?.downSince = now }
    }

    /// A connection could not be made.
    public mutating func failed(_ processID: ProcessID, loop: Int, reason: String, now: MonotonicTime)
        -> News?
    {
        guard var link = links[processID] else { return nil }
        let reason = String(reason.prefix(PeerLinks.reasonLengthMax))
        link.standing.remove(loop)
        link.reasons[loop] = reason
        if link.downSince == nil { link.downSince = now }
        defer { links[processID] = link }
        if let told = link.toldAt, now.since(told) < PeerLinks.tellingInterval { return nil }
        link.toldAt = now
        link.wasTold = true
        return .isDown(link.session, reason: reason)
    }

    // MARK: Conclusions

    /// Links that are down, by session.
    public var down: [Down] {
        links.values.compactMap { link in
            guard let since = link.downSince, let first = link.reasons.min(by: { $0.key < $1.key }) else {
                return nil
            }
            return Down(peer: link.session, since: since, reason: first.value)
        }.sorted { $0.peer < $1.peer }
    }

    public func isUp(_ session: SessionID) -> Bool {
        guard let link = links[session.processID] else { return false }
        return !link.standing.isEmpty && link.reasons.isEmpty
    }

    /// Why this node could serve nobody, as a sentence; `nil` if it can serve.
    ///
    /// A node can serve if it has a connection to an owner of partitions, or is the only owner itself. It
    /// need not reach every owner.
    public mutating func inability(
        routes: [Ownership.Route?], members: [Ownership.Member], own: SessionID, now: MonotonicTime
    ) -> String? {
        guard !routes.isEmpty else { return nil }
        let owners = Set(routes.compactMap { $0?.session })
        let others = owners.subtracting([own]).sorted()
        if others.isEmpty ? owners.contains(own) : others.contains(where: isUp) {
            lastAble = now
            return nil
        }
        let canTake = members.contains { $0.info.isShard && !$0.info.isLeaving && !$0.info.isCutOff }
        if owners.isEmpty, !canTake {
            return "no partition has an owner, and the cluster has no shard that could take one"
        }
        if let lastAble, now.since(lastAble) < PeerLinks.patience { return nil }
        guard !others.isEmpty else { return "no partition has an owner yet" }
        return "no connection to any other owner of partitions: \(describe(others, members))"
    }

    private static let namedMax = 3

    private func describe(_ owners: [SessionID], _ members: [Ownership.Member]) -> String {
        var parts = owners.prefix(PeerLinks.namedMax).map { owner -> String in
            let member = members.first { $0.session == owner }
            let name = member.map { "\($0.name) (\($0.info.peer))" } ?? "session \(owner.rawValue)"
            let reasons = links[owner.processID]?.reasons
            return "\(name): \(reasons?.min { $0.key < $1.key }?.value ?? "not connected yet")"
        }
        if owners.count > parts.count { parts.append("and \(owners.count - parts.count) more") }
        return parts.joined(separator: "; ")
    }
}
