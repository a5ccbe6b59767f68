import Model
import NodeCore

// Processes that begin, end, and are fenced.

extension ClusterSimulation {
    func start(_ index: Int) {
        guard slots[index].process?.isRunning != true else { return }
        guard !options.isLone else { return startAlone(index) }
        guard mayJoin(index) else { return restart(index, in: .seconds(1)) }
        // A database may well start later than its nodes.
        guard home.reaches(index) else { return restart(index, in: .seconds(1)) }
        guard !hasLives else { return settleLife(index) }
        guard let session = try? home.engine.beginSession(node: slots[index].name) else {
            return restart(index, in: .seconds(1))
        }
        note(session.rawValue)
        begin(SimulatedProcess(self, index: index, session: session))
    }

    /// A node compares its clock with the database's before it joins (rule: wall-time-is-a-witness).
    func mayJoin(_ index: Int) -> Bool {
        let own = WallTime(milliseconds: slots[index].clock.reading(wall, now))
        let reading = ClockReading(asked: now, own: Instant(monotonic: now, wall: own), theirs: wall)
        guard reading.refusalToJoin != nil else { return true }
        count("nodes that may not join")
        return false
    }

    /// The process begins to run on its machine.
    func begin(_ process: SimulatedProcess) {
        debug("\(slots[process.index].name) begins as process \(process.processID)")
        slots[process.index].startsAt = nil
        slots[process.index].process = process
        hinder(process.index, until: now + .seconds(1))
        process.start()
    }

    func restart(_ index: Int, in delay: TimeSpan) {
        let at = now + delay
        slots[index].startsAt = at
        after(delay, .fault) { if self.slots[index].startsAt == at { self.start(index) } }
    }

    /// The process ends immediately: by a crash, because it was fenced, or because it has given everything
    /// up.
    func end(_ process: SimulatedProcess, fences: Bool, isSilent: Bool = false) {
        guard process.isRunning else { return }
        if fences { process.keepQuotas() }
        debug("process \(process.processID) of \(slots[process.index].name) ends")
        process.isRunning = false
        hinder(process.index, until: now + .seconds(3))
        for database in databases where fences && database.reaches(process.index) {
            try? database.engine.fence(process.session)
        }
        network.ended(process, isSilent: isSilent)
        let calls = process.calls.sorted { $0.key < $1.key }
        process.calls = [:]
        process.stalled = []
        for (_, tell) in calls { after(roll(.milliseconds(2)), .client, body: tell) }
        for listener in process.abandonLoops() {
            after(roll(.milliseconds(2)), .client) { self.hungUp(listener) }
        }
        ghosts.removeAll { $0 === process }
        guard slots[process.index].process === process else { return }
        setFirstClock(process.index)
        restart(process.index, in: isHealing ? .milliseconds(200) : .milliseconds(300) + roll(.seconds(4)))
    }

    /// The process has given its partitions up: streams end, requests finish, then the process ends.
    func retire(_ process: SimulatedProcess) {
        guard !process.isRetiring else { return }
        process.isRetiring = true
        for loop in process.loops { loop.endStreams() }
        wait(for: process, until: now + .seconds(10))
    }

    private func wait(for process: SimulatedProcess, until limit: MonotonicTime) {
        after(.milliseconds(50), .timer, process: process) {
            if !process.isBusy || self.now >= limit { return self.end(process, fences: true) }
            self.wait(for: process, until: limit)
        }
    }

    /// Until that time other nodes may have a reason to hold the machine's process dead.
    func hinder(_ index: Int, until: MonotonicTime) {
        slots[index].hinderedUntil = max(slots[index].hinderedUntil, until)
    }

    /// - Parameter stopsClock: the process's own monotonic clock stops meanwhile.
    func freeze(_ process: SimulatedProcess, for length: TimeSpan, stopsClock: Bool = false) {
        guard process.isRunning, process.frozenUntil <= now else { return }
        process.frozenUntil = now + length
        if stopsClock { process.stopClock() }
        hinder(process.index, until: now + length)
        network.slept(process)
        after(length, .fault) { self.thaw(process) }
    }

    /// G7: no process may be fenced that runs, is awake and reaches the database.
    func fenced(_ session: SessionID, by observer: Int) {
        count("fences")
        for (index, slot) in slots.enumerated() {
            guard let process = slot.process, process.session == session, process.isRunning else { continue }
            // The renewal, the look that misses it and the fence are three writes.
            let told = TimeSpan.seconds(1) + 2 * options.ownership.pollInterval + 3 * options.writeMin
            guard now > slot.hinderedUntil + told, !process.isLeaving else { continue }
            violate(
                "G7",
                "\(slot.name) is fenced by \(slots[observer].name) though nothing ails node-\(index)")
        }
    }
}
