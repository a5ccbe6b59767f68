import Journal
import Model

// A copy of the cluster's databases, restored on the original's network: its nodes have the original's
// secrets, session numbers and addresses, and may do the original no harm (rule: copies-are-strangers).
// Clients talk to the original only.

extension ClusterSimulation {
    /// The world of the copy: its time and its network are the original's, and nothing else is.
    convenience init(copyOf original: ClusterSimulation) {
        var options = original.options
        options.seed ^= 0xC0_917
        (options.nodeCount, options.deviceCount) = (options.copyNodeCount, 0)
        options.faults = [.crash, .leave, .supersession]
        self.init(options)
        self.original = original
        network = original.network
        databases = original.databases.map { SimulatedDatabase(self, copyOf: $0) }
        firstMachine = original.slots.count
        // A copy of the configuration has the same names.
        let isNamedAlike = roll(2) == 0
        for index in slots.indices {
            slots[index].addressOfCopy = "copy-\(index)"
            if !isNamedAlike { slots[index].name = "copy-\(index)" }
        }
        seeds = original.slots.map(\.address)
    }

    func scheduleCopy() {
        guard hasLives else { return }
        after(options.copiedAfter, .fault) { self.copyDatabases() }
    }

    private func copyDatabases() {
        guard isLoading, !isHealing else { return }
        let copy = ClusterSimulation(copyOf: self)
        self.copy = copy
        count("copies")
        history.faults.append("the databases are copied at \(seconds)")
        if !options.copiesFiles {
            // The dump is restored in another server.
            for database in copy.databases { database.engine.currentPast?.system += 1 }
        }
        // The original's settings may name machines on which the copy's nodes run by now.
        if roll(2) == 0 { seeds = copy.slots.map(\.address) }
        if roll(4) == 0 { endAll() }
        copy.isLoading = true
        for index in copy.slots.indices { copy.restart(index, in: copy.roll(.seconds(3))) }
        copy.scheduleFaults()
    }

    /// The original rests when the copy begins.
    private func endAll() {
        history.faults.append("all nodes crash at \(seconds)")
        trouble(for: .seconds(14))
        for process in slots.compactMap(\.process) + ghosts { end(process, fences: false) }
    }

    /// The copy's nodes come to rest as well.
    func settleCopy() {
        guard let copy else { return }
        copy.isHealing = true
        for index in copy.slots.indices { copy.slots[index].clock = WallClock() }
        for index in copy.slots.indices where copy.slots[index].process?.isRunning != true {
            copy.restart(index, in: .milliseconds(100) + copy.roll(.seconds(1)))
        }
    }

    // MARK: Addresses

    /// The world of a machine on the network, which asks the original.
    private func world(of machine: Int) -> ClusterSimulation {
        if let copy, machine >= copy.firstMachine { return copy }
        return self
    }

    func process(on machine: Int) -> SimulatedProcess? {
        let world = world(of: machine)
        return world.slots[machine - world.firstMachine].process
    }

    /// The process with that number on a machine: processes of the original and of a copy have the same
    /// numbers.
    func process(of processID: ProcessID, on machine: Int) -> SimulatedProcess? {
        world(of: machine).process(of: processID).flatMap { $0.machine == machine ? $0 : nil }
    }

    /// The machine at an address, as all nodes on the network resolve it.
    func machine(at address: String) -> Int? {
        if let original { return original.machine(at: address) }
        if let index = slots.firstIndex(where: { $0.address == address }) { return index }
        return copy?.slots.firstIndex { $0.address == address }.map { slots.count + $0 }
    }
}
