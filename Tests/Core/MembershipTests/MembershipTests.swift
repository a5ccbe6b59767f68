import Bytes
import Model
import Simulator
import Synchronization
import Testing

@testable import Membership

private let now = MonotonicTime(nanoseconds: 1_000_000_000)

private func node(_ session: UInt64, _ name: String) -> Membership {
    Membership(session: SessionID(session), name: name, address: name, info: [1], seed: session, now: now)
}

private func row(_ session: UInt64, _ name: String) -> Membership.Row {
    Membership.Row(session: SessionID(session), name: name, address: name, info: [])
}

private func packet(_ kind: Packet.Kind, from sender: UInt64, _ updates: [Update] = []) -> [UInt8] {
    var out = Packet.begin(kind, from: SessionID(sender), number: 77)
    for update in updates { out.raw(update.encoded) }
    return out.bytes
}

private let lastNumber = Atomic<UInt64>(0)

/// A datagram to session 1, with a number that no other has.
private func datagram(_ kind: Packet.Kind, from sender: UInt64, _ updates: [Update] = []) -> [UInt8] {
    var out = Packet.begin(kind, from: SessionID(sender), number: 77)
    let number = lastNumber.add(1, ordering: .relaxed).newValue
    DatagramMark(target: SessionID(1), number: number).encode(into: &out)
    for update in updates { out.raw(update.encoded) }
    return out.bytes
}

extension Membership {
    fileprivate mutating func feed(_ event: Event, at time: MonotonicTime = now) -> [Effect] {
        var effects: [Effect] = []
        handle(event, now: time, into: &effects)
        return effects
    }
}

@Suite("Membership") struct MembershipTests {
    /// A suspicion's length falls with the logarithm of the number of nodes that share the suspicion.
    @Test("ends a suspicion sooner the more nodes share it")
    func sharedSuspicion() {
        let options = Membership.Options()
        let lengths = (0...3).map { Suspicion.length(confirmations: $0, of: 3, options).milliseconds }
        #expect(lengths.first == 5000 && lengths.last == 1000)
        #expect(zip(lengths, lengths.dropFirst()).allSatisfy { $0 > $1 })
        #expect(lengths[1] == 3000)
        #expect(Suspicion.length(confirmations: 0, of: 0, options) == options.suspicionMin)
        for number in 1...64 {
            // 2^(1/1024) is 1.000677.
            var power = 1.0
            for _ in 0..<Suspicion.binaryLogarithm(number) { power *= 1.000677131 }
            #expect(power <= Double(number) * 1.001 && power * 1.002 >= Double(number))
        }
    }

    @Test("counts an accuser once")
    func anAccuserCountsOnce() {
        var suspicion = Suspicion(
            incarnation: 1, by: SessionID(1), since: now, members: 8, options: Membership.Options())
        let isNew = [1, 2, 2].map { suspicion.confirm(by: SessionID($0)) }
        #expect(isNew == [false, true, false])
    }

    @Test("contradicts an accusation once, with a higher incarnation")
    func contradicts() {
        var machine = node(1, "a")
        _ = machine.feed(.table([row(2, "b")]))
        let accusation = Update.suspect(SessionID(1), 1, by: SessionID(2))
        _ = machine.feed(.datagram(datagram(.ping(SessionID(1)), from: 2, [accusation]), from: "b"))
        #expect(machine.own.incarnation == 2)
        #expect(machine.localHealth == 1)
        // The same accusation again is old.
        _ = machine.feed(.datagram(datagram(.ping(SessionID(1)), from: 2, [accusation]), from: "b"))
        #expect(machine.own.incarnation == 2)
    }

    /// Only a node of the cluster can send such an accusation, and no accusation may end a process.
    @Test("survives an accusation at the last incarnation")
    func lastIncarnation() {
        var machine = node(1, "a")
        _ = machine.feed(.table([row(2, "b")]))
        let accusation = Update.suspect(SessionID(1), .max - 1, by: SessionID(2))
        _ = machine.feed(.datagram(datagram(.ping(SessionID(1)), from: 2, [accusation]), from: "b"))
        #expect(machine.own.incarnation == .max)
        _ = machine.feed(.describe([7]))
        #expect(machine.own.incarnation == .max && machine.own.info == [7])
    }

