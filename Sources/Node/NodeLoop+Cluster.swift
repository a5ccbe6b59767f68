import Journal
import Model
import NIOCore
import Ownership
import Partitions
import PeerLink
import Placement
import Quotas
import Routing

extension PartitionEvent {
    /// Whether it is about the partition's own journal: such events reach it also while it is given up.
    var isOwn: Bool { !mayTravel }
}

// A loop's way to partitions and gateways, here or in another process. On one node everything is here.

extension NodeLoop {
    func send(_ event: PartitionEvent, to partition: PartitionID) {
        guard shared.isClustered else {
            return send(.partition(partition, event), toLoop: shared.loop(of: partition))
        }
        switch places[partition] {
        case .here: send(.partition(partition, event), toLoop: shared.loop(of: partition))
        case .peer(let life): say(.partition(partition, event), to: life)
        case .nowhere:
            if case .stream(.attach) = event { reattachLater(partition) }
        }
    }

    func ask(_ partition: PartitionID, _ id: RequestID, _ request: Request, _ deadline: Deadline) {
        let epoch = places.epoch(of: partition)
        let own = LoopMessage.request(partition, id, request, Mandate(epoch: epoch, deadline: deadline))
        guard shared.isClustered else { return send(own, toLoop: shared.loop(of: partition)) }
        switch places[partition] {
        case .here: send(own, toLoop: shared.loop(of: partition))
        case .peer(let life):
            let left = deadline.left(now: Clock.monotonic())
            say(.request(partition, epoch, id, request, left: left), to: life)
        case .nowhere: answer(id, .refused(absence(of: partition)))
        }
    }

    /// Whether a request may be carried out here and now. The process may have slept in the midst of a turn.
    func takes(_ asked: RequestID, _ mandate: Mandate, _ partition: PartitionID) -> Bool {
        guard shared.isClustered else { return true }
        switch mandate.standing(in: shared.epoch(of: partition), now: Clock.monotonic()) {
        case .valid: return true
        case .late: shared.counters.requestsLate.add(1, ordering: .relaxed)
        case .moved: answer(asked, .refused(absence(of: partition)))
        }
        return false
    }

    func answer(_ request: RequestID, _ reply: Reply) {
        let (life, loop) = NodeLoop.address(request.gateway)
        if life == shared.life {
            send(.reply(request, reply), toLoop: loop)
        } else {
            say(.reply(request, reply), to: life)
        }
    }

    func tellStream(_ gateway: GatewayID, _ frame: StreamFrame, from partition: PartitionID) {
        let (life, loop) = NodeLoop.address(gateway)
        if life == shared.life {
            send(.stream(from: partition, frame), toLoop: loop)
        } else {
            say(.stream(from: partition, to: gateway, frame), to: life)
        }
    }

    static func address(_ gateway: GatewayID) -> (life: UInt32, loop: Int) {
        (gateway.rawValue >> 8, Int(gateway.rawValue & 0xFF))
    }

    // MARK: Quotas

    func sendQuota(_ request: QuotaRequest) {
        let loop = loop(ofBuckets: request.project)
        guard shared.isClustered else { return send(.quotaRequest(request), toLoop: loop) }
        switch places[home(of: request.project)] {
        case .here: send(.quotaRequest(request), toLoop: loop)
        case .peer(let life): say(.quotaRequest(request), to: life)
        case .nowhere: break
        }
        scheduleTurn()
    }

    func sendGrant(_ grant: QuotaGrant) {
        let life = UInt32(truncatingIfNeeded: grant.spender.rawValue) >> 8
        if life == shared.life {
            send(.quotaGrant(grant), toLoop: Int(grant.spender.rawValue & 0xFF))
        } else {
            say(.quotaGrant(grant), to: life)
        }
    }

    func refuse(_ id: RequestID, _ refusal: QuotaRefusal) {
        let (life, loop) = NodeLoop.address(id.gateway)
        if life == shared.life {
            send(.quotaRefusal(id, refusal), toLoop: loop)
        } else {
            say(.quotaRefusal(id, refusal), to: life)
        }
    }

    func home(of project: ProjectNumber) -> PartitionID {
        shared.home(of: project)
    }

    // MARK: Peers

    func say(_ message: PeerMessage, to life: UInt32) {
        if toPeers.isEmpty { toPeersSince = Clock.monotonic() }
        message.encode(into: &toPeers[life, default: ByteWriter()])
    }

    func tellToLeave(_ life: UInt32) {
        say(.leave, to: life)
        scheduleTurn()
    }

    func sayGossip(_ packet: [UInt8], to life: UInt32) {
        say(.gossip(packet), to: life)
        scheduleTurn()
    }

    func nudge(_ lives: [UInt32]) {
        for life in lives { say(.nudge, to: life) }
        scheduleTurn()
    }

    /// Everything that a turn had for another process leaves as one frame.
    func flushPeers() {
        guard !toPeers.isEmpty else { return }
        let batch = toPeers
        toPeers = [:]
        // A process that slept since it wrote has written of deadlines that are over.
        let isLate = Clock.monotonic().since(toPeersSince) > Deadline.handoverMax
        for (life, writer) in batch {
            if !isLate, peers?.send(writer.bytes, to: life) ?? false {
                owed[life] = nil
            } else {
                shared.counters.peerMessagesLost.add(1, ordering: .relaxed)
                resetLater(life)
            }
        }
    }

