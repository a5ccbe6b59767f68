import Model

// Device streams: first what a device missed, then each new message, in one ordered link to its gateway.

extension Partition {
    func onStream(_ command: StreamCommand, _ turn: inout Turn) {
        switch command {
        case .attach(let stream, let registration, let authority, let resume):
            attach(stream, of: registration, by: authority, resume: resume, &turn)
        case .detach(let stream, let device):
            guard let attachment = streams.attachment(device.rawValue),
                attachment.stream.isSameStream(as: stream)
            else { return }
            pass(device.rawValue, upTo: streams.surelyWritten(device.rawValue))
            see(device.rawValue, turn.now)
            _ = streams.detach(device.rawValue)
            wantPush(device.rawValue)
            startPushes(&turn)
        case .fellBehind(let stream, let device, let written):
            guard streams.attachment(device.rawValue)?.stream == stream else { return }
            streams.setBehind(device.rawValue, written: written)
        case .caughtUp(let stream, let device):
            guard let attachment = streams.attachment(device.rawValue), attachment.stream == stream
            else { return }
            switch attachment.state {
            case .behind: catchUp(device.rawValue, &turn)
            case .live:
                // The gateway does not hold the stream for live, and may have written nothing of its pushes.
                cutOff(DeviceSet(device.rawValue), at: stream.gateway, &turn)
                streams.setBehind(device.rawValue, written: .zero)
                catchUp(device.rawValue, &turn)
            // A frame notifies the stream when it is up to date.
            case .beginning, .waiting, .bodiless, .reading, .losing, .cutOff: break
            }
        case .processed(let gateway, let frame):
            if streams.processed(gateway, frame) { bringBack(gateway, &turn) }
        }
    }

    /// Some of the cut-off streams read the log; the rest follow when the gateway confirms what these were
    /// sent. If nothing else is on its way, the partition sends an empty push to be confirmed.
    private func bringBack(_ gateway: GatewayID, _ turn: inout Turn) {
        let returning = streams.returning(gateway, options.pushWindow, atOnce: options.returningAtOnce)
        for index in returning { catchUp(index, &turn) }
        guard let link = streams.links[gateway], !link.cutOff.isEmpty, link.outstanding.isEmpty else {
            return
        }
        probe(gateway, &turn)
    }

    /// Sends an empty push, which the gateway confirms. The confirmation covers everything before it, also
    /// lost frames.
    func probe(_ gateway: GatewayID, _ turn: inout Turn) {
        let number = streams.numberProbe(gateway)
        say(.push(StreamFrame.Push(epoch: state.epoch, number: number, items: [])), to: gateway, &turn)
    }

    /// Asks gateways with cut-off streams for a confirmation again. A frame or its confirmation may have been
    /// lost with a link, and the streams that were cut off there may have ended silently. Nobody else would
    /// notice, and later streams would wait for ever.
    func probeAgain(_ turn: inout Turn) {
        guard let last = probedAt, turn.now.monotonic.since(last) >= options.outboxRetry else { return }
        let stuck = streams.stuck
        streams.mayBeStuck = !stuck.isEmpty
        probedAt = stuck.isEmpty ? nil : turn.now.monotonic
        for gateway in stuck { probe(gateway, &turn) }
    }

    /// Membership has declared the gateways dead for which `isGone` holds. They never confirm their frames
    /// any more, and devices that listen elsewhere must not wait for that. The caller must flush.
    public func forgetGateways(where isGone: (GatewayID) -> Bool) {
        for index in streams.devices(where: isGone) { pass(index, upTo: streams.handedOver(index)) }
        streams.forget(where: isGone)
    }

    /// Forgets the request windows of gateway loops whose sessions have ended (rule: repeats-do-not-double),
    /// except for the latest `deadWindowsMax`: a fenced gateway may not know of its end, and may ask again. A
    /// run of a loop is named by its session and its loop's number. A session newer than all living ones may
    /// only be unknown here. The windows go with a record, so the caller must flush.
    public func forgetWindows(living: Set<SessionID>) {
        guard let newest = living.max() else { return }
        let dead = state.windows.keys.filter { gatewaySession in
            let session = SessionID(gatewaySession >> 8)
            return session < newest && !living.contains(session)
        }
        var kept = Partition.deadWindowsMax
        #if DEBUG
            if options.planted.contains(.evictAtOnce) { kept = 0 }
        #endif
        for gatewaySession in dead.sorted().dropLast(kept) {
            propose(.evict(session: gatewaySession))
        }
    }

    /// On a lone node no request comes twice, and the loops that asked an earlier machine are gone.
    public func forgetWindows() {
        for gatewaySession in state.windows.keys.sorted() { propose(.evict(session: gatewaySession)) }
    }

    static let deadWindowsMax = 128

