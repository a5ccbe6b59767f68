import Journal
import Model
import Ownership
import Partitions
import Quotas
import Routing

// The way to partitions and gateways, here or in another process, as `NodeLoop+Cluster`.

extension SimulatedProcess {
    static func life(of gateway: GatewayID) -> UInt32 { gateway.rawValue >> 8 }

    func send(_ event: PartitionEvent, to partition: PartitionID) {
        switch places[partition] {
        case .here: queue.append(.partition(partition, event))
        case .peer(let life): say(.partition(partition, event), to: life)
        case .nowhere:
            if case .stream(.attach) = event { reattachLater(partition) }
        }
    }

    func ask(_ partition: PartitionID, _ id: RequestID, _ request: Request, _ deadline: Deadline) {
        let epoch = places.epoch(of: partition)
        switch places[partition] {
        case .here:
            queue.append(.request(partition, id, request, Mandate(epoch: epoch, deadline: deadline)))
        case .peer(let life):
            let left = deadline.left(now: clock.monotonic)
            say(.request(partition, epoch, id, request, left: left), to: life)
        case .nowhere: answer(id, .refused(.moved))
        }
    }

    func answer(_ request: RequestID, _ reply: Reply) {
        let to = SimulatedProcess.life(of: request.gateway)
        if to == life { queue.append(.reply(request, reply)) } else { say(.reply(request, reply), to: to) }
    }

    func tellStream(_ gateway: GatewayID, _ frame: StreamFrame, from partition: PartitionID) {
        world.debug("\(place) p\(partition.rawValue) to \(gateway.rawValue >> 8): \(frame)")
        let to = SimulatedProcess.life(of: gateway)
        if to == life {
            queue.append(.stream(from: partition, frame))
        } else {
            say(.stream(from: partition, to: gateway, frame), to: to)
        }
    }

    // MARK: Peers

    func say(_ message: PeerMessage, to life: UInt32) {
        message.encode(into: &toPeers[life, default: ByteWriter()])
    }

    /// Everything that a turn had for another process leaves as one frame.
    func flushPeers() {
        guard !toPeers.isEmpty else { return }
        let batch = toPeers.sorted { $0.key < $1.key }
        toPeers = [:]
        for (life, writer) in batch {
            world.keepSpecimen(writer.bytes)
            if world.network.send(writer.bytes, from: self, to: life) {
                owed[life] = nil
            } else {
                resetLater(life)
            }
        }
    }

    private func resetLater(_ life: UInt32) {
        guard unreachable.insert(life).inserted else { return }
        world.after(.milliseconds(50), .timer, self) {
            self.unreachable.remove(life)
            self.turn {
                self.askAgain(of: life)
                self.owe(life)
            }
        }
    }

    private func owe(_ life: UInt32) {
        #if DEBUG
            if world.options.planted.contains(.oweNothing) { return }
        #endif
        let tries = owed[life, default: 0] + 1
        owed[life] = tries <= 200 ? tries : nil
        if tries <= 200 { say(.missed, to: life) }
    }

    /// A frame of a peer: its messages in their order. It was sent after this moment of the world.
    func received(_ bytes: [UInt8], from life: UInt32, after moment: UInt64) {
        var reader = ByteReader(bytes)
        let after = clock(at: moment)
        turn {
            do {
                while !reader.isAtEnd { enqueue(try PeerMessage.decode(from: &reader), from: life, after) }
            } catch {
                world.count("frames that cannot be read")
            }
        }
    }

    private func enqueue(_ message: PeerMessage, from life: UInt32, _ after: MonotonicTime) {
        let count = partitions.count
        switch message {
        case .partition(let id, let event):
            if Int(id.rawValue) < count { queue.append(.partition(id, event)) }
        case .request(let id, let epoch, let asked, let request, let left):
            let mandate = Mandate(epoch: epoch, deadline: Deadline(left: left, after: after))
            if Int(id.rawValue) < count { queue.append(.request(id, asked, request, mandate)) }
        case .reply(let id, let reply): queue.append(.reply(id, reply))
        case .stream(let from, _, let frame):
            if Int(from.rawValue) < count { queue.append(.peerStream(life: life, from: from, frame)) }
        case .quotaRequest(let request): queue.append(.quotaRequest(request))
        case .quotaGrant(let grant): queue.append(.quotaGrant(grant))
        case .quotaRefusal(let id, let refusal): queue.append(.quotaRefusal(id, refusal))
        case .nudge: tellOwnership(.nudged)
        case .leave: if !world.isPoisoning { leave() }
        case .missed: askAgain(of: life)
        case .follow(let id): fromPeer(life) { .offered(id, by: $0) }
        case .followed(let id): fromPeer(life) { .isFollowed(id, by: $0) }
        case .gossip(let packet): world.after(20_000, .control, self) { self.gossip(.stream(packet)) }
        }
    }

    /// A connection to or from a process is gone, and with it what was under way.
    func linkReset(_ life: UInt32) {
        world.count("links reset")
        world.debug("\(place) (life \(self.life)): link to \(life) reset")
        lost(life)
        suspect(life)
    }

