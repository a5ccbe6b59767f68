import Journal
import Model

// Messages for devices that push services reach (rule: pushes-read-the-log). The delivery log stays the
// truth: the partition gives the sender the oldest message of each device, and takes it out of the log when
// the service has it.

extension Partition {
    /// The address to which the device's messages are pushed: the first one for which the device's project
    /// has a service, and of these one that no service doubts. Without a service the messages wait for that
    /// of the first one.
    func pushAddress(_ index: UInt32) -> StoredTransport? {
        guard let stored = state.transports[index], let first = stored.first(where: { !$0.isGone })
        else { return nil }
        #if DEBUG
            if options.planted.contains(.pushUnserved) { return first }
        #endif
        var doubted: StoredTransport?
        for one in stored where !one.isGone && mayServe(one.transport, of: index) {
            if one.mark == nil || isOutdated(one, of: index) { return one }
            doubted = doubted ?? one
        }
        return doubted ?? first
    }

    /// The service of an address, as the device's project uses it.
    func origin(of stored: StoredTransport, _ index: UInt32) -> PushOrigin {
        PushOrigin(ProjectNumber(state.devices.project(index)), stored.transport)
    }

    /// Whether the device's project has a service for the address, as far as the partition knows.
    func mayServe(_ transport: Transport, of index: UInt32) -> Bool {
        guard let pushServices else { return true }
        return pushServices[ProjectNumber(state.devices.project(index))]?.serves(transport) ?? false
    }

    /// At the beginning: all devices with an address for which something waits.
    func wantAllPushes() {
        findOutdated()
        #if DEBUG
            if options.planted.contains(.forgetPushes) { return }
        #endif
        for index in state.transports.indices where isWaiting(index) && pushAddress(index) != nil {
            pushes.want(index)
        }
    }

    /// Something may wait for the device, and no stream has it.
    func wantPush(_ index: UInt32) {
        if isWaiting(index), pushAddress(index) != nil { pushes.want(index) }
    }

    /// The device has registered an address, which is durable now. If the address in use is another one, its
    /// service may have asked for time.
    func wantPushAgain(_ index: UInt32, since record: Sequence) {
        guard let stored = pushAddress(index) else { return }
        look(at: index, isSame: stored.generation != record.rawValue)
    }

    /// An address of the device may have ended. `former`: the address that was in use.
    func wantPush(_ index: UInt32, afterAddress former: StoredTransport?) {
        guard let stored = pushAddress(index) else { return }
        look(at: index, isSame: stored.isSame(as: former))
    }

    /// A device may have a place at an earlier address's service though nothing waits for the device any
    /// more: its next message must not wait there.
    private func look(at index: UInt32, isSame: Bool) {
        guard isWaiting(index) || pushes.state(index) != nil else { return }
        isSame ? pushes.want(index) : pushes.wantAgain(index)
    }

    /// An operator has changed how these projects reach push services.
    func onPushesChanged(_ changed: [ProjectNumber: PushServices], _ turn: inout Turn) {
        pushServices?.merge(changed) { $1 }
        refusedKeys = refusedKeys.filter { changed[$0.key.project] == nil }
        #if DEBUG
            if options.planted.contains(.stayAtFormer) { return startPushes(&turn) }
        #endif
        func isMeant(_ index: UInt32) -> Bool {
            changed[ProjectNumber(state.devices.project(index))] != nil
        }
        // A device that has ended is looked at too, and forgotten.
        pushes.reopen(Set(changed.keys)) { state.devices.find($0) == nil || isMeant($0) }
        // Nor do words about devices under the earlier settings count.
        pushes.doubts.keep { !isMeant($0) }
        findOutdated()
        takeBackOutdated(&turn)
        // Another address of a device may get what was over, or not to be pushed, at the previous one.
        state.transports.withSeveralKinds.forEach { if isMeant($0) { wantPush($0) } }
        startPushes(&turn)
    }

    /// A record became durable: its messages wait for their targets.
    func wantPushes(
        of deliveries: [PartitionState.Delivery], restingOn record: Sequence, _ now: Instant
    ) {
        guard !state.transports.isEmpty else { return }
        for delivery in deliveries {
            if delivery.momentary != nil { wantMomentary(delivery, restingOn: record, now) }
            state.transports.targets(delivery.targets, .all).forEach { index in
                if pushes.state(index) == nil { wantPush(index) }
            }
        }
    }

    /// Hands messages to the sender while there is room.
    func startPushes(_ turn: inout Turn) {
        pushes.wake(turn.now.monotonic)
        guard mayPush, !isOverloaded else { return }
        startMomentary(&turn)
        var looks = 0
        while pushes.underWay < options.pushesAtOnce, looks < options.pushLooksAtOnce,
            let index = pushes.next()
        {
            looks += 1
            startPush(of: index, &turn)
        }
    }

