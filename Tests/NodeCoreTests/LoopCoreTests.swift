import Bytes
import Journal
import Model
import Ownership
import Partitions
import Quotas
import Routing
import Testing

@testable import NodeCore

@Suite("A loop's core") struct LoopCoreTests {
    @Test("puts the requests of one turn into one record, and answers when it is durable")
    func oneRecord() {
        let desk = LoopDesk()
        desk.serve()
        let deadline = desk.host.monotonic.advanced(by: .seconds(5))
        let effects = desk.turn(
            LoopDesk.registration(number: 1, deadline: deadline),
            LoopDesk.registration(number: 2, deadline: deadline))
        #expect(effects.rows.count == 1 && effects.replies.isEmpty)
        let row = effects.rows.first
        let answers = desk.turn(.partition(LoopDesk.partition, .appended(row?.sequence ?? .zero)))
        #expect(answers.replies.count == 2)
        let frames = answers.filter { if case .send = $0 { true } else { false } }
        #expect(frames.count == 1, "what goes to one process in a turn is one frame")
    }

    @Test("drops a request unread when its deadline has passed, also while the turn ran")
    func late() {
        let desk = LoopDesk()
        desk.serve()
        let deadline = desk.host.monotonic.advanced(by: .seconds(1))
        let early = desk.now
        desk.pass(milliseconds: 1001)
        desk.core.turn([LoopDesk.registration(deadline: deadline)], now: early)
        let late = desk.core.effects.filter { if case .noted(.requestLate) = $0 { true } else { false } }
        #expect(late.count == 1 && desk.core.effects.rows.isEmpty && desk.core.effects.said.isEmpty)
    }

    @Test("tells whoever asks the owner of another epoch that the partition has moved")
    func formerEpoch() {
        let desk = LoopDesk()
        desk.serve()
        let deadline = desk.host.monotonic.advanced(by: .seconds(5))
        let effects = desk.turn(LoopDesk.registration(epoch: Epoch(2), deadline: deadline))
        #expect(effects.rows.isEmpty && effects.replies.count == 1)
        guard case .refused(.moved)? = effects.replies.first else {
            Issue.record("\(effects.replies)")
            return
        }
    }

    /// A frame of a damaged or hostile peer may name any loop of any process.
    @Test("answers nobody for a loop that is not there", arguments: [1, 200, 255])
    func foreignLoop(_ loop: Int) {
        let desk = LoopDesk()
        desk.serve()
        let deadline = desk.host.monotonic.advanced(by: .seconds(5))
        let effects = desk.turn(
            LoopDesk.registration(epoch: Epoch(1), loop: loop, life: LoopDesk.ownLife, deadline: deadline))
        #expect(effects.isEmpty, "\(effects)")
    }

    @Test("says after 50 ms that a frame was lost, and says so until a frame is taken")
    func owing() {
        let desk = LoopDesk()
        desk.serve()
        let other = LoopDesk.otherLife
        desk.turn(.order(.say(.nudge, to: [other])))
        desk.core.sent(to: other, isTaken: false)
        guard case .wake(.unreachable(other), let at)? = desk.core.effects.last else {
            Issue.record("\(desk.core.effects)")
            return
        }
        #expect(at.since(desk.host.monotonic) == .milliseconds(50))
        desk.core.effects = []
        desk.core.sent(to: other, isTaken: false)
        #expect(desk.core.effects.count == 1, "one timer for a process at a time")
        desk.core.effects = []
        let said = desk.turn(.timer(.unreachable(other))).said
        guard said.count == 1, case .missed? = said.first else {
            Issue.record("\(said)")
            return
        }
        #expect(desk.core.owed[other] == 1)
        desk.core.sent(to: other, isTaken: true)
        #expect(desk.core.owed.isEmpty)
    }