    /// Who began a moment ago may ask before it is known here; for so many times 50 ms it is looked for.
    private static let owedTriesMax = 200

    /// What could not be handed over is asked again, not at once: the way may stay closed for a while. And
    /// the other process is told, as soon as that can be: it may wait for an answer that was lost here.
    private func resetLater(_ life: UInt32) {
        guard unreachable.insert(life).inserted else { return }
        eventLoop.assumeIsolated().scheduleTask(in: .milliseconds(50)) {
            self.unreachable.remove(life)
            self.askAgain(of: life)
            self.owe(life)
        }
    }

    private func owe(_ life: UInt32) {
        let tries = owed[life, default: 0] + 1
        owed[life] = tries <= NodeLoop.owedTriesMax ? tries : nil
        guard tries <= NodeLoop.owedTriesMax else { return }
        say(.missed, to: life)
        scheduleTurn()
    }

    /// The sessions that live now, and the processes of those that did before and do not any more.
    func adopt(living: Set<SessionID>, gone: Set<UInt32>) {
        livingSessions = living
        guard !gone.isEmpty else { return }
        for life in gone { owed[life] = nil }
        for partition in partitions.values {
            partition.forgetGateways { gone.contains(NodeLoop.address($0).life) }
            partition.forgetWindows(living: livingSessions)
            dirty.insert(partition.id)
        }
        scheduleTurn()
    }

    /// The way to a process was broken: what was under way may be lost.
    func linkReset(_ life: UInt32) {
        askAgain(of: life)
        owe(life)
    }

    /// What was asked of the process, or by it, may be lost.
    func askAgain(of life: UInt32) {
        if let affected = places.served(by: life) { askAgain(where: affected) }
    }

    /// Whether the partition has to do with it now: not while it is given up, and with no request while its
    /// database is away, since nothing could be answered.
    func takes(_ event: PartitionEvent, _ partition: PartitionID) -> Bool {
        if event.isOwn { return true }
        if case .request = event, away.contains(partition) { return false }
        return leaving[partition] == nil
    }

    /// Why a partition that should be here, or somewhere, is not. What lives in a database that is away is
    /// not waited for: the client is told at once.
    func absence(of partition: PartitionID) -> PartitionRefusal {
        away.contains(partition) ? .unavailable("the partition's database is away") : .moved
    }

    /// Where partitions are now.
    func adopt(_ next: PartitionPlaces) {
        let changed = next.changed(since: places)
        places = next
        if let changed { askAgain(where: changed) }
    }

    private func askAgain(where affected: [Bool]) {
        now = Clock.now()
        var done: [RouterEffect] = []
        router.rerouted({ affected[Int($0.rawValue)] }, now: now, into: &done)
        carryOut(done)
        for number in affected.indices where affected[number] {
            let partition = PartitionID(UInt16(number))
            if places[partition] != .nowhere { reattach(partition) }
        }
        scheduleTurn()
    }

    /// Tells a partition's owner of the streams that are here for its devices.
    func reattach(_ partition: PartitionID) {
        reattaching.remove(partition)
        for command in streams.reattach(partition) { tell(partition, command) }
    }

    /// Its owner was not there yet.
    func reattachLater(_ partition: PartitionID) {
        guard reattaching.insert(partition).inserted else { return }
        eventLoop.assumeIsolated().scheduleTask(in: .milliseconds(100)) {
            self.now = Clock.now()
            if self.reattaching.contains(partition) { self.reattach(partition) }
        }
    }

    // MARK: Giving up

    /// Takes no more work for the partition; `done` when nothing of it is in flight and its machine is gone.
    /// It is told what is left in the buckets of the partition's projects.
    func release(
        _ partition: PartitionID, _ done: @escaping @Sendable ([ProjectNumber: [UInt64]]) -> Void
    ) {
        inherited[partition] = nil
        guard partitions[partition] != nil else { return done([:]) }
        leaving[partition] = done
        scheduleTurn()
    }

    func finishLeaving() {
        for (id, done) in leaving where partitions[id].map({ $0.isIdle }) ?? true {
            leaving[id] = nil
            var left = handedOver.filter { home(of: $0.key) == id }
            for project in left.keys { handedOver[project] = nil }
            left.merge(grantor.remainders(now: now.monotonic).filter { home(of: $0.key) == id }) { $1 }
            drop(id)
            done(left)
        }
    }

    /// The partition is not this process's any more.
    func drop(_ id: PartitionID) {
        leaving[id] = nil
        inherited[id] = nil
        guard let partition = partitions.removeValue(forKey: id) else { return }
        var replies: [(RequestID, Reply)] = []
        partition.abandon(mayHaveAppended: true, reason: "the partition is another's", into: &replies)
        // The next owner knows what went in: a send that is repeated has its number in the window.
        for (request, _) in replies { answer(request, .refused(.handedOver)) }
        grantor.close { home(of: $0) == id }
        scheduleTurn()
    }
}
