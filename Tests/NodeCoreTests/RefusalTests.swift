import Journal
import Model
import Ownership
import Partitions
import Routing
import Testing

@testable import NodeCore

/// A record that the engine refuses costs time, and no machine.
@Suite("A partition whose records are refused") struct RefusalTests {
    private func deadline(_ desk: LoopDesk) -> MonotonicTime {
        desk.host.monotonic.advanced(by: .seconds(5))
    }

    /// A partition that is served, with a record that the engine refuses.
    private func refused() -> (LoopDesk, Row?) {
        let desk = LoopDesk()
        desk.serve()
        let row = desk.turn(LoopDesk.registration(number: 1, deadline: deadline(desk))).rows.first
        let effects = desk.turn(.partition(LoopDesk.partition, .postponed("full")))
        #expect(effects.notices == [.journalRefuses("full")] && effects.replies.isEmpty)
        return (desk, row)
    }

    @Test("keeps its machine, refuses new requests at once, and answers those of before when it goes on")
    func goingOn() {
        let (desk, row) = refused()
        let later = desk.turn(LoopDesk.registration(number: 2, deadline: deadline(desk)))
        guard later.rows.isEmpty, case .refused(.unavailable(let why))? = later.replies.first else {
            Issue.record("\(later)")
            return
        }
        #expect(why.contains("full"))
        #expect(desk.turn(.partition(LoopDesk.partition, .postponed("full"))).notices.isEmpty)
        let taken = desk.turn(.partition(LoopDesk.partition, .appended(row?.sequence ?? .zero)))
        guard taken.notices == [.journalTakes], case .registered? = taken.replies.first else {
            Issue.record("\(taken)")
            return
        }
        #expect(desk.turn(LoopDesk.registration(number: 3, deadline: deadline(desk))).rows.count == 1)
    }

    @Test("begins nothing new while more records wait than should, and loses nothing")
    func crowded() {
        let desk = LoopDesk()
        desk.serve()
        guard let row = desk.turn(LoopDesk.registration(number: 1, deadline: deadline(desk))).rows.first
        else {
            Issue.record("nothing is appended")
            return
        }
        let effects = desk.turn(.resolved(Resolved(row, .crowded)))
        #expect(effects.replies.isEmpty && effects.notices.isEmpty)
        let later = desk.turn(LoopDesk.registration(number: 2, deadline: deadline(desk)))
        guard later.rows.isEmpty, case .refused(.unavailable)? = later.replies.first else {
            Issue.record("\(later)")
            return
        }
        let taken = desk.turn(.resolved(Resolved(row, .durable)))
        guard case .registered? = taken.replies.first else {
            Issue.record("\(taken)")
            return
        }
        #expect(desk.turn(LoopDesk.registration(number: 3, deadline: deadline(desk))).rows.count == 1)
        desk.turn(.resolved(Resolved(row, .crowded)))
        #expect(desk.turn(LoopDesk.registration(number: 4, deadline: deadline(desk))).replies.isEmpty, "old")
    }

    /// The first copy waits for the journal and may go in: the answer "not done" would be untrue in the end.
    @Test("does not refuse the repeat of a send that waits")
    func repeated() {
        let desk = LoopDesk()
        desk.serve()
        func send(_ key: UInt64, _ number: UInt64) -> LoopMessage {
            .request(
                LoopDesk.partition,
                RequestID(gateway: GatewayID(life: LoopDesk.otherLife, loop: 0), number: number),
                .sendToTopic(
                    RequestKey(session: 9, number: key), project: LoopDesk.project,
                    TopicName(checked: Array("t".utf8)),
                    Envelope(
                        id: MessageID(time: 1, random: 1), event: [], sent: desk.now.wall,
                        ttlSeconds: 60), fanoutsMax: 10),
                RequestGuard(epoch: Epoch(3), deadline: Deadline(deadline(desk))))
        }
        let row = desk.turn(send(1, 1)).rows.first
        desk.turn(.partition(LoopDesk.partition, .postponed("full")))
        #expect(desk.turn(send(1, 2)).replies.isEmpty, "it waits with the first")
        guard case .refused(.unavailable)? = desk.turn(send(2, 3)).replies.first else {
            Issue.record("a new one is not refused")
            return
        }
        let taken = desk.turn(.partition(LoopDesk.partition, .appended(row?.sequence ?? .zero)))
        let confirmed = taken.compactMap { effect -> LoopMessage? in
            if case .confirm(let id, let token) = effect { .partition(id, .confirmed(token)) } else { nil }
        }
        let replies = taken.replies + confirmed.flatMap { desk.turn($0).replies }
        #expect(replies.count { if case .accepted = $0 { true } else { false } } == 2)
    }

