import Model

// Handover by following (rule: partitions-go-where-they-belong): before a partition is given up, its heir
// reads it while the owner still serves; what then remains to be read is what came in between.

/// Who is to inherit what, and what this node reads for others. Nothing here grants anything: an heir that
/// has read nothing, or something old, reads again when it is owner; an owner whose heir says nothing gives
/// up all the same.
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
    /// Heirs that were asked and said nothing in time.
    private var deaf: Set<SessionID> = []
    private var reads: [PartitionID: Read] = [:]

    /// Partitions that are to be given to an heir.
    var offered: some Swift.Sequence<PartitionID> { heirs.keys }

    /// Partitions whose heirs are reading.
    var waitingCount: Int { heirs.values.count { !$0.isReady } }

    func waits(_ id: PartitionID) -> Bool { heirs[id].map { !$0.isReady } ?? false }

    enum Advice { case ask, wait, giveUp }

    /// What to do with a partition that is to go to `heir`.
    mutating func advise(
        _ id: PartitionID, _ heir: SessionID?, _ options: Ownership.Options, _ now: MonotonicTime
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

    /// Whether this was waited for.
    mutating func isFollowed(_ id: PartitionID, by session: SessionID) -> Bool {
        guard heirs[id]?.session == session else { return false }
        heirs[id]?.isReady = true
        return true
    }

    /// The partition has gone, or stays.
    mutating func settle(_ id: PartitionID) { heirs[id] = nil }

    /// Other nodes are there than before.
    mutating func forgetDeaf() { deaf = [] }

    // MARK: As an heir

    /// Whether to begin to read.
    mutating func begin(
        _ id: PartitionID, of owner: SessionID, _ options: Ownership.Options, _ now: MonotonicTime
    ) -> Bool {
        guard reads[id] != nil || reads.count < options.followsAtOnce else { return false }
        reads[id] = Read(owner: owner, since: now)
        return true
    }

    func owner(of id: PartitionID) -> SessionID? { reads[id]?.owner }

    mutating func end(_ id: PartitionID) -> Bool { reads.removeValue(forKey: id) != nil }

    /// What was read long ago and never inherited.
    mutating func expired(_ options: Ownership.Options, _ now: MonotonicTime) -> [PartitionID] {
        let old = reads.filter { now.since($0.value.since) >= options.followedFor }.keys.sorted()
        for id in old { reads[id] = nil }
        return old
    }
}

extension Ownership {
    /// Another owner is about to give the partition to this node.
    mutating func offered(
        _ id: PartitionID, by owner: SessionID, _ now: MonotonicTime, _ effects: inout [Effect]
    ) {
        guard Int(id.rawValue) < last.partitions.count, holdings[id] == nil, info.isShard, !info.isLeaving,
            !info.isCutOff, following.begin(id, of: owner, options, now)
        else { return }
        effects.append(.follow(id))
    }

    mutating func followed(_ id: PartitionID, _ effects: inout [Effect]) {
        guard let owner = following.owner(of: id) else { return effects.append(.unfollow(id)) }
        effects.append(.tellFollowed(id, to: owner))
    }

    /// Whether to give the partition up now.
    mutating func mayGiveUp(
        _ id: PartitionID, to heir: String, _ now: MonotonicTime, _ effects: inout [Effect]
    ) -> Bool {
        // Whoever is cut off from the others cannot tell them.
        guard !info.isCutOff else { return true }
        let session = members.last { $0.name == heir }?.session
        switch following.advise(id, session, options, now) {
        case .giveUp: return true
        case .wait: break
        case .ask: if let session { effects.append(.offer(id, to: session)) }
        }
        return false
    }
}
