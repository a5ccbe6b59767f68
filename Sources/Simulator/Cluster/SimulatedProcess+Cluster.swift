import Journal
import Model
import NodeCore
import Ownership
import Partitions
import Routing

// The process's part in its cluster: carries out what `Ownership` decides, as `Cluster` does.

extension SimulatedProcess {
    /// From any of the process's threads.
    func tellOwnership(_ event: Ownership.Event) {
        world.after(20_000, .control, self) { self.handle(event) }
    }

    private func handle(_ event: Ownership.Event) {
        var effects: [Ownership.Effect] = []
        ownership.handle(event, now: clock.monotonic, into: &effects)
        for effect in effects { carryOut(effect) }
    }

    /// A connection that broke.
    func suspect(_ life: UInt32) {
        world.after(20_000, .control, self) {
            for member in self.members where member.session.life == life {
                #if DEBUG
                    if self.world.options.plantedInCluster.contains(.hastyFence) {
                        self.fence(member.session)
                    }
                #endif
                self.gossip(.linkReset(member.session))
            }
        }
    }

    func leave() {
        guard !isLeaving else { return }
        isLeaving = true
        tellOwnership(.leave)
        // As `Node.stop`: whatever is left after the time is left to others.
        world.after(.seconds(8), .timer, self) { self.world.end(self, fences: true) }
    }

    private func carryOut(_ effect: Ownership.Effect) {
        switch effect {
        case .poll(let info): poll(info)
        case .fence(let session): fence(session)
        case .take(let row): take(row)
        case .load(let id, let epoch, _):
            publish(id, epoch)
            order(.serve(id, epoch), of: id)
        case .release(let id): order(.release(id), of: id)
        case .offer(let id, let heir): loops[0].post(.order(.say(.follow(id), to: [heir.life])))
        case .follow(let id): follow(id)
        case .tellFollowed(let id, let owner): loops[0].post(.order(.say(.followed(id), to: [owner.life])))
        case .unfollow(let id): order(.unfollow(id), of: id)
        case .drop(let id): order(.drop(id), of: id)
        case .routes(let routes):
            self.routes = routes
            publish()
        case .members(let members):
            let gone = Set(self.members.map { $0.session.life })
                .subtracting(members.map { $0.session.life })
            self.members = members
            tellGossip(members)
            let living = Set(members.map(\.session))
            for loop in loops { loop.post(.order(.members(living: living, gone: gone))) }
            publish()
        case .nudge:
            let lives = members.map { $0.session.life }.filter { $0 != life }
            loops[0].post(.order(.say(.nudge, to: lives)))
        case .stepDown: world.end(self, fences: false)
        case .status: break
        case .left:
            gossip(.leave)
            world.retire(self)
        case .wake(let at): world.after(delay(to: at), .timer, self) { self.handle(.woke) }
        }
    }

    private func poll(_ info: Ownership.NodeInfo) {
        gossip(.describe(info.encoded))
        let session = session
        let asked = clock.monotonic
        control.perform(.write) { database in
            try database.engine.renewLease(session, info: info.encoded)
            let poll = Ownership.Poll(
                sessions: try database.engine.sessions(), partitions: try database.engine.partitions())
            return (poll, database.births)
        } then: { result in
            switch result {
            case .success(let (poll, births)):
                self.authority = asked.advanced(by: Ownership.Options().lease)
                if births != self.births { self.adopt(births) }
                self.tellOwnership(.polled(poll, asked: asked))
            case .failure(EngineError.fenced): self.tellOwnership(.fenced)
            case .failure(let error): self.tellOwnership(.pollFailed("\(error)"))
            }
        }
    }

    private func adopt(_ births: [ProjectNumber: Epoch]) {
        self.births = births
        for loop in loops { world.after(20_000, .loop, self) { loop.adopt(births: births) } }
    }

    private func fence(_ session: SessionID) {
        control.perform(.write) { [place, world] database in
            world.fenced(session, by: place)
            #if DEBUG
                if world.options.plantedInCluster.contains(.skipFence) {
                    for row in try database.engine.partitions() where row.owner == session {
                        try database.engine.release(row.id, by: session)
                    }
                    return
                }
            #endif
            try database.engine.fence(session)
        } then: { result in
            var effects: [Ownership.Effect] = []
            switch result {
            case .success: self.ownership.fenced(session, now: self.clock.monotonic, into: &effects)
            case .failure: self.ownership.fenceFailed(session)
            }
            for effect in effects { self.carryOut(effect) }
        }
    }

    private func take(_ row: PartitionRow) {
        let session = session
        control.perform(.write) {
            try $0.take(row, by: session)
        } then: { result in
            switch result {
            case .success(let epoch): self.tellOwnership(.taken(row.id, epoch))
            case .failure: self.tellOwnership(.takeFailed(row.id))
            }
        }
    }

    /// Reads a partition for its loop: what came behind the mark, or everything.
    func load(_ id: PartitionID, _ epoch: Epoch, behind mark: StoredPartition.Mark?) {
        loader.perform(.read) { database in
            var quotas: [ProjectNumber: [UInt64]] = [:]
            if let left = database.left.removeValue(forKey: id), left.epoch.rawValue + 1 == epoch.rawValue {
                quotas = left.tokens
            }
            return (quotas, try StoredPartition.read(id, behind: mark, from: database.engine))
        } then: { result in
            switch result {
            case .success(let (quotas, loaded)):
                self.world.count("partitions inherited as followed", loaded.isTail ? 1 : 0)
                self.loop(of: id).post(.engine(.loaded(loaded, quotas: quotas)))
            case .failure: self.tellOwnership(.lost(id))
            }
        }
    }

    /// A partition's machine has ended.
    func gaveUp(_ id: PartitionID, _ epoch: Epoch, left: [ProjectNumber: [UInt64]]) {
        let session = session
        control.perform(.write) { database in
            if !left.isEmpty { database.left[id] = (epoch, left) }
            try database.release(id, by: session)
        } then: { result in
            switch result {
            case .success: self.tellOwnership(.released(id))
            case .failure: self.tellOwnership(.releaseFailed(id))
            }
        }
    }

    /// Tells the loops where partitions and processes are.
    private func publish() {
        let own = session
        let places = PartitionPlaces(routes, members: members, own: own)
        var known: [UInt32: Int] = [:]
        for member in members where member.session != own {
            known[member.session.life] = world.slots.firstIndex {
                $0.name == member.name
            }
        }
        for loop in loops {
            world.after(20_000, .loop, self) { loop.adopt(peers: known) }
            loop.post(.order(.places(places, away: [])))
        }
    }
}

extension SimulatedLoop {
    /// The processes that are members now.
    func adopt(peers known: [UInt32: Int]) {
        for life in peers.keys.sorted() where known[life] == nil {
            if let connection = peers[life]?.connection { world.network.forget(connection) }
            peers[life] = nil
        }
        for (life, place) in known.sorted(by: { $0.key < $1.key }) where peers[life] == nil {
            peers[life] = Peer(place: place)
        }
    }
}
