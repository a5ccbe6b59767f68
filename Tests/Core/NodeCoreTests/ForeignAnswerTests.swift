import Bytes
import Model
import Ownership
import Placement
import Routing
import Testing

@testable import NodeCore
@testable import Partitions
@testable import Quotas

/// What a partition believes of other processes (rule: owners-acknowledge).
@Suite("A partition believes an acknowledgement") struct ForeignAnswerTests {
    private static let stranger: ProcessID = 9

    /// A device of the harness's partition subscribes to a topic whose partition another process owns. The
    /// answer waits for that partition's acknowledgement.
    private struct Waiting {
        let harness: LoopHarness
        /// The topic's partition.
        let receiver: PartitionID
        let frame: OutboxFrame

        init(_ change: (inout LoopOptions) -> Void = { _ in }) throws {
            harness = LoopHarness(isClustered: true, change)
            harness.serve()
            let deadline = harness.host.monotonic.advanced(by: .seconds(600))
            let replies = Waiting.settle(harness, LoopHarness.registration(deadline: deadline))
            let registered = replies.lazy.compactMap { message -> (DeviceIndex, UInt32)? in
                guard case .reply(_, .registered(let index, let nonce, _)) = message else { return nil }
                return (index, nonce)
            }.first
            let (index, nonce) = try #require(registered)
            let names = (0..<100).map { TopicName(checked: Array("t\($0)".utf8)) }
            let topic = try #require(names.first { Waiting.home(of: $0) != LoopHarness.partition })
            receiver = Waiting.home(of: topic)
            let device = Registration(
                project: LoopHarness.project, partition: LoopHarness.partition, index: index, nonce: nonce,
                key: 0)
            let id = RequestID(gateway: GatewayID(processID: LoopHarness.otherProcess, loop: 0), number: 2)
            let said = Waiting.settle(
                harness,
                .request(
                    LoopHarness.partition, id,
                    .change(
                        .subscribe, project: LoopHarness.project, topic: topic, devices: [device],
                        by: .backend),
                    RequestGuard(epoch: Epoch(3), deadline: Deadline(deadline))))
            let offered = said.lazy.compactMap { message -> OutboxFrame? in
                if case .partition(_, .offered(let frame)) = message { frame } else { nil }
            }.first
            frame = try #require(offered)
        }

        private static func home(of topic: TopicName) -> PartitionID {
            Placement.partition(of: topic, in: LoopHarness.project, count: 4)
        }

        /// Runs turns until the journal has everything, and returns what was said to the other process.
        private static func settle(_ harness: LoopHarness, _ message: LoopMessage) -> [PeerMessage] {
            var effects = harness.turn(message)
            var said = effects.said
            while let row = effects.rows.first {
                effects = harness.turn(.partition(LoopHarness.partition, .appended(row.sequence)))
                said += effects.said
            }
            return said
        }

        /// The acknowledgement of everything that was offered.
        var acknowledgement: PartitionEvent {
            let last = frame.entries.last
            return .acknowledged(
                OutboxAcknowledgement(
                    from: receiver, history: frame.history, generation: frame.generation,
                    mark: last?.number ?? .zero, fingerprint: last?.fingerprint ?? 0))
        }

        /// A frame with the event comes from the process.
        func hear(_ event: PartitionEvent, from processID: ProcessID) -> [LoopEffect] {
            hear(.partition(LoopHarness.partition, event), from: processID)
        }

        func hear(_ message: PeerMessage, from processID: ProcessID) -> [LoopEffect] {
            var writer = ByteWriter()
            message.encode(into: &writer)
            let map = NodeMap(partitionCount: 4)
            let read = PeerFrame(writer.bytes, from: processID, after: harness.host.monotonic, map)
            var batch = LoopInbox.Batch(read.batches[0])
            harness.core.turn(&batch, now: harness.now)
            defer { harness.core.effects = [] }
            return harness.core.effects
        }

        /// Nobody owns the topic's partition any more, as this loop knows.
        func loseRoute() {
            let own = SessionID(UInt64(LoopHarness.ownProcess.rawValue))
            let nowhere = PartitionPlaces(
                Array(repeating: nil, count: 4), members: [], own: own)
            harness.turn(.order(.places(nowhere, away: [])))
        }
    }

    private let waiting: Waiting

    init() throws { waiting = try Waiting() }

