import Bytes
import Model
import Ownership
import Partitions
import Routing

// A loop's ways to partitions and gateways, on this node or in another process.

extension LoopCore {
    func route(_ event: PartitionEvent, to partition: PartitionID) {
        switch places[partition] {
        case .here: post(.partition(partition, event), toLoop: options.map.loop(of: partition))
        case .peer(let processID): say(.partition(partition, event), to: processID)
        case .nowhere:
            if case .stream(.attach) = event { reattachLater(partition) }
        }
    }

    /// Whether the partition's loop or process is too far behind for anything new. It answers first what
    /// waits there; a client that comes back in a second loses less than one that waits for its deadline.
    func isBehind(_ partition: PartitionID) -> Bool {
        #if DEBUG
            if options.planted.contains(.ignorePressure) { return false }
        #endif
        let loop = options.map.loop(of: partition)
        return switch places[partition] {
        case .here: loop != options.number && host.pressure(ofLoop: loop) >= .behind
        case .peer(let processID): host.pressure(ofPeer: processID) >= .behind
        case .nowhere: false
        }
    }

    static var behind: PartitionRefusal { .unavailable("too much waits for the partition's owner") }

    /// Whether the process may speak for the partition: the routes name it as the owner. An earlier owner's
    /// late message is refused as well, which costs a repeat (rule: owners-acknowledge).
    func believes(_ processID: ProcessID, in speaker: PartitionID) -> Bool {
        #if DEBUG
            if options.planted.contains(.believeStrangers) { return true }
        #endif
        if places[speaker] == .peer(processID) { return true }
        effects.append(.noted(.wordRefused(of: speaker, by: processID)))
        return false
    }

    func ask(
        _ partition: PartitionID, _ id: RequestID, request: consuming Request, deadline: Deadline
    ) {
        let epoch = places.epoch(of: partition)
        if isBehind(partition) {
            effects.append(.noted(.refusedBehind))
            return answer(id, .refused(LoopCore.behind))
        }
        let own = LoopMessage.request(partition, id, request, RequestGuard(epoch: epoch, deadline: deadline))
        switch places[partition] {
        case .here: post(own, toLoop: options.map.loop(of: partition))
        case .peer(let processID):
            let left = deadline.left(now: host.monotonic)
            say(.request(partition, epoch, id, request, left: left), to: processID)
        case .nowhere: answer(id, .refused(absence(of: partition)))
        }
    }

    /// Whether the loop may carry the request out now. The process may have slept since the turn began.
    func mayCarryOut(_ asked: RequestID, _ requestGuard: RequestGuard, partition: PartitionID) -> Bool {
        switch standing(of: requestGuard, at: partition) {
        case .valid: return true
        // The gateway may have reported to the client that the request was not done.
        case .late: effects.append(.noted(.requestLate))
        case .moved: answer(asked, .refused(absence(of: partition)))
        }
        return false
    }

    private func standing(of requestGuard: RequestGuard, at partition: PartitionID) -> RequestGuard.Standing {
        let standing = requestGuard.standing(in: epoch(of: partition), now: host.monotonic)
        #if DEBUG
            if options.planted.contains(.ignoreDeadlines), case .late = standing { return .valid }
            if options.planted.contains(.ignoreEpochs), case .moved = standing { return .valid }
        #endif
        return standing
    }

    func answer(_ request: RequestID, _ reply: Reply) {
        if request.gateway.processID == options.processID {
            post(.reply(request, reply), toLoop: request.gateway.loop)
        } else {
            say(.reply(request, reply), to: request.gateway.processID)
        }
    }

    func tellStream(_ gateway: GatewayID, _ frame: StreamFrame, from partition: PartitionID) {
        if gateway.processID == options.processID {
            post(.stream(from: partition, frame), toLoop: gateway.loop)
        } else {
            say(.stream(from: partition, to: gateway, frame), to: gateway.processID)
        }
    }

    // MARK: Peers

    func say(_ message: PeerMessage, to processID: ProcessID) {
        if toPeers.isEmpty { toPeersSince = host.monotonic }
        if let index = toPeers.firstIndex(where: { $0.processID == processID }) {
            message.encode(into: &toPeers[index].writer)
            guard toPeers[index].writer.count >= options.bounds.frameBytesTarget else { return }
            let full = toPeers[index].writer.bytes
            toPeers[index].writer = ByteWriter()
            handOver(full, to: processID)
        } else {
            var writer = ByteWriter()
            message.encode(into: &writer)
            toPeers.append((processID, writer))
        }
    }

