import Model
import Quotas
import Testing

@testable import Partitions
@testable import Routing

/// Breaks each invariant of a router and of a gateway's streams, in machines at work.
@Suite("The invariants of a gateway")
struct GatewayInvariantTests {
    private static let now = Instant(
        monotonic: MonotonicTime(nanoseconds: 1_000_000_000), wall: WallTime(milliseconds: 1))

    /// A router in a cluster. A registration waits for its quota, one request is with an owner, and one
    /// request waits for an owner.
    private func router() throws -> Router {
        var options = Router.Options(partitionCount: 8, gateway: GatewayID(2), session: 9)
        options.isClustered = true
        let router = Router(
            options: options, admission: Admission(SpenderID(1)), random: SeededGenerator(seed: 1))
        var effects: [RouterEffect] = []
        router.submit(
            .register(project: ProjectNumber(3)), ticket: 1, now: GatewayInvariantTests.now, into: &effects)
        for (ticket, topic) in ["a", "b"].enumerated() {
            let name = try #require(TopicName(topic))
            router.submit(
                .topic(project: ProjectNumber(3), name), ticket: UInt64(ticket) + 2,
                now: GatewayInvariantTests.now,
                into: &effects)
        }
        let first = effects.lazy.compactMap { effect -> RequestID? in
            if case .ask(_, let id, _, _) = effect { id } else { nil }
        }.first
        let number = try #require(first).number
        router.replied(number, .refused(.moved), now: GatewayInvariantTests.now, into: &effects)
        #expect(router.pending.count == 2 && router.waitingRequests.count == 1 && router.lines.count == 1)
        #expect(router.brokenInvariant(isWhole: true) == nil)
        return router
    }

    private func isSeen(
        _ invariant: String, sourceLocation: SourceLocation = #_sourceLocation,
        _ change: (Router) throws -> Void
    ) throws {
        let router = try router()
        try change(router)
        let broken = router.brokenInvariant(isWhole: true)
        #expect(broken == invariant, sourceLocation: sourceLocation)
    }

