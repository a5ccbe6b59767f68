import Model

@testable import Partitions

/// What a partition's delivery log should hold, as one plain queue for each device.
struct LogTwin {
    struct Waiting: Equatable {
        var position: UInt64
        var key: [UInt8]
        var project: UInt32
        /// Milliseconds at which the message ends on streams, and at each push service.
        var stream: Int64
        var services: [Transport.Kind: Int64]
        var bytes: Int
    }
    var queues: [UInt32: [Waiting]] = [:]
    /// The push services of which each device has told an address.
    var addresses: [UInt32: Set<Transport.Kind>] = [:]
    var projects: [UInt32: UInt32] = [:]
    var overflowed: [UInt32: UInt64] = [:]
    /// How often a device came to its bound.
    var overflows = 0

    mutating func deliver(
        _ project: UInt32, _ message: Envelope, _ targets: DeviceSet, _ decision: DeliveryDecision
    ) {
        var targets = targets.sorted.filter { projects[$0] == project }
        if decision.disposition == .late || decision.disposition == .passing {
            targets = targets.filter { index in
                addresses[index]?.contains { decision.reach.contains($0) } ?? false
            }
        }
        guard !targets.isEmpty else { return }
        let told = decision.position.rawValue - 1
        if decision.disposition == .refused || decision.isReachRefused {
            for index in targets { overflowed[index] = told }
            return
        }
        for index in decision.passed.sorted { pass(index, upTo: decision.passedUpTo.rawValue) }
        let new = Waiting(
            position: decision.position.rawValue, key: message.collapseKey, project: project,
            stream: LogTwin.end(of: message, message.times.stream),
            services: LogTwin.services(message, Set(targets.flatMap { addresses[$0] ?? [] })),
            bytes: message.event.count)
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

    /// A time to live of 0 ends before the message comes.
    private static func end(of message: Envelope, _ seconds: UInt32) -> Int64 {
        seconds == 0 ? 0 : message.sent.milliseconds + Int64(seconds) * 1000
    }

    /// At a service of which no target has an address, the message ends no later than on streams.
    private static func services(
        _ message: Envelope, _ present: Set<Transport.Kind>
    ) -> [Transport.Kind: Int64] {
        let stream = end(of: message, message.times.stream)
        let ends = Transport.Kind.allCases.map { kind in
            let own = end(of: message, message.times[kind])
            return (kind, present.contains(kind) ? own : min(own, stream))
        }
        return Dictionary(uniqueKeysWithValues: ends)
    }

    /// A device waits until its last way ends. What ended before it came goes after its own minute.
    mutating func expire(_ now: Int64) {
        for index in queues.keys {
            let kinds = addresses[index] ?? []
            queues[index]?.removeAll { waiting in
                let last = kinds.reduce(waiting.stream) { max($0, waiting.services[$1] ?? 0) }
                return max(last, Int64(waiting.position / 1000)) / 60_000 < now / 60_000
            }
        }
    }

    /// A message that is over by the addresses that the device has does not come back with another kind.
    mutating func told(_ index: UInt32, _ kind: Transport.Kind, at now: Int64) {
        let kinds = addresses[index] ?? []
        addresses[index, default: []].insert(kind)
        guard !kinds.contains(kind) else { return }
        queues[index]?.removeAll { waiting in
            kinds.reduce(waiting.stream) { max($0, waiting.services[$1] ?? 0) } <= now
        }
    }

    mutating func pushed(_ index: UInt32, at position: UInt64) {
        queues[index]?.removeAll { $0.position == position }
    }

    mutating func end(_ index: UInt32) {
        queues[index] = nil
        addresses[index] = nil
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
