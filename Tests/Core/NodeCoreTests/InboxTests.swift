import Model
import Routing
import Testing

@testable import NodeCore
@testable import Partitions

/// The messages that wait for a loop are bounded, and each bound has a behaviour.
@Suite("What waits for a loop") struct InboxTests {
    private let bound = Backlog.Bound(entries: 4, bytes: 10_000)
    private let other = LoopHarness.otherProcess
    private let third = ProcessID(LoopHarness.otherProcess.rawValue + 1)

    private func frames(_ count: Int) -> [LoopMessage] {
        (0..<count).map { .peerStream(processID: other, from: PartitionID(1), event(UInt64($0))) }
    }

    private func event(_ number: UInt64, bytes: Int = 10) -> StreamFrame {
        let id = StreamID(gateway: GatewayID(processID: LoopHarness.ownProcess, loop: 0), number: number)
        let body = StreamFrame.Event(position: Position(1), event: [UInt8](repeating: 0, count: bytes))
        return .events(id, DeviceIndex(1), Epoch(1), after: .zero, deleted: nil, [body])
    }

    @Test("fills at first, presses at half of its bound, and is full at the whole of it")
    func pressure() {
        var inbox = LoopInbox(bound)
        var seen: [Pressure] = []
        for message in frames(4) {
            inbox.post(message)
            seen.append(inbox.pressure)
        }
        #expect(seen == [.filling, .behind, .behind, .full])
        let taken = inbox.drain()
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
        for (count, processID) in [(5, other), (3, other), (1, other), (1, third)] {
            isTaken.append(inbox.post(frames(count), from: processID))
        }
        #expect(isTaken == [true, false, false, false])
        let taken = inbox.drain()
        let resets = taken.compactMap { if case .linkReset(let processID) = $0 { processID } else { nil } }
        #expect(taken.count == 7 && resets == [other, third], "one for each process, behind what came")
        let later = inbox.post(frames(1), from: other)
        let next = inbox.drain()
        #expect(later && next.count == 1, "what comes now finds room")
    }

    @Test("of the node itself is taken however much there is: somebody waits for it")
    func own() {
        var inbox = LoopInbox(bound)
        inbox.post(frames(9))
        inbox.post(.engine(.closed(PartitionID(1))))
        inbox.post(.order(.release(PartitionID(1))))
        let taken = inbox.drain()
        #expect(taken.count == 11)
    }
}

/// A loop while another loop, or another process, does not take its messages.
@Suite("A loop whose neighbour is behind") struct PressureTests {
    private func registration(_ partition: UInt16) -> Registration {
        Registration(
            project: LoopHarness.project, partition: PartitionID(partition), index: DeviceIndex(1), nonce: 1,
            key: 0)
    }

    private func ask(_ harness: LoopHarness, _ partition: UInt16) -> [LoopEffect] {
        harness.core.submit(
            .subscriptions(of: registration(partition), by: .backend), ticket: 1, now: harness.now)
        return harness.turn()
    }

    @Test("refuses requests for it before anything has happened, and takes those for others")
    func refusing() {
        let harness = LoopHarness(isClustered: false, loopCount: 2)
        #expect(ask(harness, 1).posts == [1])
        harness.core.takeMessages(for: 1) { _ in }
        harness.host.pressure = .behind
        let refused = ask(harness, 1)
        guard case .refused(.unavailable)? = refused.outcome, refused.posts.isEmpty, refused.isCounted else {
            Issue.record("\(refused)")
            return
        }
        guard case .refused(.unavailable(let why))? = ask(harness, 0).outcome else {
            Issue.record("the loop's own partition answers, be it that it is not read yet")
            return
        }
        #expect(why.contains("journal"))
        harness.host.pressure = .none
        #expect(ask(harness, 1).posts == [1])
    }

    @Test("refuses requests for another process that does not take its frames")
    func peer() {
        let harness = LoopHarness()
        harness.serve()
        #expect(ask(harness, 1).said.count == 1)
        harness.host.pressure = .behind
        let refused = ask(harness, 1)
        guard case .refused(.unavailable)? = refused.outcome, refused.said.isEmpty else {
            Issue.record("\(refused)")
            return
        }
    }

    @Test("refuses streams for it")
    func streams() {
        let harness = LoopHarness()
        harness.serve()
        harness.host.pressure = .behind
        let stream = harness.core.attach(registration(1), by: .backend, resume: nil, now: harness.now)
        #expect(
            harness.turn().said.isEmpty && harness.host.refused == [stream] && harness.core.streams.count == 0
        )
        harness.host.pressure = .none
        _ = harness.core.attach(registration(1), by: .backend, resume: nil, now: harness.now)
        #expect(harness.turn().said.count == 1)
    }

    @Test("leaves out what is said again anyway only where it is full, and never an answer")
    func leavingOut() {
        let harness = LoopHarness(isClustered: false, loopCount: 2)
        let repeated = LoopMessage.partition(
            PartitionID(1),
            .offered(
                OutboxFrame(
                    from: PartitionID(0), history: History(1), clock: WallTime(milliseconds: 0), entries: []))
        )
        let gateway = GatewayID(processID: 0, loop: 1)
        let answer = LoopMessage.reply(RequestID(gateway: gateway, number: 1), .done)
        var sent: [Int] = []
        for pressure in [Pressure.none, .behind, .full] {
            harness.host.pressure = pressure
            harness.core.post(repeated, toLoop: 1)
            harness.core.post(answer, toLoop: 1)
            harness.turn()
            harness.core.takeMessages(for: 1) { sent.append($0.count) }
        }
        #expect(sent == [2, 2, 1])
    }

    /// A peer names the loops of its gateways and spenders, and may name a loop that is not there.
    @Test("leaves out what is for a loop that the node does not have")
    func noSuchLoop() {
        let harness = LoopHarness(isClustered: false, loopCount: 2)
        let repeated = LoopMessage.partition(
            PartitionID(1),
            .offered(
                OutboxFrame(
                    from: PartitionID(0), history: History(1), clock: WallTime(milliseconds: 0), entries: []))
        )
        for loop in 2...200 { harness.core.post(repeated, toLoop: loop) }
        #expect(harness.turn().isEmpty)
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
