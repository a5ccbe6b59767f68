import Bytes
import Model

// How this node handles packets, compares everything with others, and looks for lost nodes.

extension Membership {
    mutating func receive(_ bytes: [UInt8], from address: String, _ turn: inout Turn) {
        guard bytes.count <= Membership.packetBytesMax else {
            return turn.effects.append(.malformed("a datagram of \(bytes.count) bytes"))
        }
        var reader = ByteReader(bytes)
        let packet: Packet
        let verdict: ReplayGuard.Verdict
        do throws(DecodeError) {
            packet = try Packet(from: &reader)
            if packet.sender == own.session {
                // The seed is this node itself, under another address.
                seedAnswered(packet.number, turn.now)
                return
            }
            verdict = judge(try DatagramMark.read(from: &reader), from: packet.sender)
        } catch {
            return turn.effects.append(.malformed("\(error)"))
        }
        switch verdict {
        case .refused(let refusal): return turn.effects.append(.refused(refusal.rawValue))
        case .question:
            if case .ping(SessionID(0)) = packet.kind, !isLeaving { answer(packet, to: address, &turn) }
            return
        case .taken: break
        }
        guard believeNews(of: packet, reader, &turn), !isLeaving else { return }
        switch packet.kind {
        case .ping(let target):
            guard target == own.session || target == SessionID(0) else { return }
            answer(packet, to: address, &turn)
        case .ack:
            seedAnswered(packet.number, turn.now)
            acknowledged(packet.number, &turn)
        case .nack: nacked(packet.number)
        case .indirect(let target, let targetAddress):
            if target == own.session {
                let answer = write(.ack, number: packet.number, first: [], for: packet.sender)
                turn.effects.append(.datagram(answer, to: address))
            } else {
                relay(packet, to: target, at: targetAddress, from: address, &turn)
            }
        case .sync, .syncAnswer: turn.effects.append(.malformed("a comparison in a datagram"))
        }
        recognize(packet.sender, &turn)
    }

    mutating func receiveStream(_ bytes: [UInt8], _ turn: inout Turn) {
        guard let packet = read(bytes, &turn), packet.sender != own.session, !isLeaving else {
            return
        }
        switch packet.kind {
        case .ping(let target):
            guard target == own.session else { return }
            let first = answers(to: packet.sender, target)
            turn.effects.append(
                .stream(write(.ack, number: packet.number, first: first, for: nil), to: packet.sender))
        case .ack: acknowledged(packet.number, &turn)
        case .sync: turn.effects.append(.stream(everything(.syncAnswer), to: packet.sender))
        case .syncAnswer: break
        case .nack, .indirect: turn.effects.append(.malformed("a datagram's packet on a connection"))
        }
        recognize(packet.sender, &turn)
    }

    /// Notes the answer to a question to a seed, if the number is of one.
    private mutating func seedAnswered(_ number: UInt32, _ now: MonotonicTime) {
        if let seed = seedQuestions.removeValue(forKey: number) { seedAnswers[seed] = now }
    }

    private mutating func judge(_ mark: DatagramMark, from sender: SessionID) -> ReplayGuard.Verdict {
        #if DEBUG
            if options.plantedAcceptReplays { return .taken }
        #endif
        let roster = roster
        return replays.judge(mark, from: sender, to: own.session, isKept: { roster[$0] != nil })
    }

    private mutating func answer(_ packet: Packet, to address: String, _ turn: inout Turn) {
        guard case .ping(let target) = packet.kind else { return }
        let first = answers(to: packet.sender, target)
        let answer = write(.ack, number: packet.number, first: first, for: packet.sender)
        turn.effects.append(.datagram(answer, to: address))
    }

    /// What the answer to a probe says first: the accusation against the prober, and this node's announcement
    /// if the prober did not know which process it asked.
    private func answers(to sender: SessionID, _ target: SessionID) -> [[UInt8]] {
        var first = roster[sender].map(accusations) ?? []
        if target == SessionID(0) { first.append(Update.alive(own).encoded) }
        return first
    }

    /// Reads a packet that came over a connection, and believes the packet's news.
    private mutating func read(_ bytes: [UInt8], _ turn: inout Turn) -> Packet? {
        var reader = ByteReader(bytes)
        do throws(DecodeError) {
            let packet = try Packet(from: &reader)
            return believeNews(of: packet, reader, &turn) ? packet : nil
        } catch {
            turn.effects.append(.malformed("\(error)"))
            return nil
        }
    }