    @Test("is given up without waiting for the engine, and who waits asks the next owner")
    func givingUp() {
        let (desk, _) = refused()
        let effects = desk.turn(.order(.release(LoopDesk.partition)))
        guard effects.closing == [LoopDesk.partition], case .refused(.handedOver)? = effects.replies.first
        else {
            Issue.record("\(effects)")
            return
        }
        let late = LoopMessage.resolved(
            Resolved(
                Row(partition: LoopDesk.partition, sequence: Sequence(2), payload: [], life: 1),
                .refused("given up")))
        #expect(desk.turn(late).isEmpty)
        #expect(desk.turn(.engine(.closed(LoopDesk.partition))).givenUp == [LoopDesk.partition])
    }

    /// A new machine of the partition would make such a record again.
    @Test("is quarantined where its record cannot be written at all", arguments: [true, false])
    func tooLarge(isClustered: Bool) {
        let desk = LoopDesk(isClustered: isClustered)
        if isClustered {
            desk.serve()
        } else {
            desk.turn(.engine(.loaded(LoopDesk.stored(), Epoch(0), quotas: [:])))
        }
        let body = [UInt8](repeating: 0, count: RecordCodec.bodyBytesMax + 1)
        desk.core.partitionEffects = [.append(Sequence(2), body: body)]
        desk.core.carryOut(of: LoopDesk.partition)
        let effects = desk.turn()
        #expect(effects.contains { if case .noted(.quarantined) = $0 { true } else { false } })
        #expect(desk.core.quarantined[LoopDesk.partition] != nil && desk.core.partitions.isEmpty)
        #expect(!effects.contains { if case .lost = $0 { true } else { false } })
        #expect(effects.closing.isEmpty && desk.turn().isEmpty, "it is not read again")
    }

    /// A quarantined partition stays where it is, so to every gateway it looks alive.
    @Test("that is quarantined ends its streams, and begins no others")
    func listeners() throws {
        let desk = LoopDesk()
        desk.serve()
        let row = try #require(desk.turn(LoopDesk.registration(deadline: deadline(desk))).rows.first)
        desk.turn(.resolved(Resolved(row, .durable)))
        let device = Registration(
            project: LoopDesk.project, partition: LoopDesk.partition, index: DeviceIndex(0), nonce: 1, key: 0)
        let first = desk.core.attach(device, by: .backend, resume: nil)
        desk.turn()
        #expect(desk.core.partitions[LoopDesk.partition]?.listeners.map(\.number) == [first])
        let body = [UInt8](repeating: 0, count: RecordCodec.bodyBytesMax + 1)
        desk.core.partitionEffects = [.append(Sequence(3), body: body)]
        desk.core.carryOut(of: LoopDesk.partition)
        desk.turn()
        #expect(desk.host.refused == [first])
        let second = desk.core.attach(device, by: .backend, resume: nil)
        desk.turn()
        #expect(desk.host.refused == [first, second], "it would be asked for ten times a second")
        #expect(desk.core.reattaching.isEmpty)
    }

    /// At the start of a node of its own the loop has no order to load the partition.
    @Test("that is damaged at the start of a node is read again, then quarantined")
    func damagedAtStart() {
        let desk = LoopDesk(isClustered: false)
        let answer = EngineAnswer.loadFailed(
            LoopDesk.partition, Epoch(0), isDamaged: true, reason: "a gap")
        for _ in 0..<3 {
            desk.turn(.engine(answer))
            let again = desk.turn(.timer(.loadAgain(LoopDesk.partition)))
            #expect(again.contains { if case .load(LoopDesk.partition, _, nil) = $0 { true } else { false } })
        }
        desk.turn(.engine(answer))
        #expect(desk.core.quarantined[LoopDesk.partition] == "a gap")
    }
}

extension [LoopEffect] {
    fileprivate var notices: [PartitionNotice] {
        compactMap { effect in if case .noted(.partition(_, let notice)) = effect { notice } else { nil } }
    }
}
