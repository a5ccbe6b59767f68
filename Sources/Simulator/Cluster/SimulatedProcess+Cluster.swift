import Journal
import Model
import NodeCore
import Ownership
import Partitions
import Routing

// The process's part in its cluster: the shell around the real control side, in the place of `Cluster`.

extension SimulatedProcess {
    /// Tells the control side, from any of the process's threads.
    func tell(_ event: ControlEvent) {
        world.after(.microseconds(20), .control, process: self) { self.handle(event) }
    }
    func tellOwnership(_ event: Ownership.Event) { tell(.ownership(event)) }

    /// Runs on the control side's thread.
    func handle(_ event: ControlEvent) {
        world.observer?.handles(event, at: self)
        core.handle(event, now: monotonic)
        var effects: [ControlEffect] = []
        swap(&effects, &core.effects)
        for effect in effects { carryOut(effect) }
    }

    func leave() {
        guard !isLeaving else { return }
        isLeaving = true
        tellOwnership(.leave)
        // As in `Node.stop`: what the process has not given up by then is left to the other nodes.
        world.after(.seconds(8), .timer, process: self) { self.world.end(self, fences: true) }
    }

    private func carryOut(_ effect: ControlEffect) {
        world.observer?.carriesOut(effect, at: self)
        switch effect {
        case .poll(let info): poll(info)
        case .readTable(let database, let look, let registers):
            readTable(database, look: look, registers: registers)
        case .markDead(let session, let database):
            databaseConnections[database].control.perform(.write) {
                try $0.engine.fence(session)
            } then: { _ in
            }
        case .askFormer(let row, let former): ask(row, former)
        case .fence(let session, let counter): fence(session, at: counter)
        case .takeOver(let row, let former): takeOver(row, markingDead: former)
        case .follow(let id): follow(id)
        case .order(let order, let id): loop(of: id).post(.order(order))
        case .orderAll(let order): for loop in loops { loop.post(.order(order)) }
        case .say(let message, let processIDs): loops[0].post(.order(.say(message, to: processIDs)))
        case .peers(let addresses): setAddresses(addresses)
        case .datagram(let packet, let address):
            world.network.send(datagram: packet, from: self, to: address)
        case .wake(let timer, let at):
            wake(at: at) { self.handle(.timer(timer)) }
        case .notReady, .view, .formerBuilds: break
        case .endInOrder: if !world.isPoisoning { leave() }
        case .stepDown: world.end(self, fences: false)
        case .left: world.retire(self)
        case .noted(let note):
            if case .malformedGossip = note { world.count("gossip that cannot be read") }
            if case .refusedGossip = note { refusedDatagrams += 1 }
        }
    }

    private func setAddresses(_ addresses: [ProcessID: String]) {
        let known = addresses.compactMapValues { name in world.slots.firstIndex { $0.name == name } }
        for loop in loops { world.after(.microseconds(20), .loop, process: self) { loop.setPeers(known) } }
    }

    // MARK: The databases

    private func poll(_ info: Ownership.NodeInfo) {
        let session = session
        let asked = monotonic
        databaseConnections[0].lease.perform(.write) { database in
            let poll = try Ownership.Poll(renewing: session, info: info, of: database.engine)
            return (poll, database.catalog, self.world.wall)
        } then: { result in
            switch result {
            case .success(let (poll, catalog, theirs)):
                self.tell(.clockRead(ClockReading(asked: asked, own: self.clock, theirs: theirs)))
                self.authority = asked.advanced(by: self.world.options.ownership.lease)
                if catalog.version != self.catalog.version { self.apply(catalog) }
                self.tell(.polled(poll, asked: asked))
            case .failure(EngineError.fenced): self.tellOwnership(.sessionDead)
            case .failure(let error): self.tellOwnership(.pollFailed("\(error)"))
            }
        }
    }

    /// The catalog has changed.
    private func apply(_ catalog: SimulatedCatalog) {
        self.catalog = catalog
        for loop in loops { world.after(.microseconds(20), .loop, process: self) { loop.apply(catalog) } }
        tell(.catalog(version: catalog.version))
    }

    private func fence(_ session: SessionID, at counter: UInt64) {
        databaseConnections[0].control.perform(.write) { [world] database in
            #if DEBUG
                if world.options.plantedInCluster.contains(.skipFence) {
                    for row in try database.engine.partitions() where row.owner == session {
                        try database.engine.release(row.id, by: session)
                    }
                    return true
                }
            #endif
            guard try database.engine.fence(session, at: counter) else { return false }
            world.fenced(session, by: self)
            return true
        } then: { result in
            switch result {
            case .success(true): self.tell(.fenced(session))
            case .success(false): self.tell(.fenceFailed(session, nil))
            case .failure(let error): self.tell(.fenceFailed(session, "\(error)"))
            }
        }
    }