    private func attach(
        _ stream: StreamID, of registration: Registration, by authority: Authority, resume: EventID?,
        _ turn: inout Turn
    ) {
        // A stream that begins needs a record of what its device acknowledges by coming back.
        if isNew(stream), isOverloaded, streams.attachment(registration.index.rawValue)?.stream != stream {
            return say(.refused(stream, whyNothingBegins), to: stream.gateway, &turn)
        }
        let found = examine(registration, authority)
        guard found.refusal == nil else {
            answer(Answer(to: .stream(stream), reply: .refused(found.refusal ?? .unregistered)))
            return
        }
        let index = registration.index.rawValue
        let device = registration.index
        if let former = streams.attachment(index) {
            if former.stream.isSameStream(as: stream) {
                guard stream.attachment >= former.stream.attachment else { return }
                // The same stream again: its gateway has reason to think that frames were lost.
                streams.forgetOutstanding(stream.gateway)
            } else if !keepsReplaced {
                say(.replaced(former.stream, device), to: former.stream.gateway, &turn)
            }
        }
        let from = resume.flatMap(clamp) ?? .zero
        if from > .zero, isWaiting(index, upTo: from) {
            propose(.read([ReadUpTo(position: from, devices: DeviceSet(index))]))
        }
        pass(index, upTo: streams.handedOver(index))
        see(index, turn.now)
        forgetGoneAddresses(of: index)
        streams.attach(index, stream, after: from)
        // The opened stream confirms to its device that what it acknowledged by coming back is kept. And it
        // must not get messages that its device acknowledged to a later owner, of which this owner does not
        // know.
        if !pipeline.hold(stream, device) { answer(Answer(to: .beginning(stream, device), reply: .done)) }
    }

    /// Whether the device has got nothing of the stream yet. A stream that a gateway attaches at a next owner
    /// may have been open for long; it waits there and stays open.
    private func isNew(_ stream: StreamID) -> Bool { stream.attachment == 1 }

    /// A stream cannot begin while the engine refuses records: the partition could not keep what its device
    /// acknowledges by coming back. The partition refuses the stream like any other request, and the device
    /// comes back. A stream that waited would get nothing for as long as the refusal lasts.
    func refuseBeginning(_ turn: inout Turn) {
        guard let whyRefused else { return }
        for (stream, device) in pipeline.takeBeginning(where: isNew) {
            guard streams.attachment(device.rawValue)?.stream == stream else { continue }
            _ = streams.detach(device.rawValue)
            say(.refused(stream, whyRefused), to: stream.gateway, &turn)
        }
    }

    /// A planted bug.
    private var keepsReplaced: Bool {
        #if DEBUG
            return options.planted.contains(.keepReplaced)
        #else
            return false
        #endif
    }

    func startReading(_ stream: StreamID, of device: DeviceIndex, _ turn: inout Turn) {
        guard let attachment = streams.attachment(device.rawValue), attachment.stream == stream,
            case .beginning = attachment.state
        else { return }
        say(
            .attached(stream, device, state.epoch, from: attachment.written), to: stream.gateway, &turn)
        catchUp(device.rawValue, &turn)
    }

    /// Messages beyond an absent device's window that were handed to the ending stream pass as delivered, the
    /// oldest first. Messages that the gateway has not confirmed stay, also beyond the window.
    private func pass(_ index: UInt32, upTo handedOver: Position) {
        guard let (page, slot) = state.devices.find(index) else { return }
        let surplus = Int(page.waiting[slot]) - Int(options.delivery.waitingMax)
        guard surplus > 0, handedOver > .zero else { return }
        let oldest = state.log.waiting(for: index, after: .zero, limit: surplus)
        guard let last = oldest.last(where: { $0.position <= handedOver }) else { return }
        propose(.pass([ReadUpTo(position: last.position, devices: DeviceSet(index))]))
    }

    /// The streams of this partition's devices, live or not, in the order of device indices.
    public var listeners: [StreamID] {
        streams.attachments.sorted { $0.key < $1.key }.map(\.value.stream)
    }

    /// The device has ended in the open record. Its stream learns of the end when that record is durable.
    func endStream(of device: DeviceIndex) {
        guard let attachment = streams.detach(device.rawValue) else { return }
        answerWithOpenRecord(Answer(to: .end(attachment.stream, device), reply: .done))
    }

    /// Callers say only what rests on durable records, so the proof of the durable records is enough.
    func say(_ frame: StreamFrame, to gateway: GatewayID, _ turn: inout Turn) {
        turn.effects.append(.stream(gateway, Proven(frame, restingOn: .zero, by: pipeline.confirmed())))
    }

    /// A record became durable: its messages go to their live targets, one frame to each gateway loop.
    func push(_ deliveries: [PartitionState.Delivery], by proof: Proof, _ turn: inout Turn) {
        for (gateway, link) in streams.links.sorted(by: { $0.key.rawValue < $1.key.rawValue })
        where link.liveCount > 0 {
            let live = DeviceSet(link.live)
            var items: [StreamFrame.PushItem] = []
            for delivery in deliveries {
                let targets = delivery.targets.intersection(live)
                guard !targets.isEmpty else { continue }
                items.append(
                    StreamFrame.PushItem(
                        position: delivery.position, event: delivery.event, targets: targets,
                        deleted: delivery.overflowed.intersection(live)))
            }
            guard let last = items.last else { continue }
            guard !streams.isFull(gateway, options.pushWindow) else {
                cutOff(streams.cutOff(gateway), at: gateway, &turn)
                continue
            }
            let number = streams.number(gateway, last.position)
            let frame = StreamFrame.push(StreamFrame.Push(epoch: state.epoch, number: number, items: items))
            turn.effects.append(.stream(gateway, Proven(frame, restingOn: proof.upTo, by: proof)))
        }
    }
}

extension Partition {
    /// Notifies a gateway that its streams for `devices` are not live any more
    /// (rule: one-state-on-two-sides).
    private func cutOff(_ devices: DeviceSet, at gateway: GatewayID, _ turn: inout Turn) {
        let position = streams.newestPosition(gateway)
        let number = streams.number(gateway, position)
        let cut = StreamFrame.CutOff(
            epoch: state.epoch, number: number, position: position, devices: devices)
        say(.cutOff(cut), to: gateway, &turn)
    }
}
