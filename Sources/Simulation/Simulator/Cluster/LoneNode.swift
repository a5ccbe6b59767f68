import Journal
import Model
import NodeCore

// A lone node, on a database that only its process writes, in the place of the part of `Node` that is
// not clustered.

extension ClusterSimulation {
    /// As `Node.openEngines`: takes all partitions. The machine may go down at any call meanwhile.
    func startAlone(_ index: Int) {
        guard home.reaches(index) else { return restart(index, in: .seconds(1)) }
        let isDoomed = isLoading && !isHealing && options.hasFaults && chance(200)
        do {
            let session = try home.engine.beginSession(node: slots[index].name)
            note(session.rawValue)
            let reading = WallTime(milliseconds: slots[index].clock.reading(wall, now))
            let clock = Instant(monotonic: now, wall: reading)
            let calls = isDoomed ? Int(roll(UInt64(8 * options.partitionCount + 8))) : nil
            let start = try home.start(session, clock, ending: calls)
            allowForClock(reading)
            slots[index].startsAt = nil
            let process = SimulatedProcess(self, index: index, session: session, lone: start)
            slots[index].process = process
            notesFirst(reading, of: process, found: start.clockWitness)
            process.start()
        } catch {
            firstClocks.failed()
            count("starts that ended")
            restart(index, in: .milliseconds(300) + roll(.seconds(1)))
        }
    }

    /// The buckets of a node that ended in order fill by its wall clock until the next start.
    private func allowForClock(_ wall: WallTime) {
        guard let kept = quotasKept else { return }
        quotasKept = nil
        let passed = TimeSpan.milliseconds(UInt64(max(0, wall.milliseconds - kept.wall.milliseconds)))
        if passed > now.since(kept.at) { meter.fill() }
    }

    /// An operator's change comes to the node at once.
    func catalogChanged() {
        guard options.isLone, let process = slots[0].process, process.isRunning else { return }
        after(.microseconds(50), .loop, process: process) { process.apply(self.home.catalog) }
    }
}

extension SimulatedProcess {
    /// As `Node.load`.
    func readAll(_ start: LoneStart) {
        for partition in start.partitions {
            connections(of: partition.id).journal.open(partition.id, next: partition.next)
            call(.load(partition.id, partition.epoch, behind: nil))
        }
    }

    /// As `Node.keepQuotas`, when the process ends in order.
    func keepQuotas() {
        guard lone != nil, world.home.reaches(index) else { return }
        var left: [ProjectNumber: [UInt64]] = [:]
        for loop in loops { left.merge(loop.core.remainders(now: clock)) { $1 } }
        guard (try? FormerQuotas.put(left, to: world.home.engine, now: clock.wall)) != nil else { return }
        world.quotasKept = (world.now, clock.wall)
    }
}

extension SimulatedDatabase {
    /// - Parameter calls: the machine goes down after so many calls.
    func start(_ session: SessionID, _ clock: Instant, ending calls: Int?) throws -> LoneStart {
        engine.callsLeft = calls
        let result = Result {
            try LoneStart(session, of: engine, projects: catalog.births.keys.sorted(), clock: { clock })
        }
        engine.callsLeft = nil
        engine.crash(keepsUnacknowledged: true)
        for row in try engine.partitions() where row.owner == session { try taken(row.id, by: session) }
        return try result.get()
    }
}

extension SimulatedDatabase {
    /// The process cannot know any more what its disk has, and ends; its machine may go down with it.
    func gaveUp(on process: SimulatedProcess) {
        world.count("disks that failed")
        world.end(process, fences: false)
        crash(keepsUnacknowledged: world.roll(2) == 0)
    }
}
