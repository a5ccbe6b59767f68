import Model

// Between partitions. A receiver always sends its durable mark, also for a repeat (rule: outbox-order).

extension Partition {
    /// Offers the durable entries that were not offered yet, within the window.
    func offer(to partition: PartitionID, by proof: Proof, _ turn: inout Turn) {
        guard let outbox = state.outboxes[partition] else { return }
        let acknowledged = self.acknowledged[partition] ?? .zero
        let sent = max(offered[partition]?.upTo ?? .zero, acknowledged)
        var entries: [OutboxEntry] = []
        var outstanding = 0
        var bytes = 0
        for entry in outbox.unacknowledged {
            if entry.number <= acknowledged { continue }
            outstanding += 1
            bytes += entry.weight
            if entry.number > pipeline.durable || outstanding > options.outboxWindow { break }
            if outstanding > 1, bytes > options.offerBytesMax { break }
            if entry.number > sent { entries.append(entry) }
        }
        guard let last = entries.last else { return }
        // What waits longest decides when all of it is offered again: new entries put nothing off.
        let since = offered[partition].map { $0.upTo > acknowledged ? $0.at : turn.now.monotonic }
        offered[partition] = Offered(upTo: last.number, at: since ?? turn.now.monotonic)
        let frame = frame(entries, to: partition, turn.now)
        turn.effects.append(.offer(to: partition, Proven(frame, restingOn: last.number, by: proof)))
    }

    func onOffered(_ frame: OutboxFrame, _ turn: inout Turn) {
        #if DEBUG
            if options.planted.contains(.believeTimes) { return take(frame, &turn) }
        #endif
        take(frame.dated(turn.now), &turn)
    }

    /// Applies a frame whose messages are dated by this partition's clock.
    private func take(_ frame: OutboxFrame, _ turn: inout Turn) {
        var mark = state.marks[frame.from]
        var applied = false
        if isMisfit(mark, frame) {
            mend(frame)
            mark = state.marks[frame.from]
            applied = true
        }
        // Numbers of two histories cannot be compared. A sender of an earlier generation made the frame
        // before its journal lost its end, and no longer knows the entries. The sender gets the mark: it
        // denies a mark that is none of its outbox.
        if let mark, mark.history != frame.history || frame.generation < mark.generation {
            return acknowledge(to: frame.from, by: pipeline.confirmed(), &turn)
        }
        var number = mark?.number ?? .zero
        if let base = base(for: frame, mark) {
            propose(
                .rebase(
                    from: frame.from, history: frame.history, generation: frame.generation, number: base))
            number = base
            applied = true
        }
        if applied { noteApplied(frame.from) }
        for offered in frame.entries {
            if offered.number <= number { continue }
            let entry = following(offered, number)
            guard entry.follows(number), isOfOutbox(number, before: entry, in: frame) else { break }
            let isWhole = receive(entry, from: frame.from, history: frame.history, applied: &applied, &turn)
            guard isWhole else {
                keep(frame)
                break
            }
            number = entry.number
        }
        if !applied { acknowledge(to: frame.from, by: pipeline.confirmed(), &turn) }
    }

    /// The journal is behind, so what is left of the frame is applied when a record is durable. Past a bound
    /// the frame is dropped, and its sender offers the entries again after a second. A single frame is kept
    /// however long it is: otherwise only a record or two of it would be applied in a second.
    private func keep(_ frame: OutboxFrame) {
        deferred.removeAll { $0.from == frame.from }
        let held = deferred.reduce(0) { $0 + $1.weight }
        if deferred.isEmpty || held + frame.weight <= options.deferredBytesMax { deferred.append(frame) }
    }

    func takeDeferred(_ turn: inout Turn) {
        let frames = deferred
        deferred = []
        for frame in frames { take(frame, &turn) }
    }

    private func noteApplied(_ partition: PartitionID) {
        pipeline.gated.applied.insert(partition)
        pipeline.isUrgent = true
    }