    @Test("does not hand over what it wrote before it slept")
    func slept() {
        let desk = LoopDesk()
        desk.serve()
        // The gateway writes between two turns, and the process sleeps before the next turn.
        let registration = Registration(
            project: LoopDesk.project, partition: PartitionID(1), index: DeviceIndex(1), nonce: 1, key: 0)
        _ = desk.core.attach(registration, by: .backend, resume: nil)
        desk.pass(milliseconds: 60_000)
        let effects = desk.turn()
        #expect(effects.said.isEmpty)
        let lost = effects.filter { if case .noted(.frameLost) = $0 { true } else { false } }
        #expect(lost.count == 1)
    }

    /// A connection takes no frame past its bound, and a turn may have more than that for one process.
    @Test("hands much over in several frames, in order")
    func manyFrames() {
        let desk = LoopDesk()
        desk.serve()
        let packets = (0..<4).map { [UInt8](repeating: UInt8($0), count: 6 << 20) }
        let effects = desk.turn(
            .order(.say(.gossip(packets[0]), to: [LoopDesk.otherLife])),
            .order(.say(.gossip(packets[1]), to: [LoopDesk.otherLife])),
            .order(.say(.gossip(packets[2]), to: [LoopDesk.otherLife])),
            .order(.say(.gossip(packets[3]), to: [LoopDesk.otherLife])))
        let sizes = effects.compactMap { effect -> Int? in
            if case .send(let bytes, _) = effect { bytes.count >> 20 } else { nil }
        }
        #expect(sizes == [18, 6])
    }

    @Test("gives a partition up when nothing of it is in flight, and takes no work for it meanwhile")
    func givingUp() {
        let desk = LoopDesk()
        desk.serve()
        let deadline = desk.host.monotonic.advanced(by: .seconds(5))
        let rows = desk.turn(LoopDesk.registration(deadline: deadline)).rows
        #expect(desk.turn(.order(.release(LoopDesk.partition))).givenUp.isEmpty)
        let refused = desk.turn(LoopDesk.registration(number: 2, deadline: deadline))
        #expect(refused.rows.isEmpty && refused.replies.count == 1)
        let end = desk.turn(.partition(LoopDesk.partition, .appended(rows.first?.sequence ?? .zero)))
        #expect(end.replies.count == 1 && desk.core.partitions.isEmpty)
        #expect(end.closing == [LoopDesk.partition] && end.givenUp.isEmpty)
        #expect(desk.turn(.engine(.closed(LoopDesk.partition))).givenUp == [LoopDesk.partition])
    }

    /// The journal's writer may still have rows of a machine that was lost.
    @Test("asks the journal's writer also before it gives up a partition that it has lost")
    func nothingToGiveUp() {
        let desk = LoopDesk()
        desk.serve()
        let lost = desk.turn(.lost(LoopDesk.partition, mayHaveAppended: true, reason: "a test"))
        #expect(lost.contains { if case .lost(LoopDesk.partition) = $0 { true } else { false } })
        let effects = desk.turn(.order(.release(LoopDesk.partition)))
        #expect(effects.closing == [LoopDesk.partition] && effects.givenUp.isEmpty)
        #expect(desk.turn(.engine(.closed(LoopDesk.partition))).givenUp == [LoopDesk.partition])
    }

    /// A late answer names the same partition and the same sequence as the new machine's record.
    @Test("takes what became of a record for the machine that made it, and for no other")
    func formerRecords() throws {
        let desk = LoopDesk()
        desk.serve()
        let deadline = desk.host.monotonic.advanced(by: .seconds(5))
        let former = try #require(desk.turn(LoopDesk.registration(deadline: deadline)).rows.first)
        desk.turn(.lost(LoopDesk.partition, mayHaveAppended: true, reason: "a test"))
        desk.serve()
        let row = try #require(desk.turn(LoopDesk.registration(number: 2, deadline: deadline)).rows.first)
        #expect(row.sequence == former.sequence && row.life != former.life)
        for resolution: Resolution in [.durable, .postponed("full"), .taken, .refused("full"), .unknown] {
            #expect(desk.turn(.resolved(Resolved(former, resolution))).isEmpty)
        }
        #expect(desk.turn(.resolved(Resolved(row, .durable))).replies.count == 1)
    }