    /// Believes a packet's news up to the first update that cannot be read; `false` if there is one.
    private mutating func believeNews(of packet: Packet, _ news: ByteReader, _ turn: inout Turn) -> Bool {
        var reader = news
        do throws(DecodeError) {
            if packet.sender != own.session {
                lastHeard = turn.now
                if isIsolated { judgeIsolation(&turn) }
            }
            let isComparison = packet.kind == .sync || packet.kind == .syncAnswer
            while !reader.isAtEnd {
                guard let update = try Update.decode(from: &reader) else { continue }
                believe(update, isComparison: isComparison, from: packet.sender, &turn)
            }
            return true
        } catch {
            turn.effects.append(.malformed("\(error)"))
            return false
        }
    }

    /// Compares everything with a sender that this node held dead or does not know.
    private mutating func recognize(_ sender: SessionID, _ turn: inout Turn) {
        if let member = roster[sender], member.state != .dead { return }
        compare(with: sender, &turn)
    }

    // MARK: Comparing everything

    /// Compares everything with a member, at most once a second over all members.
    mutating func compare(with session: SessionID, _ turn: inout Turn) {
        if let lastSync, turn.now.since(lastSync) < .seconds(1) { return }
        lastSync = turn.now
        turn.effects.append(.stream(everything(.sync), to: session))
    }

    mutating func syncRegularly(_ turn: inout Turn) {
        // Larger clusters compare more rarely, because a comparison is as long as the cluster is large.
        let others = UInt64(roster.count)
        var length = options.syncInterval
        var size: UInt64 = 32
        while size < others {
            length += options.syncInterval
            size *= 2
        }
        nextSync = turn.now.advanced(by: jittered(length))
        // The node never forgets a lost member that is in the engine's table: the member may come back.
        for member in roster.all
        where (member.state == .left || member.state == .dead) && !tabled.contains(member.session) {
            if turn.now.since(member.since) > options.deadRetention { roster.remove(member.session) }
        }
        if let other = roster.someAlive(1, except: nil, &random).first {
            lastSync = turn.now
            turn.effects.append(.stream(everything(.sync), to: other.session))
        }
    }

    /// From three quarters of the length to five quarters, so that nodes that began together drift apart.
    private mutating func jittered(_ length: TimeSpan) -> TimeSpan {
        length * 3 / 4 + TimeSpan.random(in: .zero...length / 2, using: &random)
    }

    private func everything(_ kind: Packet.Kind) -> [UInt8] {
        var out = Packet.begin(kind, from: own.session, number: 0)
        out.raw(Update.alive(own).encoded)
        for member in roster.all {
            guard out.bytes.count < options.syncBytesMax - 4096 else { break }
            if member.state != .left { out.raw(Update.alive(member).encoded) }
            switch member.state {
            case .alive: break
            case .suspect:
                let accuser = suspicions[member.session]?.confirmations.first ?? own.session
                out.raw(Update.suspect(member.session, member.incarnation, by: accuser).encoded)
            case .dead:
                out.raw(Update.dead(member.session, member.incarnation, by: own.session).encoded)
            case .left: out.raw(Update.left(member.session, member.incarnation).encoded)
            }
        }
        for key in entries.keys.sorted() {
            guard let entry = entries[key], out.bytes.count < options.syncBytesMax - 64 else { break }
            out.raw(Update.entry(entry).encoded)
        }
        return out.bytes
    }

    // MARK: Healing

    var hasSomebodyToFind: Bool { roster.deadCount > 0 || roster.goneCount > 0 || !seeds.isEmpty }

    /// Pings one lost member: one that is held dead, or that is said to have left while the engine's table
    /// shows it. Or pings a seed if no member is known to be alive, drawn at random.
    mutating func heal(_ turn: inout Turn) {
        let (now, length) = (turn.now, options.healingInterval)
        nextHealing = now.advanced(by: jittered(length))
        let isLost = { (member: Member) in
            member.state == .dead || (member.state == .left && tabled.contains(member.session))
        }
        var lost = roster.all.filter(isLost).map { ($0.session, $0.address) }
        let isOld = { (time: MonotonicTime) in now.since(time) > length * 60 }
        lost += seeds.filter { seed in
            !roster.isReached(seed) && (seedAnswers[seed].map(isOld) ?? true)
        }.map { (SessionID(0), $0) }
        guard let (session, address) = lost.randomElement(using: &random) else { return }
        var first = roster[session].map(accusations) ?? []
        first.append(Update.alive(own).encoded)
        let number = makeSequence()
        if session == SessionID(0) {
            if seedQuestions.count >= options.seedQuestionsMax { seedQuestions = [:] }
            seedQuestions[number] = address
        }
        ping(session, at: address, number: number, first: first, &turn)
    }
}
