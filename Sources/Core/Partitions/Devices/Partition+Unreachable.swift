import Model

// Devices whose addresses are gone (rule: unreachable-devices-end).

extension Partition {
    /// Whether push services have said that each of the device's addresses is gone, and no stream has shown
    /// since that the device is there.
    func isUnreachable(_ index: UInt32, _ now: Instant) -> Bool {
        state.transports.unreachable.since[index] != nil && !mayBeListening(index, now)
    }

    /// A device that shows its credential with a request is there. The first such request of a day, and one
    /// of a device whose addresses are gone, makes a record.
    func noteCaller(of request: Request, _ now: Instant) {
        guard case (let registration, .device(let shown))? = request.caller, !isOverloaded,
            let (page, slot) = state.devices.find(registration.index.rawValue)
        else { return }
        let index = registration.index.rawValue
        let isGone = state.transports.unreachable.since[index] != nil
        guard isGone || page.seen[slot] < today(now).rawValue,
            examine(registration, .device(shown)).refusal == nil
        else { return }
        see(index, now)
        if isGone { forgetGoneAddresses(of: index) }
    }

    /// The device is there: the addresses that are gone say nothing about the device any more. They stay
    /// unused, because the answer that they are gone may have been wrong.
    func forgetGoneAddresses(of index: UInt32) {
        for stored in state.transports[index] ?? [] {
            guard var known = stored.mark, known.state == .gone else { continue }
            known.state = .unused
            mark(stored, of: index, as: known)
        }
    }

    /// Ends the devices that have been unreachable for `unreachableMax`, without a rest of the partition. A
    /// new owner waits until streams have returned, and these devices count among those that may end in a
    /// day: a clock may be wrong here too.
    func endUnreachable(_ turn: inout Turn) {
        guard let most = options.unreachableMax, sweep.left > 0,
            turn.now.monotonic.since(begunAt) >= options.listenersReturn
        else { return }
        let time = WallTime(milliseconds: turn.now.wall.milliseconds - Int64(most.milliseconds))
        guard state.days.since(on: today(turn.now)) <= time.day else { return }
        for index in unreachable(since: time, limit: sweep.left) {
            // The search goes on a second later.
            guard makeRoom(&turn) else { return }
            guard streams.attachment(index) == nil else {
                forgetGoneAddresses(of: index)
                continue
            }
            guard state.homes(of: index).allSatisfy(hasRoom) else { continue }
            endAbsent(index, for: .unreachable, &turn)
        }
    }

    private func unreachable(since time: WallTime, limit: Int) -> [UInt32] {
        #if DEBUG
            if options.planted.contains(.endReachable) {
                let due = pushes.plantedMarks.filter { $0.time <= time }.map(\.index)
                return due.filter { state.devices.find($0) != nil }
            }
        #endif
        return state.transports.unreachable.due(time, limit: limit)
    }

    /// When the partition is to look again for such devices.
    func nextUnreachable(_ now: Instant) -> MonotonicTime? {
        guard let most = options.unreachableMax, let first = state.transports.unreachable.first,
            sweep.left > 0 || sweep.day != today(now)
        else { return nil }
        let day: Int64 = 86_400_000
        let rested = Int64(state.days.since(on: today(now)).rawValue) * day
        let wait = max(first.milliseconds, rested) + Int64(most.milliseconds) - now.wall.milliseconds
        let next = now.monotonic.advanced(by: .milliseconds(UInt64(max(wait, 1000))))
        return max(next, begunAt.advanced(by: options.listenersReturn))
    }
}

extension Request {
    /// The device that the request is about, and by which authority. `nil` for requests about other things,
    /// and for those that end the device.
    fileprivate var caller: (Registration, Authority)? {
        switch self {
        case .change(_, _, _, let devices, let authority):
            devices.count == 1 ? (devices[0], authority) : nil
        case .subscriptions(let device, let authority), .subscription(let device, _, let authority),
            .acknowledge(let device, let authority, _), .check(let device, let authority),
            .setTransport(let device, let authority, _), .endTransport(let device, let authority, _),
            .device(let device, let authority):
            (device, authority)
        case .register, .unregister, .unregisterUnused, .sendToTopic, .sendToCondition, .sendToDevice,
            .members, .topics, .devices, .pushes:
            nil
        }
    }
}
