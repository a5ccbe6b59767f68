import Model
import Partitions

// The invariants of a router between two events.

extension Router {
    /// The first invariant that does not hold; `nil` if all do. `isWhole`: also those of every request.
    public func brokenInvariant(isWhole: Bool) -> String? {
        let inAdmission = InvariantSchedule.look(at: &admission) { $0.brokenInvariant(isWhole: isWhole) }
        if let broken = brokenInWaking ?? inAdmission { return broken }
        guard isWhole else { return nil }
        return pending.brokenInvariant ?? brokenInRequests ?? brokenInLines
    }

    /// How many entries a whole look visits, about.
    public var checkSize: Int {
        pending.slots.count + waitingRequests.count + lines.count + admission.checkSize
    }

    func checkInvariants() {
        #if DEBUG
            guard let isWhole = invariantSchedule.isWholeDueHere(size: checkSize) else { return }
            InvariantSchedule.demand(brokenInvariant(isWhole: isWhole))
        #endif
    }

    /// Each request that waits for a moment must be woken by then.
    private var brokenInWaking: String? {
        if pending.count > options.requestsMax { return "more requests are under way than may be" }
        if pending.count > 0, deadlines.isEmpty { return "requests have no deadline" }
        if !deadlines.isEmpty, wakeAt == nil { return "nobody is woken at the next deadline" }
        if zip(deadlines, deadlines.dropFirst()).contains(where: { $0.at > $1.at || $0.upTo >= $1.upTo }) {
            return "deadlines are out of order"
        }
        if options.isClustered, pending.count > 0, retryAt == nil { return "nobody is woken to ask again" }
        for (partition, waiting) in waitingRequests {
            if case .refusing = waiting.service, waiting.hasUnseen {
                return "a request still waits in the queue of a partition that refuses"
            }
            guard let due = waiting.due else {
                if waiting.isEmpty { continue }
                return "nothing is asked of partition \(partition.rawValue) again"
            }
            if retryAt.map({ $0 > due }) ?? true {
                return "nobody is woken to ask partition \(partition.rawValue) again"
            }
        }
        return nil
    }

    private var brokenInRequests: String? {
        var waiting: [PartitionID: Set<UInt64>] = [:]
        for (partition, queue) in waitingRequests { waiting[partition] = Set(queue.numbers) }
        var partsLeft: [UInt64: Int] = [:]
        var wholes: [UInt64: Int] = [:]
        for number in pending.numbers(upTo: .max) {
            if number > deadlines.last?.upTo ?? 0 { return "a request has no deadline" }
            if let change = pending[change: number] { wholes[number] = change.partsLeft }
            guard let asked = pending[number] else { continue }
            if asked.isWaiting, !(waiting[asked.partition]?.contains(number) ?? false) {
                return "a request waits, and nobody asks it again"
            }
            if let key = asked.request?.sendKey, key.number > sendNumbers[Int(asked.partition.rawValue)] {
                return "a send has a number that was not given"
            }
            if case .part(let whole, _) = asked.kind { partsLeft[whole, default: 0] += 1 }
        }
        for (whole, left) in wholes where left != partsLeft[whole] ?? 0 {
            return "a change waits for other parts than are under way"
        }
        return nil
    }

    /// Operations that wait for quota must be woken.
    private var brokenInLines: String? {
        for (key, line) in lines {
            if line.operations.count > options.bounds.quotaWaitersMax {
                return "more operations wait than may"
            }
            if line.operations.isEmpty || !admission.isLookedAfter(key.kind, key.project) {
                return "operations wait for quota, and nobody wakes them"
            }
        }
        return nil
    }
}

extension PendingTable {
    var brokenInvariant: String? {
        let taken = slots.indices.filter { slots[$0].entry != nil }
        if taken.count != count || count + free.count != slots.count {
            return "requests under way are counted wrongly"
        }
        if free.contains(where: { slots[$0].entry != nil }) { return "a request's slot is free" }
        if taken.contains(where: { !contains(slots[$0].number) }) {
            return "a request is not found by its number"
        }
        return nil
    }
}
