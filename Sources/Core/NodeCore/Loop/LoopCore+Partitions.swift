import Journal
import Model
import Partitions

// The events of a loop's partitions, and their effects.

extension LoopCore {
    func handle(_ event: PartitionEvent, of id: PartitionID) {
        guard let partition = partitions[id], isOpen(to: event, id) else { return refuse(event, id) }
        guard !isPastDeviceLimit(event) else { return }
        if let observer { tell(observer, of: event, to: partition) }
        partition.handle(event, now: now, into: &partitionEffects)
        if partition.hasWaitingStreams { reading.partitions.insert(id) }
        dirty.insert(id)
        carryOut(of: id)
    }

    private func tell(_ observer: LoopObserver, of event: PartitionEvent, to partition: Partition) {
        switch event {
        case .pushed(let report): observer.pushed(report, of: partition)
        case .pushesChanged(let changed): observer.reopens(Set(changed.keys), at: partition)
        default: break
        }
    }

    func flushPartitions() {
        for id in dirty.sorted() {
            partitions[id]?.flush(now: now, into: &partitionEffects)
            carryOut(of: id)
        }
        checkPartitions()
        dirty.removeAll()
        if !leaving.isEmpty { finishLeaving() }
    }

    /// Whether the partition takes the event now. While the loop gives a partition up, the partition takes
    /// only events of this journal. While the partition's database is away, it takes no request, since it
    /// could answer nothing.
    private func isOpen(to event: PartitionEvent, _ partition: PartitionID) -> Bool {
        guard event.mayTravel else { return true }
        if case .request = event, away.contains(partition) { return false }
        return !leaving.contains(partition)
    }

    /// Refuses an event for a partition that is being read again, is quarantined, or is not here.
    private func refuse(_ event: PartitionEvent, _ partition: PartitionID) {
        switch event {
        case .request(let id, _):
            let absence = options.isClustered ? absence(of: partition) : LoopCore.reading
            answer(id, .refused(quarantine(of: partition) ?? absence))
        case .stream(.attach(let stream, _, _, _)):
            // No other node serves a quarantined partition: the stream gets the refusal, and does not ask
            // again.
            let absence: PartitionRefusal = options.isClustered ? .moved : LoopCore.reading
            let refusal = quarantine(of: partition) ?? absence
            tellStream(stream.gateway, .refused(stream, refusal), from: partition)
        default: break
        }
    }

    private static var reading: PartitionRefusal {
        .unavailable("the partition is being read from its journal")
    }

    private func quarantine(of partition: PartitionID) -> PartitionRefusal? {
        quarantined[partition].map {
            .unavailable("partition \(partition.rawValue) is quarantined: \($0)")
        }
    }

    /// Why a partition that should be here, or somewhere, is not. Nothing waits for a partition whose
    /// database is away: the client gets the refusal immediately.
    func absence(of partition: PartitionID) -> PartitionRefusal {
        away.contains(partition) ? .unavailable("the partition's database is away") : .moved
    }

    // MARK: Effects

    func carryOut(of id: PartitionID) {
        guard !partitionEffects.isEmpty else { return }
        var batch: [PartitionEffect] = []
        swap(&batch, &partitionEffects)
        batch.consumeEach { carryOut($0, of: id) }
        if partitionEffects.isEmpty { swap(&batch, &partitionEffects) }
    }

    private func carryOut(_ effect: consuming PartitionEffect, of id: PartitionID) {
        switch effect {
        case .append(let sequence, let body): append(id, sequence, body: body)
        case .reply(let request, let reply): answer(request, reply.value)
        case .offer(let to, let frame): route(.offered(frame.value), to: to)
        case .acknowledge(let to, let said): route(.acknowledged(said.value), to: to)
        case .ask(let of, let question): route(.asked(question.value), to: of)
        case .tell(let to, let answer): route(.told(answer.value), to: to)
        case .stream(let gateway, let frame): tellStream(gateway, frame.value, from: id)
        case .push(let job): push(job.value, of: id)
        case .confirm(let token): effects.append(.call(.confirm(id, token: token)))
        case .readRecords(let sequences, let bytesMax, let token):
            effects.append(.call(.readRecords(id, sequences, bytesMax: bytesMax, token: token)))
        case .writeSnapshot(let covering, let part, let token):
            effects.append(.call(.writeSnapshot(id, covering: covering, part, token: token)))
        case .trim(let below, let keeping): trim(id, below: below, keeping: keeping)
        case .wake(let at): effects.append(.wake(.partition(id, at), at: at))
        case .notice(let notice):
            note(notice, of: id)
            effects.append(.noted(.partition(id, notice)))
        case .fingerprintsDiffer(let with): effects.append(.noted(.fingerprintsDiffer(id, with: with)))
        }
    }