    /// Applies what is left of an entry, in as many records as it needs. False if the journal is behind:
    /// the caller keeps the frame.
    private func receive(
        _ entry: OutboxEntry, from: PartitionID, history: History, applied: inout Bool, _ turn: inout Turn
    ) -> Bool {
        let part = state.marks[from]?.part
        var next = part?.entry == entry.number ? min(Int(part?.items ?? 0), entry.items.count) : 0
        repeat {
            guard makeRoom(&turn) else { return false }
            let end = endOfPart(entry, from: next, turn.now)
            let isWhole = next == 0 && end == entry.items.count
            let items = isWhole ? entry : entry.part(next..<end)
            let decisions = decisions(items, turn.now)
            tellLate(decisions, &turn)
            if isWhole {
                propose(.receive(from: from, history: history, entry: entry, decisions: decisions))
            } else {
                propose(
                    .receivePart(
                        from: from, history: history, entry: items, decisions: decisions,
                        behind: UInt32(clamping: next), isLast: end == entry.items.count))
            }
            noteApplied(from)
            applied = true
            next = end
        } while next < entry.items.count
        return true
    }

    /// How far the entry's items fit into the open record; at least one item is taken.
    private func endOfPart(_ entry: OutboxEntry, from start: Int, _ now: Instant) -> Int {
        let room = options.recordBytesMax - pipeline.openBytes
        let withListeners = mayHaveListeners(now)
        if start == 0, entry.weightAtReceiverMax(withListeners: withListeners) <= room {
            return entry.items.count
        }
        var bytes = 0
        var end = start
        while end < entry.items.count {
            bytes += entry.items[end].weight(withListeners: withListeners)
            if bytes > room, end > start { break }
            end += 1
        }
        return end
    }

    private func mayHaveListeners(_ now: Instant) -> Bool {
        streams.count > 0 || now.monotonic.since(begunAt) < options.listenersReturn
    }

    /// The entry as it was offered. A planted bug puts `mark` in the place of its predecessor.
    private func following(_ entry: OutboxEntry, _ mark: Sequence) -> OutboxEntry {
        #if DEBUG
            guard options.planted.contains(.skipPredecessor) else { return entry }
            return OutboxEntry(
                number: entry.number, predecessor: mark, items: entry.items, fingerprint: entry.fingerprint)
        #else
            return entry
        #endif
    }

    /// Reports to a sender how far its outbox is durably applied here. A repeat gets the same
    /// acknowledgement.
    func acknowledge(to partition: PartitionID, by proof: Proof, _ turn: inout Turn) {
        let mark = durableMarks[partition]
        let said = OutboxAcknowledgement(
            from: id, history: mark?.history ?? History(0), generation: mark?.generation ?? 0,
            mark: mark?.number ?? .zero,
            fingerprint: mark?.fingerprint ?? 0)
        turn.effects.append(.acknowledge(to: partition, Proven(said, restingOn: .zero, by: proof)))
    }

    func onAcknowledged(_ said: OutboxAcknowledgement, _ turn: inout Turn) {
        if isStrange(said) { return deny(said) }
        guard said.mark == .zero || said.history == history else { return }
        guard said.generation <= state.generation else { return }
        // A receiver in another database may have lost this mark since: the acknowledgement may be a late one
        // of an earlier generation.
        if options.databaseCount > 1, said.generation < state.generation { return }
        let outbox = state.outboxes[said.from] ?? Outbox()
        var said = said
        said.mark = reached(said, outbox)
        // Entries that are not durable were offered to nobody, whatever the receiver says.
        guard said.mark <= outbox.last, said.mark <= pipeline.durable else { return }
        denied[said.from] = nil
        let known = acknowledged[said.from] ?? .zero
        let isNew =
            said.mark > known || outbox.unacknowledged.first.map { $0.number <= said.mark } ?? false
        if isNew || isBeingCompared(said.from), compareFingerprints(said, with: outbox, &turn) {
            wasCompared(said.from)
        }
        if isNew {
            endWait(for: said.from, &turn)
            acknowledged[said.from] = said.mark
            offered[said.from]?.at = turn.now.monotonic
            propose(.acknowledge([OutboxMark(partition: said.from, number: said.mark)]))
        }
        if let offered = offered[said.from], offered.upTo <= said.mark { self.offered[said.from] = nil }
        offer(to: said.from, by: pipeline.confirmed(), &turn)
        // While the two ends do not agree, an acknowledgement is no proof that the receiver has the change.
        if !isUnderRepair(said.from, said.mark), !isBeingCompared(said.from) {
            releaseOutboxWaiters(said.from, &turn)
        }
    }