    private func startPush(of index: UInt32, _ turn: inout Turn) {
        guard let stored = pushAddress(index), let entry = nextToPush(index, turn.now) else {
            return pushes.forget(index)
        }
        if let wait = grace(of: entry, for: index, turn.now) {
            return pushes.wait(index, until: turn.now.monotonic.advanced(by: wait))
        }
        let origin = origin(of: stored, index)
        let spared = pushes.spared(
            index, generation: stored.generation, at: origin, now: turn.now.monotonic)
        if let spared { return pushes.wait(index, until: spared) }
        guard pushes.mayPass(index, to: origin),
            pushes.mayTake(index, to: origin, of: slots, now: turn.now.monotonic)
        else { return }
        if let body = entry.body { return push(entry, body: body, to: index, &turn) }
        pushes.setReading(index, for: origin)
        bodyReads.want([entry.record], for: index)
        readNext(&turn)
    }

    /// Of which a service and a project have their shares.
    private var slots: Int {
        #if DEBUG
            if options.planted.contains(.takeAllSlots) { return options.pushesAtOnce * 4 }
        #endif
        return options.pushesAtOnce
    }

    private func push(_ entry: LogEntry, body: [UInt8], to index: UInt32, _ turn: inout Turn) {
        // An address that is not durable yet is wanted again with its record.
        guard let stored = pushAddress(index), stored.generation <= pipeline.durable.rawValue else {
            return pushes.forget(index)
        }
        lastToken += 1
        let sending = PushTable.Sending(
            index: index, position: entry.position, origin: origin(of: stored, index),
            generation: stored.generation, isKept: stored.transport.keepsMessages,
            message: MessageID(ofEvent: body))
        var job = PushJob(
            number: lastToken, project: sending.origin.project, device: DeviceIndex(index),
            transport: stored.transport, registered: stored.registered, generation: stored.generation,
            event: body, expires: entry.ends[stored.transport.kind],
            tries: pushes.tries(index, at: entry.position))
        job.unexplained = pushes.unexplained(index, at: entry.position)
        job.witness = doubt(of: sending)?.witness
        pushes.setSending(sending, number: lastToken)
        if entry.record <= inherited, job.tries == 0 {
            turn.effects.append(.notice(.pushedAgain(stored.transport.kind)))
        }
        let rests = max(entry.record, Sequence(stored.generation))
        turn.effects.append(.push(Proven(job, restingOn: rests, by: pipeline.confirmed())))
    }

    /// The oldest message that waits for the device, rests on a durable record and has not ended at the
    /// device's push service.
    private func nextToPush(_ index: UInt32, _ now: Instant) -> LogEntry? {
        guard let stored = pushAddress(index) else { return nil }
        let (kind, durable) = (stored.transport.kind, pipeline.durable)
        let pushed = state.pushedUpTo(index, by: stored.transport)
        return state.log.waiting(for: index, after: pushed, limit: 1) {
            $0.record <= durable && (isAlive($0, at: kind, now) || pushesPastEnd)
        }.first
    }

    private func isAlive(_ entry: LogEntry, at kind: Transport.Kind, _ now: Instant) -> Bool {
        entry.ends[kind] > now.wall
    }

    /// A planted bug.
    private var pushesPastEnd: Bool {
        #if DEBUG
            return options.planted.contains(.pushPastEnd)
        #else
            return false
        #endif
    }

    /// When the partition is to go on with the queue, or with the devices that wait for a time.
    func nextPush(_ now: MonotonicTime) -> MonotonicTime? {
        guard mayPush, !isOverloaded else { return nil }
        if mayAttempt { return now }
        let attempt = pushes.momentary.nextWake
        guard pushes.underWay < options.pushesAtOnce else { return attempt }
        if pushes.hasQueued { return now }
        guard let push = pushes.nextWake else { return attempt }
        return min(push, attempt ?? push)
    }

    /// How long the device's stream still has to acknowledge the message itself; `nil` if the message is
    /// to be pushed now.
    private func grace(of entry: LogEntry, for index: UInt32, _ now: Instant) -> TimeSpan? {
        #if DEBUG
            if options.planted.contains(.forgetGrace) { return nil }
        #endif
        guard streams.attachment(index) != nil || mayReturn(index, now.monotonic) else { return nil }
        let passed = pushes.heldFor(index, entry.position, now: now.monotonic)
        return passed < options.pushGrace ? options.pushGrace - passed : nil
    }