    private func readTable(_ number: Int, look: UInt64, registers: Bool) {
        let session = session
        let name = world.slots[index].name
        databaseConnections[number].lease.perform(.write) { database in
            if registers { try database.engine.register(session, node: name) }
            try database.engine.renewLease(session, info: [])
            return try database.engine.partitions()
        } then: { result in
            switch result {
            case .success(let rows): self.tell(.tableRead(database: number, look: look, rows))
            case .failure(EngineError.fenced): self.tellOwnership(.sessionDead)
            case .failure(let error):
                self.tell(.tableFailed(database: number, look: look, "\(error)"))
            }
        }
    }

    /// Whether the row's former owner lives.
    private func ask(_ row: PartitionRow, _ former: SessionID) {
        databaseConnections[0].control.perform(.read) {
            try $0.engine.isAlive(former)
        } then: { result in
            switch result {
            case .success(let isAlive): self.tell(.former(row, former, isAlive: isAlive))
            case .failure(let error): self.tell(.notTaken(row.id, "\(error)"))
            }
        }
    }

    private func takeOver(_ row: PartitionRow, markingDead former: SessionID?) {
        let session = session
        let connections = connections(of: row.id)
        connections.control.perform(.write, lasting: connections.control.database.takesLast) { database in
            if let former { try database.engine.fence(former) }
            return try database.takeOver(row, by: session)
        } then: { result in
            switch result {
            case .success(let epoch): self.tellOwnership(.taken(row.id, epoch))
            case .failure(let error): self.tell(.notTaken(row.id, "\(error)"))
            }
        }
    }

    /// Reads a partition while another process owns it.
    private func follow(_ id: PartitionID) {
        let bytesMax = world.options.loadBytesMax
        connections(of: id).loader.perform(.read) { database in
            try StoredPartition(id, from: database.engine, bytesMax: bytesMax)
        } then: { result in
            switch result {
            case .success(let loaded): self.loop(of: id).post(.engine(.followed(loaded)))
            case .failure: self.tellOwnership(.followFailed(id))
            }
        }
    }

    /// Reads a partition for its loop: the records behind the mark, or everything.
    func load(_ id: PartitionID, _ epoch: Epoch, behind mark: StoredPartition.Mark?) {
        let bytesMax = world.options.loadBytesMax
        connections(of: id).loader.perform(.read) { database in
            try PartitionTransfer.load(
                id, epoch, behind: mark, from: database.engine, bytesMax: bytesMax)
        } then: { result in
            switch result {
            case .success(let loaded):
                self.world.count("partitions inherited as followed", loaded.partition.isTail ? 1 : 0)
                self.loop(of: id).post(
                    .engine(.loaded(loaded.partition, epoch, quotas: loaded.quotas)))
            case .failure(let error): self.loop(of: id).post(.engine(.loadFailed(id, epoch, of: error)))
            }
        }
    }

    /// A partition's machine has ended, and nothing of it is in flight any more.
    func gaveUp(_ id: PartitionID, _ epoch: Epoch, left: [ProjectNumber: [UInt64]]) {
        let session = session
        connections(of: id).control.perform(.write) { database in
            try database.giveUp(id, epoch, left: left, by: session)
        } then: { result in
            switch result {
            case .success: self.tellOwnership(.released(id))
            case .failure: self.tellOwnership(.releaseFailed(id))
            }
        }
    }
}

extension SimulatedLoop {
    /// Adopts the processes that are members now, with the machines on which they run.
    func setPeers(_ known: [ProcessID: Int]) {
        for processID in peers.keys.sorted() where known[processID] == nil {
            if let connection = peers[processID]?.connection { world.network.forget(connection) }
            peers[processID] = nil
        }
        for (processID, index) in known.sorted(by: { $0.key < $1.key }) where peers[processID] == nil {
            peers[processID] = Peer(
                index: index, backoff: world.options.links.backoffMin,
                backlog: Backlog(world.options.peerBacklog))
        }
    }

    /// Reports the state of a connection to the process.
    func report(_ processID: ProcessID, _ report: LinkReport) {
        process.tell(.link(processID, loop: number, report))
    }
}