    /// Compares the two ends' XOR over the members of the pair; reports and repairs a difference. False if
    /// this end does not know its value at the mark.
    private func compareFingerprints(
        _ said: OutboxAcknowledgement, with outbox: Outbox, _ turn: inout Turn
    ) -> Bool {
        guard !isUnderRepair(said.from, said.mark) else { return true }
        let ours: UInt64?
        if said.mark == outbox.last {
            ours = outbox.fingerprint
        } else {
            ours = outbox.unacknowledged.last { $0.number == said.mark }?.fingerprint
        }
        guard let ours else { return false }
        guard ours != said.fingerprint else { return true }
        turn.effects.append(.fingerprintsDiffer(with: said.from))
        beginRepair(said.from, turn.now)
        return true
    }

    func isAcknowledged(_ mark: OutboxMark) -> Bool {
        let known = acknowledged[mark.partition] ?? .zero
        if isUnderRepair(mark.partition, known) || isBeingCompared(mark.partition) { return false }
        if known >= mark.number { return true }
        guard let outbox = state.outboxes[mark.partition] else { return true }
        guard let first = outbox.unacknowledged.first else { return true }
        return first.number > mark.number
    }

    private func releaseOutboxWaiters(_ partition: PartitionID, _ turn: inout Turn) {
        guard let waiters = outboxWaiters[partition] else { return }
        let mark = acknowledged[partition] ?? .zero
        // Not in order: an answer that waited for a confirmation comes behind an answer of a faster record.
        guard waiters.contains(where: { $0.number <= mark }) else { return }
        var kept: [OutboxWaiter] = []
        for waiter in waiters {
            if waiter.number <= mark {
                release(waiter.answer, by: waiter.proof, &turn)
            } else {
                kept.append(waiter)
            }
        }
        outboxWaiters[partition] = kept.isEmpty ? nil : kept
    }

    /// Offers entries again that were not acknowledged within `outboxRetry`.
    func retryOutboxes(_ turn: inout Turn) {
        let proof = pipeline.confirmed()
        offered.forEach { partition, last in
            guard turn.now.monotonic.since(last.at) >= options.outboxRetry else { return }
            noteWait(for: partition, by: proof, &turn)
            offered[partition] = nil
            offer(to: partition, by: proof, &turn)
        }
    }

    // MARK: Delivery decisions

    /// Decides for each message of an entry what depends on the clock and on the devices that listen.
    func decisions(_ entry: OutboxEntry, _ now: Instant) -> [DeliveryDecision] {
        var count: UInt16 = 0
        for item in entry.items {
            if case .message = item { count = count == .max ? count : count + 1 }
        }
        guard count > 0 else { return [] }
        var decisions: [DeliveryDecision] = []
        decisions.reserveCapacity(Int(count))
        var last = state.log.last
        var burst = Burst(companions: count)
        for item in entry.items {
            guard case .message(let project, let message, let targets) = item else { continue }
            let decision = decideDelivery(message, of: project, to: targets, in: &burst, after: last, at: now)
            last = decision.position
            decisions.append(decision)
        }
        return decisions
    }

    /// The messages of one entry. All are decided before any of them is folded.
    struct Burst {
        /// How many messages there are. Each may be for the same device.
        var companions: UInt16
        /// By how much the burst's earlier messages will have changed what waits for a device.
        var changes: [UInt32: Int] = [:]
    }

