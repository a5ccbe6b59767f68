import Model

// The invariants of a partition's machine between two turns, after `flush`.

extension Partition {
    /// The first invariant that does not hold; `nil` if all do. `isWhole`: also the invariants of every
    /// device, entry and member. Debug builds look after each `flush`, unless the machine's holder looks
    /// itself.
    public func brokenInvariant(isWhole: Bool) -> String? {
        if let broken = brokenInJournaling ?? brokenInWaking
            ?? snapshots.brokenInvariant(state.applied, durable: pipeline.durable)
        {
            return broken
        }
        guard isWhole else { return nil }
        return brokenBetweenPartitions ?? brokenInResolutions ?? brokenInStreams ?? state.brokenInvariant
            ?? brokenInPushes
    }

    /// About how many entries a whole look visits.
    public var checkSize: Int { state.devices.count + state.log.count + streams.count + state.topics.count }

    func checkInvariants() {
        #if DEBUG
            guard options.planted.isEmpty, let isWhole = invariantSchedule.isWholeDueHere(size: checkSize)
            else { return }
            InvariantSchedule.demand(
                brokenInvariant(isWhole: isWhole).map { "partition \(id.rawValue): \($0)" })
        #endif
    }

    // MARK: The journal

    private var brokenInJournaling: String? {
        if let broken = pipeline.brokenInvariant(applied: state.applied) { return broken }
        if pipeline.inFlight.count > max(1, options.recordsInFlightMax) {
            return "more records are in flight than may be"
        }
        if confirmInFlight == confirmations.isEmpty {
            return confirmInFlight
                ? "a confirmation is awaited for nobody"
                : "answers wait for a confirmation that nobody asked for"
        }
        if zip(confirmations, confirmations.dropFirst()).contains(where: { $0.token >= $1.token }) {
            return "confirmations are out of order"
        }
        if let last = confirmations.last, last.token > lastToken { return "a token was never given" }
        if !deferred.isEmpty, pipeline.inFlight.isEmpty {
            return "frames wait for a record in flight, and there is none"
        }
        return nil
    }

    // MARK: Time

    /// A timer must be set for everything that waits for a moment.
    private var brokenInWaking: String? {
        if !pipeline.isOpenEmpty, pipeline.inFlight.isEmpty {
            guard let bookkeepingDue else { return "the open record waits for nothing" }
            if !isWoken(by: bookkeepingDue) { return "nobody is woken to close the open record" }
        }
        let retry = options.outboxRetry
        if let comparison, !isWoken(by: comparison.at.advanced(by: retry)) {
            return "nobody is woken to compare the pairs that are left"
        }
        if streams.mayBeStuck, !(probedAt.map { isWoken(by: $0.advanced(by: retry)) } ?? false) {
            return "nobody is woken to ask the gateways of those that are cut off"
        }
        if let first = resolutions.values.map(\.askedAt).min(), !isWoken(by: first.advanced(by: retry)) {
            return "nobody is woken to ask about conditions again"
        }
        return nil
    }

    private func isWoken(by time: MonotonicTime) -> Bool { wakes.next.map { $0 <= time } ?? false }

    // MARK: Other partitions

    private var brokenBetweenPartitions: String? {
        var broken: String?
        func find(_ partition: PartitionID, _ invariant: String?) {
            if let invariant { broken = broken ?? "partition \(partition.rawValue): \(invariant)" }
        }
        state.outboxes.forEach { find($0, self.broken($1, to: $0)) }
        offered.forEach { partition, last in
            if state.outboxes[partition]?.isEmpty ?? true { find(partition, "nothing is offered to it") }
            if last.upTo > pipeline.durable { find(partition, "what is not durable was offered to it") }
            if !isWoken(by: last.at.advanced(by: options.outboxRetry)) {
                find(partition, "nobody is woken to offer to it again")
            }
        }
        acknowledged.forEach { partition, mark in
            if mark > pipeline.durable { find(partition, "it has acknowledged what is not durable") }
            if mark > state.outboxes[partition]?.last ?? .zero {
                find(partition, "it has acknowledged what was never sent")
            }
        }
        durableMarks.forEach { partition, durable in
            guard let mark = state.marks[partition] else { return find(partition, "its mark is forgotten") }
            if (durable.generation, durable.number) > (mark.generation, mark.number) {
                find(partition, "its durable mark is ahead of its mark")
            }
        }
        outboxWaiters.forEach { find($0, self.broken($1, of: $0)) }
        repairs.forEach { find($0, self.broken($1)) }
        if comparison?.left.isEmpty ?? false { return "a comparison with nobody is under way" }
        if comparison != nil, state.comparedGeneration >= state.generation {
            return "partitions are compared again"
        }
        let held = deferred.reduce(0) { $0 + $1.weight }
        if deferred.count > 1, held > options.deferredBytesMax { return "more bytes of frames wait than may" }
        // A single frame is kept, however long it is. It is at most as long as an offer may be.
        if let frame = deferred.first, frame.entries.count > 1,
            held > max(options.deferredBytesMax, options.offerBytesMax)
        {
            return "a frame waits that is longer than an offer"
        }
        if Set(deferred.map(\.from)).count < deferred.count { return "two frames of a partition wait" }
        return broken
    }