    /// What was said to a process may be lost.
    func lost(_ life: UInt32) {
        turn {
            askAgain(of: life)
            owe(life)
        }
    }

    private func askAgain(of life: UInt32) {
        #if DEBUG
            if world.options.planted.contains(.forgetRequests) { return }
        #endif
        if let affected = places.served(by: life) { askAgain(where: affected) }
    }

    /// Where partitions are now.
    func adopt(_ next: PartitionPlaces) {
        let changed = next.changed(since: places)
        places = next
        guard let changed else { return }
        world.debug("\(place) (life \(life)) adopts \(next)")
        askAgain(where: changed)
    }

    private func askAgain(where affected: [Bool]) {
        route { router, now, effects in
            router.rerouted({ affected[Int($0.rawValue)] }, now: now, into: &effects)
        }
        for number in affected.indices where affected[number] {
            let partition = PartitionID(UInt16(number))
            if places[partition] != .nowhere { reattach(partition) }
        }
    }

    // MARK: Streams

    /// Tells a partition's owner of the streams that are here for its devices.
    func reattach(_ partition: PartitionID) {
        reattaching.remove(partition)
        #if DEBUG
            if world.options.planted.contains(.forgetStreams) { return }
        #endif
        for command in streams.reattach(partition) { send(.stream(command), to: partition) }
    }

    func reattachLater(_ partition: PartitionID) {
        guard reattaching.insert(partition).inserted else { return }
        world.after(.milliseconds(100), .timer, self) {
            self.turn { if self.reattaching.contains(partition) { self.reattach(partition) } }
        }
    }

    func receive(_ frame: StreamFrame, from partition: PartitionID) {
        if case .refused(_, .moved) = frame { return reattachLater(partition) }
        world.debug("\(place) life \(life) receives from p\(partition.rawValue) \(frame)")
        var commands: [StreamCommand] = []
        let router = router
        streams.receive(
            frame, from: partition, sink: self, refusal: { router.refusal($0) }, commands: &commands)
        for command in commands { send(.stream(command), to: partition) }
    }

    // MARK: Quotas

    func sendQuota(_ request: QuotaRequest) {
        switch places[world.home(of: request.project)] {
        case .here: queue.append(.quotaRequest(request))
        case .peer(let life): say(.quotaRequest(request), to: life)
        case .nowhere: break
        }
    }

    private func sendGrant(_ grant: QuotaGrant) {
        let to = UInt32(truncatingIfNeeded: grant.spender.rawValue) >> 8
        if to == life { queue.append(.quotaGrant(grant)) } else { say(.quotaGrant(grant), to: to) }
    }

    /// As `NodeLoop.grant`.
    func grant(_ request: QuotaRequest) {
        guard partitions[Int(world.home(of: request.project).rawValue)] != nil else { return }
        grantor.authority = authority
        var effects: [QuotaGrantor.Effect] = []
        grantor.receive(request, now: now.monotonic, into: &effects)
        for effect in effects {
            switch effect {
            case .grant(let grant): sendGrant(grant)
            case .unknown(let request): if open(request.project) { grant(request) }
            }
        }
    }

    /// As `NodeLoop.openInCluster`.
    private func open(_ project: ProjectNumber) -> Bool {
        let home = world.home(of: project)
        guard let since = servedSince[home] else { return false }
        guard births[project] != nil else {
            if project == ClusterSimulation.project { tellOwnership(.nudged) }
            return false
        }
        let epoch = epochs[Int(home.rawValue)]
        var (isFirst, began) = (births[project] == epoch, since)
        #if DEBUG
            if world.options.planted.contains(.fullBuckets) { isFirst = true }
            if world.options.planted.contains(.hastyBuckets) { began = MonotonicTime(nanoseconds: 0) }
        #endif
        let left = handedOver.removeValue(forKey: project)
        guard
            let beginning = QuotaGrantor.beginning(
                isFirst: isFirst, left: left, since: began, now: now.monotonic)
        else { return false }
        grantor.open(project, world.options.limits, epoch: epoch, beginning, now: now.monotonic)
        return true
    }

    /// Counts a send addressed to one device; true where its limit refused it.
    func isPastDeviceLimit(_ event: PartitionEvent) -> Bool {
        guard case .request(let id, .sendToDevice(_, let device, _)) = event else { return false }
        let limits = world.options.limits
        guard
            let refusal = deviceLimiter.take(device.partition, device.index, limits, now: now.monotonic)
        else { return false }
        let to = SimulatedProcess.life(of: id.gateway)
        if to == life {
            queue.append(.quotaRefusal(id, refusal))
        } else {
            say(.quotaRefusal(id, refusal), to: to)
        }
        return true
    }

    /// Notes what the project was admitted: each request once, however often it is asked again.
    func meter(_ id: RequestID, _ request: Request) {
        // Copies have names past all numbers.
        guard id.number > lastAsked, id.number >> Router.copyShift == 0 else { return }
        lastAsked = id.number
        switch request {
        case .sendToTopic, .sendToCondition, .sendToDevice: world.admitted(1, .sends)
        case .change(_, _, _, let devices, _): world.admitted(devices.count, .subscriptionChanges)
        default: break
        }
    }
}
