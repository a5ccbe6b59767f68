import Model

/// What is accepted leaves its outbox within `patience` while nothing is broken and the receiver has an owner
/// (rule: outboxes-move). Looks only when everything has healed.
struct OutboxChecks {
    private struct Pair: Hashable {
        var sender: PartitionID
        var receiver: PartitionID
    }
    private struct Wait {
        var entry: Sequence
        var since: MonotonicTime
        var isTold = false
    }
    private var waits: [Pair: Wait] = [:]

    /// Whether an entry waits at all.
    var isWaiting: Bool { waits.values.contains { !$0.isTold } }

    mutating func look(_ world: ClusterSimulation) {
        var next: [Pair: Wait] = [:]
        let unserved = Set(world.unserved)
        func isServed(_ id: PartitionID) -> Bool { !unserved.contains(Int(id.rawValue)) }
        for process in world.slots.compactMap(\.process)
        where process.isRunning && process.frozenUntil <= world.now {
            for partition in process.partitions where isServed(partition.id) {
                for (receiver, entry) in partition.waitingEntries where isServed(receiver) {
                    let pair = Pair(sender: partition.id, receiver: receiver)
                    let former = waits[pair]
                    next[pair] = former?.entry == entry ? former : Wait(entry: entry, since: world.now)
                }
            }
        }
        waits = next
        let pairs = waits.keys.sorted { ($0.sender, $0.receiver) < ($1.sender, $1.receiver) }
        for pair in pairs { check(pair, world) }
    }

    private mutating func check(_ pair: Pair, _ world: ClusterSimulation) {
        guard let wait = waits[pair], !wait.isTold else { return }
        let age = world.now.since(wait.since)
        guard age >= world.options.patience else { return }
        waits[pair]?.isTold = true
        world.violate(
            "outboxes",
            "partition \(pair.sender.rawValue) waits with entry \(wait.entry.rawValue) for partition"
                + " \(pair.receiver.rawValue), which has an owner, for \(age.milliseconds) ms")
    }
}
