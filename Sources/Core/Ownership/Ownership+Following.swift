import Model

// Handover by following (rule: partitions-go-where-they-belong): before an owner gives a partition up, the
// heir reads it while the owner still serves. After the change the heir reads only what came in between.

/// The heirs of this node's partitions, and the partitions that this node reads as an heir. Nothing here
/// grants anything: an heir that has read nothing, or something old, reads again when it is owner; an owner
/// whose heir does not answer gives up all the same.
struct Following {
    private struct Heir {
        var session: SessionID
        var since: MonotonicTime
        var isReady = false
    }
    private struct Read {
        var owner: SessionID
        var since: MonotonicTime
    }

    private var heirs: [PartitionID: Heir] = [:]
    /// Heirs that did not report in time. Their partitions are given up without another wait.
    private var deaf: Set<SessionID> = []
    private var reads: [PartitionID: Read] = [:]

    /// Partitions that this node is about to give to an heir.
    var offered: some Swift.Sequence<PartitionID> { heirs.keys }

    /// How many partitions have an heir that is still reading.
    var waitingCount: Int { heirs.values.count { !$0.isReady } }

    func waits(_ id: PartitionID) -> Bool { heirs[id].map { !$0.isReady } ?? false }

    enum Advice { case ask, wait, giveUp }

    /// What the owner does next with a partition that is to go to `heir`; `nil` if the heir has no
    /// session.
    mutating func advise(
        _ id: PartitionID, to heir: SessionID?, _ options: Ownership.Options, now: MonotonicTime
    ) -> Advice {
        guard let heir, !deaf.contains(heir) else { return .giveUp }
        guard let known = heirs[id], known.session == heir else {
            heirs[id] = Heir(session: heir, since: now)
            return .ask
        }
        if known.isReady { return .giveUp }
        guard now.since(known.since) >= options.followingMax else { return .wait }
        deaf.insert(heir)
        return .giveUp
    }

    /// Notes that the heir has read the partition. False if this node does not wait for that heir.
    mutating func isFollowed(_ id: PartitionID, by session: SessionID) -> Bool {
        guard heirs[id]?.session == session else { return false }
        heirs[id]?.isReady = true
        return true
    }

    /// Forgets the partition's heir: the partition is given up, or stays here.
    mutating func settle(_ id: PartitionID) { heirs[id] = nil }

    /// The candidates have changed: every heir may be asked again.
    mutating func forgetDeaf() { deaf = [] }

    // MARK: As an heir

    /// Notes an owner's offer. False if this node reads as many partitions as it may.
    mutating func accept(
        _ id: PartitionID, of owner: SessionID, _ options: Ownership.Options, now: MonotonicTime
    ) -> Bool {
        guard reads[id] != nil || reads.count < options.followsAtOnce else { return false }
        reads[id] = Read(owner: owner, since: now)
        return true
    }

    func owner(of id: PartitionID) -> SessionID? { reads[id]?.owner }

    mutating func end(_ id: PartitionID) -> Bool { reads.removeValue(forKey: id) != nil }

    /// Forgets partitions that were offered `followedFor` ago and never inherited, and returns them.
    mutating func expired(_ options: Ownership.Options, _ now: MonotonicTime) -> [PartitionID] {
        let old = reads.filter { now.since($0.value.since) >= options.followedFor }.keys.sorted()
        for id in old { reads[id] = nil }
        return old
    }
}

extension Ownership {
    /// Another owner is about to give the partition to this node.
    mutating func offered(_ id: PartitionID, by owner: SessionID, _ turn: inout Turn) {
        guard Int(id.rawValue) < last.partitions.count, holdings[id] == nil, info.isShard, !info.isLeaving,
            !info.isCutOff, following.accept(id, of: owner, options, now: turn.now)
        else { return }
        turn.effects.append(.follow(id))
    }

    mutating func followed(_ id: PartitionID, _ turn: inout Turn) {
        guard let owner = following.owner(of: id) else { return turn.effects.append(.unfollow(id)) }
        turn.effects.append(.tellFollowed(id, to: owner))
    }

    /// Whether this node gives the partition up now. Asks the heir to read it, if it has not yet.
    mutating func mayGiveUp(_ id: PartitionID, to heir: String, _ turn: inout Turn) -> Bool {
        // A node that is cut off from the others cannot ask them.
        guard !info.isCutOff else { return true }
        let session = members.last { $0.name == heir }?.session
        switch following.advise(id, to: session, options, now: turn.now) {
        case .giveUp: return true
        case .wait: break
        case .ask: if let session { turn.effects.append(.offer(id, to: session)) }
        }
        return false
    }
}
