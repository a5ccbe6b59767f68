import Bytes
import Model
import Simulator
import Testing

@testable import Membership

private let now = MonotonicTime(nanoseconds: 1_000_000_000)

/// A sender whose datagrams the test makes.
private struct Speaker {
    var session: UInt64
    var number: UInt64 = 0

    mutating func datagram(
        _ kind: Packet.Kind, for target: UInt64, number: UInt64? = nil, _ updates: [Update] = []
    ) -> [UInt8] {
        self.number = number ?? self.number + 1
        var out = Packet.begin(kind, from: SessionID(session), number: 77)
        DatagramMark(target: SessionID(target), number: self.number).encode(into: &out)
        for update in updates { out.raw(update.encoded) }
        return out.bytes
    }
}

private func node(_ session: UInt64, _ name: String, _ options: Membership.Options = .init()) -> Membership {
    Membership(
        session: SessionID(session), name: name, address: name, info: [1], seed: session, options: options,
        now: now)
}

private func row(_ session: UInt64, _ name: String) -> Membership.Row {
    Membership.Row(session: SessionID(session), name: name, address: name, info: [])
}

private func entry(_ key: UInt32) -> Update { .entry(Membership.GossipEntry(key: key, version: 1, value: 1)) }

private func alive(_ session: UInt64, _ name: String) -> Update {
    .alive(
        Membership.Member(
            session: SessionID(session), name: name, address: name, info: [], incarnation: 1, state: .alive,
            since: now))
}

extension Membership {
    fileprivate mutating func feed(_ event: Event) -> [Effect] {
        var effects: [Effect] = []
        handle(event, now: now, into: &effects)
        return effects
    }

    /// Why the machine refused the datagram; `nil` where the machine took it.
    fileprivate mutating func refusal(of datagram: [UInt8]) -> String? {
        for case .refused(let reason) in feed(.datagram(datagram, from: "x")) { return reason }
        return nil
    }
}

private typealias Refusal = ReplayGuard.Refusal

@Suite("Gossip that comes again") struct ReplayTests {
    @Test("is believed once, and not answered again")
    func aDatagramIsBelievedOnce() {
        var machine = node(1, "a")
        var other = Speaker(session: 2)
        let first = other.datagram(.ping(SessionID(1)), for: 1, [alive(3, "c")])
        let effects = machine.feed(.datagram(first, from: "b"))
        #expect(effects.contains { if case .datagram(_, to: "b") = $0 { true } else { false } })
        #expect(machine.member(SessionID(3)) != nil)
        let again = machine.feed(.datagram(first, from: "somewhere else"))
        // The machine does not answer the repeat either.
        #expect(!again.contains { if case .datagram = $0 { true } else { false } })
        #expect(again.contains { if case .refused = $0 { true } else { false } })
        #expect(machine.refusal(of: other.datagram(.ack, for: 1)) == nil)
    }

    /// A datagram that comes again must not make a silent node look alive.
    @Test("is no sign of life")
    func aRepetitionIsNoSignOfLife() {
        var machine = node(1, "a")
        var other = Speaker(session: 2)
        let datagram = other.datagram(.ack, for: 1)
        _ = machine.feed(.datagram(datagram, from: "b"))
        var later: [Membership.Effect] = []
        for second in 1...4 {
            let time = now.advanced(by: .seconds(UInt64(second)))
            machine.handle(.datagram(datagram, from: "b"), now: time, into: &later)
        }
        #expect(machine.lastHeard == now)
    }

    @Test("may come in another order within the window")
    func outOfOrder() {
        var window = ReplayGuard.Window()
        let numbers: [UInt64] = [5, 3, 4, 600, 200, 599, 1]
        let taken = numbers.map { window.accept($0) }
        #expect(taken == [true, true, true, true, true, true, false])
        #expect(numbers.allSatisfy { !window.accept($0) })
        #expect(window.highest == 600)
    }

