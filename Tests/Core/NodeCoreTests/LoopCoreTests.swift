import Bytes
import Journal
import Model
import Partitions
import Routing
import Testing

@testable import NodeCore

@Suite("A loop's core") struct LoopCoreTests {
    private let harness = LoopHarness()

    @Test("puts the requests of one turn into one record, and answers when it is durable")
    func oneRecord() {
        harness.serve()
        let deadline = harness.host.monotonic.advanced(by: .seconds(5))
        let effects = harness.turn(
            LoopHarness.registration(number: 1, deadline: deadline),
            LoopHarness.registration(number: 2, deadline: deadline))
        #expect(effects.rows.count == 1 && effects.replies.isEmpty)
        let row = effects.rows.first
        let answers = harness.turn(.partition(LoopHarness.partition, .appended(row?.sequence ?? .zero)))
        #expect(answers.replies.count == 2)
        let frames = answers.filter { if case .send = $0 { true } else { false } }
        #expect(frames.count == 1, "what goes to one process in a turn is one frame")
    }

    @Test("drops a request unread when its deadline has passed, also while the turn ran")
    func late() {
        harness.serve()
        let deadline = harness.host.monotonic.advanced(by: .seconds(1))
        let early = harness.now
        harness.pass(milliseconds: 1001)
        var late: LoopInbox.Batch = [LoopHarness.registration(deadline: deadline)]
        harness.core.turn(&late, now: early)
        let noted = harness.core.effects.filter { if case .noted(.requestLate) = $0 { true } else { false } }
        #expect(noted.count == 1 && harness.core.effects.rows.isEmpty && harness.core.effects.said.isEmpty)
    }

    @Test("tells a gateway that asks the owner of another epoch that the partition has moved")
    func formerEpoch() {
        harness.serve()
        let deadline = harness.host.monotonic.advanced(by: .seconds(5))
        let effects = harness.turn(LoopHarness.registration(epoch: Epoch(2), deadline: deadline))
        #expect(effects.rows.isEmpty && effects.replies.count == 1)
        guard case .refused(.moved)? = effects.replies.first else {
            Issue.record("\(effects.replies)")
            return
        }
    }

    /// A frame of a damaged or hostile peer may name any loop of any process.
    @Test("answers nobody for a loop that is not there", arguments: [1, 200, 255])
    func foreignLoop(_ loop: Int) {
        harness.serve()
        let deadline = harness.host.monotonic.advanced(by: .seconds(5))
        let effects = harness.turn(
            LoopHarness.registration(
                epoch: Epoch(1), loop: loop, processID: LoopHarness.ownProcess, deadline: deadline))
        #expect(effects.isEmpty, "\(effects)")
    }

    @Test("says after 50 ms that a frame was lost, and says so until a frame is taken")
    func owing() {
        harness.serve()
        let other = LoopHarness.otherProcess
        harness.turn(.order(.say(.nudge, to: [other])))
        harness.core.sent(to: other, isTaken: false)
        guard case .wake(.unreachable(other), let at)? = harness.core.effects.last else {
            Issue.record("\(harness.core.effects)")
            return
        }
        #expect(at.since(harness.host.monotonic) == .milliseconds(50))
        harness.core.effects = []
        harness.core.sent(to: other, isTaken: false)
        #expect(harness.core.effects.count == 1, "one timer for a process at a time")
        harness.core.effects = []
        let said = harness.turn(.timer(.unreachable(other))).said
        guard said.count == 1, case .gap? = said.first else {
            Issue.record("\(said)")
            return
        }
        #expect(harness.core.gapNotices[other] == 1)
        harness.core.sent(to: other, isTaken: true)
        #expect(harness.core.gapNotices.isEmpty)
    }

