import Model

// A doubted address while another address of the device serves (rule: one-word-ends-nothing). Now and then a
// message goes to the doubted address first, so that the address comes back, or is gone by a second word.

extension PushTable {
    /// The doubted address to which a device's next message goes.
    struct Asked: Equatable {
        var kind: Transport.Kind
        var generation: UInt64
        /// Whether the service may have the message although it has not said so.
        var isUncertain = false
    }
}

extension Doubt {
    /// The shortest pause between two messages to a doubted address while another address serves. The pause
    /// doubles with each word.
    static let askPauseMin: TimeSpan = .seconds(10)

    /// A word has come. `most`: the longest pause.
    mutating func noteWord(holding delay: TimeSpan?, most: TimeSpan, _ now: MonotonicTime) {
        let first = max(delay ?? Doubt.askPauseMin, Doubt.askPauseMin)
        pause(for: min(first.doubled(times: min(words, 32)), most), now)
        words += 1
    }

    mutating func pause(for time: TimeSpan, _ now: MonotonicTime) {
        askAt = max(askAt, now.advanced(by: max(time, Doubt.askPauseMin)))
    }
}

extension Partition {
    /// The doubted address to which the device's next message goes; `nil` where the serving one gets it.
    func askedAddress(_ index: UInt32) -> StoredTransport? {
        guard let asked = pushes.devices[index]?.asked else { return nil }
        return state.transports[index]?.first {
            $0.transport.kind == asked.kind && $0.generation == asked.generation && !$0.isGone
                && mayServe($0.transport, of: index)
        }
    }

    /// Decides whether the device's next message goes to a doubted address, in the place of the serving one.
    func askDoubted(_ index: UInt32, _ now: Instant) {
        if let asked = pushes.devices[index]?.asked {
            if let stored = askedAddress(index), nextToPush(index, at: stored, now) != nil,
                asked.isUncertain || mayGo(index, to: stored, now)
            {
                return
            }
            pushes.devices[index]?.asked = nil
        }
        guard state.transports.hasMark(index), let serving = servingAddress(index), serving.mark == nil,
            let doubted = state.transports[index]?.first(where: {
                $0.mark?.state == .doubted && mayServe($0.transport, of: index)
            }),
            // An address behind the serving one gets nothing in any case.
            doubted.transport.kind < serving.transport.kind, mayAsk(doubted, of: index, now),
            let next = nextToPush(index, at: doubted, now), let other = nextToPush(index, at: serving, now),
            // What the serving address gets next must not be overtaken, nor may its service have it.
            next.position <= other.position, next.record > pushes.foundUpTo,
            pushes.tries(index, at: next.position) + pushes.tries(index, at: other.position) == 0,
            mayGo(index, to: doubted, now)
        else { return }
        pushes.devices[index]?.asked = PushTable.Asked(
            kind: doubted.transport.kind, generation: doubted.generation)
    }

    /// Where the partition can remember no more doubts, one more word must end the doubted address.
    private func mayAsk(_ doubted: StoredTransport, of index: UInt32, _ now: Instant) -> Bool {
        if let known = pushes.doubts[index], known.generation == doubted.generation {
            return known.askAt <= now.monotonic
        }
        guard pushes.doubts.count >= Partition.doubtsMax, let mark = doubted.mark else { return true }
        return now.wall.milliseconds - mark.since.milliseconds >= Int64(options.wordsApart.milliseconds)
    }

    /// Whether a message would go to the sender at once.
    private func mayGo(_ index: UInt32, to stored: StoredTransport, _ now: Instant) -> Bool {
        guard let (page, slot) = state.devices.find(index) else { return false }
        let origin = PushOrigin(ProjectNumber(page.projects[slot]), target(of: index, stored))
        guard case .free = pushes.slots.room(for: origin, of: options.pushesAtOnce) else { return false }
        return pushes.closed[origin] == nil
            && pushes.spared(index, generation: stored.generation, at: origin, now: now.monotonic) == nil
    }

    /// The sender has answered a message to a doubted address. Where the service has surely not taken the
    /// message, the serving address gets it at once.
    func noteAsked(_ sending: PushTable.Sending, after report: PushReport, _ now: Instant) {
        let index = sending.index
        guard let asked = pushes.devices[index]?.asked, asked.kind == sending.origin.kind,
            asked.generation == sending.generation
        else { return }
        var pause = Doubt.askPauseMin
        switch report.result {
        case .later(let delay, _):
            if case .transient = report.outcome { pushes.devices[index]?.asked?.isUncertain = true }
            pause = delay
        case .closed(let delay): pause = delay
        case .gone: pause = options.goneHold
        case .done, .doubted: break
        }
        switch report.result {
        case .later, .closed: if pushes.devices[index]?.asked?.isUncertain ?? false { return }
        // The same token goes to Apple's other environment.
        case .gone, .doubted: if pushes.elsewhere[index] == sending.generation { return }
        case .done: break
        }
        pushes.devices[index]?.asked = nil
        pauseDoubt(of: sending, for: pause, now.monotonic)
    }
}