    func decideDelivery(
        _ message: Envelope, of project: ProjectNumber, to targets: DeviceSet, in burst: inout Burst,
        after last: Position, at now: Instant
    ) -> DeliveryDecision {
        let clock = UInt64(max(0, now.wall.milliseconds)) * 1000
        let position = Position(max(clock, last.rawValue + 2))
        var decision = DeliveryDecision(disposition: .stored, position: position)
        if message.times.stream == 0 {
            decision.disposition = .passing
        } else if message.end(message.times.stream) <= now.wall, !deliversLate {
            decision.disposition = .late
        }
        if decision.disposition != .stored { decision.reach = reach(of: message, now) }
        let kept = decision.kept(targets, state.transports)
        guard !kept.isEmpty else {
            decision.reach = []
            return decision
        }
        let held = state.log.bytes[project.rawValue] ?? 0
        if held + UInt64(message.event.count) > options.waitingBytesMax {
            if decision.disposition == .stored {
                decision.disposition = .refused
            } else {
                decision.isReachRefused = true
            }
            return decision
        }
        if message.collapseKey.isEmpty, message.share.isEmpty {
            exemptListeners(kept, &burst, at: now, in: &decision)
        }
        return decision
    }

    /// The push services at which the message does not end yet.
    private func reach(of message: Envelope, _ now: Instant) -> Transport.Kinds {
        #if DEBUG
            if options.planted.contains(.endWithStreams) { return [] }
        #endif
        guard !message.times.areSame, !state.transports.isEmpty else { return [] }
        return Transport.Kinds(
            Transport.Kind.allCases.filter { kind in
                let seconds = message.times[kind]
                return seconds > 0 && message.end(seconds) > now.wall
            })
    }

    /// A planted bug.
    var deliversLate: Bool {
        #if DEBUG
            return options.planted.contains(.deliverLate)
        #else
            return false
        #endif
    }

    /// Whether a device at its limit listens, or may: a new owner does not know all streams yet. If streams
    /// outlive an owner, a burst that waited for the new owner comes before gateways attach them.
    private func mayListen(_ index: UInt32, waiting: Int, isFresh: Bool) -> Bool {
        if let attachment = streams.attachment(index) {
            switch attachment.state {
            case .behind, .cutOff: return waiting < options.delivery.behindMax
            case .beginning, .waiting, .bodiless, .reading, .losing, .live: return true
            }
        }
        return isFresh && (options.streamsOutliveOwners || hadWaiting.contains(index))
    }

    private func exemptListeners(
        _ targets: DeviceSet, _ burst: inout Burst, at now: Instant, in decision: inout DeliveryDecision
    ) {
        guard mayHaveListeners(now) else { return }
        let isFresh = now.monotonic.since(begunAt) < options.listenersReturn
        let delivery = options.delivery
        let near = delivery.waitingMax - min(burst.companions, delivery.waitingMax)
        let passAt = Int(delivery.waitingMax + delivery.passDepth)
        // A gateway that confirms nothing for 1 s must not keep all other devices' messages waiting.
        let heldUp = Position(decision.position.rawValue - min(decision.position.rawValue, 1_000_000))
        var exempt: [UInt32] = []
        var passed: [UInt32] = []
        var passedUpTo = Position(.max)
        targets.forEach { index in
            guard let (page, slot) = state.devices.find(index) else { return }
            let waiting = page.waiting[slot]
            let change = burst.changes[index] ?? 0
            guard waiting >= near else { return }
            guard mayListen(index, waiting: Int(waiting) + change, isFresh: isFresh) else {
                // The device has a stream but is not exempt: this message drops all that waits for it.
                if streams.attachment(index) != nil { burst.changes[index] = 1 - Int(waiting) }
                return
            }
            exempt.append(index)
            // A device that not even the whole burst brings to `passAt` is not counted.
            guard Int(waiting) + Int(burst.companions) > passAt else { return }
            burst.changes[index] = change + 1
            guard Int(waiting) + change >= passAt, !streams.isHeldUp(index, before: heldUp) else { return }
            let handedOver = streams.handedOver(index)
            guard handedOver > .zero else { return }
            burst.changes[index] = change + 1 - Int(delivery.passDepth)
            passed.append(index)
            passedUpTo = min(passedUpTo, handedOver)
        }
        decision.exempt = DeviceSet(sorted: exempt)
        guard !passed.isEmpty else { return }
        decision.passed = DeviceSet(sorted: passed)
        decision.passedUpTo = passedUpTo
    }
}
