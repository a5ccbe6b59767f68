import Model

extension ControlCore {
    /// If the clocks agree, loops that doubt the node's clock believe it again. If they differ, whichever is
    /// right, an operator must know, and the other nodes are notified.
    func compare(_ reading: ClockReading) {
        let (look, isNew) = clocks.compare(reading)
        effects.append(.noted(.clockCompared(ahead: clocks.ahead)))
        if isNew {
            effects.append(.noted(clocks.differs ? .clockDiffers(ahead: clocks.ahead) : .clockAgrees))
        }
        effects.append(.orderAll(.clockCompared(look == .agrees ? reading.own : nil)))
        if let ahead = clocks.takeNews() {
            clocksTold = min(clocksTold + 1, 1 << 20 - 1)
            let session = options.session
            publish(
                .clock, number: ClockComparison.key(of: session),
                version: session.rawValue << 20 | clocksTold, UInt64(bitPattern: ahead))
        }
    }

    func heardOfClock(version: UInt64, _ value: UInt64) {
        clocks.heard(Int64(bitPattern: value), from: SessionID(version >> 20))
    }

    /// Why the node's clock keeps it from being ready. If most nodes find that the database's clock differs,
    /// none of them is kept, and the others are: the ends of messages must not move far between nodes that
    /// are ready (rule: ages-travel).
    func clockInability() -> String? {
        let verdict = clocks.verdict(among: members.map(\.session), own: options.session)
        if verdict == .databaseDiffers, !isDatabaseClockTold {
            effects.append(.noted(.databaseClockDiffers(nodesAhead: clocks.ahead)))
        }
        isDatabaseClockTold = verdict == .databaseDiffers
        let reason: String?
        switch verdict {
        case .right, .databaseDiffers: reason = nil
        case .ownDiffers: reason = ClockReading.word(ahead: clocks.ahead)
        case .othersDiffer(let ahead): reason = ClockReading.wordOfNodes(ahead: ahead)
        }
        guard let reason else {
            clockWrongSince = nil
            return nil
        }
        let since = clockWrongSince ?? now
        clockWrongSince = since
        return now.since(since) >= ClockComparison.hearing ? reason : nil
    }
}
