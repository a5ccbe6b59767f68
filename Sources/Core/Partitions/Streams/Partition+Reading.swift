import Model

// Streams that read the log: first what waits for their devices, one after the other and only as fast as the
// link to their gateway takes it, and then they are live.

extension Partition {
    /// Whether streams wait for their turn to read the log, and may have it.
    public var hasWaitingStreams: Bool {
        streams.waitingCount > 0
            || streams.bodilessCount > 0 && streams.recordsAwaited < options.bodiesAtOnce
    }

    /// The gateways of these streams, in the order of their turns.
    public func gatewaysInTurn() -> [GatewayID] {
        streams.gatewaysInTurn(bringing: options.bodiesAtOnce - streams.recordsAwaited)
    }

    /// Sends the gateway's streams what waits for them, about `bytes` at most: to one stream after the other,
    /// each `streamBytesAtOnce`. Returns the bytes, also of what the partition asks the journal for. The
    /// caller must flush, and call again while `hasWaitingStreams`.
    public func readOn(
        at gateway: GatewayID, bytes: Int, now: Instant, into effects: inout [PartitionEffect]
    ) -> Int {
        var turn = Turn(at: believed(now, &effects), &effects)
        defer { turn.end(&effects) }
        var left = bytes
        while left > 0, let index = streams.nextWaiting(gateway) {
            streams.moveOn(behind: index, gateway)
            left -= readOn(index, &turn)
        }
        return bytes - left
    }

    /// Sends the stream a part of what waits for it, or asks for the bodies. Returns the bytes.
    private func readOn(_ index: UInt32, _ turn: inout Turn) -> Int {
        guard let attachment = streams.attachment(index) else { return 0 }
        let waiting = durableWaiting(index, after: attachment.written, turn.now)
        let sent = sendFirst(of: waiting, to: attachment, of: index, &turn)
        guard sent == 0, !waiting.isEmpty else {
            catchUp(index, &turn)
            return sent
        }
        let missing = Set(waiting.filter { $0.body == nil }.map(\.record)).sorted()
        let wanted = Array(missing.prefix(options.bodiesAtOnce - streams.recordsAwaited))
        guard !wanted.isEmpty else {
            streams.setBodiless(index)
            return 0
        }
        streams.setReading(index, records: wanted.count)
        bodyReads.want(wanted, for: index)
        readNext(&turn)
        return options.streamBytesAtOnce
    }

    /// Makes the device live if nothing durable waits; otherwise its stream waits for its turn.
    func catchUp(_ index: UInt32, _ turn: inout Turn) {
        guard let attachment = streams.attachment(index) else { return }
        #if DEBUG
            if options.planted.contains(.skipCatchUp) { return streams.setLive(index) }
        #endif
        guard durableWaiting(index, after: attachment.written, turn.now, limit: 1).isEmpty,
            loss(index, among: [], after: attachment.written) == nil
        else { return streams.setWaiting(index) }
        if let loss = state.overflowed[index], loss.told > attachment.written {
            return waitForLoss(loss.record, attachment.stream, of: index)
        }
        guard !streams.isFull(attachment.stream.gateway, options.pushWindow) else {
            return waitForWindow(index, of: attachment.stream.gateway, &turn)
        }
        // The gateway hands the stream no pushes until this frame says that the stream is up to date.
        say(
            .events(
                attachment.stream, DeviceIndex(index), state.epoch, after: attachment.written,
                deleted: nil, []),
            to: attachment.stream.gateway, &turn)
        streams.setLive(index)
    }

    /// The stream is up to date, but its gateway confirms too little for the stream to be live.
    private func waitForWindow(_ index: UInt32, of gateway: GatewayID, _ turn: inout Turn) {
        // Unconfirmed frames may be lost without a report, if no stream was left to report it.
        let isFirst = streams.links[gateway]?.cutOff.isEmpty ?? true
        streams.setCutOff(index)
        if isFirst || !(streams.links[gateway]?.isAwaited ?? false) { probe(gateway, &turn) }
    }

