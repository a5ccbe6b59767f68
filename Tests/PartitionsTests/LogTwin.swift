import Model

@testable import Partitions

/// What a partition's delivery log should hold, as one plain queue for each device.
struct LogTwin {
    struct Waiting: Equatable {
        var position: UInt64
        var key: [UInt8]
        var project: UInt32
        var expires: Int64
        var bytes: Int
    }
    var queues: [UInt32: [Waiting]] = [:]
    var projects: [UInt32: UInt32] = [:]
    var overflowed: [UInt32: UInt64] = [:]
    /// How often a device came to its bound.
    var overflows = 0

    mutating func deliver(
        _ project: UInt32, _ message: Envelope, _ targets: DeviceSet, _ decision: DeliveryDecision
    ) {
        let targets = targets.sorted.filter { projects[$0] == project }
        guard decision.disposition != .late, !targets.isEmpty else { return }
        let told = decision.position.rawValue - 1
        if decision.disposition == .refused { for index in targets { overflowed[index] = told } }
        guard decision.disposition == .stored else { return }
        for index in decision.passed.sorted { pass(index, upTo: decision.passedUpTo.rawValue) }
        let new = Waiting(
            position: decision.position.rawValue, key: message.collapseKey, project: project,
            expires: message.expires.milliseconds, bytes: message.event.count)
        for index in targets {
            var queue = queues[index] ?? []
            if new.key.isEmpty {
                let waiting = queue.count { $0.key.isEmpty }
                let most = decision.exempt.contains(index) ? 1000 : 100
                if waiting >= most {
                    queue = []
                    overflows += 1
                    overflowed[index] = told
                }
            } else {
                queue.removeAll { $0.key == new.key && $0.project == project }
                if queue.count(where: { !$0.key.isEmpty }) >= 4,
                    let oldest = queue.firstIndex(where: { !$0.key.isEmpty })
                {
                    queue.remove(at: oldest)
                }
            }
            queues[index] = queue + [new]
        }
    }

    /// A listening device's oldest entries count as delivered. A device that did not get them is told of a
    /// loss.
    private mutating func pass(_ index: UInt32, upTo limit: UInt64) {
        let queue = (queues[index] ?? []).filter { $0.position <= limit }
        let plain = queue.filter { $0.key.isEmpty }
        let last = plain.count < 64 ? queue.last : plain[63]
        if let last { pass(index, wholly: last.position) }
    }

    mutating func pass(_ index: UInt32, wholly position: UInt64) {
        guard projects[index] != nil else { return }
        queues[index]?.removeAll { $0.position <= position }
        overflowed[index] = max(position, overflowed[index] ?? 0)
    }

    mutating func read(_ index: UInt32, upTo position: UInt64) {
        queues[index]?.removeAll { $0.position <= position }
        if let told = overflowed[index], told <= position { overflowed[index] = nil }
    }

    mutating func expire(_ now: Int64) {
        for index in queues.keys { queues[index]?.removeAll { $0.expires / 60_000 < now / 60_000 } }
    }

    mutating func end(_ index: UInt32) {
        queues[index] = nil
        projects[index] = nil
        overflowed[index] = nil
    }

    /// Entries for which some device waits, by position.
    var entries: [UInt64: Waiting] {
        var found: [UInt64: Waiting] = [:]
        for queue in queues.values { for waiting in queue { found[waiting.position] = waiting } }
        return found
    }
}