    @Test("of its router are seen to be broken")
    func routing() throws {
        func asked(_ router: Router) throws -> UInt64 {
            try #require(
                router.pending.numbers(upTo: .max).first { !(router.pending[$0]?.isWaiting ?? true) })
        }
        try isSeen("requests have no deadline") { $0.deadlines = [] }
        try isSeen("a request has no deadline") { $0.deadlines[$0.deadlines.count - 1].upTo = 0 }
        try isSeen("deadlines are out of order") { $0.deadlines += $0.deadlines }
        try isSeen("nobody is woken to ask again") { router in
            router.waitingRequests = [:]
            router.retryAt = nil
        }
        try isSeen("nobody is woken to ask partition 7 again") {
            $0.retryAt = MonotonicTime.max
        }
        try isSeen("nothing is asked of partition 7 again") { router in
            for partition in router.waitingRequests.keys { router.waitingRequests[partition]?.due = nil }
        }
        try isSeen("a request waits, and nobody asks it again") { router in
            let number = try asked(router)
            router.pending[number]?.phase = .waiting
        }
        try isSeen("a request waits, and nobody asks it again") { $0.waitingRequests = [:] }
        try isSeen("requests under way are counted wrongly") { $0.pending.count += 1 }
        try isSeen("more requests are under way than may be") { $0.pending.count = .max }
        try isSeen("a send has a number that was not given") { router in
            let number = try asked(router)
            let message = Envelope(
                id: MessageID(time: 1, random: 1), event: [], sent: GatewayInvariantTests.now.wall,
                ttlSeconds: 1)
            router.pending[number]?.request = .sendToTopic(
                RequestKey(session: 9, number: 5), project: ProjectNumber(3),
                TopicName(checked: Array("a".utf8)), message, fanoutsMax: 1)
        }
        try isSeen("a change waits for other parts than are under way") { router in
            let number = router.pending.add(Router.SplitChange(ticket: 9, outcomes: [], partsLeft: 1))
            router.deadlines[router.deadlines.count - 1].upTo = number
        }
        try isSeen("operations wait for quota, and nobody wakes them") { router in
            let key = LineKey(project: ProjectNumber(4), kind: .sends)
            router.lines[key] = router.lines.values.first
        }
        try isSeen("more operations wait than may") { router in
            for (key, line) in router.lines {
                router.lines[key]?.operations = Array(
                    repeating: line.operations[0], count: RouterBounds().quotaWaitersMax + 1)
            }
        }
        try isSeen("nobody is woken at the next deadline") { $0.wakeAt = nil }
        try isSeen("a request still waits in the queue of a partition that refuses") { router in
            for partition in router.waitingRequests.keys {
                router.waitingRequests[partition]?.service = .refusing(.moved)
                router.waitingRequests[partition]?.add(1, isRepeated: false)
            }
        }
        try isSeen("a request is not found by its number") { $0.pending.slots[0].number += 1 }
        try isSeen("a request's slot is free") { router in
            router.pending.remove(router.pending.slots[0].number)
            router.pending.free = [1]
        }
        try isSeen("something that the spender wants is left") { router in
            router.admission.effects = [.wake(at: MonotonicTime.zero)]
        }
    }

    /// One live stream.
    private func streams() -> GatewayStreams {
        var streams = GatewayStreams(gateway: GatewayID(256), histories: [History(7)], outlivesOwners: true)
        let registration = Registration(
            project: ProjectNumber(1), partition: PartitionID(0), index: DeviceIndex(3), nonce: 1, key: 0)
        _ = streams.attach(registration, by: .backend, resume: nil)
        let id = StreamID(gateway: GatewayID(256), number: 1)
        var commands: [StreamCommand] = []
        let push = StreamFrame.Push(epoch: Epoch(1), number: 1, items: [])
        for frame: StreamFrame in [
            .attached(id, DeviceIndex(3), Epoch(1), from: .zero), .push(push),
            .events(id, DeviceIndex(3), Epoch(1), after: .zero, deleted: nil, []),
        ] {
            streams.receive(
                frame, from: PartitionID(0), sink: CountingSink(), refusal: { _ in .unregistered },
                commands: &commands)
        }
        #expect(streams.brokenInvariant(isWhole: true) == nil)
        return streams
    }

    @Test("of its streams are seen to be broken")
    func streamInvariants() {
        func isSeen(_ invariant: String, _ change: (inout GatewayStreams) -> Void) {
            var streams = streams()
            change(&streams)
            let broken = streams.brokenInvariant(isWhole: true)
            #expect(broken == invariant)
        }
        isSeen("not every stream has its listener, or a listener has no stream") { $0.listeners = [:] }
        isSeen("stream 1 would not outlive an owner") { streams in
            streams.listeners[9] = streams.listeners.removeValue(forKey: 1)
        }
        isSeen("pushes find stream 1, which is gone") { streams in
            streams.streams = [:]
            streams.listeners = [:]
            streams.members = [:]
        }
        isSeen("pushes find stream 1, which is behind") { $0.streams[1]?.pace = .full }
        isSeen("pushes for another device find stream 1") { $0.streams[1]?.device = DeviceIndex(4) }
        isSeen("a stream that is gone waits to open") { $0.unopened = [2] }
        isSeen("frames of partition 0 come without a known epoch") { $0.epochs = [:] }
        isSeen("stream 9 has a number that was not given") { streams in
            streams.streams[9] = streams.streams.removeValue(forKey: 1)
            streams.listeners[9] = streams.listeners.removeValue(forKey: 1)
            streams.members[PartitionID(0)] = [9]
        }
        isSeen("partitions have other streams than there are") { $0.members = [:] }
        isSeen("stream 1 is not its partition's") { $0.members[PartitionID(0)] = [2] }
    }
}