    /// Compares the window with a set of all numbers that came, in a random order.
    @Test("is known by a window that forgets nothing within its width", arguments: 1...20)
    func twin(_ seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        var window = ReplayGuard.Window()
        var came: Set<UInt64> = []
        var top: UInt64 = 1
        for _ in 0..<4000 {
            top += random.next(upperBound: UInt64(random.next(upperBound: UInt64(50)) == 0 ? 2000 : 3))
            let back = random.next(upperBound: UInt64(900))
            let number = max(1, top > back ? top - back : 1)
            let isTaken = window.accept(number)
            if isTaken { #expect(came.insert(number).inserted, "\(number) was taken twice") }
            // The window knows exactly each number that is less than seven words behind.
            if !isTaken, window.highest - number < 448 { #expect(came.contains(number), "\(number)") }
        }
    }

    @Test("does not break the window at the last of all numbers")
    func lastNumber() {
        var window = ReplayGuard.Window()
        let numbers: [UInt64] = [.max, .max, 1, .max - 1]
        let ends = numbers.map { window.accept($0) }
        #expect(ends == [true, false, false, true])
    }

    @Test("is refused where it is for a former session of the node")
    func misdirected() {
        var machine = node(5, "a")
        var other = Speaker(session: 2)
        let old = other.datagram(.ping(SessionID(4)), for: 4, [entry(7)])
        #expect(machine.refusal(of: old) == Refusal.misdirected.rawValue)
        #expect(machine.entry(7) == nil)
    }

    /// A process answers the question for its session, and does not believe other news in the question: they
    /// may be older than this process.
    @Test("is answered and not believed where it asks for the node's session")
    func asked() throws {
        var machine = node(5, "a")
        var other = Speaker(session: 2)
        let question = other.datagram(.ping(SessionID(0)), for: 0, [alive(2, "b"), entry(7)])
        let effects = machine.feed(.datagram(question, from: "b"))
        #expect(machine.entry(7) == nil && machine.members.isEmpty)
        let answer = try #require(
            effects.compactMap { if case .datagram(let bytes, to: "b") = $0 { bytes } else { nil } }.first)
        // The asking node learns the session from the answer, and goes on from there.
        var asker = node(2, "b")
        _ = asker.feed(.datagram(answer, from: "a"))
        #expect(asker.member(SessionID(5))?.name == "a")
        #expect(machine.refusal(of: question) == Refusal.repeated.rawValue)
    }

    @Test("from a former session is not heard once a later session has spoken")
    func laterLife() {
        var machine = node(1, "a")
        var former = Speaker(session: 2)
        var later = Speaker(session: 3)
        #expect(machine.refusal(of: former.datagram(.ack, for: 1, number: 900, [alive(2, "b")])) == nil)
        #expect(machine.refusal(of: later.datagram(.ack, for: 1, [alive(3, "b")])) == nil)
        #expect(machine.member(SessionID(2)) == nil)
        let held = former.datagram(.ack, for: 1, number: 901, [entry(7)])
        #expect(machine.refusal(of: held) == Refusal.replaced.rawValue)
        #expect(machine.entry(7) == nil)
        #expect(machine.refusal(of: later.datagram(.ack, for: 1, [entry(7)])) == nil)
        #expect(machine.entry(7) != nil)
    }

    @Test("is refused although the memory of senders is bounded")
    func senders() {
        var guarding = ReplayGuard(sendersMax: 8)
        let kept: Set<UInt64> = [1, 2]
        for session in 1...100 as ClosedRange<UInt64> {
            let mark = DatagramMark(target: SessionID(9), number: 1)
            let verdict = guarding.judge(
                mark, from: SessionID(session), to: SessionID(9),
                isKept: { kept.contains($0.rawValue) })
            #expect(verdict == .taken)
            #expect(guarding.senderCount <= 8)
        }
        // The guard believes no sender again that it has forgotten.
        for session in 1...100 as ClosedRange<UInt64> {
            let mark = DatagramMark(target: SessionID(9), number: 1)
            let verdict = guarding.judge(
                mark, from: SessionID(session), to: SessionID(9),
                isKept: { kept.contains($0.rawValue) })
            #expect(verdict == .refused(.repeated))
        }
        #expect(guarding.brokenInvariant == nil)
    }

    @Test("is refused where its mark makes no sense")
    func marks() {
        func isMalformed(_ mark: DatagramMark, _ count: Int = 16) -> Bool {
            var bytes = ByteWriter()
            mark.encode(into: &bytes)
            var machine = node(1, "a")
            var out = Packet.begin(.ack, from: SessionID(2), number: 1)
            out.raw(Array(bytes.bytes[..<count]))
            let effects = machine.feed(.datagram(out.bytes, from: "b"))
            return effects.contains { if case .malformed = $0 { true } else { false } }
        }
        let good = DatagramMark(target: SessionID(1), number: 2)
        for count in 0..<16 { #expect(isMalformed(good, count), "\(count)") }
        #expect(!isMalformed(good) && isMalformed(DatagramMark(target: SessionID(1), number: 0)))
    }

    /// Ten nodes, one of which dies and begins again, while the network sends old datagrams again from
    /// elsewhere.
    @Test(
        "is never believed twice in a cluster, and a checker sees it where it is", arguments: [false, true])
    func nothingIsBelievedTwice(_ isPlanted: Bool) {
        var options = Membership.Options()
        #if DEBUG
            options.plantedAcceptReplays = isPlanted
        #else
            guard !isPlanted else { return }
        #endif
        let world = GossipWorld(seed: 3, options: options)
        (world.network.lost, world.network.doubled, world.network.replayed) = (50, 50, 500)
        for number in 0..<10 { world.start("n\(number)", seeds: ["n0"]) }
        world.run(for: .seconds(20))
        world.kill(4)
        world.run(for: .seconds(3))
        world.start("n4", seeds: ["n0"])
        world.run(for: .seconds(20))
        #expect(isPlanted ? world.takenTwice > 0 : world.takenTwice == 0)
        guard !isPlanted else { return }
        #expect(world.refused > 1000)
        for node in 0..<10 {
            #expect(world.view(node).count { $0.state == .alive } == 9, "\(world.name(node))")
        }
    }
}