    /// Hands over what the turn has for each other process, as one frame, or as a few if it is much.
    func flushPeers() {
        guard !toPeers.isEmpty else { return }
        for (processID, writer) in toPeers where writer.count > 0 { handOver(writer.bytes, to: processID) }
        toPeers.removeAll(keepingCapacity: true)
    }

    private func handOver(_ frame: [UInt8], to processID: ProcessID) {
        // This process slept since it wrote the frame: the requests in it name more time than they have left.
        if host.monotonic.since(toPeersSince) > Deadline.handoverMax {
            sent(to: processID, isTaken: false)
        } else {
            effects.append(.send(frame, to: processID))
        }
    }

    /// Whether the connection to the process took its frame.
    public func sent(to processID: ProcessID, isTaken: Bool) {
        guard !isTaken else { return gapNotices[processID] = nil }
        effects.append(.noted(.frameLost(to: processID)))
        // The loop asks again, but not immediately: the way may stay closed for a while. It also sends the
        // other process a gap notice as soon as it can: that process may wait for an answer that was lost.
        if unreachable.insert(processID).inserted {
            wake(.unreachable(processID), in: options.bounds.unreachablePause)
        }
    }

    func sendGapNotice(_ processID: ProcessID) {
        #if DEBUG
            if options.planted.contains(.sayNoGaps) { return }
        #endif
        let tries = gapNotices[processID, default: 0] + 1
        let isDue = tries <= options.bounds.gapNoticesMax
        gapNotices[processID] = isDue ? tries : nil
        if isDue { say(.gap, to: processID) }
    }

    /// Frames to or from the process may be lost: the loop asks again there, and attaches its streams again.
    func askAgain(of processID: ProcessID) {
        #if DEBUG
            if options.planted.contains(.forgetRequests) { return }
        #endif
        if let affected = places.served(by: processID) { askAgain(where: affected) }
    }

    private func askAgain(where affected: [Bool]) {
        reroute(affected)
        for number in affected.indices where affected[number] {
            let partition = PartitionID(UInt16(number))
            if places[partition] != .nowhere { reattach(partition) }
        }
    }

    // MARK: Streams

    /// Attaches the local streams of a partition's devices at its owner.
    func reattach(_ partition: PartitionID) {
        reattaching.remove(partition)
        #if DEBUG
            if options.planted.contains(.forgetStreams) { return }
        #endif
        for command in streams.reattach(partition) { route(.stream(command), to: partition) }
    }

    /// The partition's owner was not there: attaches the streams after a pause.
    func reattachLater(_ partition: PartitionID) {
        guard reattaching.insert(partition).inserted else { return }
        wake(.reattach(partition), in: options.bounds.reattachPause)
    }

    /// A stream waits for its partition as long as a request does, or twice as long.
    func expectStreams(upTo last: UInt64) {
        guard !isExpirySet else { return }
        isExpirySet = true
        wake(.unopened(upTo: last), in: options.routing.deadline)
    }

    func expireStreams(upTo last: UInt64) {
        isExpirySet = false
        if let next = streams.expire(upTo: last, sink: host) { expectStreams(upTo: next) }
    }

    // MARK: Orders of the node's control side

    func handle(_ order: LoopOrder) {
        switch order {
        case .serve(let id, let epoch, let grantsAfter):
            self.grantsAfter[id] = grantsAfter
            serve(id, epoch)
        case .release(let id): release(id)
        case .drop(let id): drop(id)
        case .unfollow(let id): followed[id] = nil
        case .places(let places, let away): updateRoutes(places, away: away)
        case .home(let isAway): router.isHomeAway = isAway
        case .members(let living, let gone): updateMembers(living: living, gone: gone)
        case .clockCompared(let reading): if let reading { vouch(for: reading) } else { contradictClock() }
        case .say(let message, let processIDs): for processID in processIDs { say(message, to: processID) }
        }
    }

    private func updateRoutes(_ next: PartitionPlaces, away: Set<PartitionID>) {
        self.away = away
        guard !next.isEmpty else { return }
        let changed = next.changed(since: places)
        places = next
        observer?.trace("\(gateway) adopts \(next)")
        guard let changed else { return }
        let unowned = places.nowhere
        for partition in partitions.values { partition.unowned = unowned }
        askAgain(where: changed)
    }

    private func updateMembers(living: Set<SessionID>, gone: Set<ProcessID>) {
        livingSessions = living
        guard !gone.isEmpty else { return }
        for processID in gone { gapNotices[processID] = nil }
        for (id, partition) in partitions.sorted(by: { $0.key < $1.key }) {
            partition.forgetGateways { gone.contains($0.processID) }
            partition.forgetWindows(living: livingSessions)
            if partition.hasWaitingStreams { reading.partitions.insert(id) }
            dirty.insert(id)
        }
    }
}
