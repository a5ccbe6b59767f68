import Model
import NodeCore
import Ownership

// The process's part in its cluster: the shell around the real control side, in the place of `Cluster`.

extension SimulatedProcess {
    /// Passes an event to the control side, from any of the process's threads.
    func tell(_ event: ControlEvent) {
        world.after(.microseconds(20), .control, process: self) { self.handle(event) }
    }
    func tellOwnership(_ event: Ownership.Event) { tell(.ownership(event)) }

    /// Runs on the control side's thread.
    func handle(_ event: ControlEvent) {
        world.observer?.handles(event, at: self)
        guard let core else { return }
        core.handle(event, now: monotonic)
        var effects: [ControlEffect] = []
        swap(&effects, &core.effects)
        for effect in effects { carryOut(effect) }
    }

    func leave() {
        guard !isLeaving else { return }
        isLeaving = true
        if lone != nil { return world.retire(self) }
        tellOwnership(.leave)
        // As in `Node.stop`: what the process has not given up by then is left to the other nodes.
        world.after(.seconds(8), .timer, process: self) { self.world.end(self, fences: true) }
    }

    private func carryOut(_ effect: ControlEffect) {
        world.observer?.carriesOut(effect, at: self)
        switch effect {
        case .call(let call): self.call(call)
        case .order(let order, let id): loop(of: id).post(.order(order))
        case .orderAll(let order): for loop in loops { loop.post(.order(order)) }
        case .say(let message, let processIDs): loops[0].post(.order(.say(message, to: processIDs)))
        case .peers(let addresses): setAddresses(addresses)
        case .datagram(let packet, let address):
            world.network.send(datagram: packet, from: self, to: address)
        case .wake(let timer, let at):
            wake(at: at) { self.handle(.timer(timer)) }
        case .notReady, .view: break
        case .endInOrder: if !world.isPoisoning { leave() }
        case .stepDown: world.end(self, fences: false)
        case .left: world.retire(self)
        case .noted(let note):
            if case .malformedGossip = note { world.count("gossip that cannot be read") }
            if case .refusedGossip = note { refusedDatagrams += 1 }
        }
    }

    private func setAddresses(_ addresses: [ProcessID: String]) {
        let known = addresses.compactMapValues { world.machine(at: $0) }
        for loop in loops { world.after(.microseconds(20), .loop, process: self) { loop.setPeers(known) } }
    }

    /// The catalog has changed.
    func apply(_ catalog: SimulatedCatalog) {
        self.catalog = catalog
        pushes.change(catalog.services)
        for loop in loops { world.after(.microseconds(20), .loop, process: self) { loop.apply(catalog) } }
        tell(.catalog(version: catalog.version))
    }
}

extension SimulatedLoop {
    /// Adopts the processes that are members now, with the machines on which they run.
    func setPeers(_ known: [ProcessID: Int]) {
        for processID in peers.keys.sorted() where known[processID] == nil {
            if let connection = peers[processID]?.connection { world.network.forget(connection) }
            peers[processID] = nil
        }
        for (processID, machine) in known.sorted(by: { $0.key < $1.key }) where peers[processID] == nil {
            peers[processID] = Peer(
                machine: machine, backoff: world.options.links.backoffMin,
                backlog: Backlog(world.options.peerBacklog))
        }
    }

    /// Reports the state of a connection to the process.
    func report(_ processID: ProcessID, _ report: LinkReport) {
        process.tell(.link(processID, loop: number, report))
    }
}