    @Test("does not hand over what it wrote before it slept")
    func slept() {
        harness.serve()
        // The gateway writes between two turns, and the process sleeps before the next turn.
        let registration = Registration(
            project: LoopHarness.project, partition: PartitionID(1), index: DeviceIndex(1), nonce: 1, key: 0)
        _ = harness.core.attach(registration, by: .backend, resume: nil, now: harness.now)
        harness.pass(milliseconds: 60_000)
        let effects = harness.turn()
        #expect(effects.said.isEmpty)
        let lost = effects.filter { if case .noted(.frameLost) = $0 { true } else { false } }
        #expect(lost.count == 1)
    }

    /// A connection takes no frame past its bound, and a turn may have more than that for one process.
    @Test("hands much over in several frames, in order")
    func manyFrames() {
        harness.serve()
        let packets = (0..<4).map { [UInt8](repeating: UInt8($0), count: 6 << 20) }
        let effects = harness.turn(
            .order(.say(.gossip(packets[0]), to: [LoopHarness.otherProcess])),
            .order(.say(.gossip(packets[1]), to: [LoopHarness.otherProcess])),
            .order(.say(.gossip(packets[2]), to: [LoopHarness.otherProcess])),
            .order(.say(.gossip(packets[3]), to: [LoopHarness.otherProcess])))
        let sizes = effects.compactMap { effect -> Int? in
            if case .send(let bytes, _) = effect { bytes.count >> 20 } else { nil }
        }
        #expect(sizes == [18, 6])
    }

    @Test("gives a partition up when nothing of it is in flight, and takes no work for it meanwhile")
    func givingUp() {
        harness.serve()
        let deadline = harness.host.monotonic.advanced(by: .seconds(5))
        let rows = harness.turn(LoopHarness.registration(deadline: deadline)).rows
        #expect(harness.turn(.order(.release(LoopHarness.partition))).givenUp.isEmpty)
        let refused = harness.turn(LoopHarness.registration(number: 2, deadline: deadline))
        #expect(refused.rows.isEmpty && refused.replies.count == 1)
        let end = harness.turn(.partition(LoopHarness.partition, .appended(rows.first?.sequence ?? .zero)))
        #expect(end.replies.count == 1 && harness.core.partitions.isEmpty)
        #expect(end.closing == [LoopHarness.partition] && end.givenUp.isEmpty)
        #expect(harness.turn(.engine(.closed(LoopHarness.partition))).givenUp == [LoopHarness.partition])
    }

    /// The journal's writer may still have rows of a machine that was lost.
    @Test("asks the journal's writer also before it gives up a partition that it has lost")
    func nothingToGiveUp() {
        harness.serve()
        let lost = harness.turn(.lost(LoopHarness.partition, mayHaveAppended: true, reason: "a test"))
        #expect(lost.contains { if case .lost(LoopHarness.partition) = $0 { true } else { false } })
        let effects = harness.turn(.order(.release(LoopHarness.partition)))
        #expect(effects.closing == [LoopHarness.partition] && effects.givenUp.isEmpty)
        #expect(harness.turn(.engine(.closed(LoopHarness.partition))).givenUp == [LoopHarness.partition])
    }

