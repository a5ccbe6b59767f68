import Journal
import Model
import Partitions
import Routing
import Testing

@testable import NodeCore

/// A record that the engine refuses costs time, and no machine.
@Suite("A partition whose records are refused") struct RefusalTests {
    private func deadline(_ harness: LoopHarness) -> MonotonicTime {
        harness.host.monotonic.advanced(by: .seconds(5))
    }

    /// A partition that is served, with a record that the engine refuses.
    private func refused() -> (LoopHarness, Row?) {
        let harness = LoopHarness()
        harness.serve()
        let row = harness.turn(LoopHarness.registration(number: 1, deadline: deadline(harness))).rows.first
        let effects = harness.turn(.partition(LoopHarness.partition, .postponed("full")))
        #expect(effects.notices == [.journalRefuses("full")] && effects.replies.isEmpty)
        return (harness, row)
    }

    @Test("keeps its machine, refuses new requests at once, and answers the earlier ones when it goes on")
    func goingOn() {
        let (harness, row) = refused()
        let later = harness.turn(LoopHarness.registration(number: 2, deadline: deadline(harness)))
        guard later.rows.isEmpty, case .refused(.unavailable(let why))? = later.replies.first else {
            Issue.record("\(later)")
            return
        }
        #expect(why.contains("full"))
        #expect(harness.turn(.partition(LoopHarness.partition, .postponed("full"))).notices.isEmpty)
        let taken = harness.turn(.partition(LoopHarness.partition, .appended(row?.sequence ?? .zero)))
        guard taken.notices == [.journalTakes], case .registered? = taken.replies.first else {
            Issue.record("\(taken)")
            return
        }
        #expect(
            harness.turn(LoopHarness.registration(number: 3, deadline: deadline(harness))).rows.count == 1)
    }

    @Test("begins nothing new while more records wait than should, and loses nothing")
    func crowded() {
        let harness = LoopHarness()
        harness.serve()
        guard
            let row = harness.turn(LoopHarness.registration(number: 1, deadline: deadline(harness))).rows
                .first
        else {
            Issue.record("nothing is appended")
            return
        }
        let effects = harness.turn(.resolved(Resolved(row, .crowded)))
        #expect(effects.replies.isEmpty && effects.notices.isEmpty)
        let later = harness.turn(LoopHarness.registration(number: 2, deadline: deadline(harness)))
        guard later.rows.isEmpty, case .refused(.unavailable)? = later.replies.first else {
            Issue.record("\(later)")
            return
        }
        let taken = harness.turn(.resolved(Resolved(row, .durable)))
        guard case .registered? = taken.replies.first else {
            Issue.record("\(taken)")
            return
        }
        #expect(
            harness.turn(LoopHarness.registration(number: 3, deadline: deadline(harness))).rows.count == 1)
        harness.turn(.resolved(Resolved(row, .crowded)))
        #expect(
            harness.turn(LoopHarness.registration(number: 4, deadline: deadline(harness))).replies.isEmpty,
            "old")
    }

    /// The first copy waits for the journal and may go in: the answer "not done" would be untrue in the end.
    @Test("does not refuse the repeat of a send that waits")
    func repeated() {
        let harness = LoopHarness()
        harness.serve()
        func send(_ key: UInt64, _ number: UInt64) -> LoopMessage {
            .request(
                LoopHarness.partition,
                RequestID(gateway: GatewayID(processID: LoopHarness.otherProcess, loop: 0), number: number),
                .sendToTopic(
                    RequestKey(session: 9, number: key), project: LoopHarness.project,
                    TopicName(checked: Array("t".utf8)),
                    Envelope(
                        id: MessageID(time: 1, random: 1), event: [], sent: harness.now.wall,
                        ttlSeconds: 60), fanoutsMax: 10),
                RequestGuard(epoch: Epoch(3), deadline: Deadline(deadline(harness))))
        }
        let row = harness.turn(send(1, 1)).rows.first
        harness.turn(.partition(LoopHarness.partition, .postponed("full")))
        #expect(harness.turn(send(1, 2)).replies.isEmpty, "it waits with the first")
        guard case .refused(.unavailable)? = harness.turn(send(2, 3)).replies.first else {
            Issue.record("a new one is not refused")
            return
        }
        let taken = harness.turn(.partition(LoopHarness.partition, .appended(row?.sequence ?? .zero)))
        let confirmed = taken.compactMap { effect -> LoopMessage? in
            if case .call(.confirm(let id, let token)) = effect {
                .partition(id, .confirmed(token))
            } else {
                nil
            }
        }
        let replies = taken.replies + confirmed.flatMap { harness.turn($0).replies }
        #expect(replies.count { if case .accepted = $0 { true } else { false } } == 2)
    }

    @Test("is given up without waiting for the engine, and who waits asks the next owner")
    func givingUp() {
        let (harness, _) = refused()
        let effects = harness.turn(.order(.release(LoopHarness.partition)))
        guard effects.closing == [LoopHarness.partition], case .refused(.handedOver)? = effects.replies.first
        else {
            Issue.record("\(effects)")
            return
        }
        let late = LoopMessage.resolved(
            Resolved(
                Row(partition: LoopHarness.partition, sequence: Sequence(2), payload: [], incarnation: 1),
                .refused("given up")))
        #expect(harness.turn(late).isEmpty)
        #expect(harness.turn(.engine(.closed(LoopHarness.partition))).givenUp == [LoopHarness.partition])
    }

    /// A new machine of the partition would make such a record again.
    @Test("is quarantined where its record cannot be written at all", arguments: [true, false])
    func tooLarge(isClustered: Bool) {
        let harness = LoopHarness(isClustered: isClustered)
        if isClustered {
            harness.serve()
        } else {
            harness.turn(.engine(.loaded(LoopHarness.stored(), Epoch(0), quotas: [:])))
        }
        let body = [UInt8](repeating: 0, count: RecordCodec.bodyBytesMax + 1)
        harness.core.partitionEffects = [.append(Sequence(2), body: body)]
        harness.core.carryOut(of: LoopHarness.partition)
        let effects = harness.turn()
        #expect(effects.contains { if case .noted(.quarantined) = $0 { true } else { false } })
        #expect(harness.core.quarantined[LoopHarness.partition] != nil && harness.core.partitions.isEmpty)
        #expect(!effects.contains { if case .lost = $0 { true } else { false } })
        #expect(effects.closing.isEmpty && harness.turn().isEmpty, "it is not read again")
    }

    /// A quarantined partition stays where it is, so to every gateway it looks alive.
    @Test("that is quarantined ends its streams, and begins no others")
    func listeners() throws {
        let harness = LoopHarness()
        harness.serve()
        let row = try #require(harness.turn(LoopHarness.registration(deadline: deadline(harness))).rows.first)
        harness.turn(.resolved(Resolved(row, .durable)))
        let device = Registration(
            project: LoopHarness.project, partition: LoopHarness.partition, index: DeviceIndex(0), nonce: 1,
            key: 0)
        let first = harness.core.attach(device, by: .backend, resume: nil, now: harness.now)
        harness.turn()
        #expect(harness.core.partitions[LoopHarness.partition]?.listeners.map(\.number) == [first])
        let body = [UInt8](repeating: 0, count: RecordCodec.bodyBytesMax + 1)
        harness.core.partitionEffects = [.append(Sequence(3), body: body)]
        harness.core.carryOut(of: LoopHarness.partition)
        harness.turn()
        #expect(harness.host.refused == [first])
        let second = harness.core.attach(device, by: .backend, resume: nil, now: harness.now)
        harness.turn()
        #expect(harness.host.refused == [first, second], "it would be asked for ten times a second")
        #expect(harness.core.reattaching.isEmpty)
    }

    /// No other node could take the stream, so a stream that nobody refuses would hear nothing for good.
    @Test("that a node of its own reads again refuses streams, so that their devices come back")
    func streamsWhileReading() {
        let harness = LoopHarness(isClustered: false)
        harness.turn(.engine(.loaded(LoopHarness.stored(), Epoch(0), quotas: [:])))
        harness.turn(.lost(LoopHarness.partition, mayHaveAppended: false, reason: "a test"))
        let device = Registration(
            project: LoopHarness.project, partition: LoopHarness.partition, index: DeviceIndex(0), nonce: 1,
            key: 0)
        let stream = harness.core.attach(device, by: .backend, resume: nil, now: harness.now)
        harness.turn()
        #expect(harness.host.refused == [stream])
    }

    /// Nobody serves the partition, as while the database is away.
    @Test("that nobody serves refuses a stream after the time for a request, or twice that time")
    func streamsOfNobody() {
        let harness = LoopHarness()
        let device = Registration(
            project: LoopHarness.project, partition: LoopHarness.partition, index: DeviceIndex(0), nonce: 1,
            key: 0)
        /// The timers of one turn: for each the number of the last stream, and its time.
        func timers(_ messages: LoopMessage...) -> [UInt64: MonotonicTime] {
            var batch = LoopInbox.Batch(messages)
            harness.core.turn(&batch, now: harness.now)
            defer { harness.core.effects = [] }
            return harness.core.effects.reduce(into: [:]) {
                if case .wake(.unopened(let last), let at) = $1 { $0[last] = at }
            }
        }
        let first = harness.core.attach(device, by: .backend, resume: nil, now: harness.now)
        #expect(timers() == [first: harness.now.monotonic.advanced(by: .seconds(25))])
        harness.pass(milliseconds: 20_000)
        let second = harness.core.attach(device, by: .backend, resume: nil, now: harness.now)
        #expect(timers().isEmpty && harness.host.refused.isEmpty)
        harness.pass(milliseconds: 5_000)
        #expect(timers(.timer(.unopened(upTo: first))).keys.elementsEqual([second]))
        #expect(harness.host.refused == [first])
        #expect(timers(.timer(.unopened(upTo: second))).isEmpty)
        #expect(harness.host.refused == [first, second] && harness.core.streams.count == 0)
    }

    /// At the start of a node of its own the loop has no order to load the partition.
    @Test("that is damaged at the start of a node is read again, then quarantined")
    func damagedAtStart() {
        let harness = LoopHarness(isClustered: false)
        let answer = EngineAnswer.loadFailed(
            LoopHarness.partition, Epoch(0), isDamaged: true, reason: "a gap")
        for _ in 0..<3 {
            harness.turn(.engine(answer))
            let again = harness.turn(.timer(.loadAgain(LoopHarness.partition)))
            #expect(
                again.contains {
                    if case .call(.load(LoopHarness.partition, _, nil)) = $0 { true } else { false }
                })
        }
        harness.turn(.engine(answer))
        #expect(harness.core.quarantined[LoopHarness.partition] == "a gap")
    }
}

extension [LoopEffect] {
    fileprivate var notices: [PartitionNotice] {
        compactMap { effect in if case .noted(.partition(_, let notice)) = effect { notice } else { nil } }
    }
}
