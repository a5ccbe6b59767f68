import Model

// Messages that end before a push service took them: each counts once, as `expired`.

/// Messages that a sender found over, by their positions. What a sender has counted, the partition does not
/// count again.
struct CountedEnds {
    /// More than these are counted twice.
    static let countMax = 4096
    /// All minutes before this one were over when this owner looked last.
    var before: Int64 = 0
    private var devices: [Position: Set<UInt32>] = [:]
    var count = 0

    func contains(_ index: UInt32, at position: Position) -> Bool {
        devices[position]?.contains(index) ?? false
    }

    func forEach(at position: Position, _ body: (UInt32) -> Void) { devices[position]?.forEach(body) }

    mutating func note(_ index: UInt32, at position: Position) {
        guard count < CountedEnds.countMax,
            devices[position, default: []].insert(index).inserted
        else { return }
        count += 1
    }

    mutating func keep(where isThere: (Position) -> Bool) {
        devices = devices.filter { isThere($0.key) }
        count = devices.values.reduce(0) { $0 + $1.count }
    }

    var brokenInvariant: String? {
        devices.values.reduce(0) { $0 + $1.count } == count ? nil : "ends that senders saw are counted wrong"
    }
}

extension Partition {
    /// Devices of one message that are looked at one by one: those with an address that is gone, and those
    /// that acknowledge themselves what a service has taken.
    private static let lookedAtMax = 1024

    /// The minutes that are over end, with what ended in them.
    func endMinutes(_ turn: inout Turn) {
        state.log.serviceEnds = DeliveryLog.ServiceEnds(from: pushes.countedEnds.before)
        propose(.expire(now: turn.now.wall))
        let ended = state.log.serviceEnds?.messages ?? []
        state.log.serviceEnds = nil
        pushes.countedEnds.before = turn.now.wall.milliseconds / 60_000
        var counts: [Transport.Kind: Int] = [:]
        for message in ended {
            for (kind, count) in untaken(message) where count > 0 {
                counts[kind, default: 0] += count
                note(count, ofEnded: message, at: kind, turn.now)
            }
        }
        pushes.countedEnds.keep { state.log.find($0) != nil }
        if !counts.isEmpty { turn.effects.append(.notice(.pushesEnded(counts))) }
    }

    private func note(
        _ count: Int, ofEnded message: DeliveryLog.ServiceEnds.Message, at kind: Transport.Kind,
        _ now: Instant
    ) {
        guard let id = message.body.flatMap({ MessageID(ofEvent: $0) }) else { return }
        pushes.tallies.note(
            PushTally(kind: kind, outcome: .expired, count: count, newest: now.wall), of: id,
            in: message.project, messagesMax: options.pushAttemptsMax)
    }

    /// For how many devices the message has ended, by the kind of the address in use. A message for a million
    /// devices costs a few operations on sets.
    private func untaken(
        _ message: DeliveryLog.ServiceEnds.Message
    ) -> [(kind: Transport.Kind, count: Int)] {
        var rest = message.devices
        var found: [(kind: Transport.Kind, count: Int)] = []
        for kind in kindsInOrder(of: message.project) {
            let plain = state.transports.plain(rest, kind)
            let odd = untaken(state.transports.odd(rest, kind), kind, at: message.position)
            rest = rest.subtracting(plain)
            odd.used.forEach { rest = rest.subtracting(DeviceSet($0)) }
            guard message.kinds.contains(kind) else { continue }
            let counted = alreadyCounted(plain, kind, at: message.position)
            found.append((kind, plain.count - counted + odd.untaken))
        }
        return found
    }

    /// The services of the project, and then the others: what waits for these waits at the first of them.
    private func kindsInOrder(of project: ProjectNumber) -> [Transport.Kind] {
        guard let services = pushServices?[project] else { return Transport.Kind.allCases }
        let served = Transport.Kind.allCases.filter(services.has)
        return served + Transport.Kind.allCases.filter { !served.contains($0) }
    }

    /// Of these devices, those that use an address of the kind, and how many of them have not been pushed the
    /// message.
    private func untaken(
        _ devices: DeviceSet, _ kind: Transport.Kind, at position: Position
    ) -> (used: [UInt32], untaken: Int) {
        var (used, untaken, looks) = ([UInt32](), 0, 0)
        devices.forEach { index in
            looks += 1
            guard looks <= Partition.lookedAtMax,
                let stored = state.transports[index]?.first(where: { $0.transport.kind == kind }),
                !stored.isGone
            else { return }
            used.append(index)
            let isTaken = position <= state.pushedUpTo(index, by: stored.transport)
            if !isTaken, !isCounted(index, position) { untaken += 1 }
        }
        return (used, untaken)
    }

    /// How many of these devices have the message at the sender, or had it there when it ended: the sender
    /// counts these.
    private func alreadyCounted(_ devices: DeviceSet, _ kind: Transport.Kind, at position: Position) -> Int {
        var found = Set<UInt32>()
        for sending in pushes.sendings.values
        where sending.position == position && sending.origin.kind == kind && devices.contains(sending.index) {
            found.insert(sending.index)
        }
        pushes.countedEnds.forEach(at: position) { if devices.contains($0) { found.insert($0) } }
        return found.count
    }

    private func isCounted(_ index: UInt32, _ position: Position) -> Bool {
        if pushes.countedEnds.contains(index, at: position) { return true }
        guard case .sending(let number) = pushes.state(index) else { return false }
        return pushes.sendings[number]?.position == position
    }
}

extension PushServices {
    /// Whether the project has a service of this kind, for some app at least.
    public func has(_ kind: Transport.Kind) -> Bool {
        switch kind {
        case .web: web
        case .apns: !apps.isEmpty
        case .fcm: fcm
        }
    }
}