    /// A late answer names the same partition and the same sequence as the new machine's record.
    @Test("takes what became of a record for the machine that made it, and for no other")
    func formerRecords() throws {
        harness.serve()
        let deadline = harness.host.monotonic.advanced(by: .seconds(5))
        let former = try #require(harness.turn(LoopHarness.registration(deadline: deadline)).rows.first)
        harness.turn(.lost(LoopHarness.partition, mayHaveAppended: true, reason: "a test"))
        harness.serve()
        let row = try #require(
            harness.turn(LoopHarness.registration(number: 2, deadline: deadline)).rows.first)
        #expect(row.sequence == former.sequence && row.incarnation != former.incarnation)
        for resolution: Resolution in [.durable, .postponed("full"), .taken, .refused("full"), .unknown] {
            #expect(harness.turn(.resolved(Resolved(former, resolution))).isEmpty)
        }
        #expect(harness.turn(.resolved(Resolved(row, .durable))).replies.count == 1)
    }

    @Test("reads only the rest of a partition that it has followed")
    func following() {
        harness.turn(.engine(.followed(LoopHarness.stored())))
        let effects = harness.turn(.order(.serve(LoopHarness.partition, Epoch(3))))
        guard case .call(.load(LoopHarness.partition, Epoch(3), .some))? = effects.first else {
            Issue.record("\(effects)")
            return
        }
        harness.turn(.engine(.followed(LoopHarness.stored(PartitionID(1)))))
        harness.turn(.order(.unfollow(PartitionID(1))))
        guard case .call(.load(_, _, nil))? = harness.turn(.order(.serve(PartitionID(1), Epoch(3)))).first
        else {
            Issue.record("what was thrown away is gone on with")
            return
        }
    }

    @Test("on a node of its own, loads a lost partition again, and a second later where that fails")
    func loading() {
        let harness = LoopHarness(isClustered: false)
        harness.turn(.engine(.loaded(LoopHarness.stored(), Epoch(3), quotas: [:])))
        let lost = harness.turn(.lost(LoopHarness.partition, mayHaveAppended: false, reason: "a test"))
        #expect(lost.closing == [LoopHarness.partition], "rows of the lost machine are settled first")
        let closed = harness.turn(.engine(.closed(LoopHarness.partition)))
        #expect(
            closed.contains {
                if case .call(.load(LoopHarness.partition, _, nil)) = $0 { true } else { false }
            })
        let failed = harness.turn(
            .engine(.loadFailed(LoopHarness.partition, Epoch(0), isDamaged: false, reason: "a test")))
        guard case .wake(.loadAgain(LoopHarness.partition), let at)? = failed.first else {
            Issue.record("\(failed)")
            return
        }
        #expect(at.since(harness.host.monotonic) == .seconds(1))
    }

    @Test("sees when one of its invariants does not hold")
    func invariants() {
        harness.serve()
        #expect(harness.core.brokenInvariant == nil)
        func isSeen(_ invariant: String, _ change: (LoopCore<LoopHarness.Host>) -> Void) {
            let harness = LoopHarness()
            harness.serve()
            change(harness.core)
            #expect(harness.core.brokenInvariant == invariant)
        }
        isSeen("partition 1 is being given up, and has no machine") { $0.leaving.insert(PartitionID(1)) }
        isSeen("rows of a turn are left") {
            $0.rows = [Row(partition: PartitionID(1), sequence: Sequence(1), payload: [])]
        }
        isSeen("something for another process is left") { $0.say(.nudge, to: LoopHarness.otherProcess) }
        isSeen("partition 2 is served, and the rest of it is awaited") {
            $0.inherited[LoopHarness.partition] = $0.partitions[LoopHarness.partition]
        }
        isSeen("partition 2 is served, and its former machine's rows are not settled") {
            $0.closing[LoopHarness.partition] = [:]
        }
        isSeen("partition 2 is served, and quarantined") { $0.quarantined[LoopHarness.partition] = "a test" }
        isSeen("partition 2 stands in the place of 1") {
            $0.partitions[PartitionID(1)] = $0.partitions[LoopHarness.partition]
        }
    }

    @Test("reads a damaged partition three times more, then quarantines it")
    func damaged() {
        harness.turn(.order(.serve(LoopHarness.partition, Epoch(3))))
        let answer = EngineAnswer.loadFailed(
            LoopHarness.partition, Epoch(3), isDamaged: true, reason: "a gap")
        let waits = (0..<3).map { _ -> UInt64 in
            guard case .wake(.loadAgain, let at)? = harness.turn(.engine(answer)).first else { return 0 }
            return at.since(harness.host.monotonic).seconds
        }
        #expect(waits == [1, 2, 4])
        let last = harness.turn(.engine(answer))
        #expect(last.contains { if case .noted(.quarantined) = $0 { true } else { false } })
        #expect(last.contains { if case .serving = $0 { true } else { false } })
        #expect(harness.turn(.timer(.loadAgain(LoopHarness.partition))).isEmpty)
    }

    /// The node gave the partition up while the loop read it, and has perhaps taken the partition again
    /// since.
    @Test("serves nothing on an answer for an epoch that is over")
    func staleLoad() {
        harness.turn(.order(.serve(LoopHarness.partition, Epoch(3))))
        harness.turn(.order(.drop(LoopHarness.partition)))
        harness.turn(.engine(.loaded(LoopHarness.stored(), Epoch(3), quotas: [:])))
        #expect(harness.core.partitions.isEmpty)
        harness.turn(.order(.serve(LoopHarness.partition, Epoch(5))))
        harness.turn(.engine(.loaded(LoopHarness.stored(), Epoch(3), quotas: [:])))
        #expect(harness.core.partitions.isEmpty)
        harness.turn(.engine(.loaded(LoopHarness.stored(), Epoch(5), quotas: [:])))
        #expect(harness.core.partitions[LoopHarness.partition] != nil)
    }

    @Test("closes a partition once, however often it is told to, and not a partition that it has again")
    func closingOnce() {
        harness.serve()
        #expect(harness.turn(.order(.release(LoopHarness.partition))).closing == [LoopHarness.partition])
        #expect(harness.turn(.order(.release(LoopHarness.partition))).closing.isEmpty)
        harness.turn(.order(.serve(LoopHarness.partition, Epoch(5))))
        #expect(harness.turn(.engine(.closed(LoopHarness.partition))).givenUp.isEmpty)
    }

    /// A partition that begins after the leap has no earlier reading of the clock, but its loop has one.
    @Test("lets no partition begin with a clock that has leapt")
    func leap() {
        harness.turn(.order(.serve(LoopHarness.partition, Epoch(3))))
        harness.years = 1
        harness.turn()
        let effects = harness.turn(.engine(.loaded(LoopHarness.stored(), Epoch(3), quotas: [:])))
        let later = effects + harness.turn(.timer(.partition(LoopHarness.partition, harness.now.monotonic)))
        #expect(
            later.contains {
                if case .noted(.partition(LoopHarness.partition, .clockLeapt)) = $0 { true } else { false }
            })
    }

    /// A database that does not answer says nothing of the session.
    @Test("asks again whether its session lives when the engine did not say, and throws nothing away")
    func confirming() {
        harness.serve()
        let failed = harness.turn(.engine(.confirmFailed(LoopHarness.partition, token: 7)))
        guard case .wake(.confirmAgain(LoopHarness.partition, 7), _)? = failed.first, failed.count == 1 else {
            Issue.record("\(failed)")
            return
        }
        let again = harness.turn(.timer(.confirmAgain(LoopHarness.partition, token: 7)))
        #expect(
            again.contains { if case .call(.confirm(LoopHarness.partition, 7)) = $0 { true } else { false } })
        #expect(harness.core.partitions[LoopHarness.partition] != nil)
        harness.turn(.lost(LoopHarness.partition, mayHaveAppended: true, reason: "a test"))
        #expect(harness.turn(.timer(.confirmAgain(LoopHarness.partition, token: 7))).isEmpty)
    }

    /// The fact that registers device 0 in project 5.
    private static let registration: [UInt8] = [2, 0, 5] + [UInt8](repeating: 1, count: 14)
    /// A record that is no list of facts, and one that registers a device twice.
    private static let damage: [[UInt8]] = [[255, 255, 255], registration + registration]

    @Test(
        "keeps a partition that cannot be folded out of service, and serves the others",
        arguments: damage, [false, true])
    func quarantine(body: [UInt8], isFollowed: Bool) {
        harness.serve()
        harness.turn(.order(.release(LoopHarness.partition)))
        harness.turn(.engine(.closed(LoopHarness.partition)))
        let torn = StoredPartition(
            LoopHarness.partition,
            records: [StoredRecord(sequence: Sequence(1), epoch: Epoch(1), body: body)])
        // An heir that reads early finds the damage before it owns the partition.
        if isFollowed { harness.turn(.engine(.followed(torn))) }
        harness.turn(.order(.serve(LoopHarness.partition, Epoch(5))))
        let effects = harness.turn(.engine(.loaded(torn, Epoch(5), quotas: [:])))
        #expect(effects.contains { if case .noted(.quarantined) = $0 { true } else { false } })
        #expect(effects.contains { if case .serving(LoopHarness.partition) = $0 { true } else { false } })
        let deadline = harness.host.monotonic.advanced(by: .seconds(5))
        let asked = harness.turn(LoopHarness.registration(epoch: Epoch(5), deadline: deadline))
        guard asked.rows.isEmpty, case .refused(.unavailable(let why))? = asked.replies.first else {
            Issue.record("\(asked)")
            return
        }
        #expect(why.contains("quarantined"))
        harness.turn(.order(.serve(PartitionID(1), Epoch(3))))
        harness.turn(.engine(.loaded(LoopHarness.stored(PartitionID(1)), Epoch(3), quotas: [:])))
        #expect(harness.core.partitions[PartitionID(1)] != nil)
        harness.turn(.order(.release(LoopHarness.partition)))
        #expect(harness.core.quarantined.isEmpty, "the next owner finds out again")
    }

    @Test("deletes rows slice by slice until none is left")
    func trimming() {
        harness.core.trims[LoopHarness.partition] = .init(below: Sequence(9), keeping: [Sequence(4)])
        guard
            case .call(.trim(LoopHarness.partition, Sequence(9), [Sequence(4)]))? =
                harness.turn(.engine(.trimmed(LoopHarness.partition, left: 3))).first
        else {
            Issue.record("it stops though rows are left")
            return
        }
        #expect(harness.turn(.engine(.trimmed(LoopHarness.partition, left: 0))).isEmpty)
        #expect(harness.core.trims.isEmpty)
    }
}