    /// The device lost something by a record that is not durable yet. A live stream would get what comes
    /// behind, and an acknowledgement of that would cover a loss of which the device was never notified.
    private func waitForLoss(_ record: Sequence, _ stream: StreamID, of index: UInt32) {
        streams.setLosing(index)
        pipeline.continues((stream, index), behind: record)
    }

    /// The messages that wait for the device and rest on durable records, without messages past their time to
    /// live. A message that a record takes out of the log still waits until that record is durable: an owner
    /// that begins without the record has the message, and must not find it skipped.
    func durableWaiting(
        _ index: UInt32, after: Position, _ now: Instant, limit: Int? = nil
    ) -> [LogEntry] {
        let durable = pipeline.durable
        let limit = limit ?? Int(options.delivery.waitingHardMax)
        let kinds = state.transports.kinds(of: index)
        return state.log.durablyWaiting(for: index, after: after, limit: limit) {
            $0.record <= durable && ($0.ends.last(kinds) > now.wall || deliversLate)
        }
    }

    /// The position at which the device is notified of lost messages, if the loss rests on a durable record.
    /// If not, the device is notified with the message that made the loss, like all devices that listen then.
    func durableLoss(_ index: UInt32, after written: Position) -> Position? {
        guard let loss = state.overflowed[index], loss.told > written else { return nil }
        #if DEBUG
            if options.planted.contains(.tellVolatileLoss) { return loss.told }
        #endif
        return loss.record <= pipeline.durable ? loss.told : nil
    }

    private func loss(_ index: UInt32, among waiting: [LogEntry], after written: Position) -> Position? {
        let told = durableLoss(index, after: written)
        #if DEBUG
            if options.planted.contains(.tellLossOfNothing) { return told ?? waiting.last?.position }
        #endif
        return told
    }

    /// Sends the first of the messages, up to one whose body is not in memory, about `streamBytesAtOnce` at
    /// most. Returns their bytes; 0 if there was nothing to send. `isAll`: nothing waits behind `waiting`.
    func sendFirst(
        of waiting: [LogEntry], isAll: Bool = true, to attachment: StreamTable.Attachment, of index: UInt32,
        _ turn: inout Turn
    ) -> Int {
        var bytes = 0
        let ready = waiting.prefix { entry in
            guard let body = entry.body, bytes < options.streamBytesAtOnce else { return false }
            bytes += body.count + Partition.eventBytes
            return true
        }
        // Messages before a loss must go out before it, also if their bodies are not read yet.
        let told = loss(index, among: waiting, after: attachment.written).flatMap { told in
            if ready.endIndex < waiting.endIndex {
                return told < waiting[ready.endIndex].position ? told : nil
            }
            return isAll || told <= ready.last?.position ?? .zero ? told : nil
        }
        guard !ready.isEmpty || told != nil else { return 0 }
        let before = ready.prefix { $0.position < told ?? .zero }
        if !before.isEmpty { sendEvents(before, to: attachment, of: index, told: nil, &turn) }
        let rest = ready[before.endIndex...]
        if told != nil || !rest.isEmpty, let attachment = streams.attachment(index) {
            sendEvents(rest, to: attachment, of: index, told: told, &turn)
        }
        return bytes + Partition.eventBytes
    }

    /// What an event or a frame has beside a body, about.
    private static let eventBytes = 32

    private func sendEvents(
        _ entries: ArraySlice<LogEntry>, to attachment: StreamTable.Attachment, of index: UInt32,
        told: Position?, _ turn: inout Turn
    ) {
        let events = entries.map { StreamFrame.Event(position: $0.position, event: $0.body ?? []) }
        let frame = StreamFrame.events(
            attachment.stream, DeviceIndex(index), state.epoch, after: attachment.written, deleted: told,
            events)
        say(frame, to: attachment.stream.gateway, &turn)
        streams.setWritten(index, max(told ?? .zero, entries.last?.position ?? .zero))
    }
}