    private func isAnswered(_ effects: [LoopEffect]) -> Bool {
        effects.replies.contains { if case .changes = $0 { true } else { false } }
    }
    private func refusals(_ effects: [LoopEffect]) -> Int {
        effects.count { if case .noted(.wordRefused) = $0 { true } else { false } }
    }

    @Test("of the process that owns the acknowledging partition")
    func owner() throws {
        let effects = waiting.hear(waiting.acknowledgement, from: LoopHarness.otherProcess)
        #expect(isAnswered(effects) && refusals(effects) == 0)
    }

    @Test("of no other process, counts it, and offers the entry again")
    func stranger() throws {
        let effects = waiting.hear(waiting.acknowledgement, from: ForeignAnswerTests.stranger)
        #expect(!isAnswered(effects) && effects.rows.isEmpty && refusals(effects) == 1)
        waiting.harness.pass(milliseconds: 1500)
        let woken = waiting.harness.turn(
            .timer(.partition(LoopHarness.partition, waiting.harness.now.monotonic)))
        let again = woken.said.contains { message in
            if case .partition(waiting.receiver, .offered(let frame)) = message {
                frame.entries.map(\.number) == waiting.frame.entries.map(\.number)
            } else {
                false
            }
        }
        #expect(again)
        #expect(isAnswered(waiting.hear(waiting.acknowledgement, from: LoopHarness.otherProcess)))
    }

    /// A late acknowledgement of a former owner costs a repeat.
    @Test("of a former owner no more than of a stranger")
    func former() throws {
        waiting.loseRoute()
        let effects = waiting.hear(waiting.acknowledgement, from: LoopHarness.otherProcess)
        #expect(!isAnswered(effects) && refusals(effects) == 1)
        waiting.harness.turn(
            .order(.places(LoopHarness.places(own: [LoopHarness.partition]), away: [])))
        #expect(isAnswered(waiting.hear(waiting.acknowledgement, from: LoopHarness.otherProcess)))
    }

    /// An outbox stands still only where its receiver has an owner (rule: outboxes-move).
    @Test("and knows which partitions have no owner")
    func unowned() throws {
        let partition = try #require(waiting.harness.core.partitions[LoopHarness.partition])
        #expect(partition.unowned.isEmpty)
        waiting.loseRoute()
        #expect(partition.unowned.contains(waiting.receiver))
        waiting.harness.turn(
            .order(.places(LoopHarness.places(own: [LoopHarness.partition]), away: [])))
        #expect(partition.unowned.isEmpty)
    }

    @Test("and likewise an answer about a condition")
    func conditions() throws {
        let told = PartitionEvent.told(
            ConditionAnswer(
                ticket: ConditionTicket(record: Sequence(9), ordinal: 0), partition: waiting.receiver,
                devices: DeviceSet()))
        #expect(refusals(waiting.hear(told, from: ForeignAnswerTests.stranger)) == 1)
        #expect(refusals(waiting.hear(told, from: LoopHarness.otherProcess)) == 0)
    }

    /// An entry of the topic's partition for the harness's partition.
    private func offer(_ waiting: Waiting) -> PartitionEvent {
        var frame = waiting.frame
        frame.from = waiting.receiver
        frame.entries = [OutboxEntry(number: Sequence(1), predecessor: .zero, items: [], fingerprint: 0)]
        return .offered(frame)
    }

    @Test("and likewise entries of an outbox: of the sender's owner alone")
    func offers() throws {
        let foreign = waiting.hear(offer(waiting), from: ForeignAnswerTests.stranger)
        #expect(foreign.rows.isEmpty && refusals(foreign) == 1)
        waiting.loseRoute()
        let early = waiting.hear(offer(waiting), from: LoopHarness.otherProcess)
        #expect(early.rows.isEmpty && refusals(early) == 1)
        // The sender offers again each second, and by then the routes name its owner.
        waiting.harness.turn(
            .order(.places(LoopHarness.places(own: [LoopHarness.partition]), away: [])))
        let taken = waiting.hear(offer(waiting), from: LoopHarness.otherProcess)
        #expect(!taken.rows.isEmpty && refusals(taken) == 0)
    }

    @Test("and likewise a question about a condition")
    func questions() throws {
        let asked = PartitionEvent.asked(
            ConditionQuestion(
                asker: waiting.receiver, ticket: ConditionTicket(record: Sequence(9), ordinal: 0),
                project: LoopHarness.project, condition: try Condition.parse(Array("'a' in topics".utf8))))
        #expect(refusals(waiting.hear(asked, from: ForeignAnswerTests.stranger)) == 1)
        #expect(refusals(waiting.hear(asked, from: LoopHarness.otherProcess)) == 0)
    }

