import Model
import NodeCore
import Partitions

// Faults, and how long each one lasts.

extension ClusterSimulation {
    func scheduleFaults() {
        guard options.hasFaults, !faultLots.isEmpty else { return }
        after(roll(options.faultGapMax), .fault) {
            guard self.isLoading, !self.isHealing else { return }
            self.breakSomething()
            self.scheduleFaults()
        }
    }

    /// Whether the next effect of a loop is the one at which its process crashes.
    var isCrashDue: Bool {
        guard options.effectsGapMax > 0, options.hasFaults, isLoading, !isHealing else { return false }
        if effectsLeft == 0 { effectsLeft = 1 + roll(options.effectsGapMax) }
        effectsLeft -= 1
        return effectsLeft == 0
    }

    /// The process ends between two effects of a turn.
    func crash(_ process: SimulatedProcess, at effect: LoopEffect) {
        fault("\(slots[process.index].name) crashes before an effect")
        count("crashes before an effect")
        end(process, fences: false)
    }

    private func fault(_ what: String) {
        history.faults.append("\(what) at \(seconds)")
        trouble(for: .seconds(14))
        count("faults")
    }

    /// The faults to draw from; crashes and sleeps count twice.
    static func lots(_ options: Options) -> [Fault] {
        let faults = options.isLone ? options.faults.filter(\.isOfOne) : options.faults
        return Fault.allCases.filter { faults.contains($0) }
            .flatMap { $0 == .crash || $0 == .sleep ? [$0, $0] : [$0] }
    }

    private func breakSomething() {
        let index = Int(roll(UInt64(slots.count)))
        let name = slots[index].name
        let process = slots[index].process.flatMap { $0.isRunning ? $0 : nil }
        switch faultLots[Int(roll(UInt64(faultLots.count)))] {
        case .crash:
            fault("\(name) crashes")
            if let process { end(process, fences: false) }
        case .silentCrash:
            fault("\(name)'s machine is gone")
            if let process { end(process, fences: false, isSilent: true) }
        case .nap: sleep(process, .milliseconds(50) + roll(.milliseconds(1300)))
        case .sleep: sleep(process, .milliseconds(1500) + roll(.seconds(8)))
        case .leave:
            fault("\(name) leaves")
            process?.leave()
        case .reset: resetOne()
        case .resetAll: resetAll(of: index)
        case .cut: cutPair(index)
        case .isolation: isolate(index)
        case .blindness:
            blind(index, for: .milliseconds(200) + roll(.seconds(8)))
            if roll(2) == 0 { isolate(index) }
        case .databaseAway: takeDatabaseAway()
        case .stalledConnection: stallDatabase(index)
        case .slowLinks:
            fault("\(name)'s links are slow")
            network.slowness[index] = .milliseconds(5) + roll(.milliseconds(100))
            after(roll(.seconds(6)), .fault) { self.network.slowness[index] = nil }
        case .supersession: supersede(index)
        case .clockLeaps:
            let most = options.leapMax.milliseconds
            let leap = Int64(roll(2 * most)) - Int64(most)
            fault("\(name)'s clock leaps by \(leap) ms")
            slots[index].clock.leap(by: leap, now)
            mendClock(index)
        case .clockDrifts:
            let drift = Int64(roll(2 * options.driftPerMille + 1)) - Int64(options.driftPerMille)
            fault("\(name)'s clock is \(drift) thousandths too fast")
            slots[index].clock.drift(drift, now)
            mendClock(index)
        case .standstill: standStill(process)
        case .lostMachine: loseMachine(process)
        case .clockStops:
            fault("\(name)'s clock stands still")
            slots[index].clock.stop(now)
            mendClock(index)
        }
    }

    /// The machine's clock may be wrong when a process starts: a board before the first answer of a time
    /// server, or a virtual machine that was kept for long.
    func setFirstClock(_ index: Int) {
        guard options.hasFaults, !isHealing, chance(options.wrongStartsPerMille) else { return }
        let hour: UInt64 = 3_600_000
        let day = 24 * hour
        let error = [
            hour + roll(24 * hour), day + roll(8 * day), 7 * day + roll(300 * day),
            365 * day + roll(40 * 365 * day),
        ][Int(roll(4))]
        let signed = roll(2) == 0 ? Int64(error) : -Int64(error)
        fault("\(slots[index].name) starts with its clock wrong by \(signed / Int64(hour)) hours")
        count("wrong first clocks")
        slots[index].clock = WallClock()
        slots[index].clock.leap(by: signed, now)
        mendClock(index)
    }

    /// The clock is set right, soon or at the end of the run.
    private func mendClock(_ index: Int) {
        firstClocks.mayBelieve(slots[index].clock.error(now))
        noteClocks()
        guard roll(3) > 0 else { return }
        after(.milliseconds(200) + roll(.seconds(8)), .fault) {
            self.noteClocks()
            self.slots[index].clock = WallClock()
            self.firstClocks.mayBelieve(0)
        }
    }

    func noteClocks() {
        for slot in slots { worstClock = max(worstClock, .milliseconds(slot.clock.error(now).magnitude)) }
    }

    private func sleep(_ process: SimulatedProcess?, _ length: TimeSpan) {
        guard let process else { return }
        fault("\(slots[process.index].name) sleeps for \(length.milliseconds) ms")
        // In one case of three the sleep begins just when the process has asked the database something.
        guard roll(3) == 0 else { return freeze(process, for: length) }
        whenPolling(process, tries: 2000) { self.freeze(process, for: length) }
    }

