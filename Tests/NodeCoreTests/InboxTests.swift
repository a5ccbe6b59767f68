import Model
import Quotas
import Routing
import Testing

@testable import NodeCore
@testable import Partitions

/// The messages that wait for a loop are bounded, and each bound has a behaviour.
@Suite("What waits for a loop") struct InboxTests {
    private let bound = Backlog.Bound(entries: 4, bytes: 10_000)
    private let other = LoopDesk.otherLife

    private func frames(_ count: Int) -> [LoopMessage] {
        (0..<count).map { .peerStream(life: other, from: PartitionID(1), event(UInt64($0))) }
    }

    private func event(_ number: UInt64, bytes: Int = 10) -> StreamFrame {
        let id = StreamID(gateway: GatewayID(life: LoopDesk.ownLife, loop: 0), number: number)
        let body = StreamFrame.Event(position: Position(1), event: [UInt8](repeating: 0, count: bytes))
        return .events(id, DeviceIndex(1), Epoch(1), after: .zero, deleted: nil, [body])
    }

    @Test("presses at half of its bound, and is full at the whole of it")
    func pressure() {
        var inbox = LoopInbox(bound)
        var seen: [Pressure] = []
        for message in frames(4) {
            inbox.post(message)
            seen.append(inbox.pressure)
        }
        #expect(seen == [.none, .behind, .behind, .full])
        let taken = inbox.take()
        #expect(taken.count == 4 && inbox.pressure == .none)
        inbox.post(.stream(from: PartitionID(1), event(1, bytes: 9900)))
        #expect(inbox.pressure == .full, "one long message fills it as well")
    }

    /// A full inbox acts as a broken connection: the loop asks again, and tells the process that frames were
    /// lost.
    @Test("of another process is left out when it is full, and in its place the loop hears of a broken link")
    func cutOff() {
        var inbox = LoopInbox(bound)
        var isTaken: [Bool] = []
        // The inbox takes a frame whole.
        for (count, life) in [(5, other), (3, other), (1, other), (1, other + 1)] {
            isTaken.append(inbox.post(frames(count), from: life))
        }
        #expect(isTaken == [true, false, false, false])
        let taken = inbox.take()
        let resets = taken.compactMap { if case .linkReset(let life) = $0 { life } else { nil } }
        #expect(taken.count == 7 && resets == [other, other + 1], "one for each process, behind what came")
        let later = inbox.post(frames(1), from: other)
        let next = inbox.take()
        #expect(later && next.count == 1, "what comes now finds room")
    }

    @Test("of the node itself is taken however much there is: somebody waits for it")
    func own() {
        var inbox = LoopInbox(bound)
        inbox.post(frames(9))
        inbox.post(.engine(.closed(PartitionID(1))))
        inbox.post(.order(.release(PartitionID(1))))
        let taken = inbox.take()
        #expect(taken.count == 11)
    }
}

/// A loop while another loop, or another process, does not take its messages.
@Suite("A loop whose neighbour is behind") struct PressureTests {
    private func registration(_ partition: UInt16) -> Registration {
        Registration(
            project: LoopDesk.project, partition: PartitionID(partition), index: DeviceIndex(1), nonce: 1,
            key: 0)
    }

    private func ask(_ desk: LoopDesk, _ partition: UInt16) -> [LoopEffect] {
        desk.core.submit(.subscriptions(of: registration(partition), by: .backend), ticket: 1, now: desk.now)
        return desk.turn()
    }

    @Test("refuses requests for it before anything has happened, and takes those for others")
    func refusing() {
        let desk = LoopDesk(isClustered: false, loopCount: 2)
        #expect(ask(desk, 1).posts == [1])
        desk.core.takeMessages(for: 1) { _ in }
        desk.host.pressure = .behind
        let refused = ask(desk, 1)
        guard case .refused(.unavailable)? = refused.outcome, refused.posts.isEmpty, refused.isCounted else {
            Issue.record("\(refused)")
            return
        }
        guard case .refused(.unavailable(let why))? = ask(desk, 0).outcome else {
            Issue.record("the loop's own partition answers, be it that it is not read yet")
            return
        }
        #expect(why.contains("journal"))
        desk.host.pressure = .none
        #expect(ask(desk, 1).posts == [1])
    }

    @Test("refuses requests for another process that does not take its frames")
    func peer() {
        let desk = LoopDesk()
        desk.serve()
        #expect(ask(desk, 1).said.count == 1)
        desk.host.pressure = .behind
        let refused = ask(desk, 1)
        guard case .refused(.unavailable)? = refused.outcome, refused.said.isEmpty else {
            Issue.record("\(refused)")
            return
        }
    }

    @Test("refuses streams for it")
    func streams() {
        let desk = LoopDesk()
        desk.serve()
        desk.host.pressure = .behind
        let stream = desk.core.attach(registration(1), by: .backend, resume: nil)
        #expect(desk.turn().said.isEmpty && desk.host.refused == [stream] && desk.core.streams.count == 0)
        desk.host.pressure = .none
        _ = desk.core.attach(registration(1), by: .backend, resume: nil)
        #expect(desk.turn().said.count == 1)
    }

    @Test("leaves out what is said again anyway only where it is full, and never an answer")
    func leavingOut() {
        let desk = LoopDesk(isClustered: false, loopCount: 2)
        let repeated = LoopMessage.partition(
            PartitionID(1), .offered(OutboxFrame(from: PartitionID(0), history: History(1), entries: [])))
        let gateway = GatewayID(life: 0, loop: 1)
        let answer = LoopMessage.reply(RequestID(gateway: gateway, number: 1), .done)
        var sent: [Int] = []
        for pressure in [Pressure.none, .behind, .full] {
            desk.host.pressure = pressure
            desk.core.send(repeated, toLoop: 1)
            desk.core.send(answer, toLoop: 1)
            desk.turn()
            desk.core.takeMessages(for: 1) { sent.append($0.count) }
        }
        #expect(sent == [2, 2, 1])
    }

    /// A peer names the loops of its gateways and spenders, and may name a loop that is not there.
    @Test("leaves out what is for a loop that the node does not have")
    func noSuchLoop() {
        let desk = LoopDesk(isClustered: false, loopCount: 2)
        let repeated = LoopMessage.partition(
            PartitionID(1), .offered(OutboxFrame(from: PartitionID(0), history: History(1), entries: [])))
        for loop in 2...200 { desk.core.send(repeated, toLoop: loop) }
        #expect(desk.turn().isEmpty)
    }
}

extension [LoopEffect] {
    fileprivate var posts: [Int] {
        compactMap { effect in if case .post(let loop) = effect { loop } else { nil } }
    }
    fileprivate var outcome: Outcome? {
        for case .finish(_, let outcome) in self { return outcome }
        return nil
    }
    fileprivate var isCounted: Bool {
        contains { if case .noted(.refusedBehind) = $0 { true } else { false } }
    }
}
