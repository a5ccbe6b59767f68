import Model

// Probes of this node (direct, through helpers, over the stream connection), and its probes for others.

extension Membership {
    /// The one probe that is under way.
    struct Probe: Sendable {
        enum Phase: Sendable {
            case asked
            case askedAgain
            /// `nacks` of the helpers reported that they have no answer either.
            case indirect(helpers: Int, nacks: Int)
        }

        let target: SessionID
        let number: UInt32
        /// When this node asks again (datagrams get lost), asks helpers, and counts the probe as failed.
        let againAt: MonotonicTime
        let indirectAt: MonotonicTime
        let endsAt: MonotonicTime
        var phase = Phase.asked

        var nextStep: MonotonicTime {
            switch phase {
            case .asked: againAt
            case .askedAgain: indirectAt
            case .indirect: endsAt
            }
        }
    }

    /// A probe that this node makes for another node. `number` is the other node's number for it.
    struct Relay: Sendable {
        var requester: SessionID
        var address: String
        var number: UInt32
        /// When this node reports that it has no answer; `nil` after the report.
        var nackAt: MonotonicTime?
        var endsAt: MonotonicTime

        var nextStep: MonotonicTime { nackAt ?? endsAt }
    }

    // MARK: Own probes

    mutating func advanceProbe(_ turn: inout Turn) {
        // A node that wakes late makes several steps at once. Each step moves to a later phase or ends the
        // probe.
        while let current = probe, turn.now >= current.nextStep {
            switch current.phase {
            case .asked: askAgain(current, &turn)
            case .askedAgain: askOthers(current, &turn)
            case .indirect: fail(current, &turn)
            }
        }
        if probe == nil, turn.now >= nextProbe { beginProbe(&turn) }
    }

    /// The time from one probe to the next. A node that finds itself slow probes less often, but at least
    /// twice in the time (`isolation`) after which silence means that the node is cut off.
    private var probePeriod: TimeSpan { min(health.scaled(options.probeInterval), options.isolation / 2) }

    private mutating func beginProbe(_ turn: inout Turn) {
        let period = probePeriod
        nextProbe = turn.now.advanced(by: period)
        guard let target = roster.next(&random) else { return }
        let number = makeSequence()
        let patience = min(health.scaled(options.ackTimeout), period)
        probe = Probe(
            target: target.session, number: number, againAt: turn.now.advanced(by: patience / 2),
            indirectAt: turn.now.advanced(by: patience), endsAt: nextProbe)
        ping(target.session, at: target.address, number: number, first: accusations(target), &turn)
    }

    /// The accusation that a packet to a member carries first, so that it can contradict (Lifeguard §IV-C).
    func accusations(_ member: Member) -> [[UInt8]] {
        switch member.state {
        case .alive: []
        case .left: [Update.left(member.session, member.incarnation).encoded]
        case .suspect:
            [Update.suspect(member.session, member.incarnation, by: own.session).encoded]
        case .dead: [Update.dead(member.session, member.incarnation, by: own.session).encoded]
        }
    }

    private mutating func askAgain(_ current: Probe, _ turn: inout Turn) {
        probe?.phase = .askedAgain
        guard let target = roster[current.target] else { return }
        ping(target.session, at: target.address, number: current.number, first: accusations(target), &turn)
    }

    private mutating func askOthers(_ current: Probe, _ turn: inout Turn) {
        guard let target = roster[current.target] else {
            probe = nil
            return
        }
        let helpers = roster.someAlive(options.relays, except: target.session, &random)
        for helper in helpers {
            let packet = write(
                .indirect(target.session, address: target.address), number: current.number, first: [],
                for: helper.session)
            turn.effects.append(.datagram(packet, to: helper.address))
        }
        // A network may drop datagrams and pass connections: a node that answers over one is not dead.
        turn.effects.append(
            .stream(
                write(
                    .ping(target.session), number: current.number, first: accusations(target), for: nil),
                to: target.session))
        probe?.phase = .indirect(helpers: helpers.count, nacks: 0)
    }

    private mutating func fail(_ current: Probe, _ turn: inout Turn) {
        probe = nil
        if case .indirect(let helpers, let nacks) = current.phase, helpers > 0 {
            // Each helper that did not even report a missing answer is a sign that this node receives
            // nothing.
            health.worsen(by: helpers - nacks)
        } else {
            health.worsen(by: 1)
        }
        guard let member = roster[current.target], member.state == .alive || member.state == .suspect else {
            return
        }
        suspect(member.session, in: member.incarnation, by: own.session, &turn)
    }

    mutating func acknowledged(_ number: UInt32, _ turn: inout Turn) {
        if let current = probe, current.number == number {
            probe = nil
            health.improve()
        } else if let relay = relays.removeValue(forKey: number) {
            answer(.ack, for: relay, &turn)
        }
    }

    mutating func nacked(_ number: UInt32) {
        guard let current = probe, current.number == number,
            case .indirect(let helpers, let nacks) = current.phase
        else { return }
        probe?.phase = .indirect(helpers: helpers, nacks: min(helpers, nacks + 1))
    }

    // MARK: For others

    mutating func relay(
        _ packet: Packet, to target: SessionID, at address: String, from requester: String, _ turn: inout Turn
    ) {
        guard relays.count < options.relaysMax else { return }
        let number = makeSequence()
        relays[number] = Relay(
            requester: packet.sender, address: requester, number: packet.number,
            nackAt: turn.now.advanced(by: options.ackTimeout * 4 / 5),
            endsAt: turn.now.advanced(by: options.ackTimeout * 4))
        let known = roster[target].map(accusations) ?? []
        ping(target, at: address, number: number, first: known, &turn)
    }

    mutating func nackForRelays(_ turn: inout Turn) {
        for number in relays.keys.sorted() {
            guard let relay = relays[number] else { continue }
            if turn.now >= relay.endsAt {
                relays[number] = nil
            } else if let nackAt = relay.nackAt, turn.now >= nackAt {
                relays[number]?.nackAt = nil
                answer(.nack, for: relay, &turn)
            }
        }
    }

    private mutating func answer(_ kind: Packet.Kind, for relay: Relay, _ turn: inout Turn) {
        let packet = write(kind, number: relay.number, first: [], for: relay.requester)
        turn.effects.append(.datagram(packet, to: relay.address))
    }

    // MARK: Packets

    mutating func ping(
        _ target: SessionID, at address: String, number: UInt32, first: [[UInt8]], _ turn: inout Turn
    ) {
        let packet = write(.ping(target), number: number, first: first, for: target)
        turn.effects.append(.datagram(packet, to: address))
    }

    /// A packet with as much news as there is room for. A datagram names the process that it is for (session
    /// 0 if this node does not know the process). A packet over a connection names none (`nil`).
    mutating func write(
        _ kind: Packet.Kind, number: UInt32, first: [[UInt8]], for target: SessionID?
    ) -> [UInt8] {
        var out = Packet.begin(kind, from: own.session, number: number)
        if let target { makeMark(for: target).encode(into: &out) }
        for piece in first where out.bytes.count + piece.count <= options.packetBytesMax { out.raw(piece) }
        news.tell(into: &out, bytesMax: options.packetBytesMax, retransmitLimit: retransmitLimit)
        return out.bytes
    }
}