    private func loseMachine(_ process: SimulatedProcess?) {
        let id = PartitionID(UInt16(roll(UInt64(options.partitionCount))))
        guard let process, process.serves(id) else { return }
        fault("partition \(id.rawValue) is lost to \(slots[process.index].name)")
        process.loop(of: id).post(.lost(id, mayHaveAppended: true, reason: "a fault"))
    }

    /// The machine stands still, and its monotonic clock does not show it. In half of the cases its wall
    /// clock does not either, because the host says nothing.
    private func standStill(_ process: SimulatedProcess?) {
        guard let process, process.frozenUntil <= now else { return }
        let length = TimeSpan.milliseconds(50) + roll(.seconds(9))
        let index = process.index
        fault("\(slots[index].name) stands still for \(length.milliseconds) ms, as do its clocks")
        let isWallBehind = roll(2) == 0
        let begin = { [unowned self] in
            guard process.isRunning, process.frozenUntil <= now else { return }
            if isWallBehind {
                slots[index].clock.leap(by: -Int64(length.milliseconds), now)
                mendClock(index)
            }
            freeze(process, for: length, stopsClock: true)
        }
        roll(3) == 0 ? whenPolling(process, tries: 2000, begin) : begin()
    }

    /// For how long the clocks of the process and of the gateway that asked were stopped while the request
    /// was under way. Neither can know of this, so the request may be late by as much.
    func stoodStill(_ process: SimulatedProcess, _ id: RequestID) -> TimeSpan {
        guard let deadline = deadlines[id] else { return .zero }
        let asked = deadline.rewound(by: ClusterSimulation.requestMax)
        let asker = self.process(of: id.gateway.processID)
        let own = process.stoodStill(since: asked)
        return asker === process ? own : own + (asker?.stoodStill(since: asked) ?? .zero)
    }

    /// No request has a longer deadline.
    private static let requestMax: TimeSpan = .seconds(30)

    private func whenPolling(_ process: SimulatedProcess, tries: Int, _ body: @escaping () -> Void) {
        if tries == 0 || process.databaseConnections[0].lease.isBusy { return body() }
        after(.milliseconds(1), .fault) { self.whenPolling(process, tries: tries - 1, body) }
    }

    private func resetOne() {
        let open = network.connections.filter { $0.isOpenAtFrom && $0.isOpenAtTo }
        guard !open.isEmpty else { return }
        fault("a connection breaks")
        network.reset(open[Int(roll(UInt64(open.count)))])
    }

    private func resetAll(of index: Int) {
        fault("all connections of \(slots[index].name) break")
        for connection in network.connections
        where connection.from.index == index || connection.to.index == index {
            network.reset(connection)
        }
    }

    private func cutPair(_ index: Int) {
        guard slots.count > 1 else { return }
        let other = (index + 1 + Int(roll(UInt64(slots.count - 1)))) % slots.count
        let isOneWay = roll(2) == 0
        let length = TimeSpan.milliseconds(200) + roll(.seconds(13))
        fault("\(slots[index].name) is cut from \(slots[other].name)\(isOneWay ? ", one way" : "")")
        network.cut(index, other)
        if !isOneWay { network.cut(other, index) }
        after(length, .fault) {
            self.network.heal(index, other)
            self.network.heal(other, index)
        }
    }

    private func isolate(_ index: Int) {
        let isOneWay = roll(3) == 0
        fault("\(slots[index].name) is cut from all\(isOneWay ? ", one way" : "")")
        for other in slots.indices where other != index {
            network.cut(index, other)
            if !isOneWay { network.cut(other, index) }
        }
        after(.milliseconds(200) + roll(.seconds(12)), .fault) {
            for other in self.slots.indices where other != index {
                self.network.heal(index, other)
                self.network.heal(other, index)
            }
        }
    }

    private var anyDatabase: SimulatedDatabase {
        databases[databases.count > 1 ? Int(roll(UInt64(databases.count))) : 0]
    }

    private func blind(_ index: Int, for length: TimeSpan) {
        let database = anyDatabase
        guard !database.unreachable.contains(index) else { return }
        fault("\(slots[index].name) cannot reach \(database.name)")
        database.unreachable.insert(index)
        hinder(index, until: now + length)
        after(length, .fault) { database.unreachable.remove(index) }
    }

    private func takeDatabaseAway() {
        let database = anyDatabase
        guard !database.isAway else { return }
        let isCrash = roll(2) == 0
        fault(isCrash ? "\(database.name) crashes" : "\(database.name) cannot be reached")
        database.isAway = true
        // The database of a lone node is in its process.
        if isCrash, let process = slots[0].process, process.lone != nil { end(process, fences: false) }
        let keeps = roll(2) == 0
        after(.milliseconds(200) + roll(.seconds(5)), .fault) {
            if isCrash { database.crash(keepsUnacknowledged: keeps) }
            database.isAway = false
        }
    }

    private func stallDatabase(_ index: Int) {
        guard let process = slots[index].process, process.isRunning else { return }
        let length = TimeSpan.milliseconds(100) + roll(.milliseconds(2500))
        let connections = process.databaseConnections[Int(roll(UInt64(process.databaseConnections.count)))]
        fault("a connection of \(slots[index].name) to \(connections.control.database.name) stalls")
        let connection = connections.all[Int(roll(4))]
        connection.stallsUntil = now + length
        if connection === connections.lease { hinder(index, until: now + length + .milliseconds(500)) }
    }

    /// Another process begins under the name of a process that sleeps or runs on.
    private func supersede(_ index: Int) {
        guard let process = slots[index].process, process.isRunning, home.reaches(index) else { return }
        fault("\(slots[index].name) is superseded")
        ghosts.append(process)
        if roll(2) == 0 { freeze(process, for: .milliseconds(200) + roll(.seconds(5))) }
        slots[index].process = nil
        start(index)
    }
}