    @Test("answers no ping that is for a former process")
    func formerPing() {
        var machine = node(5, "a")
        let effects = machine.feed(.datagram(datagram(.ping(SessionID(4)), from: 2), from: "b"))
        #expect(!effects.contains { if case .datagram = $0 { true } else { false } })
    }

    @Test("never takes back a process whose successor it knows")
    func formerProcess() {
        var machine = node(1, "a")
        _ = machine.feed(.table([row(2, "b")]))
        _ = machine.feed(.table([row(9, "b")]))
        #expect(machine.members.map(\.session) == [SessionID(9)])
        let ghost = Membership.Member(
            session: SessionID(2), name: "b", address: "b", info: [], incarnation: 900, state: .alive,
            since: now)
        _ = machine.feed(.datagram(datagram(.ack, from: 3, [.alive(ghost)]), from: "c"))
        #expect(machine.members.map(\.session) == [SessionID(9)])
    }

    /// A session that has gone from the engine's table was fenced.
    @Test("counts a node as left whose session has gone from the engine's table")
    func whoIsFencedHasLeft() {
        var machine = node(1, "a")
        _ = machine.feed(.table([row(2, "b"), row(3, "c")]))
        _ = machine.feed(.table([row(3, "c")]))
        #expect(machine.member(SessionID(2))?.state == .left)
        #expect(machine.member(SessionID(3))?.state == .alive)
    }

    /// A process of a copy of the cluster, or a mistaken one, may say so of a node that stays.
    @Test("contradicts a word that it has left")
    func hasNotLeft() {
        var machine = node(1, "a")
        _ = machine.feed(.table([row(2, "b")]))
        _ = machine.feed(
            .datagram(datagram(.ping(SessionID(1)), from: 2, [.left(SessionID(1), 1)]), from: "b"))
        #expect(machine.own.incarnation == 2 && machine.own.state == .alive)
        _ = machine.feed(.leave)
        _ = machine.feed(
            .datagram(datagram(.ping(SessionID(1)), from: 2, [.left(SessionID(1), 2)]), from: "b"))
        #expect(machine.own.incarnation == 2, "what is true is not contradicted")
    }

    @Test("asks a node that is said to have left while the engine's table shows it, and takes it back")
    func wronglyLeft() {
        var machine = node(1, "a")
        _ = machine.feed(.table([row(2, "b"), row(3, "c")]))
        let word = Update.left(SessionID(2), 0)
        _ = machine.feed(.datagram(datagram(.ack, from: 3, [word]), from: "c"))
        #expect(machine.member(SessionID(2))?.state == .left)
        var isAsked = false
        for step in UInt64(0)..<400 where !isAsked {
            let effects = machine.feed(.woke, at: now.advanced(by: .milliseconds(step * 50)))
            isAsked = effects.contains { if case .datagram(_, "b") = $0 { true } else { false } }
        }
        #expect(isAsked)
        var back = Membership.Member(
            session: SessionID(2), name: "b", address: "b", info: [], incarnation: 0, state: .alive,
            since: now)
        _ = machine.feed(.datagram(datagram(.ack, from: 3, [.alive(back)]), from: "c"))
        #expect(machine.member(SessionID(2))?.state == .left, "an echo is no contradiction")
        back.incarnation = 1
        _ = machine.feed(.datagram(datagram(.ack, from: 3, [.alive(back)]), from: "c"))
        #expect(machine.member(SessionID(2))?.state == .alive)
        // The word of a former incarnation is old.
        _ = machine.feed(.datagram(datagram(.ack, from: 3, [word]), from: "c"))
        #expect(machine.member(SessionID(2))?.state == .alive)
        // The engine's table has the last word.
        _ = machine.feed(.table([row(3, "c")]))
        back.incarnation = 9
        _ = machine.feed(.datagram(datagram(.ack, from: 3, [.alive(back)]), from: "c"))
        #expect(machine.member(SessionID(2))?.state == .left)
    }

