import Model
import Partitions

extension LoopCore {
    /// The first invariant that does not hold between two turns; `nil` if all do. Debug builds, and
    /// simulations with an observer, check these invariants and those of the machines inside after each turn.
    var brokenInvariant: String? {
        if !rows.isEmpty { return "rows of a turn are left" }
        if !toPeers.isEmpty { return "something for another process is left" }
        if !partitionEffects.isEmpty { return "something that a partition wants is left" }
        if let id = leaving.first(where: { partitions[$0] == nil }) {
            return "partition \(id.rawValue) is being given up, and has no machine"
        }
        if let id = inherited.keys.first(where: { partitions[$0] != nil }) {
            return "partition \(id.rawValue) is served, and the rest of it is awaited"
        }
        if let id = quarantined.keys.first(where: { partitions[$0] != nil }) {
            return "partition \(id.rawValue) is served, and quarantined"
        }
        if let id = closing.keys.first(where: { partitions[$0] != nil }) {
            return "partition \(id.rawValue) is served, and its former machine's rows are not settled"
        }
        return brokenInServing ?? brokenInOwning ?? limiter.brokenInvariant ?? brokenInRefusedKeys
    }

    private var brokenInServing: String? {
        if let (id, partition) = partitions.first(where: { $0.key != $0.value.id }) {
            return "partition \(partition.id.rawValue) stands in the place of \(id.rawValue)"
        }
        if let id = partitions.keys.first(where: { options.map.loop(of: $0) != options.number }) {
            return "partition \(id.rawValue) is another loop's"
        }
        if let id = loading.keys.first(where: { partitions[$0] != nil }) {
            return "partition \(id.rawValue) is served, and read"
        }
        if let id = loading.first(where: { $0.value != epoch(of: $0.key) })?.key {
            return "partition \(id.rawValue) is read for another epoch than it is owned in"
        }
        if let id = partitions.keys.first(where: { servedSince[$0] == nil }) {
            return "nobody knows since when partition \(id.rawValue) is served"
        }
        if let id = doubting.first(where: { partitions[$0] == nil }) {
            return "partition \(id.rawValue) is not served any more, and doubts the clock"
        }
        if !reading.partitions.isEmpty, !reading.isWakeSet { return "no timer lets streams read on" }
        if !streams.unopened.isEmpty, !isExpirySet { return "no timer ends streams that nobody accepts" }
        let unread = partitions.first { $1.hasWaitingStreams && !reading.partitions.contains($0) }
        if let id = unread?.key {
            return "nobody reads the log for the streams of partition \(id.rawValue)"
        }
        if let id = servedSince.keys.first(where: { partitions[$0] == nil }) {
            return "partition \(id.rawValue) is not served any more, and said to be"
        }
        return nil
    }

    /// Each partition must know which circuits the limiter keeps open for a refused key, and take no other
    /// key for refused.
    private var brokenInRefusedKeys: String? {
        let known = limiter.refusedKeys
        let refused = known.filter { now.monotonic < $0.value }
        for (id, partition) in partitions where partition.refusedKeys.count < Partition.refusedKeysMax {
            if refused.contains(where: { partition.refusedKeys[$0.key] != $0.value }) {
                return "partition \(id.rawValue) does not know which services refuse a project's key"
            }
            if !limiter.mayHaveForgotten, partition.refusedKeys.keys.contains(where: { known[$0] == nil }) {
                return "partition \(id.rawValue) takes a key for refused that is not"
            }
        }
        return nil
    }

    /// In a cluster only the owner of a partition may have these.
    private var brokenInOwning: String? {
        guard options.isClustered else { return nil }
        if let id = partitions.keys.first(where: { epoch(of: $0) == Epoch(0) }) {
            return "partition \(id.rawValue) is served without an epoch"
        }
        if let project = grantor.openProjects.first(where: { partitions[home(of: $0)] == nil }) {
            return "the buckets of project \(project.rawValue) are open, and their partition is not served"
        }
        return nil
    }

    // MARK: Looking

    /// Whether invariants are checked. A server does not check them.
    private var isWatched: Bool {
        #if DEBUG
            return true
        #else
            return observer != nil
        #endif
    }

    func checkInvariants() {
        guard isWatched else { return }
        report(brokenInvariant)
        report(brokenInGateway())
    }

    /// Checks the partitions that had work in this turn.
    func checkPartitions() {
        guard isWatched else { return }
        for id in dirty.sorted() {
            guard let partition = partitions[id] else { continue }
            let isWhole = partition.invariantSchedule.isWholeDue(size: partition.checkSize)
            report(partition.brokenInvariant(isWhole: isWhole).map { "partition \(id.rawValue): \($0)" })
        }
    }

    private func brokenInGateway() -> String? {
        let isRouterWhole = router.invariantSchedule.isWholeDue(size: router.checkSize)
        if let broken = router.brokenInvariant(isWhole: isRouterWhole) { return "router: \(broken)" }
        let isStreamsWhole = streams.invariantSchedule.isWholeDue(size: streams.checkSize)
        if let broken = InvariantSchedule.look(at: &streams, { $0.brokenInvariant(isWhole: isStreamsWhole) })
        {
            return "streams: \(broken)"
        }
        let isGrantorWhole = grantor.invariantSchedule.isWholeDue(size: grantor.checkSize)
        let inGrantor = InvariantSchedule.look(at: &grantor) { $0.brokenInvariant(isWhole: isGrantorWhole) }
        return inGrantor.map { "grantor: \($0)" }
    }

    private func report(_ broken: String?) {
        guard let broken else { return }
        guard let observer else { preconditionFailure(broken) }
        observer.isBroken(broken)
    }
}