    @Test("reads only the rest of a partition that it has followed")
    func following() {
        let desk = LoopDesk()
        desk.turn(.engine(.followed(LoopDesk.stored())))
        let effects = desk.turn(.order(.serve(LoopDesk.partition, Epoch(3))))
        guard case .load(LoopDesk.partition, Epoch(3), .some)? = effects.first else {
            Issue.record("\(effects)")
            return
        }
        desk.turn(.engine(.followed(LoopDesk.stored(PartitionID(1)))))
        desk.turn(.order(.unfollow(PartitionID(1))))
        guard case .load(_, _, nil)? = desk.turn(.order(.serve(PartitionID(1), Epoch(3)))).first else {
            Issue.record("what was thrown away is gone on with")
            return
        }
    }

    @Test("on a node of its own, loads a lost partition again, and a second later where that fails")
    func loading() {
        let desk = LoopDesk(isClustered: false)
        desk.turn(.engine(.loaded(LoopDesk.stored(), Epoch(3), quotas: [:])))
        let lost = desk.turn(.lost(LoopDesk.partition, mayHaveAppended: false, reason: "a test"))
        #expect(lost.closing == [LoopDesk.partition], "rows of the lost machine are settled first")
        let closed = desk.turn(.engine(.closed(LoopDesk.partition)))
        #expect(closed.contains { if case .load(LoopDesk.partition, _, nil) = $0 { true } else { false } })
        let failed = desk.turn(
            .engine(.loadFailed(LoopDesk.partition, Epoch(0), isDamaged: false, reason: "a test")))
        guard case .wake(.loadAgain(LoopDesk.partition), let at)? = failed.first else {
            Issue.record("\(failed)")
            return
        }
        #expect(at.since(desk.host.monotonic) == .seconds(1))
    }

    @Test("sees when one of its laws does not hold")
    func laws() {
        let desk = LoopDesk()
        desk.serve()
        #expect(desk.core.brokenInvariant == nil)
        func isSeen(_ law: String, _ change: (LoopCore<LoopDesk.Host>) -> Void) {
            let desk = LoopDesk()
            desk.serve()
            change(desk.core)
            #expect(desk.core.brokenInvariant == law)
        }
        isSeen("partition 1 is being given up, and has no machine") { $0.leaving.insert(PartitionID(1)) }
        isSeen("rows of a turn are left") {
            $0.rows = [Row(partition: PartitionID(1), sequence: Sequence(1), payload: [])]
        }
        isSeen("something for another process is left") { $0.say(.nudge, to: LoopDesk.otherLife) }
        isSeen("partition 2 is served, and the rest of it is awaited") {
            $0.inherited[LoopDesk.partition] = $0.partitions[LoopDesk.partition]
        }
        isSeen("partition 2 is served, and its former machine's rows are not settled") {
            $0.closing[LoopDesk.partition] = [:]
        }
        isSeen("partition 2 is served, and quarantined") { $0.quarantined[LoopDesk.partition] = "a test" }
        isSeen("partition 2 stands in the place of 1") {
            $0.partitions[PartitionID(1)] = $0.partitions[LoopDesk.partition]
        }
    }

    @Test("reads a damaged partition three times more, then quarantines it")
    func damaged() {
        let desk = LoopDesk()
        desk.turn(.order(.serve(LoopDesk.partition, Epoch(3))))
        let answer = EngineAnswer.loadFailed(LoopDesk.partition, Epoch(3), isDamaged: true, reason: "a gap")
        let waits = (0..<3).map { _ -> UInt64 in
            guard case .wake(.loadAgain, let at)? = desk.turn(.engine(answer)).first else { return 0 }
            return at.since(desk.host.monotonic) / .seconds(1)
        }
        #expect(waits == [1, 2, 4])
        let last = desk.turn(.engine(answer))
        #expect(last.contains { if case .noted(.quarantined) = $0 { true } else { false } })
        #expect(last.contains { if case .serving = $0 { true } else { false } })
        #expect(desk.turn(.timer(.loadAgain(LoopDesk.partition))).isEmpty)
    }