    /// A cut may last longer than nodes remember the dead. Both halves then find each other by the table.
    @Test("does not forget a node that stands in the engine's table")
    func tabled() {
        var options = Membership.Options()
        options.deadRetention = .seconds(1)
        options.syncInterval = .seconds(1)
        var machine = Membership(
            session: SessionID(1), name: "a", address: "a", info: [], seed: 1, options: options, now: now)
        _ = machine.feed(.table([row(2, "b")]))
        for step in UInt64(0)..<600 {
            _ = machine.feed(.woke, at: now.advanced(by: .milliseconds(step * 50)))
        }
        #expect(machine.member(SessionID(2))?.state == .dead)
        _ = machine.feed(.table([]), at: now.advanced(by: .seconds(30)))
        for step in UInt64(0)..<200 {
            _ = machine.feed(.woke, at: now.advanced(by: .seconds(30) + .milliseconds(step * 50)))
        }
        #expect(machine.members.isEmpty)
    }

    /// A death that a side of a cut reports in a comparison is a suspicion only: the accused node may
    /// contradict.
    @Test("buries nobody for a death that a comparison reports, but suspects the node")
    func aComparisonBuriesNobody() {
        var machine = node(1, "a")
        _ = machine.feed(.table([row(2, "b"), row(3, "c")]))
        let claim = [Update.dead(SessionID(3), 5, by: SessionID(2))]
        _ = machine.feed(.stream(packet(.syncAnswer, from: 2, claim)))
        #expect(machine.member(SessionID(3))?.state == .suspect)
        _ = machine.feed(.datagram(datagram(.ack, from: 2, claim), from: "b"))
        #expect(machine.member(SessionID(3))?.state == .dead)
    }

    /// A node that has slept must suspect nobody for packets that did not come meanwhile.
    @Test("blames nobody after it has slept")
    func whoSleptBlamesNobody() {
        var machine = node(1, "a")
        _ = machine.feed(.table([row(2, "b"), row(3, "c"), row(4, "d")]))
        _ = machine.feed(.woke)
        let later = now.advanced(by: .seconds(60))
        let effects = machine.feed(.woke, at: later)
        #expect(!effects.contains { if case .changed = $0 { true } else { false } })
        #expect(!effects.contains { if case .isolated = $0 { true } else { false } })
        #expect(machine.localHealth == 1)
    }

    @Test("tells first the news that it has told least")
    func theLeastToldNewsGoFirst() {
        var news = News()
        for key in 0..<100 {
            let entry = Membership.GossipEntry(key: UInt32(key), version: 1, value: 0)
            news.put(.entry(UInt32(key)), Update.entry(entry).encoded)
        }
        var told: [Int] = []
        for _ in 0..<5 {
            var out = ByteWriter()
            news.tell(into: &out, bytesMax: 20 * 22, retransmitLimit: 2)
            told.append(out.bytes.count / 22)
        }
        // 100 news, 20 in each packet: the node tells each of them once before it tells any twice.
        #expect(told == [20, 20, 20, 20, 20])
        #expect(news.count == 100)
        for _ in 0..<5 {
            var out = ByteWriter()
            news.tell(into: &out, bytesMax: 20 * 22, retransmitLimit: 2)
        }
        #expect(news.isEmpty)
    }

    /// Half a minute of a cluster under loss runs the same twice from one seed.
    @Test("runs the same twice from one seed")
    func aSeedReplaysExactly() {
        func run() -> [String] {
            let world = GossipWorld(seed: 7)
            world.network.lost = 300
            for number in 0..<20 { world.start("n\(number)", seeds: ["n0"]) }
            world.run(for: .seconds(30))
            return world.changes.map { "\($0.time.nanoseconds) \($0.observer) \($0.subject) \($0.state)" }
                + (0..<20).map { "\(world.traffic($0).datagrams) \(world.traffic($0).datagramBytes)" }
        }
        #expect(run() == run())
    }
}