    private func append(_ id: PartitionID, _ sequence: Sequence, body: [UInt8]) {
        guard let partition = partitions[id] else { return }
        let header = RecordHeader(
            partition: id, sequence: sequence, epoch: epoch(of: id), history: partition.history)
        do {
            rows.append(
                Row(
                    partition: id, sequence: sequence,
                    payload: try RecordCodec.encode(header: header, body: body),
                    incarnation: partition.incarnation))
        } catch {
            cannotAppend(id, "record \(sequence.rawValue) is too large: \(error)")
        }
    }

    /// Quarantines the partition: a machine that is read again would make the same record, which cannot be
    /// written.
    private func cannotAppend(_ id: PartitionID, _ reason: String) {
        guard let partition = remove(id) else { return }
        abandon(partition, mayHaveAppended: true, reason: reason)
        if options.isClustered {
            grantor.close { home(of: $0) == id }
        } else {
            for loop in 0..<options.map.loopCount { post(.endStreams(of: id), toLoop: loop) }
        }
        quarantine(id, reason: reason)
        // The partition's place does not change, so no gateway would notice that its streams get nothing any
        // more.
        guard options.isClustered, let refusal = quarantine(of: id) else { return }
        for stream in partition.listeners { tellStream(stream.gateway, .refused(stream, refusal), from: id) }
    }

    // MARK: Answers of the engine

    /// The outcome of a record, for the machine that made the record.
    func handle(_ resolved: Resolved) {
        let id = resolved.partition
        guard partitions[id]?.incarnation == resolved.incarnation else { return }
        switch resolved.resolution {
        case .durable: handle(.appended(resolved.sequence), of: id)
        case .postponed(let reason): handle(.postponed(reason), of: id)
        case .crowded: handle(.crowded(resolved.sequence), of: id)
        case .fenced: lose(id, mayHaveAppended: true, reason: "the session was fenced")
        case .taken: lose(id, mayHaveAppended: false, reason: "another owner wrote the partition")
        // Records before this one may be in flight.
        case .refused(let reason): lose(id, mayHaveAppended: true, reason: reason)
        case .unknown:
            lose(id, mayHaveAppended: true, reason: "the partition was lost with this record in doubt")
        }
    }

    func handle(_ answer: EngineAnswer) {
        switch answer {
        case .readFailed(let id, let sequences, let bytesMax, let token):
            wake(.readAgain(id, sequences, bytesMax: bytesMax, token: token), in: options.bounds.readRetry)
        case .trimmed(let id, let left):
            guard let trim = trims[id] else { return }
            guard left > 0 else { return trims[id] = nil }
            effects.append(.call(.trim(id, below: trim.below, keeping: trim.keeping)))
        case .trimFailed(let id): trims[id] = nil
        case .closed(let id): closed(id)
        case .loaded(let loaded, let epoch, let quotas):
            guard isExpected(loaded.id, epoch) else { return }
            tellUnreadable(in: loaded)
            handedOver.merge(quotas) { $1 }
            restore(loaded)
            if options.isClustered { effects.append(.serving(loaded.id)) }
        case .loadFailed(let id, let epoch, let isDamaged, let reason):
            guard isExpected(id, epoch) else { return }
            loading[id] = self.epoch(of: id)
            guard isDamaged else { return wake(.loadAgain(id), in: options.bounds.loadRetry) }
            let tries = failedLoads[id, default: 0]
            failedLoads[id] = tries + 1
            // The damage may be of the reading, so the loop reads again first (rule: damage-is-quarantined).
            guard tries >= options.bounds.damagedLoadsMax else {
                return wake(.loadAgain(id), in: options.bounds.loadRetry.doubled(times: tries))
            }
            quarantine(id, reason: reason)
            if options.isClustered { effects.append(.serving(id)) }
        case .confirmFailed(let id, let token):
            wake(.confirmAgain(id, token: token), in: options.bounds.confirmRetry)
        case .followed(let loaded):
            tellUnreadable(in: loaded)
            follow(loaded)
            effects.append(.followed(loaded.id))
        }
    }

