import Journal
import Model
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
                    if self.world.options.planted.contains(.hastyFence) { self.fence(member.session) }
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
            load(id, epoch)
        case .release(let id): release(id)
        case .offer(let id, let heir): post { self.say(.follow(id), to: heir.life) }
        case .follow(let id): follow(id)
        case .tellFollowed(let id, let owner): post { self.say(.followed(id), to: owner.life) }
        case .unfollow(let id): post { self.followed[id] = nil }
        case .drop(let id): post { self.drop(id) }
        case .routes(let routes):
            self.routes = routes
            publish()
        case .members(let members):
            let gone = Set(self.members.map { $0.session.life })
                .subtracting(members.map { $0.session.life })
            self.members = members
            tellGossip(members)
            let living = Set(members.map(\.session))
            post { self.adopt(living: living, gone: gone) }
            publish()
        case .nudge:
            let lives = members.map { $0.session.life }.filter { $0 != life }
            post { for life in lives { self.say(.nudge, to: life) } }
        case .stepDown: world.end(self, fences: false)
        case .status: break
        case .left:
            gossip(.leave)
            world.retire(self)
        case .wake(let at): world.after(delay(to: at), .timer, self) { self.handle(.woke) }
        }
    }

    private func adopt(living: Set<SessionID>, gone: Set<UInt32>) {
        livingSessions = living
        guard !gone.isEmpty else { return }
        for life in gone { owed[life] = nil }
        for case let partition? in partitions {
            partition.forgetGateways { gone.contains(SimulatedProcess.life(of: $0)) }
            partition.forgetWindows(living: livingSessions)
            dirty.insert(partition.id)
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
                if births != self.births { self.post { self.births = births } }
                self.tellOwnership(.polled(poll, asked: asked))
            case .failure(EngineError.fenced): self.tellOwnership(.fenced)
            case .failure(let error): self.tellOwnership(.pollFailed("\(error)"))
            }
        }
    }

    private func fence(_ session: SessionID) {
        control.perform(.write) { [place, world] database in
            world.fenced(session, by: place)
            #if DEBUG
                if world.options.planted.contains(.skipFence) {
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

    private func load(_ id: PartitionID, _ epoch: Epoch) {
        epochs[Int(id.rawValue)] = epoch
        let known = followed.removeValue(forKey: id)
        inherited[id] = known?.partition
        loader.perform(.read) { database in
            var quotas: [ProjectNumber: [UInt64]] = [:]
            if let left = database.left.removeValue(forKey: id), left.epoch.rawValue + 1 == epoch.rawValue {
                quotas = left.tokens
            }
            return (quotas, try StoredPartition.read(id, behind: known?.mark, from: database.engine))
        } then: { result in
            switch result {
            case .success(let (quotas, loaded)):
                self.post {
                    self.handedOver.merge(quotas) { $1 }
                    self.restore(loaded)
                    self.tellOwnership(.serving(id))
                }
            case .failure: self.tellOwnership(.lost(id))
            }
        }
    }

    private func restore(_ loaded: StoredPartition) {
        let followed = inherited.removeValue(forKey: loaded.id)
        if loaded.isTail, followed == nil { return }
        world.count("partitions inherited as followed", loaded.isTail ? 1 : 0)
        guard let partition = loaded.folded(world.options, names, onto: loaded.isTail ? followed : nil)
        else {
            return world.violate("I4", "partition \(loaded.id.rawValue) cannot be folded from its journal")
        }
        onAppender(.opened(loaded.id, next: partition.applied.next))
        adopt(partition)
    }

    private func release(_ id: PartitionID) {
        let session = session
        let epoch = epochs[Int(id.rawValue)]
        post {
            self.release(id) { quotas in
                self.closings[id] = { self.release(id, epoch, quotas, by: session) }
                self.onAppender(.closing(id))
            }
        }
    }

    private func release(
        _ id: PartitionID, _ epoch: Epoch, _ quotas: [ProjectNumber: [UInt64]], by session: SessionID
    ) {
        control.perform(.write) { database in
            if !quotas.isEmpty { database.left[id] = (epoch, quotas) }
            try database.release(id, by: session)
        } then: { result in
            switch result {
            case .success: self.tellOwnership(.released(id))
            case .failure: self.tellOwnership(.releaseFailed(id))
            }
        }
    }

    /// Tells the loop where partitions and processes are.
    private func publish() {
        let own = session
        let places = PartitionPlaces(routes, members: members, own: own)
        var known: [UInt32: Int] = [:]
        for member in members where member.session != own {
            known[member.session.life] = world.slots.firstIndex {
                $0.name == member.name
            }
        }
        post {
            self.adopt(known)
            if !places.isEmpty { self.adopt(places) }
        }
    }

    /// The processes that are members now.
    private func adopt(_ known: [UInt32: Int]) {
        for life in peers.keys.sorted() where known[life] == nil {
            if let connection = peers[life]?.connection { world.network.forget(connection) }
            peers[life] = nil
        }
        for (life, place) in known.sorted(by: { $0.key < $1.key }) where peers[life] == nil {
            peers[life] = Peer(place: place)
        }
    }
}
