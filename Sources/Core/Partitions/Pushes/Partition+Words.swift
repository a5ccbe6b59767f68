import Model

// Words of push services that a device is gone (rule: one-word-ends-nothing). The loop's sender says which
// word is confirmed. The partition keeps what has been said beside the address.

/// A service has said that the device is gone, and nothing confirms this.
struct Doubt {
    /// The address to which the message went.
    var kind: Transport.Kind
    var generation: UInt64
    var witness: PushWitness
    /// When this owner first heard so.
    var since: MonotonicTime
}

extension Partition {
    /// Doubts of which the partition knows the witness. Of more the oldest one begins again.
    static let doubtsMax = 4096
    /// Devices whose marks one event takes back.
    static let outdatedAtOnce = 1024

    func doubt(of sending: PushTable.Sending) -> Doubt? {
        pushes.doubts[sending.index].flatMap {
            $0.kind == sending.origin.kind && $0.generation == sending.generation ? $0 : nil
        }
    }

    /// The checksum of the project's settings for the service.
    private func setting(_ project: ProjectNumber, _ kind: Transport.Kind) -> UInt64 {
        pushServices?[project]?.settings[kind] ?? 0
    }

    /// Whether the address's mark came under other settings: nobody doubts the address now.
    func isOutdated(_ stored: StoredTransport, of index: UInt32) -> Bool {
        guard let mark = stored.mark, pushServices != nil else { return false }
        let project = ProjectNumber(state.devices.project(index))
        return mark.setting != setting(project, stored.transport.kind)
    }

    /// The address to which the message went, if the device has not registered another one since.
    func address(of sending: PushTable.Sending) -> StoredTransport? {
        let known = state.transports[sending.index]?.first { $0.transport.kind == sending.origin.kind }
        return known.flatMap { isMeant($0, sending) ? $0 : nil }
    }

    /// Whether the address is still the one to which the message went (rule: gone-by-generation).
    private func isMeant(_ known: StoredTransport, _ sending: PushTable.Sending) -> Bool {
        #if DEBUG
            if options.planted.contains(.keepGone) { return false }
            if options.planted.contains(.endNewAddress) { return !known.isGone }
        #endif
        return known.generation == sending.generation
    }

    func mark(_ stored: StoredTransport, of index: UInt32, as mark: AddressMark?) {
        propose(
            .markTransport(index: index, stored.transport.kind, generation: stored.generation, mark))
    }

    /// The service does not know the address, and the sender believes this. The address is marked as gone,
    /// unless too many of the project are today: then the message is held.
    func noteGone(_ sending: PushTable.Sending, _ turn: inout Turn) {
        // Another address of the device may get what waits.
        let former = pushAddress(sending.index)
        defer { wantPush(sending.index, afterAddress: former) }
        guard let known = address(of: sending), !known.isGone else { return }
        guard mayEnd(sending.origin, &turn) else { return hold(sending, for: options.goneHold, turn.now) }
        let setting = setting(sending.origin.project, sending.origin.kind)
        pushes.doubts.remove(sending.index)
        // A device that listens is there.
        guard streams.attachment(sending.index) == nil else {
            let unused = AddressMark(.unused, since: turn.now.wall, setting: setting)
            return mark(known, of: sending.index, as: unused)
        }
        #if DEBUG
            if options.planted.contains(.endReachable) {
                pushes.plantedMarks.append((sending.index, turn.now.wall))
            }
        #endif
        mark(known, of: sending.index, as: AddressMark(.gone, since: turn.now.wall, setting: setting))
    }

    /// The service says that the address is gone, and nothing confirms this: the message is held. A service
    /// with one device alone takes nothing else, so the same word a day later is believed, from an owner that
    /// has heard it for a while: the clock of a process that begins may be wrong by days. A service that says
    /// so of several devices and takes nothing may be wrong for longer than a day.
    func noteDoubted(
        _ sending: PushTable.Sending, by witness: PushWitness, isAlone: Bool, holding delay: TimeSpan?,
        _ turn: inout Turn
    ) {
        guard let known = address(of: sending), !known.isGone else { return }
        let doubt = Doubt(
            kind: sending.origin.kind, generation: sending.generation, witness: witness,
            since: doubt(of: sending)?.since ?? turn.now.monotonic)
        pushes.doubts.update(sending.index, default: doubt, keysMax: Partition.doubtsMax) { $0 = doubt }
        if let delay { hold(sending, for: delay, turn.now) }
        let setting = setting(sending.origin.project, sending.origin.kind)
        if let first = known.mark, first.setting == setting {
            let passed = turn.now.wall.milliseconds - first.since.milliseconds
            let isLongAgo = passed >= Int64(options.wordsApart.milliseconds)
            let isHeardFor = turn.now.monotonic.since(doubt.since)
            if isAlone, isLongAgo, isHeardFor >= options.wordsHeardFor { noteGone(sending, &turn) }
            return
        }
        let former = pushAddress(sending.index)
        mark(known, of: sending.index, as: AddressMark(.doubted, since: turn.now.wall, setting: setting))
        if let next = pushAddress(sending.index), !next.isSame(as: former) {
            wantPush(sending.index, afterAddress: former)
        }
    }

    private func hold(_ sending: PushTable.Sending, for time: TimeSpan, _ now: Instant) {
        guard case .queued = pushes.state(sending.index) else { return }
        #if DEBUG
            if options.planted.contains(.holdNothing) { return }
        #endif
        pushes.noteFailure(sending.index, at: sending.position)
        pushes.wait(sending.index, until: now.monotonic.advanced(by: time))
    }

    /// The service has taken a message: what was said of the address counts no more.
    func forgetWords(of sending: PushTable.Sending) {
        if doubt(of: sending) != nil { pushes.doubts.remove(sending.index) }
        guard let known = address(of: sending), known.mark != nil else { return }
        let former = pushAddress(sending.index)
        mark(known, of: sending.index, as: nil)
        wantPush(sending.index, afterAddress: former)
    }

    // MARK: Other settings

    /// Looks for marks that came under other settings than the present ones of a service that is on.
    func findOutdated() {
        guard let pushServices else { return }
        let found = markedAddresses.filter {
            pushServices[$0.project]?.has($0.stored.transport.kind) ?? false
                && isOutdated($0.stored, of: $0.index)
        }
        pushes.outdated = Set(found.map(\.index)).sorted(by: >)
    }

    /// Takes back marks that came under other settings: each address gets one more try.
    func takeBackOutdated(_ turn: inout Turn) {
        var looks = 0
        while looks < Partition.outdatedAtOnce, !pushes.outdated.isEmpty, makeRoom(&turn) {
            looks += 1
            takeBack(pushes.outdated.removeLast())
        }
    }

    private func takeBack(_ index: UInt32) {
        let former = pushAddress(index)
        for stored in state.transports[index] ?? [] where isOutdated(stored, of: index) {
            mark(stored, of: index, as: nil)
        }
        pushes.doubts.remove(index)
        wantPush(index, afterAddress: former)
    }
}