@Suite("Packets of membership") struct PacketTests {
    private static let member = Membership.Member(
        session: SessionID(7), name: "shard-7", address: "10.0.0.7:7946", info: [1, 2, 3], incarnation: 4,
        state: .alive, since: now)
    private static let updates: [Update] = [
        .alive(member), .suspect(SessionID(7), 4, by: SessionID(1)), .dead(SessionID(7), 4, by: SessionID(1)),
        .left(SessionID(7), 4), .entry(Membership.GossipEntry(key: 1, version: 2, value: 3)),
    ]
    private static let kinds: [Packet.Kind] = [
        .ping(SessionID(1)), .ack, .nack, .indirect(SessionID(1), address: "a"), .sync, .syncAnswer,
    ]

    private func malformed(_ effects: [Membership.Effect]) -> Bool {
        effects.contains { if case .malformed = $0 { true } else { false } }
    }

    /// The machine refuses or reads each packet, wherever it is cut, and goes on.
    @Test("harm nobody where they are cut", arguments: 0..<6)
    func cutPacketsHarmNobody(_ kind: Int) {
        let whole = datagram(PacketTests.kinds[kind], from: 2, PacketTests.updates)
        let told = packet(PacketTests.kinds[kind], from: 2, PacketTests.updates)
        var machine = node(1, "a")
        for count in 0..<whole.count {
            _ = machine.feed(.datagram(Array(whole[..<count]), from: "x"))
            _ = machine.feed(.stream(Array(told.prefix(count))))
        }
        #expect(malformed(machine.feed(.datagram(Array(whole[..<5]), from: "x"))))
        _ = machine.feed(.datagram(whole, from: "x"))
        let effects = machine.feed(.datagram(datagram(.ping(SessionID(1)), from: 2), from: "b"))
        #expect(effects.contains { if case .datagram(_, to: "b") = $0 { true } else { false } })
    }

    @Test("harm nobody where bits are flipped")
    func flippedBitsHarmNobody() {
        var random = SeededGenerator(seed: 3)
        var machine = node(1, "a")
        for _ in 0..<20_000 {
            var bytes = datagram(
                PacketTests.kinds.randomElement(using: &random) ?? .ack, from: 2, PacketTests.updates)
            for _ in 0..<Int.random(in: 1...4, using: &random) {
                bytes[Int.random(in: bytes.indices, using: &random)] ^=
                    1 << UInt8.random(in: 0..<8, using: &random)
            }
            _ = machine.feed(.datagram(bytes, from: "x"))
            _ = machine.feed(.stream(bytes))
        }
        #expect(machine.members.count <= machine.options.membersMax)
        let answer = machine.feed(.datagram(datagram(.ping(SessionID(1)), from: 1 << 62), from: "b"))
        #expect(answer.contains { if case .datagram(_, to: "b") = $0 { true } else { false } })
    }

    /// The machine passes over news of a later version, and reads the news behind them.
    @Test("may hold unknown news: the machine reads the news behind them")
    func unknownNewsArePassedOver() {
        var out = ByteWriter()
        out.raw(datagram(.ack, from: 2))
        out.u8(200)
        out.string([1, 2, 3, 4])
        out.raw(PacketTests.updates[0].encoded)
        var machine = node(1, "a")
        let effects = machine.feed(.datagram(out.bytes, from: "b"))
        #expect(!malformed(effects))
        #expect(machine.member(SessionID(7))?.name == "shard-7")
    }

    @Test("stay within their bound, however many members there are")
    func packetsHaveTheirBound() {
        var machine = node(1, "a")
        for number in 2..<400 { _ = machine.feed(.table([row(UInt64(number), "node-\(number)")])) }
        for step in 0..<200 {
            let effects = machine.feed(.woke, at: now.advanced(by: .milliseconds(UInt64(step) * 50)))
            for case .datagram(let bytes, _) in effects { #expect(bytes.count <= Membership.packetBytesMax) }
        }
    }

    @Test("add no members past the bound")
    func tooMany() {
        var options = Membership.Options()
        options.membersMax = 10
        var machine = Membership(
            session: SessionID(1), name: "a", address: "a", info: [], seed: 1, options: options, now: now)
        _ = machine.feed(.table((2..<100).map { row(UInt64($0), "n\($0)") }))
        #expect(machine.members.count == 10)
    }
}