    /// Whether the loop still waits for the partition in this epoch: the node may have given it up meanwhile,
    /// and taken it again. On a lone node no other node can have it.
    private func isExpected(_ id: PartitionID, _ epoch: Epoch) -> Bool {
        options.isClustered ? loading[id] == epoch : partitions[id] == nil
    }

    /// Deletes records that are not needed any more, slice by slice; one run for a partition at a time.
    private func trim(_ id: PartitionID, below: Sequence, keeping: [Sequence]) {
        guard trims[id] == nil else { return }
        trims[id] = Trim(below: below, keeping: keeping)
        effects.append(.call(.trim(id, below: below, keeping: keeping)))
    }

    // MARK: Taking a partition

    /// This node owns the partition since the epoch: a machine that it has read as an heir waits for the
    /// rest.
    func serve(_ id: PartitionID, _ epoch: Epoch) {
        epochs[Int(id.rawValue)] = epoch
        loading[id] = epoch
        closing[id] = nil
        failedLoads[id] = nil
        forgetHandedOver(id)
        let known = followed.removeValue(forKey: id)
        inherited[id] = known?.partition
        effects.append(.call(.load(id, epoch, behind: known?.mark)))
    }

    /// Keeps what the node has read of a partition that it may inherit.
    private func follow(_ loaded: StoredPartition) {
        // Nothing rests on it yet: if it cannot be folded, the node reads it again as the owner.
        guard partitions[loaded.id] == nil, let partition = try? fold(loaded, into: nil) else { return }
        followed[loaded.id] = FollowedPartition(partition: partition, mark: loaded.mark)
    }

    private func tellUnreadable(in loaded: StoredPartition) {
        for reason in loaded.unreadable {
            effects.append(.noted(.snapshotUnreadable(loaded.id, reason: reason)))
        }
    }

    /// Folds a partition from what was read, and begins to serve it.
    private func restore(_ loaded: StoredPartition) {
        failedLoads[loaded.id] = nil
        loading[loaded.id] = nil
        let followed = inherited.removeValue(forKey: loaded.id)
        // The partition was given up, and its machine thrown away, while the rest was read.
        if loaded.isTail, followed == nil { return }
        let partition: Partition
        do {
            partition = try fold(loaded, into: loaded.isTail ? followed : nil)
        } catch {
            return quarantine(loaded.id, reason: "its journal cannot be folded: \(error)")
        }
        quarantined[loaded.id] = nil
        effects.append(.open(loaded.id, next: partition.applied.next))
        startServing(partition)
    }

    /// Keeps a partition that cannot be read, folded or written: it would stop the next owner as well. It
    /// stays here, unserved and unwritten, while the node serves the rest (rule: damage-is-quarantined).
    private func quarantine(_ id: PartitionID, reason: String) {
        loading[id] = nil
        failedLoads[id] = nil
        quarantined[id] = reason
        effects.append(.noted(.quarantined(id, reason: reason)))
    }

    private func fold(_ loaded: StoredPartition, into followed: Partition?) throws -> Partition {
        let partition =
            followed
            ?? Partition(
                id: loaded.id, history: options.histories[Int(loaded.id.rawValue)],
                options: options.partition, names: names, proofs: proofs)
        try loaded.fold(into: partition)
        return partition
    }

