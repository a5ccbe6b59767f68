import Journal
import Model
import Testing

/// The machine of group commit, one branch a test.
@Suite("The appender") final class AppenderTests {
    let session = SessionID(3)
    private(set) lazy var appender = Appender(session: session)
    var first: BatchID { BatchID(3 << 40 | 1) }
    var second: BatchID { BatchID(3 << 40 | 2) }

    func row(_ partition: Int, _ sequence: UInt64, bytes: Int = 10) -> Row {
        Row(
            partition: PartitionID(UInt16(partition)), sequence: Sequence(sequence),
            payload: [UInt8](repeating: 1, count: bytes))
    }

    func on(_ event: Appender.Event, milliseconds: UInt64 = 0) -> [Appender.Effect] {
        var effects: [Appender.Effect] = []
        appender.on(event, now: MonotonicTime(.milliseconds(milliseconds)), into: &effects)
        return effects
    }

    private func looked(_ row: Row, _ batch: BatchID?) -> Appender.Event {
        .looked(row.partition, row.sequence, batch: batch)
    }

    @Test("puts records that come during a commit into the next")
    func duringCommit() {
        let (a, b, c) = (row(0, 1), row(1, 1), row(0, 2))
        #expect(on(.offered([a])) == [.append(first, [a])])
        #expect(on(.offered([b])) == [])
        #expect(on(.offered([c])) == [])
        #expect(
            on(.finished(.rows([.appended]))) == [
                .resolved([Resolved(a, .durable)]), .append(second, [b, c]),
            ])
        #expect(
            on(.finished(.rows([.appended, .appended]))) == [
                .resolved([Resolved(b, .durable), Resolved(c, .durable)])
            ])
        #expect(appender.isIdle)
    }

    @Test("bounds a batch by rows and by bytes")
    func batchBound() {
        _ = on(.offered([row(9, 1)]))
        let rows = (1...300).map { row(0, UInt64($0)) }
        let large = (1...3).map { row(1, UInt64($0), bytes: JournalOptions().batchBytesMax / 2 + 1) }
        _ = on(.offered(rows))
        _ = on(.offered(large))
        var sizes: [Int] = []
        var effects = on(.finished(.rows([.appended])))
        while case .append(_, let batch) = effects.last {
            sizes.append(batch.count)
            effects = on(.finished(.rows(Array(repeating: .appended, count: batch.count))))
        }
        #expect(sizes == [256, 45, 1, 1])
    }

    @Test("repeats a batch whose reply was lost under the same number")
    func lostReply() {
        let (a, b) = (row(0, 1), row(1, 1))
        _ = on(.offered([a, b]))
        #expect(on(.finished(.unknown("cut"))) == [.append(first, [a, b])])
        #expect(appender.isInDoubt)
        // A refusal of the repeat says nothing of the first try.
        #expect(on(.finished(.refused("full"))) == [.append(first, [a, b])])
        // The records went in only now: the repeat's own commit acknowledges them.
        #expect(
            on(.finished(.rows([.appended, .appended]))) == [
                .resolved([Resolved(a, .durable), Resolved(b, .durable)])
            ])
        #expect(appender.isIdle)
    }

    @Test("acknowledges what a lost reply put in with the repeat that found it")
    func foundByRepeat() {
        let (a, b, later) = (row(0, 1), row(1, 1), row(0, 2))
        _ = on(.offered([a, b]))
        _ = on(.finished(.unknown("cut")))
        #expect(
            on(.finished(.rows([.taken, .taken]))) == [
                .look(a.partition, a.sequence), .look(b.partition, b.sequence),
            ])
        #expect(on(.offered([later])) == [])
        #expect(on(looked(a, first)) == [])
        #expect(
            on(looked(b, first)) == [
                .resolved([Resolved(a, .durable), Resolved(b, .durable)]), .append(second, [later]),
            ])
        _ = on(.finished(.rows([.appended])))
        #expect(appender.isIdle)
    }

    /// The database fails over between the repeat and the look.
    @Test("appends a record again that was forgotten before the look")
    func forgotten() {
        let (a, behind) = (row(0, 1), row(0, 2))
        _ = on(.offered([a]))
        _ = on(.finished(.unknown("cut")))
        _ = on(.finished(.rows([.taken])))
        _ = on(.offered([behind]))
        #expect(on(looked(a, nil)) == [.append(first, [a])])
        #expect(
            on(.finished(.rows([.appended]))) == [
                .resolved([Resolved(a, .durable)]), .append(second, [behind]),
            ])
    }

    @Test("takes a partition for lost where another owner's record stands")
    func anothersRecord() {
        let (a, next, waiting, other) = (row(0, 1), row(0, 2), row(0, 3), row(1, 1))
        _ = on(.offered([a, next, other]))
        _ = on(.offered([waiting]))
        #expect(on(.finished(.rows([.taken, .appended, .appended]))) == [.look(a.partition, a.sequence)])
        #expect(
            on(looked(a, BatchID(1))) == [
                .resolved([
                    Resolved(a, .taken), Resolved(next, .unknown), Resolved(other, .durable),
                    Resolved(waiting, .taken),
                ])
            ])
        let after = row(0, 4)
        #expect(on(.offered([after])) == [.resolved([Resolved(after, .taken)])])
        let again = row(0, 8)
        _ = on(.opened(again.partition, next: again.sequence))
        #expect(on(.offered([again])) == [.append(second, [again])])
    }

    @Test("tries a place again that was taken and is free at the look")
    func freeAgain() {
        let (a, b) = (row(0, 1), row(1, 1))
        _ = on(.offered([a, b]))
        _ = on(.finished(.rows([.taken, .appended])))
        #expect(on(looked(a, nil)) == [.resolved([Resolved(b, .durable)]), .append(first, [a])])
        #expect(on(.finished(.rows([.appended]))) == [.resolved([Resolved(a, .durable)])])
    }

    @Test("never appends again once its session is fenced")
    func fenced() {
        let (a, b, waiting) = (row(0, 1), row(1, 1), row(0, 2))
        _ = on(.offered([a, b]))
        _ = on(.offered([waiting]))
        #expect(
            on(.finished(.rows([.fenced, .fenced]))) == [
                .resolved([Resolved(a, .fenced), Resolved(b, .fenced), Resolved(waiting, .fenced)])
            ])
        #expect(appender.isFenced && appender.isIdle)
        let late = row(1, 2)
        #expect(on(.offered([late])) == [.resolved([Resolved(late, .fenced)])])
    }

    @Test("reports no success for a record in doubt when the session dies")
    func doubtFenced() {
        let a = row(0, 1)
        _ = on(.offered([a]))
        _ = on(.finished(.unknown("cut")))
        #expect(on(.finished(.rows([.fenced]))) == [.resolved([Resolved(a, .fenced)])])
        #expect(appender.isFenced)
    }

    /// The appender settles records in flight first, however long that takes: a record that went in later
    /// would stand behind the next owner's barrier.
    @Test("gives a partition up when none of its records is in doubt")
    func givenUp() {
        let (a, other, waiting) = (row(0, 1), row(1, 1), row(0, 2))
        _ = on(.offered([a, other]))
        _ = on(.offered([waiting]))
        let dropped = Resolved(waiting, .refused("the node is giving the partition up"))
        #expect(on(.closing(a.partition)) == [.resolved([dropped])])
        #expect(on(.offered([waiting])) == [.resolved([dropped])], "nothing more is taken in")
        #expect(on(.finished(.unknown("cut"))) == [.append(first, [a, other])])
        #expect(on(.finished(.rows([.taken, .appended]))) == [.look(a.partition, a.sequence)])
        #expect(
            on(looked(a, first)) == [
                .resolved([Resolved(a, .durable), Resolved(other, .durable)]), .closed(a.partition),
            ])
        let again = row(0, 9)
        _ = on(.opened(again.partition, next: again.sequence))
        #expect(on(.offered([again])) == [.append(second, [again])])
    }

    @Test("closes an idle partition at once, and a busy one with its last record")
    func idleClosed() {
        _ = on(.offered([row(1, 1)]))
        #expect(on(.closing(PartitionID(0))) == [.closed(PartitionID(0))])
        #expect(on(.closing(PartitionID(1))) == [])
        #expect(
            on(.finished(.refused("full"))) == [
                .resolved([Resolved(row(1, 1), .refused("full"))]), .closed(PartitionID(1)),
            ])
        #expect(
            on(.offered([row(1, 1)])) == [
                .resolved([Resolved(row(1, 1), .refused("the node is giving the partition up"))])
            ], "a refusal does not open it")
    }

    @Test("closes what it gives up although its session is fenced")
    func fencedCloses() {
        _ = on(.offered([row(0, 1)]))
        _ = on(.closing(PartitionID(0)))
        #expect(
            on(.finished(.rows([.fenced]))) == [
                .resolved([Resolved(row(0, 1), .fenced)]), .closed(PartitionID(0)),
            ])
        #expect(on(.closing(PartitionID(1))) == [.closed(PartitionID(1))])
    }

    /// The older row's sequence was another owner's, and the newer row went in behind it. Nobody may say that
    /// the newer row is not in.
    @Test("calls a record unknown that went in behind another owner's")
    func behindAnothers() {
        let (old, new) = (row(0, 33), row(0, 34))
        _ = on(.offered([old, new]))
        _ = on(.finished(.rows([.taken, .appended])))
        #expect(on(looked(old, BatchID(1))) == [.resolved([Resolved(old, .taken), Resolved(new, .unknown)])])
    }

    @Test("reports the records of a partition that it does not own as not in")
    func notOwned() {
        let (a, b, waiting) = (row(0, 1), row(1, 1), row(0, 2))
        _ = on(.offered([a, b]))
        _ = on(.offered([waiting]))
        #expect(
            on(.finished(.rows([.unowned, .appended]))) == [
                .resolved([Resolved(a, .taken), Resolved(b, .durable), Resolved(waiting, .taken)])
            ])
    }

    /// The first try may have gone in while the partition was still this session's.
    @Test("calls a record in doubt unknown where the partition is no longer its own")
    func notOwnedDoubt() {
        let a = row(0, 1)
        _ = on(.offered([a]))
        _ = on(.finished(.unknown("cut")))
        #expect(on(.finished(.rows([.unowned]))) == [.resolved([Resolved(a, .unknown)])])
    }

    /// The partitions have folded the facts of these rows: the rows wait like all others, and the appender
    /// tells the partitions.
    @Test("lets records past the bound wait, and tells their partitions")
    func crowded() {
        var options = JournalOptions()
        (options.waitingRowsMax, options.waitingBytesMax) = (3, 1000)
        appender = Appender(session: session, options: options)
        let (a, b, large, last) = (row(1, 1), row(0, 1), row(0, 2, bytes: 1000), row(2, 1))
        _ = on(.offered([a]))
        #expect(on(.offered([b, large])) == [])
        #expect(on(.offered([last])) == [.resolved([Resolved(last, .crowded)])], "by bytes")
        #expect(on(.offered([row(2, 2)])) == [.resolved([Resolved(row(2, 2), .crowded)])])
        guard case .append(_, let rows)? = on(.finished(.rows([.appended]))).last else {
            Issue.record("nothing goes in")
            return
        }
        #expect(rows == [b, large, last, row(2, 2)])
        #expect(on(.offered([row(0, 3)])) == [], "they are in flight and wait no more")
    }
}
