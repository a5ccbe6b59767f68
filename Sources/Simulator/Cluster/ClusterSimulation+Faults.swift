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

    private func fault(_ what: String) {
        history.faults.append("\(what) at \(seconds)")
        trouble(for: .seconds(14))
        count("faults")
    }

    /// The faults to draw from; crashes and sleeps count twice.
    static func lots(_ faults: Set<Fault>) -> [Fault] {
        Fault.allCases.filter { faults.contains($0) }
            .flatMap { $0 == .crash || $0 == .sleep ? [$0, $0] : [$0] }
    }

    private func breakSomething() {
        let place = Int(roll(UInt64(slots.count)))
        let name = slots[place].name
        let process = slots[place].process.flatMap { $0.isRunning ? $0 : nil }
        switch faultLots[Int(roll(UInt64(faultLots.count)))] {
        case .crash:
            fault("\(name) crashes")
            if let process { end(process, fences: false) }
        case .silentCrash:
            fault("\(name)'s machine is gone")
            if let process { end(process, fences: false, isSilent: true) }
        case .nap: sleep(process, 50_000_000 + roll(.milliseconds(1300)))
        case .sleep: sleep(process, .milliseconds(1500) + roll(.seconds(8)))
        case .leave:
            fault("\(name) leaves")
            process?.leave()
        case .reset: resetOne()
        case .resetAll: resetAll(of: place)
        case .cut: cutPair(place)
        case .isolation: isolate(place)
        case .blindness:
            blind(place, for: .milliseconds(200) + roll(.seconds(8)))
            if roll(2) == 0 { isolate(place) }
        case .databaseAway: takeDatabaseAway()
        case .stalledConnection: stallDatabase(place)
        case .slowLinks:
            fault("\(name)'s links are slow")
            network.slowness[place] = .milliseconds(5) + roll(.milliseconds(100))
            after(roll(.seconds(6)), .fault) { self.network.slowness[place] = nil }
        case .supersession: supersede(place)
        case .clockLeaps:
            let leap = Int64(roll(2 * options.leapMax)) - Int64(options.leapMax)
            fault("\(name)'s clock leaps by \(leap) ms")
            slots[place].clock.leap(by: leap, now)
            mendClock(place)
        case .clockDrifts:
            let drift = Int64(roll(2 * options.driftPerMille + 1)) - Int64(options.driftPerMille)
            fault("\(name)'s clock is \(drift) thousandths too fast")
            slots[place].clock.drift(drift, now)
            mendClock(place)
        case .standstill: standStill(process)
        case .clockStops:
            fault("\(name)'s clock stands still")
            slots[place].clock.stop(now)
            mendClock(place)
        }
    }

    /// The clock is set right, soon or at the end of the run.
    private func mendClock(_ place: Int) {
        noteClocks()
        guard roll(3) > 0 else { return }
        after(.milliseconds(200) + roll(.seconds(8)), .fault) {
            self.noteClocks()
            self.slots[place].clock = WallClock()
        }
    }

    func noteClocks() {
        for slot in slots { worstClock = max(worstClock, slot.clock.error(now).magnitude) }
    }

    private func sleep(_ process: SimulatedProcess?, _ length: UInt64) {
        guard let process else { return }
        fault("\(slots[process.place].name) sleeps for \(length / 1_000_000) ms")
        // In one case of three the sleep begins just when the process has asked the database something.
        guard roll(3) == 0 else { return freeze(process, for: length) }
        whenPolling(process, tries: 2000) { self.freeze(process, for: length) }
    }

    /// The machine stands still, and its monotonic clock does not show it. In half of the cases its wall
    /// clock does not either, because the host says nothing.
    private func standStill(_ process: SimulatedProcess?) {
        guard let process, process.frozenUntil <= now else { return }
        let length = .milliseconds(50) + roll(.seconds(9))
        let place = process.place
        fault("\(slots[place].name) stands still for \(length / 1_000_000) ms, as do its clocks")
        let isWallBehind = roll(2) == 0
        let begin = { [unowned self] in
            guard process.isRunning, process.frozenUntil <= now else { return }
            if isWallBehind {
                slots[place].clock.leap(by: -Int64(length / 1_000_000), now)
                mendClock(place)
            }
            freeze(process, for: length, stopsClock: true)
        }
        roll(3) == 0 ? whenPolling(process, tries: 2000, begin) : begin()
    }

    /// For how long the clocks of the process and of the gateway that asked stood still while the request was
    /// under way. Neither can know of this, so the request may be late by as much.
    func stoodStill(_ process: SimulatedProcess, _ id: RequestID) -> UInt64 {
        guard let deadline = deadlines[id] else { return 0 }
        let asked = deadline - min(deadline, ClusterSimulation.requestMax)
        let asker = self.process(of: id.gateway.processID)
        let own = process.stoodStill(since: asked)
        return asker === process ? own : own + (asker?.stoodStill(since: asked) ?? 0)
    }

    /// No request has a longer deadline.
    private static let requestMax: UInt64 = .seconds(30)

    private func whenPolling(_ process: SimulatedProcess, tries: Int, _ body: @escaping () -> Void) {
        if tries == 0 || process.databaseConnections[0].lease.isBusy { return body() }
        after(1_000_000, .fault) { self.whenPolling(process, tries: tries - 1, body) }
    }

    private func resetOne() {
        let open = network.connections.filter { $0.isOpenAtFrom && $0.isOpenAtTo }
        guard !open.isEmpty else { return }
        fault("a connection breaks")
        network.reset(open[Int(roll(UInt64(open.count)))])
    }

    private func resetAll(of place: Int) {
        fault("all connections of \(slots[place].name) break")
        for connection in network.connections
        where connection.from.place == place || connection.to.place == place {
            network.reset(connection)
        }
    }

    private func cutPair(_ place: Int) {
        guard slots.count > 1 else { return }
        let other = (place + 1 + Int(roll(UInt64(slots.count - 1)))) % slots.count
        let isOneWay = roll(2) == 0
        let length = .milliseconds(200) + roll(.seconds(13))
        fault("\(slots[place].name) is cut from \(slots[other].name)\(isOneWay ? ", one way" : "")")
        network.cut(place, other)
        if !isOneWay { network.cut(other, place) }
        after(length, .fault) {
            self.network.heal(place, other)
            self.network.heal(other, place)
        }
    }

    private func isolate(_ place: Int) {
        let isOneWay = roll(3) == 0
        fault("\(slots[place].name) is cut from all\(isOneWay ? ", one way" : "")")
        for other in slots.indices where other != place {
            network.cut(place, other)
            if !isOneWay { network.cut(other, place) }
        }
        after(.milliseconds(200) + roll(.seconds(12)), .fault) {
            for other in self.slots.indices where other != place {
                self.network.heal(place, other)
                self.network.heal(other, place)
            }
        }
    }

    private var anyDatabase: SimulatedDatabase {
        databases[databases.count > 1 ? Int(roll(UInt64(databases.count))) : 0]
    }

    private func blind(_ place: Int, for length: UInt64) {
        let database = anyDatabase
        guard !database.unreachable.contains(place) else { return }
        fault("\(slots[place].name) cannot reach \(database.name)")
        database.unreachable.insert(place)
        hinder(place, until: now + length)
        after(length, .fault) { database.unreachable.remove(place) }
    }

    private func takeDatabaseAway() {
        let database = anyDatabase
        guard !database.isAway else { return }
        let isCrash = roll(2) == 0
        fault(isCrash ? "\(database.name) crashes" : "\(database.name) cannot be reached")
        database.isAway = true
        let keeps = roll(2) == 0
        after(.milliseconds(200) + roll(.seconds(5)), .fault) {
            if isCrash { database.crash(keepsUnacknowledged: keeps) }
            database.isAway = false
        }
    }

    private func stallDatabase(_ place: Int) {
        guard let process = slots[place].process, process.isRunning else { return }
        let length = .milliseconds(100) + roll(.milliseconds(2500))
        let connections = process.databaseConnections[Int(roll(UInt64(process.databaseConnections.count)))]
        fault("a connection of \(slots[place].name) to \(connections.control.database.name) stalls")
        let connection = connections.all[Int(roll(4))]
        connection.stallsUntil = now + length
        if connection === connections.lease { hinder(place, until: now + length + .milliseconds(500)) }
    }

    /// Another process begins under the name of a process that sleeps or runs on.
    private func supersede(_ place: Int) {
        guard let process = slots[place].process, process.isRunning, home.reaches(place) else { return }
        fault("\(slots[place].name) is superseded")
        ghosts.append(process)
        if roll(2) == 0 { freeze(process, for: .milliseconds(200) + roll(.seconds(5))) }
        slots[place].process = nil
        start(place)
    }
}