    /// Whether the device's stream may still come to this owner.
    private func mayReturn(_ index: UInt32, _ now: MonotonicTime) -> Bool {
        options.streamsOutliveOwners && hadWaiting.contains(index)
            && now.since(begunAt) < options.listenersReturn
    }

    /// The records that the journal looked at hold the bodies for which these devices wait.
    func onBodiesToPush(
        _ bodies: [Sequence: [[UInt8]]], of records: Set<Sequence>, for readers: [UInt32],
        _ turn: inout Turn
    ) {
        var gone: Set<Position> = []
        for index in readers where pushes.state(index) == .reading {
            guard let entry = nextToPush(index, turn.now), entry.body == nil,
                records.contains(entry.record), mayPush, maySend(entry, to: index, turn.now)
            else {
                pushes.endReading(index)
                continue
            }
            if let events = bodies[entry.record], entry.ordinal < events.count {
                push(entry, body: events[Int(entry.ordinal)], to: index, &turn)
            } else {
                gone.insert(entry.position)
                pushes.endReading(index)
            }
        }
        give(up: gone, for: [])
        startPushes(&turn)
    }

    /// Whether the message whose body was read still goes to the service whose slot the device has, and need
    /// not wait for a stream that came meanwhile.
    private func maySend(_ entry: LogEntry, to index: UInt32, _ now: Instant) -> Bool {
        guard let stored = pushAddress(index) else { return false }
        return pushes.readings[index] == origin(of: stored, index) && grace(of: entry, for: index, now) == nil
    }

    // MARK: The sender's answers

    func onPushed(_ report: PushReport, _ turn: inout Turn) {
        if onAttempted(report, &turn) { return }
        guard let sending = pushes.ended(report.number) else { return }
        let index = sending.index
        note(
            report.outcome, of: sending, tries: pushes.tries(index, at: sending.position), turn.now)
        switch report.result {
        case .done, .gone, .doubted: hear(report, of: sending, isMomentary: false, &turn)
        case .later(let delay, let isFailure):
            if isFailure {
                pushes.noteFailure(
                    index, at: sending.position, isUnexplained: report.outcome?.isUnexplained ?? false)
            }
            pushes.spare(sending, for: delay, now: turn.now.monotonic)
            pushes.release(sending.origin)
        case .closed(let delay):
            pushes.close(
                sending.origin, until: turn.now.monotonic.advanced(by: delay), parking: index,
                isBack: true)
        }
        // An address that came to use while the message was at the sender is used immediately.
        if let stored = pushAddress(index),
            stored.generation != sending.generation || stored.transport.kind != sending.origin.kind
        {
            pushes.wantAgain(index)
        }
        startPushes(&turn)
    }

    /// The service has judged the message, or its address.
    func hear(
        _ report: PushReport, of sending: PushTable.Sending, isMomentary: Bool, _ turn: inout Turn
    ) {
        switch report.result {
        case .done:
            #if DEBUG
                if options.planted.contains(.forgetAccepted), !isMomentary { return }
            #endif
            if report.outcome == .accepted { forgetWords(of: sending) }
            noteTaken(sending, isMomentary: isMomentary)
            if !isMomentary { pushes.noteDone(sending.index) }
        case .gone: noteGone(sending, &turn)
        case .doubted(let delay, let witness, let isAlone):
            noteDoubted(
                sending, by: witness, isAlone: isAlone, holding: isMomentary ? nil : delay, &turn)
        case .later, .closed: return
        }
        pushes.release(sending.origin)
    }

    /// The service has the message: the device does not wait for it any more, unless the device acknowledges
    /// itself (rule: kept-until-acknowledged).
    private func noteTaken(_ sending: PushTable.Sending, isMomentary: Bool) {
        let (index, position) = (sending.index, sending.position)
        guard state.log.isWaiting(index, at: position) else { return }
        let isKept = keepsMessages(index, sending.origin.kind)
        if isKept || sending.isKept {
            // A TTL-0 message overtakes those that wait, and does not wait for the service. And an address
            // may have ended, or changed its mind, while the message was at the service: the message waits
            // for the device's stream all the same.
            guard !isMomentary, isKept else { return }
            propose(.pushedKept(upTo: position, index: index, sending.origin.kind))
        } else {
            propose(.pushedOne(at: position, index: index))
        }
        // Until the record is durable, the death of the owner repeats the push.
        pipeline.isUrgent = true
    }

    /// Whether the device acknowledges itself what this service gets for it.
    private func keepsMessages(_ index: UInt32, _ kind: Transport.Kind) -> Bool {
        #if DEBUG
            if options.planted.contains(.dropKept) { return false }
        #endif
        return state.transports[index]?.contains { $0.transport.kind == kind && $0.transport.keepsMessages }
            ?? false
    }
}
