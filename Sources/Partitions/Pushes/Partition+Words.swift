import Model

// Words of push services that a device is gone (rule: one-word-ends-nothing). The loop's sender says which
// word is confirmed. The partition keeps what has been said beside the address.

/// A service has said that the device is gone, and nothing confirms this.
struct Doubt {
    /// The generation of the address to which the message went.
    var generation: UInt64
    /// Of each of Apple's environments, where the token is tried in both.
    var witnesses: [PushOrigin: PushWitness] = [:]
    /// Whether the word of the environment that the device has told is confirmed.
    var isBelieved = false
}

/// How many addresses of each project have got the mark of a gone address today.
struct GoneBrake {
    private(set) var day: Day?
    private(set) var counts: [ProjectNumber: Int] = [:]
    private var told: Set<ProjectNumber> = []

    /// `counts`: the marks of this day that the partition has already.
    mutating func begin(_ day: Day, _ counts: [ProjectNumber: Int]) {
        self.day = day
        self.counts = counts
        told = []
    }
    mutating func note(_ project: ProjectNumber) { counts[project, default: 0] += 1 }
    /// Whether this is the first word of the project that is held today.
    mutating func holds(_ project: ProjectNumber) -> Bool { told.insert(project).inserted }
}

extension Partition {
    /// Doubts of which the partition knows the witness. Of more the oldest one begins again.
    static let doubtsMax = 4096
    /// Devices whose marks one event takes back.
    static let outdatedAtOnce = 1024

    func doubt(of sending: PushTable.Sending) -> Doubt? {
        guard let known = pushes.doubts[sending.index], known.generation == sending.generation else {
            return nil
        }
        return known
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

    func witness(of sending: PushTable.Sending) -> PushWitness? {
        doubt(of: sending)?.witnesses[sending.origin]
    }

    private func doubt(_ sending: PushTable.Sending, _ change: (inout Doubt) -> Void) {
        var known = doubt(of: sending) ?? Doubt(generation: sending.generation)
        change(&known)
        pushes.doubts.update(sending.index, default: known, keysMax: Partition.doubtsMax) { $0 = known }
    }

    /// The address to which the message went, where the device has not told another one since.
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

    private func mark(_ known: StoredTransport, of sending: PushTable.Sending, as mark: AddressMark?) {
        propose(
            .markTransport(
                index: sending.index, sending.origin.kind, generation: known.generation, mark))
    }

    /// The service does not know the address, and the sender believes this.
    func noteGone(_ sending: PushTable.Sending, after outcome: PushOutcome?, _ turn: inout Turn) {
        let wasElsewhere = isElsewhere(sending)
        if triesElsewhere(sending, outcome) {
            doubt(sending) { $0.isBelieved = true }
            return pushes.wantAgain(sending.index)
        }
        // The other environment does not know tokens of the one that the device has told.
        if wasElsewhere, !(doubt(of: sending)?.isBelieved ?? false) {
            return hold(sending, for: options.goneHold, turn.now)
        }
        end(sending, &turn)
    }

    /// The address is marked as gone, unless too many of the project are today: then the message is held.
    private func end(_ sending: PushTable.Sending, _ turn: inout Turn) {
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
            return mark(known, of: sending, as: unused)
        }
        #if DEBUG
            if options.planted.contains(.endReachable) {
                pushes.plantedMarks.append((sending.index, turn.now.wall))
            }
        #endif
        mark(known, of: sending, as: AddressMark(.gone, since: turn.now.wall, setting: setting))
    }

    /// The service says that the address is gone, and nothing confirms this: the message is held. A service
    /// with one device alone takes nothing else, so the same word a day later is believed.
    func noteDoubted(
        _ sending: PushTable.Sending, with witness: PushWitness, after outcome: PushOutcome?,
        holding delay: TimeSpan? = nil, _ turn: inout Turn
    ) {
        guard let known = address(of: sending), !known.isGone else {
            if triesElsewhere(sending, outcome) { pushes.wantAgain(sending.index) }
            return
        }
        doubt(sending) { $0.witnesses[sending.origin] = witness }
        if triesElsewhere(sending, outcome) {
            doubt(sending) { $0.isBelieved = false }
            return pushes.wantAgain(sending.index)
        }
        if let delay { hold(sending, for: delay, turn.now) }
        let setting = setting(sending.origin.project, sending.origin.kind)
        if let first = known.mark, first.setting == setting {
            let passed = turn.now.wall.milliseconds - first.since.milliseconds
            if passed >= Int64(options.wordsApart.milliseconds) { end(sending, &turn) }
            return
        }
        let former = pushAddress(sending.index)
        mark(known, of: sending, as: AddressMark(.doubted, since: turn.now.wall, setting: setting))
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
        mark(known, of: sending, as: nil)
        wantPush(sending.index, afterAddress: former)
    }

    // MARK: The brake

    /// Whether one more address of the project may be marked as gone today.
    private func mayEnd(_ origin: PushOrigin, _ turn: inout Turn) -> Bool {
        let today = today(turn.now)
        if pushes.brake.day != today { pushes.brake.begin(today, goneOn(today)) }
        let devices = state.devices.counts[origin.project.rawValue] ?? 0
        let most = max(options.goneFew, devices / options.goneShare)
        if pushes.brake.counts[origin.project] ?? 0 < most {
            pushes.brake.note(origin.project)
            return true
        }
        if pushes.brake.holds(origin.project) {
            turn.effects.append(.notice(.goneHeld(origin.project, origin.kind)))
        }
        return false
    }

    /// A former owner may have marked addresses today.
    private func goneOn(_ day: Day) -> [ProjectNumber: Int] {
        var counts: [ProjectNumber: Int] = [:]
        for (index, time) in state.transports.unreachable.since where time.day == day {
            counts[ProjectNumber(state.devices.project(index)), default: 0] += 1
        }
        return counts
    }

    // MARK: Other settings

    /// Looks for marks that came under other settings than the present ones of a service that is on.
    func findOutdated() {
        guard let pushServices else { return }
        var found: Set<UInt32> = []
        for kind in Transport.Kind.allCases {
            for index in state.transports.marked(kind) {
                let services = pushServices[ProjectNumber(state.devices.project(index))]
                guard let services, services.has(kind) else { continue }
                let mark = state.transports[index]?.first { $0.transport.kind == kind }?.mark
                if let mark, mark.setting != services.settings[kind] ?? 0 { found.insert(index) }
            }
        }
        pushes.outdated = found.sorted(by: >)
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
        let project = ProjectNumber(state.devices.project(index))
        let former = pushAddress(index)
        for stored in state.transports[index] ?? [] {
            let kind = stored.transport.kind
            guard let mark = stored.mark, mark.setting != setting(project, kind) else { continue }
            propose(.markTransport(index: index, kind, generation: stored.generation, nil))
        }
        pushes.doubts.remove(index)
        wantPush(index, afterAddress: former)
    }
}