    /// The node gave the partition up while the loop read it, and has perhaps taken the partition again
    /// since.
    @Test("serves nothing on an answer for an epoch that is over")
    func staleLoad() {
        let desk = LoopDesk()
        desk.turn(.order(.serve(LoopDesk.partition, Epoch(3))))
        desk.turn(.order(.drop(LoopDesk.partition)))
        desk.turn(.engine(.loaded(LoopDesk.stored(), Epoch(3), quotas: [:])))
        #expect(desk.core.partitions.isEmpty)
        desk.turn(.order(.serve(LoopDesk.partition, Epoch(5))))
        desk.turn(.engine(.loaded(LoopDesk.stored(), Epoch(3), quotas: [:])))
        #expect(desk.core.partitions.isEmpty)
        desk.turn(.engine(.loaded(LoopDesk.stored(), Epoch(5), quotas: [:])))
        #expect(desk.core.partitions[LoopDesk.partition] != nil)
    }

    @Test("closes a partition once, however often it is told to give it up, and not one that it has anew")
    func closingOnce() {
        let desk = LoopDesk()
        desk.serve()
        #expect(desk.turn(.order(.release(LoopDesk.partition))).closing == [LoopDesk.partition])
        #expect(desk.turn(.order(.release(LoopDesk.partition))).closing.isEmpty)
        desk.turn(.order(.serve(LoopDesk.partition, Epoch(5))))
        #expect(desk.turn(.engine(.closed(LoopDesk.partition))).givenUp.isEmpty)
    }

    /// A partition that begins after the leap has no earlier reading of the clock, but its loop has one.
    @Test("lets no partition begin with a clock that has leapt")
    func leap() {
        let desk = LoopDesk()
        desk.turn(.order(.serve(LoopDesk.partition, Epoch(3))))
        desk.years = 1
        desk.turn()
        let effects = desk.turn(.engine(.loaded(LoopDesk.stored(), Epoch(3), quotas: [:])))
        let later = effects + desk.turn(.timer(.partition(LoopDesk.partition, desk.now.monotonic)))
        #expect(
            later.contains {
                if case .noted(.partition(LoopDesk.partition, .clockLeapt)) = $0 { true } else { false }
            })
    }

    /// A database that does not answer says nothing of the session.
    @Test("asks again whether its session lives when the engine did not say, and throws nothing away")
    func confirming() {
        let desk = LoopDesk()
        desk.serve()
        let failed = desk.turn(.engine(.confirmFailed(LoopDesk.partition, token: 7)))
        guard case .wake(.confirmAgain(LoopDesk.partition, 7), _)? = failed.first, failed.count == 1 else {
            Issue.record("\(failed)")
            return
        }
        let again = desk.turn(.timer(.confirmAgain(LoopDesk.partition, token: 7)))
        #expect(again.contains { if case .confirm(LoopDesk.partition, 7) = $0 { true } else { false } })
        #expect(desk.core.partitions[LoopDesk.partition] != nil)
        desk.turn(.lost(LoopDesk.partition, mayHaveAppended: true, reason: "a test"))
        #expect(desk.turn(.timer(.confirmAgain(LoopDesk.partition, token: 7))).isEmpty)
    }

    @Test("keeps a partition that cannot be folded out of service, and serves the others")
    func quarantine() {
        let desk = LoopDesk()
        desk.serve()
        desk.turn(.order(.release(LoopDesk.partition)))
        desk.turn(.engine(.closed(LoopDesk.partition)))
        desk.turn(.order(.serve(LoopDesk.partition, Epoch(5))))
        let torn = StoredPartition(
            LoopDesk.partition,
            records: [StoredRecord(sequence: Sequence(1), epoch: Epoch(1), body: [255, 255, 255])])
        let effects = desk.turn(.engine(.loaded(torn, Epoch(5), quotas: [:])))
        #expect(effects.contains { if case .noted(.quarantined) = $0 { true } else { false } })
        #expect(effects.contains { if case .serving(LoopDesk.partition) = $0 { true } else { false } })
        let deadline = desk.host.monotonic.advanced(by: .seconds(5))
        let asked = desk.turn(LoopDesk.registration(epoch: Epoch(5), deadline: deadline))
        guard asked.rows.isEmpty, case .refused(.unavailable(let why))? = asked.replies.first else {
            Issue.record("\(asked)")
            return
        }
        #expect(why.contains("quarantined"))
        desk.turn(.order(.serve(PartitionID(1), Epoch(3))))
        desk.turn(.engine(.loaded(LoopDesk.stored(PartitionID(1)), Epoch(3), quotas: [:])))
        #expect(desk.core.partitions[PartitionID(1)] != nil)
        desk.turn(.order(.release(LoopDesk.partition)))
        #expect(desk.core.quarantined.isEmpty, "whoever takes it next finds out anew")
    }

    @Test("deletes rows slice by slice until none is left")
    func trimming() {
        let desk = LoopDesk()
        desk.core.trims[LoopDesk.partition] = .init(below: Sequence(9), keeping: [Sequence(4)])
        guard
            case .trim(LoopDesk.partition, Sequence(9), [Sequence(4)])? =
                desk.turn(.engine(.trimmed(LoopDesk.partition, left: 3))).first
        else {
            Issue.record("it stops though rows are left")
            return
        }
        #expect(desk.turn(.engine(.trimmed(LoopDesk.partition, left: 0))).isEmpty)
        #expect(desk.core.trims.isEmpty)
    }
}