    /// A partition that was read from its journal begins to serve.
    private func startServing(_ partition: Partition) {
        partitions[partition.id] = partition
        partition.invariantSchedule.isHolders = true
        servedSince[partition.id] = now.monotonic
        incarnations &+= 1
        partition.pushServices = pushServices
        partition.unowned = places.nowhere
        partition.refusedKeys = limiter.refusedKeys
        partition.brake = self
        noteGone(of: partition)
        partition.start(
            now: believed(now), clock: wallClock.isUnconfirmed ? wallClock : nil, incarnation: incarnations,
            into: &partitionEffects)
        if options.isClustered {
            partition.forgetWindows(living: livingSessions)
        } else {
            partition.forgetWindows()
        }
        dirty.insert(partition.id)
        carryOut(of: partition.id)
    }

    // MARK: Losing a partition, and giving it up

    /// Throws the partition's machine away and answers its waiting requests; the journal gives another
    /// machine.
    func lose(_ id: PartitionID, mayHaveAppended: Bool, reason: String) {
        guard let partition = remove(id) else { return }
        effects.append(.noted(.partitionLost(id, reason: reason)))
        abandon(partition, mayHaveAppended: mayHaveAppended, reason: reason)
        guard !options.isClustered else {
            grantor.close { home(of: $0) == id }
            return effects.append(.lost(id))
        }
        for loop in 0..<options.map.loopCount { post(.endStreams(of: id), toLoop: loop) }
        // Rows of the lost machine may still wait or be in doubt: the loop must read the journal behind them.
        loading[id] = epoch(of: id)
        effects.append(.close(id))
    }

    /// The loop no longer serves the partition.
    private func remove(_ id: PartitionID) -> Partition? {
        servedSince[id] = nil
        doubting.remove(id)
        return partitions.removeValue(forKey: id)
    }

    private func abandon(_ partition: Partition, mayHaveAppended: Bool, reason: String) {
        var replies: [(RequestID, Reply)] = []
        partition.abandon(mayHaveAppended: mayHaveAppended, reason: reason, into: &replies)
        for (request, reply) in replies { answer(request, reply) }
        dirty.remove(partition.id)
    }

    /// Takes no more work for the partition, and gives it up when nothing of it is in flight. Records that
    /// the engine refuses could stay in flight for long: they are dropped, and gateways ask the next owner.
    func release(_ id: PartitionID) {
        inherited[id] = nil
        quarantined[id] = nil
        loading[id] = nil
        // The partition has no machine: tokens that came with it and are not opened go to the heir.
        guard let partition = partitions[id] else { return close(id, left: takeBuckets(of: id)) }
        partition.mayPush = false
        leaving.insert(id)
    }

    /// Gives the partition up through the journal's writer, which may still have rows of a machine that was
    /// lost: these could go in behind the next owner's barrier (rule: given-up-through-the-writer).
    private func close(_ id: PartitionID, left: [ProjectNumber: [UInt64]]) {
        let isUnderWay = closing[id] != nil
        closing[id, default: [:]].merge(left) { $1 }
        if !isUnderWay { effects.append(.close(id)) }
    }

    private func closed(_ id: PartitionID) {
        guard options.isClustered else {
            if let epoch = loading[id] { effects.append(.call(.load(id, epoch, behind: nil))) }
            return
        }
        guard let left = closing.removeValue(forKey: id) else { return }
        effects.append(.call(.giveUp(id, epoch(of: id), left: left)))
    }

    private func finishLeaving() {
        for id in leaving.sorted() where partitions[id].map({ $0.isIdle || $0.isRefused }) ?? true {
            leaving.remove(id)
            let left = takeBuckets(of: id)
            drop(id)
            close(id, left: left)
        }
    }

    /// Throws away what the loop has of a partition: this process does not serve it any more.
    func drop(_ id: PartitionID) {
        leaving.remove(id)
        inherited[id] = nil
        quarantined[id] = nil
        loading[id] = nil
        forgetHandedOver(id)
        effects.append(.noted(.dropped(id)))
        guard let partition = remove(id) else { return }
        var replies: [(RequestID, Reply)] = []
        partition.abandon(mayHaveAppended: true, reason: "another session owns the partition", into: &replies)
        // The next owner knows which records went in: its window has the number of a send that is asked
        // again.
        for (request, _) in replies { answer(request, .refused(.handedOver)) }
        grantor.close { home(of: $0) == id }
    }
}
