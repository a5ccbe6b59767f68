import Model

// What time alone does: offering again, expiring, ending devices that nobody has seen for long.

/// The daily search for devices that nobody has seen for long.
struct Sweep {
    var day: Day?
    /// The next device of the search, `nil` when all devices were looked at; and how many may still end
    /// today.
    var next: UInt32?
    var left = 0
}

extension Partition {
    /// The reading with the believed wall time. A notice reports when the wall clock loses or regains belief.
    /// By an earlier time messages may wait again that seemed to be past their time.
    func believed(_ now: Instant, _ effects: inout [PartitionEffect]) -> Instant {
        let (was, latest) = (clock.isTrusted, clock.latest)
        let wall = clock.read(now)
        if was != clock.isTrusted {
            effects.append(.notice(clock.leap.map { .clockLeapt(milliseconds: $0) } ?? .clockAgrees))
        }
        if wall < latest { wantAllPushes() }
        return Instant(monotonic: now.monotonic, wall: wall)
    }

    /// Another clock agrees with this reading.
    public func vouch(for now: Instant, into effects: inout [PartitionEffect]) {
        let (was, latest) = (clock.isTrusted, clock.latest)
        clock.vouch(for: now)
        guard clock.isTrusted else { return }
        if !was { effects.append(.notice(.clockAgrees)) }
        if now.wall < latest { wantAllPushes() }
    }

    /// Another clock disagrees with the wall clock.
    public func contradictClock() { clock.contradict() }

    /// The day by the believed clock. The newest message's position does not count: positions never fall, so
    /// one message under a wrong clock would be a witness for good.
    func today(_ now: Instant) -> Day { now.wall.day }

    func onWoke(_ at: MonotonicTime, _ turn: inout Turn) {
        wakes.fired(at)
        beginSnapshot(turn.now.monotonic)
        continueSnapshot(&turn)
        retryOutboxes(&turn)
        probeAgain(&turn)
        retryComparison(&turn)
        retryResolutions(&turn)
        takeBackOutdated(&turn)
        startPushes(&turn)
        guard clock.isTrusted else { return }
        if let expiry = state.log.nextExpiry, expiry <= turn.now.wall {
            endMinutes(&turn)
        }
        endUnseen(&turn)
        endUnreachable(&turn)
    }

    func scheduleWake(_ turn: inout Turn) {
        // While a record is in flight, only its outcome lets the next record go; a timer could do nothing.
        var next = pipeline.inFlight.isEmpty ? bookkeepingDue : nil
        func consider(_ time: MonotonicTime?) {
            guard let time else { return }
            next = min(next ?? time, time)
        }
        offered.forEach { _, last in consider(last.at.advanced(by: options.outboxRetry)) }
        if streams.mayBeStuck {
            let last = probedAt ?? turn.now.monotonic
            probedAt = last
            consider(last.advanced(by: options.outboxRetry))
        }
        consider(comparison.map { $0.at.advanced(by: options.outboxRetry) })
        consider(resolutions.values.map { $0.askedAt.advanced(by: options.outboxRetry) }.min())
        if !clock.isTrusted {
            consider(turn.now.monotonic.advanced(by: .seconds(60)))
        } else {
            if let expiry = state.log.nextExpiry {
                let wait = UInt64(max(0, expiry.milliseconds - turn.now.wall.milliseconds))
                consider(turn.now.monotonic.advanced(by: .milliseconds(min(wait, 3_600_000) + 1)))
            }
            consider(nextUnreachable(turn.now))
        }
        consider(nextSlice())
        consider(nextSnapshot())
        consider(nextPush(turn.now.monotonic))
        if !pushes.outdated.isEmpty { consider(turn.now.monotonic.advanced(by: .milliseconds(100))) }
        if sweep.next != nil, sweep.left > 0 { consider(turn.now.monotonic.advanced(by: .seconds(1))) }
        if state.devices.count > 0 { consider(turn.now.monotonic.advanced(by: .seconds(6 * 3600))) }
        guard let next, wakes.plan(next, now: turn.now.monotonic) else { return }
        turn.effects.append(.wake(at: next))
    }

    /// Ends devices that nobody has seen for `deviceDaysMax` days, all of them without a rest of the
    /// partition. The search runs once a day, and ends a bounded number of devices in a day. Devices that
    /// listen are seen each day, and a new owner waits for their streams to return before it searches, so it
    /// ends no device that listened.
    private func endUnseen(_ turn: inout Turn) {
        guard turn.now.monotonic.since(begunAt) >= options.listenersReturn else { return }
        let today = today(turn.now)
        if sweep.day != today {
            sweep = Sweep(day: today, next: 0, left: max(1, state.devices.count / options.sweptShare))
            seeListeners(today)
        }
        guard let start = sweep.next, sweep.left > 0, today.rawValue > options.deviceDaysMax else { return }
        let oldest = today.rawValue - options.deviceDaysMax
        guard state.days.since(on: today).rawValue < oldest else { return }
        var unseen: [UInt32] = []
        let limit = sweep.left
        state.devices.forEach(from: start) { index, page, slot in
            if page.seen[slot] < oldest, streams.attachment(index) == nil { unseen.append(index) }
            return unseen.count < limit
        }
        for index in unseen {
            // The search goes on a second later.
            guard makeRoom(&turn) else { return sweep.next = index }
            // A device whose topics' partitions cannot be notified of its end now is found again the next
            // day.
            guard state.homes(of: index).allSatisfy(hasRoom) else { continue }
            endAbsent(index, for: .unseen, &turn)
        }
        sweep.next = unseen.count < limit ? nil : unseen.last.map { $0 + 1 }
    }

    /// Ends a device, and takes it from those that may end today.
    func endAbsent(_ index: UInt32, for absence: Absence, _ turn: inout Turn) {
        propose(.end(index: index))
        sweep.left -= 1
        pipeline.gated.notices.append(.deviceEnds(absence))
    }

    /// All listening devices are seen today. The record shows the day also if nobody listens.
    private func seeListeners(_ today: Day) {
        let listening = streams.devices { _ in true }.filter { index in
            guard let (page, slot) = state.devices.find(index) else { return false }
            return page.seen[slot] < today.rawValue
        }
        if !listening.isEmpty || state.days.newest != today && state.devices.count > 0 {
            propose(.seen(day: today, devices: DeviceSet(sorted: listening)))
        }
    }

    /// The device is seen: its stream comes, or goes after it has listened for long.
    func see(_ index: UInt32, _ now: Instant) {
        guard let (page, slot) = state.devices.find(index) else { return }
        let today = today(now)
        if page.seen[slot] < today.rawValue { propose(.seen(day: today, devices: DeviceSet(index))) }
    }
}