@Suite("A client's request") struct RequestDateTests {
    @Test("is dated by the clock that is believed", arguments: [271, -20_000] as [Int64])
    func date(days: Int64) {
        let harness = LoopHarness(isClustered: false)
        let before = harness.core.believed(harness.now).wall
        var leapt = harness.now
        leapt.monotonic = leapt.monotonic.advanced(by: .seconds(2))
        leapt.wall = WallTime(milliseconds: leapt.wall.milliseconds + days * 86_400_000)
        #expect(harness.core.believed(leapt).wall.milliseconds == before.milliseconds + 2000)
    }
}

@Suite("A frame of a peer") struct PeerFrameTests {
    @Test("is sorted by loop, and what concerns no loop or partition of this node is left out")
    func sorting() {
        let map = NodeMap(partitionCount: 4, loopCount: 2)
        var writer = ByteWriter()
        func ask(_ partition: UInt16) {
            let id = RequestID(gateway: GatewayID(processID: 6, loop: 0), number: 1)
            let request = Request.members(project: LoopHarness.project, TopicName(checked: Array("t".utf8)))
            PeerMessage.request(PartitionID(partition), Epoch(1), id, request, left: 1000)
                .encode(into: &writer)
        }
        for partition: UInt16 in [1, 2, 3, 77] { ask(partition) }
        let nobody = RequestID(gateway: GatewayID(processID: 5, loop: 9), number: 1)
        PeerMessage.reply(nobody, .done).encode(into: &writer)
        PeerMessage.gap.encode(into: &writer)
        PeerMessage.nudge.encode(into: &writer)
        let whole = PeerFrame(writer.bytes, from: 6, after: MonotonicTime.zero, map)
        #expect(whole.batches.map(\.count) == [2, 3] && whole.words.count == 1 && whole.mistake == nil)
        let cut = PeerFrame(
            Array(writer.bytes.dropLast()) + [255], from: 6, after: MonotonicTime.zero, map)
        #expect(cut.batches.map(\.count) == [2, 3] && cut.words.isEmpty && cut.mistake != nil)
    }
}
