import Model
import Partitions

/// Streams that wait for their turn to read the log, in all partitions of a loop.
struct StreamReading {
    /// Partitions that have such streams, or had some a turn ago.
    var partitions = PartitionSet()
    /// The partition that was the first of the last turn: the next turn begins behind it.
    var first: PartitionID?
    var isWakeSet = false
    /// Whether the wake has come, and streams may read a little of a link that fills.
    var isDue = false
}

extension LoopCore {
    private enum Way: Hashable {
        case loop(Int)
        case process(ProcessID)
    }

    /// Lets streams read the log as far as the links to their gateways have room: all that waits for a
    /// gateway's streams may be more than a link takes, and a link that takes no more is cut off.
    func readStreams() {
        guard !reading.partitions.isEmpty else { return }
        let ids = inTurn(reading.partitions.sorted())
        reading.first = ids.first
        // One partition must not use up what a turn has for all.
        let share = max(1, options.bounds.readBytesAtOnce / min(16, ids.count))
        var room: [Way: Int] = [:]
        for id in ids {
            readStreams(of: id, share: share, &room)
            if !(partitions[id]?.hasWaitingStreams ?? false) { reading.partitions.remove(id) }
        }
        reading.isDue = false
        guard !reading.partitions.isEmpty, !reading.isWakeSet else { return }
        reading.isWakeSet = true
        wake(.readOn, in: options.bounds.readPause)
    }

    private func readStreams(of id: PartitionID, share: Int, _ room: inout [Way: Int]) {
        guard let partition = partitions[id] else { return }
        for gateway in partition.gatewaysInTurn() {
            let way = way(to: gateway)
            let left = room[way] ?? self.room(on: way)
            room[way] = left
            guard left > 0 else { continue }
            let bytes = partition.readOn(
                at: gateway, bytes: min(left, share), now: now, into: &partitionEffects)
            room[way] = left - bytes
            dirty.insert(id)
            carryOut(of: id)
        }
    }

    /// The partitions in the order of their turns.
    private func inTurn(_ ids: [PartitionID]) -> [PartitionID] {
        guard let last = reading.first, let first = ids.firstIndex(where: { $0 > last }) else { return ids }
        return Array(ids[first...] + ids[..<first])
    }

    private func way(to gateway: GatewayID) -> Way {
        gateway.processID == options.processID ? .loop(gateway.loop) : .process(gateway.processID)
    }

    /// The bytes that may go that way in this turn. A link that ordinary traffic keeps filled gets one part
    /// for each wake, so that its streams come on.
    private func room(on way: Way) -> Int {
        let pressure: Pressure
        switch way {
        // A peer may name a gateway on a loop that this node does not have.
        case .loop(let loop) where loop == options.number || loop >= options.map.loopCount: pressure = .none
        case .loop(let loop): pressure = host.pressure(ofLoop: loop)
        case .process(let processID): pressure = host.pressure(ofPeer: processID)
        }
        switch pressure {
        case .none: return options.bounds.readBytesAtOnce
        case .filling: return reading.isDue ? options.partition.streamBytesAtOnce : 0
        case .behind, .full: return 0
        }
    }
}
