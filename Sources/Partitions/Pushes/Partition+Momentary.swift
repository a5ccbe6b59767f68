import Model

// Messages with a time to live of 0 at a push service (rule: ends-of-their-own).

extension Partition {
    /// Milliseconds after the send within which an attempt begins.
    public static let momentaryDeadline: Int64 = 30_000

    /// A record became durable: one attempt for each target with an address, but for devices whose streams
    /// have just got the message.
    func wantMomentary(_ delivery: PartitionState.Delivery, restingOn record: Sequence, _ now: Instant) {
        guard let (kinds, sent, kept) = delivery.momentary else { return }
        let left = Partition.momentaryDeadline - (now.wall.milliseconds - sent.milliseconds)
        guard left > 0 else { return }
        let wait = UInt64(min(left, Partition.momentaryDeadline))
        let message = MomentaryPushes.Message(
            position: delivery.position, record: record, event: delivery.event, sent: sent, kinds: kinds,
            kept: kept, until: now.monotonic.advanced(by: .milliseconds(wait)))
        let devices = state.transports.targets(delivery.targets, kinds).filtered { !isLive($0) }
        pushes.momentary.add(
            message, for: devices.sorted, devicesMax: options.momentaryMax,
            bytesMax: options.momentaryBytesMax)
    }

    private func isLive(_ index: UInt32) -> Bool {
        if case .live = streams.attachment(index)?.state { true } else { false }
    }

    /// Attempts have at most half of the slots, so that messages that wait go on.
    var mayAttempt: Bool {
        pushes.momentary.waiting > 0 && pushes.underWay < options.pushesAtOnce
            && pushes.momentary.sendings.count < max(1, options.pushesAtOnce / 2)
    }

    func startMomentary(_ turn: inout Turn) {
        var looks = 0
        while mayAttempt, looks < options.pushLooksAtOnce,
            let (message, index) = pushes.momentary.next(turn.now.monotonic)
        {
            looks += 1
            attempt(message, for: index, &turn)
        }
    }

    private func attempt(_ message: MomentaryPushes.Message, for index: UInt32, _ turn: inout Turn) {
        // A service that is left alone takes nothing now.
        guard let stored = pushAddress(index), message.kinds.contains(stored.transport.kind),
            stored.generation <= pipeline.durable.rawValue, let (page, slot) = state.devices.find(index)
        else { return }
        let transport = target(of: index, stored)
        let origin = PushOrigin(ProjectNumber(page.projects[slot]), transport)
        guard pushes.closed[origin] == nil else { return }
        // The device's stream was faster, or the message was replaced.
        if message.kept.contains(index), !state.log.isWaiting(index, at: message.position) { return }
        lastToken += 1
        pushes.momentary.sendings[lastToken] = PushTable.Sending(
            index: index, position: message.position, origin: origin, generation: stored.generation,
            isKept: stored.transport.keepsMessages, message: MessageID(ofEvent: message.event))
        var job = PushJob(
            number: lastToken, project: ProjectNumber(page.projects[slot]), device: DeviceIndex(index),
            transport: transport, registered: stored.registered, generation: stored.generation,
            event: message.event, expires: message.sent, tries: 0)
        job.isMomentary = true
        let rests = max(message.record, Sequence(stored.generation))
        turn.effects.append(.push(Proven(job, restingOn: rests, by: pipeline.confirmed())))
    }

    /// The sender has answered an attempt. False where the number is of no attempt.
    func onAttempted(_ report: PushReport, _ turn: inout Turn) -> Bool {
        guard let sending = pushes.momentary.sendings.removeValue(forKey: report.number) else { return false }
        note(report.outcome, of: sending, tries: 0, turn.now)
        switch report.result {
        case .done:
            if report.outcome == .accepted { keepEnvironment(of: sending) }
            noteTaken(sending, isMomentary: true)
            pushes.release(sending.origin)
        case .gone:
            noteGone(sending, after: report.outcome, turn.now)
            pushes.release(sending.origin)
        case .later, .closed: break
        }
        startPushes(&turn)
        return true
    }
}