@Suite("A client's request") struct RequestDateTests {
    @Test("is dated by the clock that is believed", arguments: [271, -20_000] as [Int64])
    func date(days: Int64) {
        let desk = LoopDesk(isClustered: false)
        let before = desk.core.believed(desk.now).wall
        var leapt = desk.now
        leapt.monotonic = leapt.monotonic.advanced(by: .seconds(2))
        leapt.wall = WallTime(milliseconds: leapt.wall.milliseconds + days * 86_400_000)
        #expect(desk.core.believed(leapt).wall.milliseconds == before.milliseconds + 2000)
    }
}

@Suite("A frame of a peer") struct PeerFrameTests {
    @Test("is sorted by loop, and what concerns no loop or partition of this node is left out")
    func sorting() {
        let map = NodeMap(partitionCount: 4, loopCount: 2)
        var writer = ByteWriter()
        func ask(_ partition: UInt16) {
            let id = RequestID(gateway: GatewayID(life: 6, loop: 0), number: 1)
            let request = Request.members(project: LoopDesk.project, TopicName(checked: Array("t".utf8)))
            PeerMessage.request(PartitionID(partition), Epoch(1), id, request, left: 1000)
                .encode(into: &writer)
        }
        for partition: UInt16 in [1, 2, 3, 77] { ask(partition) }
        let nobody = RequestID(gateway: GatewayID(life: 5, loop: 9), number: 1)
        PeerMessage.reply(nobody, .done).encode(into: &writer)
        PeerMessage.missed.encode(into: &writer)
        PeerMessage.nudge.encode(into: &writer)
        let whole = PeerFrame(writer.bytes, from: 6, after: MonotonicTime(nanoseconds: 0), map)
        #expect(whole.batches.map(\.count) == [2, 3] && whole.words.count == 1 && whole.mistake == nil)
        let cut = PeerFrame(
            Array(writer.bytes.dropLast()) + [255], from: 6, after: MonotonicTime(nanoseconds: 0), map)
        #expect(cut.batches.map(\.count) == [2, 3] && cut.words.isEmpty && cut.mistake != nil)
    }
}