    @Test("and likewise a grant of quota: of the owner of the project's buckets alone")
    func grants() throws {
        let project = try #require(
            (1..<100).lazy.map { ProjectNumber($0) }.first {
                waiting.harness.core.home(of: $0) != LoopHarness.partition
            })
        let grant = QuotaGrant(
            spender: SpenderID(GatewayID(processID: LoopHarness.ownProcess, loop: 0), incarnation: 1),
            project: project,
            kind: .sends, number: 1, grantorEpoch: Epoch(1), tokens: 9,
            leaseLength: .seconds(1), shareRate: 1, shareLength: .seconds(1), retryAfter: .zero,
            rate: QuotaRate(count: 1, burst: 1))
        #expect(refusals(waiting.hear(.quotaGrant(grant), from: ForeignAnswerTests.stranger)) == 1)
        #expect(refusals(waiting.hear(.quotaGrant(grant), from: LoopHarness.otherProcess)) == 0)
    }

    /// A loop that has asked the other process to send to a device of the topic's partition.
    private func asking(
        _ waiting: Waiting
    ) throws -> (RequestID, finished: (PeerMessage, ProcessID) -> Bool) {
        let core = waiting.harness.core
        let device = Registration(
            project: LoopHarness.project, partition: waiting.receiver, index: DeviceIndex(1), nonce: 1,
            key: 0)
        core.submit(.subscriptions(of: device, by: .backend), ticket: 77, now: waiting.harness.now)
        let asked = waiting.harness.turn().said.lazy.compactMap { message -> RequestID? in
            if case .request(waiting.receiver, _, let id, _, _) = message { id } else { nil }
        }.first
        return (
            try #require(asked),
            { message, processID in
                waiting.hear(message, from: processID).contains {
                    if case .finish(77, .refused(.quota)) = $0 { true } else { false }
                }
            }
        )
    }

    /// A refusal that the loop does not believe costs nothing: the loop asks again where routes change.
    @Test("and likewise the refusal of a send past a device's limit: of the device's owner alone")
    func limits() throws {
        let (asked, isFinished) = try asking(waiting)
        let refusal = PeerMessage.quotaRefusal(
            asked, QuotaRefusal(kind: .deviceMinute, limit: 240, retryDelay: .seconds(3)))
        #expect(!isFinished(refusal, ForeignAnswerTests.stranger))
        #expect(isFinished(refusal, LoopHarness.otherProcess))
    }

    /// Nobody else detaches a gateway's stream, asks in the gateway's name, or spends for it.
    @Test("and of a gateway's process alone what a gateway says")
    func gateways() throws {
        let gateway = GatewayID(processID: LoopHarness.otherProcess, loop: 0)
        let stream = StreamID(gateway: gateway, number: 1)
        let (partition, index) = (LoopHarness.partition, DeviceIndex(1))
        let device = Registration(
            project: LoopHarness.project, partition: partition, index: index, nonce: 1, key: 0)
        let commands: [StreamCommand] = [
            .attach(stream, device, by: .backend, resume: nil), .detach(stream, index),
            .fellBehind(stream, index, written: .zero), .caughtUp(stream, index),
            .processed(gateway, frame: 9),
        ]
        var writer = ByteWriter()
        for command in commands {
            PeerMessage.partition(partition, .stream(command)).encode(into: &writer)
        }
        PeerMessage.request(
            partition, Epoch(3), RequestID(gateway: gateway, number: 1), .check(device, by: .backend),
            left: 1000
        ).encode(into: &writer)
        func read(from processID: ProcessID) -> PeerFrame {
            PeerFrame(
                writer.bytes, from: processID, after: MonotonicTime.zero, NodeMap(partitionCount: 4))
        }
        let own = read(from: LoopHarness.otherProcess)
        #expect(own.mistake == nil && own.foreign == 0 && own.batches[0].count == 6)
        let strange = read(from: ForeignAnswerTests.stranger)
        #expect(strange.mistake == nil && strange.foreign == 6 && strange.batches[0].isEmpty)
    }

    @Test("of a stranger where the planted bug says so")
    func planted() throws {
        let waiting = try Waiting { $0.planted = .believeStrangers }
        #expect(isAnswered(waiting.hear(waiting.acknowledgement, from: ForeignAnswerTests.stranger)))
    }
}