    private func broken(_ outbox: Outbox, to partition: PartitionID) -> String? {
        let mark = acknowledged[partition] ?? .zero
        let durable = outbox.unacknowledged.filter { $0.number > mark && $0.number <= pipeline.durable }
        guard !durable.isEmpty else { return nil }
        guard let offered = offered[partition] else { return "what is durable is not offered to it" }
        if durable.count(where: { $0.number <= offered.upTo }) > options.outboxWindow {
            return "more entries are offered than its window takes"
        }
        return nil
    }

    private func broken(_ waiters: [OutboxWaiter], of partition: PartitionID) -> String? {
        if waiters.isEmpty { return "an empty list of answers waits for it" }
        let isLate = waiters.contains { isAcknowledged(OutboxMark(partition: partition, number: $0.number)) }
        return isLate ? "an answer waits for what it has acknowledged" : nil
    }

    private func broken(_ repair: Repair) -> String? {
        if repair.next > repair.count { return "more slices were told than there are" }
        if (repair.next == repair.count) != (repair.last != nil) {
            return "whether its repair is at its end is not clear"
        }
        return repair.next < repair.count && pipeline.isIdle ? "nothing brings its repair further" : nil
    }

    // MARK: Conditions

    private var brokenInResolutions: String? {
        for (ticket, resolution) in resolutions {
            guard let pending = state.conditions[ticket] else { return "what is resolved is asked about" }
            if resolution.answers.count >= awaited(pending).count {
                return "all partitions have answered, and are awaited"
            }
        }
        for (ticket, answers) in conditionAnswers {
            guard state.conditions[ticket] != nil else { return "the sender of what is resolved waits" }
            if answers.isEmpty { return "an empty list of senders waits" }
        }
        var tickets = Set(pipeline.gated.tickets)
        for record in pipeline.inFlight { tickets.formUnion(record.gated.tickets) }
        for ticket in state.conditions.keys where resolutions[ticket] == nil && !tickets.contains(ticket) {
            return "nobody asks about a condition of record \(ticket.record.rawValue)"
        }
        return nil
    }

    // MARK: Streams

    private var brokenInStreams: String? {
        if let broken = streams.brokenInvariant { return broken }
        var beginning: Set<UInt32> = []
        var continuing: Set<UInt32> = []
        func add(_ gated: Gated) {
            beginning.formUnion(gated.beginning.map(\.device.rawValue))
            continuing.formUnion(gated.continuing.map(\.device))
        }
        add(pipeline.gated)
        for record in pipeline.inFlight { add(record.gated) }
        for confirmation in confirmations {
            if case .beginning(_, let device) = confirmation.answer.to { beginning.insert(device.rawValue) }
        }
        for index in streams.devices(where: { _ in true }) {
            guard state.devices.find(index) != nil else { return "device \(index) is gone, and listens" }
            switch streams.attachment(index)?.state {
            case .beginning where !beginning.contains(index): return "nothing lets device \(index) begin"
            case .losing where !continuing.contains(index): return "nothing lets device \(index) go on"
            default: continue
            }
        }
        return nil
    }
}

extension CommitPipeline {
    func brokenInvariant(applied: Sequence) -> String? {
        if openSequence != applied.next { return "the open record does not follow what is folded" }
        var last = durable
        for record in inFlight {
            if record.sequence != last.next { return "the records in flight do not follow each other" }
            last = record.sequence
        }
        if last != applied { return "what is folded is neither durable nor in flight" }
        if isOpenEmpty, isUrgent || !gated.isEmpty { return "something waits for a record that is empty" }
        return nil
    }
}

extension Gated {
    /// Nothing waits.
    var isEmpty: Bool {
        answers.isEmpty && touched.isEmpty && applied.isEmpty && deliveries.isEmpty && tickets.isEmpty
            && continuing.isEmpty && addressed.isEmpty && bodiesGone == 0 && beginning.isEmpty
    }
}

extension SnapshotPlan {
    func brokenInvariant(_ applied: Sequence, durable: Sequence) -> String? {
        if former > covering || covering > applied { return "snapshots cover what is not folded" }
        guard let current else { return nil }
        if current.covering > applied || current.covering <= covering {
            return "a snapshot is made that is not newer than the last"
        }
        if current.parts > 0, current.covering > durable {
            return "a snapshot is written of what is not durable"
        }
        if current.isLast, !current.isAsked {
            return "a snapshot's last part is written, and it does not end"
        }
        return nil
    }
}
