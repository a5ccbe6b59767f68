import Model

// Messages with a time to live of 0 at a push service (rule: ends-of-their-own).

extension Partition {
    /// Milliseconds after the send within which an attempt begins.
    public static let momentaryDeadline: Int64 = 30_000

    /// A record became durable: one attempt for each target with an address, but for devices whose streams
    /// have just got the message.
    func wantMomentary(_ delivery: PartitionState.Delivery, restingOn record: Sequence, _ now: Instant) {
        guard let wanted = delivery.momentary else { return }
        let left = Partition.momentaryDeadline - (now.wall.milliseconds - wanted.sent.milliseconds)
        guard left > 0 else { return }
        let wait = UInt64(min(left, Partition.momentaryDeadline))
        let message = MomentaryPushes.Message(
            position: delivery.position, record: record, event: delivery.event, sent: wanted.sent,
            kinds: wanted.kinds, kept: wanted.kept, until: now.monotonic.advanced(by: .milliseconds(wait)))
        var project: ProjectNumber?
        var devices: [PushOrigin: [UInt32]] = [:]
        // A stream that lives has just got the message, unless its time on streams was over.
        for index in wanted.targets.sorted
        where !delivery.targets.contains(index) || !isLive(index) {
            guard let (_, origin) = momentaryTarget(message, index) else { continue }
            project = origin.project
            devices[origin, default: []].append(index)
        }
        guard let project else { return }
        pushes.momentary.add(
            message, of: project,
            for: devices.sorted { $0.key < $1.key }.map { (origin: $0.key, devices: $0.value) },
            most: momentaryLoadMax)
    }

    var momentaryLoadMax: MomentaryPushes.Load {
        MomentaryPushes.Load(attempts: options.momentaryMax, bytes: options.momentaryBytesMax)
    }

    private func isLive(_ index: UInt32) -> Bool {
        if case .live = streams.attachment(index)?.state { true } else { false }
    }

    /// The address to which an attempt goes; `nil` if the device has none that is to get the message.
    private func momentaryTarget(
        _ message: MomentaryPushes.Message, _ index: UInt32
    ) -> (stored: StoredTransport, origin: PushOrigin)? {
        guard let stored = pushAddress(index), message.kinds.contains(stored.transport.kind) else {
            return nil
        }
        return (stored, origin(of: stored, index))
    }

    /// Attempts have as many separate slots as messages that wait, so that neither holds up the other.
    var mayAttempt: Bool { pushes.momentary.mayBegin(of: options.pushesAtOnce) }

    func startMomentary(_ turn: inout Turn) {
        pushes.momentary.wake(turn.now.monotonic)
        var looks = 0
        while looks < options.pushLooksAtOnce,
            let next = pushes.momentary.next(of: options.pushesAtOnce, turn.now.monotonic)
        {
            looks += 1
            attempt(next, &turn)
        }
    }

    private func attempt(_ next: MomentaryPushes.Next, _ turn: inout Turn) {
        let (message, index) = (next.message, next.index)
        // The device's stream was faster, or the message was replaced.
        let isThere = message.kept.contains(index) && !state.log.isWaiting(index, at: message.position)
        // Or another service has it, for a device that acknowledges itself.
        guard !isThere, let (stored, origin) = momentaryTarget(message, index),
            stored.generation <= pipeline.durable.rawValue,
            message.position > state.pushedUpTo(index, by: stored.transport)
        else { return pushes.momentary.leaveOut(next) }
        lastToken += 1
        let sending = PushTable.Sending(
            index: index, position: message.position, origin: origin, generation: stored.generation,
            isKept: stored.transport.keepsMessages, message: MessageID(ofEvent: message.event))
        pushes.momentary.begin(next, sending, number: lastToken)
        var job = PushJob(
            number: lastToken, project: origin.project, device: DeviceIndex(index),
            transport: stored.transport, registered: stored.registered,
            generation: stored.generation, event: message.event, expires: message.sent, tries: 0)
        job.isMomentary = true
        job.witness = doubt(of: sending)?.witness
        let rests = max(message.record, Sequence(stored.generation))
        turn.effects.append(.push(Proven(job, restingOn: rests, by: pipeline.confirmed())))
    }

    private func untriedFor(_ report: PushReport) -> TimeSpan? {
        #if DEBUG
            if options.planted.contains(.attemptAgain), case .later(let time, _) = report.result {
                return time
            }
        #endif
        return report.untriedFor
    }

    /// The sender has answered an attempt. False if the number is of no attempt.
    func onAttempted(_ report: PushReport, _ turn: inout Turn) -> Bool {
        guard let attempt = pushes.momentary.ended(report.number) else { return false }
        let sending = attempt.sending
        if let wait = untriedFor(report) {
            pushes.momentary.giveBack(attempt, until: turn.now.monotonic.advanced(by: wait))
            startPushes(&turn)
            return true
        }
        pushes.momentary.wasMade(attempt)
        note(report.outcome, of: sending, tries: 0, turn.now)
        hear(report, of: sending, isMomentary: true, &turn)
        startPushes(&turn)
        return true
    }
}
