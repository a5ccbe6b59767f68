import Model

// Probes of this node (direct, through helpers, over the stream connection), and its probes for others.

extension Membership {
    /// The one probe that is under way.
    struct Probe: Sendable {
        var target: SessionID
        var number: UInt32
        /// When this node asks again (datagrams get lost), asks helpers, and counts the probe as failed.
        var againAt: MonotonicTime
        var indirectAt: MonotonicTime
        var endsAt: MonotonicTime
        var isAgain = false
        var isIndirect = false
        /// Helpers that this node asked, and how many of them reported that they have no answer either.
        var asked = 0
        var nacks = 0

        var nextStep: MonotonicTime { isIndirect ? endsAt : isAgain ? indirectAt : againAt }
    }

    /// A probe that this node makes for another node. `number` is the other node's number for it.
    struct Relay: Sendable {
        var requester: SessionID
        var address: String
        var number: UInt32
        var nackAt: MonotonicTime
        var endsAt: MonotonicTime
        var hasNacked = false

        var nextStep: MonotonicTime { hasNacked ? endsAt : nackAt }
    }

    // MARK: Own probes

    mutating func advanceProbe(_ now: MonotonicTime, _ effects: inout [Effect]) {
        if let current = probe {
            if !current.isAgain, now >= current.againAt { askAgain(current, &effects) }
            if !current.isIndirect, now >= current.indirectAt { askOthers(now, &effects) }
            if let current = probe, now >= current.endsAt { fail(current, now, &effects) }
        }
        if probe == nil, now >= nextProbe { beginProbe(now, &effects) }
    }

    /// Nanoseconds from one probe to the next. A node that finds itself slow probes less often, but at least
    /// twice in the time (`isolation`) after which silence means that the node is cut off.
    private var probePeriod: UInt64 { min(health.scaled(options.probeInterval), options.isolation / 2) }

    private mutating func beginProbe(_ now: MonotonicTime, _ effects: inout [Effect]) {
        let period = probePeriod
        nextProbe = now.advanced(by: period)
        guard let target = roster.next(&random) else { return }
        let number = makeSequence()
        let patience = min(health.scaled(options.ackTimeout), period)
        probe = Probe(
            target: target.session, number: number, againAt: now.advanced(by: patience / 2),
            indirectAt: now.advanced(by: patience), endsAt: nextProbe)
        ping(target.session, target.address, number, first: accusations(target), &effects)
    }

    /// The accusation that a packet to a member carries first, so that it can contradict (Lifeguard §IV-C).
    func accusations(_ member: Member) -> [[UInt8]] {
        switch member.state {
        case .alive, .left: []
        case .suspect:
            [Update.suspect(member.session, member.incarnation, by: own.session).encoded]
        case .dead: [Update.dead(member.session, member.incarnation, by: own.session).encoded]
        }
    }

    private mutating func askAgain(_ current: Probe, _ effects: inout [Effect]) {
        probe?.isAgain = true
        guard let target = roster[current.target] else { return }
        ping(target.session, target.address, current.number, first: accusations(target), &effects)
    }

    private mutating func askOthers(_ now: MonotonicTime, _ effects: inout [Effect]) {
        guard var current = probe, let target = roster[current.target] else {
            probe = nil
            return
        }
        let helpers = roster.someAlive(options.relays, except: target.session, &random)
        for helper in helpers {
            let packet = write(
                .indirect(target.session, address: target.address), number: current.number, first: [],
                for: helper.session)
            effects.append(.datagram(packet, to: helper.address))
        }
        // A network may drop datagrams and pass connections: a node that answers over one is not dead.
        effects.append(
            .stream(
                write(
                    .ping(target.session), number: current.number, first: accusations(target), for: nil),
                to: target.session))
        current.isIndirect = true
        current.asked = helpers.count
        probe = current
    }

    private mutating func fail(_ current: Probe, _ now: MonotonicTime, _ effects: inout [Effect]) {
        probe = nil
        // Each helper that did not even report a missing answer is a sign that this node hears nothing.
        health.worsen(by: current.asked > 0 ? current.asked - current.nacks : 1)
        guard let member = roster[current.target], member.state == .alive || member.state == .suspect else {
            return
        }
        suspect(member.session, member.incarnation, by: own.session, now, &effects)
    }

    mutating func acknowledged(_ number: UInt32, _ now: MonotonicTime, _ effects: inout [Effect]) {
        if let current = probe, current.number == number {
            probe = nil
            health.improve()
        } else if let relay = relays.removeValue(forKey: number) {
            answer(.ack, relay, &effects)
        }
    }

    mutating func nacked(_ number: UInt32) {
        if let current = probe, current.number == number {
            probe?.nacks = min(current.asked, current.nacks + 1)
        }
    }

    // MARK: For others

    mutating func relay(
        _ packet: Packet, to target: SessionID, _ address: String, from requester: String,
        _ now: MonotonicTime, _ effects: inout [Effect]
    ) {
        guard relays.count < options.relaysMax else { return }
        let number = makeSequence()
        relays[number] = Relay(
            requester: packet.sender, address: requester, number: packet.number,
            nackAt: now.advanced(by: options.ackTimeout * 4 / 5),
            endsAt: now.advanced(by: options.ackTimeout * 4))
        let known = roster[target].map(accusations) ?? []
        ping(target, address, number, first: known, &effects)
    }

    mutating func nackForRelays(_ now: MonotonicTime, _ effects: inout [Effect]) {
        for number in relays.keys.sorted() {
            guard let relay = relays[number] else { continue }
            if now >= relay.endsAt {
                relays[number] = nil
            } else if !relay.hasNacked, now >= relay.nackAt {
                relays[number]?.hasNacked = true
                answer(.nack, relay, &effects)
            }
        }
    }

    private mutating func answer(_ kind: Packet.Kind, _ relay: Relay, _ effects: inout [Effect]) {
        let packet = write(kind, number: relay.number, first: [], for: relay.requester)
        effects.append(.datagram(packet, to: relay.address))
    }

    // MARK: Packets

    mutating func ping(
        _ target: SessionID, _ address: String, _ number: UInt32, first: [[UInt8]],
        _ effects: inout [Effect]
    ) {
        let packet = write(.ping(target), number: number, first: first, for: target)
        effects.append(.datagram(packet, to: address))
    }

    /// A packet with as much news as there is room for. A datagram names the process that it is for (session
    /// 0 where this node does not know the process). A packet over a connection names none (`nil`).
    mutating func write(
        _ kind: Packet.Kind, number: UInt32, first: [[UInt8]], for target: SessionID?
    ) -> [UInt8] {
        var out = Packet.begin(kind, from: own.session, number: number)
        if let target { out.raw(makeMark(for: target).encoded) }
        for piece in first where out.bytes.count + piece.count <= options.packetBytesMax { out.raw(piece) }
        news.tell(into: &out, bytesMax: options.packetBytesMax, retransmitLimit: retransmitLimit)
        return out.bytes
    }
}
