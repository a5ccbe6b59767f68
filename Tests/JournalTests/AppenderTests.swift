import Journal
import Model
import Testing

/// The machine of group commit, one branch a test.
@Suite("The appender") struct AppenderTests {
    let session = SessionID(3)
    var first: BatchID { BatchID(3 << 40 | 1) }
    var second: BatchID { BatchID(3 << 40 | 2) }

    func row(_ partition: Int, _ sequence: UInt64, bytes: Int = 10) -> Row {
        Row(
            partition: PartitionID(UInt16(partition)), sequence: Sequence(sequence),
            payload: [UInt8](repeating: 1, count: bytes))
    }

    func resolved(_ row: Row, _ resolution: Resolution) -> Resolved {
        Resolved(row, resolution)
    }

    func on(
        _ appender: inout Appender, _ event: Appender.Event, milliseconds: UInt64 = 0
    ) -> [Appender.Effect] {
        var effects: [Appender.Effect] = []
        appender.on(
            event, now: MonotonicTime(.milliseconds(milliseconds)), into: &effects)
        return effects
    }

    private func looked(_ row: Row, _ batch: BatchID?) -> Appender.Event {
        .looked(row.partition, row.sequence, batch: batch)
    }

    @Test("puts records that come during a commit into the next")
    func duringCommit() {
        var appender = Appender(session: session)
        let (a, b, c) = (row(0, 1), row(1, 1), row(0, 2))
        #expect(on(&appender, .offered([a])) == [.append(first, [a])])
        #expect(on(&appender, .offered([b])) == [])
        #expect(on(&appender, .offered([c])) == [])
        #expect(
            on(&appender, .finished(.rows([.appended]))) == [
                .resolved([resolved(a, .durable)]), .append(second, [b, c]),
            ])
        #expect(
            on(&appender, .finished(.rows([.appended, .appended]))) == [
                .resolved([resolved(b, .durable), resolved(c, .durable)])
            ])
        #expect(appender.isIdle)
    }

    @Test("bounds a batch by rows and by bytes")
    func batchBound() {
        var appender = Appender(session: session)
        _ = on(&appender, .offered([row(9, 1)]))
        let rows = (1...300).map { row(0, UInt64($0)) }
        let large = (1...3).map { row(1, UInt64($0), bytes: JournalOptions().batchBytesMax / 2 + 1) }
        _ = on(&appender, .offered(rows))
        _ = on(&appender, .offered(large))
        var sizes: [Int] = []
        var effects = on(&appender, .finished(.rows([.appended])))
        while case .append(_, let batch) = effects.last {
            sizes.append(batch.count)
            effects = on(&appender, .finished(.rows(Array(repeating: .appended, count: batch.count))))
        }
        #expect(sizes == [256, 45, 1, 1])
    }

    @Test("repeats a batch whose reply was lost under the same number")
    func lostReply() {
        var appender = Appender(session: session)
        let (a, b) = (row(0, 1), row(1, 1))
        _ = on(&appender, .offered([a, b]))
        #expect(on(&appender, .finished(.unknown("cut"))) == [.append(first, [a, b])])
        #expect(appender.isInDoubt)
        // A refusal of the repeat says nothing of the first try.
        #expect(on(&appender, .finished(.refused("full"))) == [.append(first, [a, b])])
        // The records went in only now: the repeat's own commit acknowledges them.
        #expect(
            on(&appender, .finished(.rows([.appended, .appended]))) == [
                .resolved([resolved(a, .durable), resolved(b, .durable)])
            ])
        #expect(appender.isIdle)
    }

    @Test("acknowledges what a lost reply put in with the repeat that found it")
    func foundByRepeat() {
        var appender = Appender(session: session)
        let (a, b, later) = (row(0, 1), row(1, 1), row(0, 2))
        _ = on(&appender, .offered([a, b]))
        _ = on(&appender, .finished(.unknown("cut")))
        #expect(
            on(&appender, .finished(.rows([.taken, .taken]))) == [
                .look(a.partition, a.sequence), .look(b.partition, b.sequence),
            ])
        #expect(on(&appender, .offered([later])) == [])
        #expect(on(&appender, looked(a, first)) == [])
        #expect(
            on(&appender, looked(b, first)) == [
                .resolved([resolved(a, .durable), resolved(b, .durable)]), .append(second, [later]),
            ])
        _ = on(&appender, .finished(.rows([.appended])))
        #expect(appender.isIdle)
    }

    /// The database fails over between the repeat and the look.
    @Test("appends a record again that was forgotten before the look")
    func forgotten() {
        var appender = Appender(session: session)
        let (a, behind) = (row(0, 1), row(0, 2))
        _ = on(&appender, .offered([a]))
        _ = on(&appender, .finished(.unknown("cut")))
        _ = on(&appender, .finished(.rows([.taken])))
        _ = on(&appender, .offered([behind]))
        #expect(on(&appender, looked(a, nil)) == [.append(first, [a])])
        #expect(
            on(&appender, .finished(.rows([.appended]))) == [
                .resolved([resolved(a, .durable)]), .append(second, [behind]),
            ])
    }

    @Test("takes a partition for lost where another owner's record stands")
    func anothersRecord() {
        var appender = Appender(session: session)
        let (a, next, waiting, other) = (row(0, 1), row(0, 2), row(0, 3), row(1, 1))
        _ = on(&appender, .offered([a, next, other]))
        _ = on(&appender, .offered([waiting]))
        #expect(
            on(&appender, .finished(.rows([.taken, .appended, .appended]))) == [
                .look(a.partition, a.sequence)
            ])
        #expect(
            on(&appender, looked(a, BatchID(1))) == [
                .resolved([
                    resolved(a, .taken), resolved(next, .unknown), resolved(other, .durable),
                    resolved(waiting, .taken),
                ])
            ])
        let after = row(0, 4)
        #expect(on(&appender, .offered([after])) == [.resolved([resolved(after, .taken)])])
        let again = row(0, 8)
        _ = on(&appender, .opened(again.partition, next: again.sequence))
        #expect(on(&appender, .offered([again])) == [.append(second, [again])])
    }

    @Test("tries a place again that was taken and is free at the look")
    func freeAgain() {
        var appender = Appender(session: session)
        let (a, b) = (row(0, 1), row(1, 1))
        _ = on(&appender, .offered([a, b]))
        _ = on(&appender, .finished(.rows([.taken, .appended])))
        #expect(
            on(&appender, looked(a, nil)) == [.resolved([resolved(b, .durable)]), .append(first, [a])])
        #expect(on(&appender, .finished(.rows([.appended]))) == [.resolved([resolved(a, .durable)])])
    }

    @Test("never appends again once its session is fenced")
    func fenced() {
        var appender = Appender(session: session)
        let (a, b, waiting) = (row(0, 1), row(1, 1), row(0, 2))
        _ = on(&appender, .offered([a, b]))
        _ = on(&appender, .offered([waiting]))
        #expect(
            on(&appender, .finished(.rows([.fenced, .fenced]))) == [
                .resolved([resolved(a, .fenced), resolved(b, .fenced), resolved(waiting, .fenced)])
            ])
        #expect(appender.isFenced && appender.isIdle)
        let late = row(1, 2)
        #expect(on(&appender, .offered([late])) == [.resolved([resolved(late, .fenced)])])
    }

    @Test("reports no success for a record in doubt when the session dies")
    func doubtFenced() {
        var appender = Appender(session: session)
        let a = row(0, 1)
        _ = on(&appender, .offered([a]))
        _ = on(&appender, .finished(.unknown("cut")))
        #expect(on(&appender, .finished(.rows([.fenced]))) == [.resolved([resolved(a, .fenced)])])
        #expect(appender.isFenced)
    }

    /// The appender settles records in flight first, however long that takes: a record that went in later
    /// would stand behind the next owner's barrier.
    @Test("gives a partition up when none of its records is in doubt")
    func givenUp() {
        var appender = Appender(session: session)
        let (a, other, waiting) = (row(0, 1), row(1, 1), row(0, 2))
        _ = on(&appender, .offered([a, other]))
        _ = on(&appender, .offered([waiting]))
        let dropped = resolved(waiting, .refused("the node is giving the partition up"))
        #expect(on(&appender, .closing(a.partition)) == [.resolved([dropped])])
        #expect(
            on(&appender, .offered([waiting])) == [.resolved([dropped])], "nothing more is taken in")
        #expect(on(&appender, .finished(.unknown("cut"))) == [.append(first, [a, other])])
        #expect(
            on(&appender, .finished(.rows([.taken, .appended]))) == [.look(a.partition, a.sequence)])
        #expect(
            on(&appender, looked(a, first)) == [
                .resolved([resolved(a, .durable), resolved(other, .durable)]), .closed(a.partition),
            ])
        let again = row(0, 9)
        _ = on(&appender, .opened(again.partition, next: again.sequence))
        #expect(on(&appender, .offered([again])) == [.append(second, [again])])
    }

    @Test("closes an idle partition at once, and a busy one with its last record")
    func idleClosed() {
        var appender = Appender(session: session)
        _ = on(&appender, .offered([row(1, 1)]))
        #expect(on(&appender, .closing(PartitionID(0))) == [.closed(PartitionID(0))])
        #expect(on(&appender, .closing(PartitionID(1))) == [])
        #expect(
            on(&appender, .finished(.refused("full"))) == [
                .resolved([resolved(row(1, 1), .refused("full"))]), .closed(PartitionID(1)),
            ])
        #expect(
            on(&appender, .offered([row(1, 1)])) == [
                .resolved([resolved(row(1, 1), .refused("the node is giving the partition up"))])
            ], "a refusal does not open it")
    }

    @Test("closes what it gives up although its session is fenced")
    func fencedCloses() {
        var appender = Appender(session: session)
        _ = on(&appender, .offered([row(0, 1)]))
        _ = on(&appender, .closing(PartitionID(0)))
        #expect(
            on(&appender, .finished(.rows([.fenced]))) == [
                .resolved([resolved(row(0, 1), .fenced)]), .closed(PartitionID(0)),
            ])
        #expect(on(&appender, .closing(PartitionID(1))) == [.closed(PartitionID(1))])
    }

    /// The older row's sequence was another owner's, and the newer row went in behind it. Nobody may say that
    /// the newer row is not in.
    @Test("calls a record unknown that went in behind another owner's")
    func behindAnothers() {
        var appender = Appender(session: session)
        let (old, new) = (row(0, 33), row(0, 34))
        _ = on(&appender, .offered([old, new]))
        _ = on(&appender, .finished(.rows([.taken, .appended])))
        #expect(
            on(&appender, looked(old, BatchID(1))) == [
                .resolved([resolved(old, .taken), resolved(new, .unknown)])
            ])
    }

    @Test("reports the records of a partition that it does not own as not in")
    func notOwned() {
        var appender = Appender(session: session)
        let (a, b, waiting) = (row(0, 1), row(1, 1), row(0, 2))
        _ = on(&appender, .offered([a, b]))
        _ = on(&appender, .offered([waiting]))
        #expect(
            on(&appender, .finished(.rows([.unowned, .appended]))) == [
                .resolved([resolved(a, .taken), resolved(b, .durable), resolved(waiting, .taken)])
            ])
    }

    /// The first try may have gone in while the partition was still this session's.
    @Test("calls a record in doubt unknown where the partition is no longer its own")
    func notOwnedDoubt() {
        var appender = Appender(session: session)
        let a = row(0, 1)
        _ = on(&appender, .offered([a]))
        _ = on(&appender, .finished(.unknown("cut")))
        #expect(on(&appender, .finished(.rows([.unowned]))) == [.resolved([resolved(a, .unknown)])])
    }

    /// The partitions have folded the facts of these rows: the rows wait like all others, and the appender
    /// tells the partitions.
    @Test("lets records past the bound wait, and tells their partitions")
    func crowded() {
        var options = JournalOptions()
        (options.waitingRowsMax, options.waitingBytesMax) = (3, 1000)
        var appender = Appender(session: session, options: options)
        let (a, b, large, last) = (row(1, 1), row(0, 1), row(0, 2, bytes: 1000), row(2, 1))
        _ = on(&appender, .offered([a]))
        #expect(on(&appender, .offered([b, large])) == [])
        #expect(on(&appender, .offered([last])) == [.resolved([resolved(last, .crowded)])], "by bytes")
        #expect(on(&appender, .offered([row(2, 2)])) == [.resolved([resolved(row(2, 2), .crowded)])])
        guard case .append(_, let rows)? = on(&appender, .finished(.rows([.appended]))).last else {
            Issue.record("nothing goes in")
            return
        }
        #expect(rows == [b, large, last, row(2, 2)])
        #expect(on(&appender, .offered([row(0, 3)])) == [], "they are in flight and wait no more")
    }
}
