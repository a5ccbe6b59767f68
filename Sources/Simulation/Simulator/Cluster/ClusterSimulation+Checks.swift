import Journal
import Model
import Partitions
import Placement
import Routing

// Checks of the machines and the journals themselves, when everything has come to rest.

extension ClusterSimulation {
    /// A replay of each journal, from each kept snapshot and from the beginning, must give the state of the
    /// living machine.
    func imagesDiffer() -> [Violation] {
        var found: [Violation] = []
        for slot in slots {
            guard let process = slot.process, process.isRunning else { continue }
            for partition in process.partitions where partition.isIdle {
                let lived = partition.image()
                let id = partition.id
                var kept: [StoredPartition] = []
                let engine = database(of: id).engine
                defer { engine.hidesNewestSnapshots = false }
                for hides in [false, true] {
                    engine.hidesNewestSnapshots = hides
                    do {
                        kept.append(try StoredPartition(id, from: engine))
                    } catch {
                        found.append(
                            Violation("journals", "partition \(id.rawValue) cannot be read: \(error)"))
                    }
                }
                let past = database(of: id).records(of: id)
                if !past.isEmpty { kept.append(StoredPartition(id, records: past)) }
                for stored in kept where (try? stored.folded(options).image()) != lived {
                    found.append(
                        Violation(
                            "journals",
                            "partition \(id.rawValue) is not the fold of its journal"
                                + (stored.snapshot == nil ? "" : " behind a snapshot")))
                }
            }
        }
        return found
    }

    /// At each moment a replay of a journal must find every body for which a device waits (G2). Checked when
    /// the load ends, while devices are away and many messages wait, and at the end.
    func bodiesMissing() -> [Violation] {
        (0..<options.partitionCount).flatMap { number in
            let id = PartitionID(UInt16(number))
            do {
                let stored = try StoredPartition(id, from: database(of: id).engine)
                return try bodiesMissing(id, stored)
            } catch {
                return [
                    Violation("G2", "partition \(id.rawValue) cannot be read: \(error)")
                ]
            }
        }
    }

    /// Whether the message still waits for the device in the journal of its partition.
    func stillWaits(_ message: UInt64, for device: Int) -> Bool {
        guard let registration = clients[device].registration else { return false }
        let id = registration.partition
        guard let stored = try? StoredPartition(id, from: database(of: id).engine),
            let partition = try? stored.folded(options),
            let read = try? database(of: id).engine.readBodies(
                id, of: partition.recordsWithBodies, bytesMax: .max)
        else { return false }
        return partition.waitingEvents(of: registration.index, in: read.records)
            .contains { number(ofBody: $0) == message }
    }

    private func bodiesMissing(_ id: PartitionID, _ stored: StoredPartition) throws -> [Violation] {
        let wanted = try stored.folded(options).recordsWithBodies
        let there = Set(try database(of: id).engine.read(id, rows: wanted).map(\.sequence))
        let missing = wanted.filter { !there.contains($0) }
        guard !missing.isEmpty else { return [] }
        let numbers = missing.map { "\($0.rawValue)" }.joined(separator: ", ")
        return [
            Violation("G2", "partition \(id.rawValue): bodies wait in records that are gone: \(numbers)")
        ]
    }

    /// When nothing is under way, the gateways and a partition's owner must agree on the live streams
    /// (rule: one-state-on-two-sides).
    func streamsDiffer() -> [Violation] {
        let running = slots.compactMap(\.process).filter(\.isRunning)
        let processIDs = Set(running.map(\.processID))
        let atGateways = Set(running.flatMap { $0.loops.flatMap(\.core.streams.live) })
        let atOwners = Set(running.flatMap { $0.partitions.flatMap(\.liveStreams) })
            .filter { processIDs.contains($0.stream.gateway.processID) }
        func name(_ stream: LiveStream) -> String {
            "stream \(stream.stream.number) of process \(stream.stream.gateway.processID) for device"
                + " \(stream.device.rawValue) of partition \(stream.partition.rawValue)"
        }
        func say(_ streams: Set<LiveStream>, _ what: String) -> [Violation] {
            streams.map(name).sorted().map {
                Violation("streams", "\($0) is live at its \(what)")
            }
        }
        return say(atGateways.subtracting(atOwners), "gateway alone")
            + say(atOwners.subtracting(atGateways), "owner alone")
    }

    /// Each partition's owner and epoch, and how many partitions were lost: none of this may change once
    /// everything has healed.
    var ownership: [String] {
        databases.flatMap { (try? $0.engine.partitions()) ?? [] }.sorted { $0.id < $1.id }.map {
            "partition \($0.id.rawValue) is session \($0.owner?.rawValue ?? 0)'s since \($0.epoch.rawValue)"
        } + ["\(counts["partitions lost", default: 0]) partitions were lost"]
    }

    /// The partitions that are not where they belong while all shards run, each with both nodes.
    var displaced: [String] {
        let shards = slots.filter(\.isShard).map { NodePlacement.Candidate(name: $0.name) }
        let placement = NodePlacement(shards)
        let rows = databases.flatMap { (try? $0.engine.partitions()) ?? [] }.sorted { $0.id < $1.id }
        return rows.compactMap { row in
            let owner = slots.first { $0.process?.session == row.owner && row.owner != nil }?.name
            guard let wanted = placement.node(of: row.id)?.name, owner != wanted else { return nil }
            return "partition \(row.id.rawValue) is on \(owner ?? "no node") and belongs on \(wanted)"
        }
    }

    /// The ownership must be as it was before.
    func standsStill(since before: [String]) {
        for (was, now) in zip(before, ownership) where was != now {
            violate("G7", "long after the last fault \(was), and then \(now)")
        }
    }

    // MARK: Damaged frames

    /// Keeps a few of the sent frames.
    func keepSpecimen(_ bytes: [UInt8]) {
        guard options.poisons, eventCount % 7 == 0 else { return }
        if specimens.count < 400 { specimens.append(bytes) } else { specimens[eventCount % 400] = bytes }
    }

    /// Hands damaged frames to the nodes. No frame may end a node (G8).
    func poison() {
        isPoisoning = true
        for bytes in specimens {
            var bytes = bytes
            for _ in 0...roll(3) where !bytes.isEmpty {
                bytes[Int(roll(UInt64(bytes.count)))] = UInt8(truncatingIfNeeded: random.next())
            }
            if roll(4) == 0 { bytes.removeLast(Int(roll(UInt64(bytes.count)))) }
            let running = slots.compactMap(\.process).filter(\.isRunning)
            guard !running.isEmpty else { return }
            let to = running[Int(roll(UInt64(running.count)))]
            let from = running[Int(roll(UInt64(running.count)))]
            after(roll(.seconds(1)), .arrived, process: to) {
                to.received(bytes, from: from.processID, after: to.monotonic)
            }
        }
        run(until: now + .seconds(3))
        for slot in slots where slot.process?.isRunning != true {
            violate("G8", "\(slot.name) has ended by a damaged frame")
        }
    }
}

extension StoredPartition {
    /// Throws if the records do not fit together.
    fileprivate func folded(_ options: ClusterSimulation.Options) throws -> Partition {
        let partition = Partition(
            id: id, history: ClusterSimulation.history(of: id), options: options.partition,
            names: TopicNames(), proofs: Proofs.shared)
        try fold(into: partition)
        return partition
    }
}
