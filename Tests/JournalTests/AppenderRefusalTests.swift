import Journal
import Model
import Testing

/// A record that the engine refused is certainly not in: the appender keeps it and appends it again.
extension AppenderTests {
    @Test("appends refused records again in order, after longer pauses, while others go on")
    func inOrder() {
        var appender = Appender(session: session)
        let (a, behind, other, late) = (row(0, 1), row(0, 2), row(1, 1), row(0, 3))
        _ = on(&appender, .offered([a]))
        _ = on(&appender, .offered([behind, other]))
        #expect(
            on(&appender, .finished(.refused("full"))) == [
                .resolved([resolved(a, .postponed("full"))]), .append(second, [other]),
            ], "others go on")
        #expect(on(&appender, .offered([late])) == [])
        #expect(
            on(&appender, .finished(.rows([.appended])), milliseconds: 1) == [
                .resolved([resolved(other, .durable)])
            ])
        #expect(appender.isIdle && appender.waitingRows == 3)
        #expect(appender.retryAt == MonotonicTime(.milliseconds(50)))
        #expect(on(&appender, .woke, milliseconds: 49) == [])
        let third = BatchID(3 << 40 | 3)
        #expect(on(&appender, .woke, milliseconds: 50) == [.append(third, [a, behind, late])])
        let last = row(0, 4)
        #expect(on(&appender, .offered([last]), milliseconds: 51) == [])
        #expect(
            on(&appender, .finished(.refused("full")), milliseconds: 60) == [
                .resolved([resolved(a, .postponed("full"))])
            ])
        #expect(appender.retryAt == MonotonicTime(.milliseconds(160)), "twice as long")
        let fourth = BatchID(3 << 40 | 4)
        #expect(
            on(&appender, .woke, milliseconds: 160) == [.append(fourth, [a, behind, late, last])])
        let appended = AppendOutcome.rows([.appended, .appended, .appended, .appended])
        #expect(
            on(&appender, .finished(appended), milliseconds: 161) == [
                .resolved([a, behind, late, last].map { resolved($0, .durable) })
            ])
        #expect(appender.isIdle && appender.retryAt == nil)
    }

    @Test("waits longer after each refusal, and at most 2 s")
    func theBackOffIsBounded() {
        var appender = Appender(session: session)
        var time: UInt64 = 0
        var pauses: [UInt64] = []
        _ = on(&appender, .offered([row(0, 1)]))
        for _ in 0..<8 {
            _ = on(&appender, .finished(.refused("full")), milliseconds: time)
            let due = (appender.retryAt?.nanoseconds ?? 0) / 1_000_000
            pauses.append(due - time)
            time = due
            _ = on(&appender, .woke, milliseconds: time)
        }
        #expect(pauses == [50, 100, 200, 400, 800, 1600, 2000, 2000])
    }

    /// When the engine takes a record, each refused partition tries again 250 ms after its last try.
    @Test("tries refused partitions again within 250 ms once the engine takes another record")
    func shorterBackOff() {
        var appender = Appender(session: session)
        _ = on(&appender, .offered([row(0, 1)]))
        var time: UInt64 = 0
        for _ in 0..<6 {
            _ = on(&appender, .finished(.refused("full")), milliseconds: time)
            time = (appender.retryAt?.nanoseconds ?? 0) / 1_000_000
            _ = on(&appender, .woke, milliseconds: time)
        }
        _ = on(&appender, .finished(.refused("full")), milliseconds: time)
        _ = on(&appender, .offered([row(1, 1)]), milliseconds: time)
        _ = on(&appender, .finished(.rows([.appended])), milliseconds: time + 10)
        #expect(appender.retryAt == MonotonicTime(.milliseconds(time + 250)))
    }

    /// A record that cannot go in must not hold up other partitions for ever.
    @Test("tries fewer partitions in each retry, in turns with new records")
    func halves() {
        var appender = Appender(session: session)
        _ = on(&appender, .offered([row(999, 1)]))
        _ = on(&appender, .offered((0..<256).map { row($0, 1) }))
        _ = on(&appender, .finished(.rows([.appended])))
        _ = on(&appender, .finished(.refused("full")))
        guard case .append(_, let half)? = on(&appender, .woke, milliseconds: 50).last else {
            Issue.record("nothing is tried again")
            return
        }
        #expect(half.count == 128)
        // New records take turns with records that are tried again.
        _ = on(&appender, .offered([row(999, 2)]), milliseconds: 51)
        guard case .append(_, let new)? = on(&appender, .finished(.refused("full")), milliseconds: 60).last
        else {
            Issue.record("what is new is not appended")
            return
        }
        #expect(new == [row(999, 2)])
    }

    @Test("appends refused records of more than one batch in order, batch after batch")
    func beyondBatch() {
        var appender = Appender(session: session)
        let large = (1...3).map { row(0, UInt64($0), bytes: JournalOptions().batchBytesMax / 2 + 1) }
        _ = on(&appender, .offered(large))
        _ = on(&appender, .finished(.refused("full")))
        var order: [UInt64] = []
        var effects = on(&appender, .woke, milliseconds: 50)
        while case .append(_, let rows) = effects.last {
            order += rows.map(\.sequence.rawValue)
            effects = on(
                &appender, .finished(.rows(rows.map { _ in .appended })), milliseconds: 51)
        }
        #expect(order == [1, 2, 3] && appender.isIdle && appender.waitingRows == 0)
    }

    @Test("drops the refused records of a partition that is given up")
    func givenUpDrops() {
        var appender = Appender(session: session)
        let (a, behind) = (row(0, 1), row(0, 2))
        _ = on(&appender, .offered([a, behind]))
        _ = on(&appender, .finished(.refused("full")))
        let reason = Resolution.refused("the node is giving the partition up")
        #expect(
            on(&appender, .closing(a.partition)) == [
                .resolved([resolved(a, reason), resolved(behind, reason)]), .closed(a.partition),
            ])
        #expect(appender.retryAt == nil && on(&appender, .woke, milliseconds: 9999) == [])
    }

    /// The appender settles the try under way first. Where the engine refuses again, the appender drops the
    /// record.
    @Test("tries a record no more whose partition is given up during a retry")
    func givenUpInFlight() {
        var appender = Appender(session: session)
        let a = row(0, 1)
        _ = on(&appender, .offered([a]))
        _ = on(&appender, .finished(.refused("full")))
        _ = on(&appender, .woke, milliseconds: 50)
        #expect(on(&appender, .closing(a.partition), milliseconds: 51) == [])
        #expect(
            on(&appender, .finished(.refused("full")), milliseconds: 52) == [
                .resolved([resolved(a, .refused("full"))]), .closed(a.partition),
            ])
        #expect(appender.retryAt == nil)
    }

    @Test("ends retries where the partition is taken or the session is dead")
    func retryTooLate() {
        var appender = Appender(session: session)
        let (a, behind, other) = (row(0, 1), row(0, 2), row(1, 1))
        _ = on(&appender, .offered([a, other]))
        _ = on(&appender, .finished(.refused("full")))
        _ = on(&appender, .woke, milliseconds: 50)
        _ = on(&appender, .offered([behind]), milliseconds: 51)
        #expect(
            on(&appender, .finished(.rows([.unowned, .appended])), milliseconds: 52) == [
                .resolved([
                    resolved(a, .taken), resolved(other, .durable), resolved(behind, .taken),
                ])
            ])
        let more = row(1, 2)
        _ = on(&appender, .offered([more]), milliseconds: 60)
        _ = on(&appender, .finished(.refused("full")), milliseconds: 60)
        _ = on(&appender, .woke, milliseconds: 110)
        #expect(
            on(&appender, .finished(.rows([.fenced])), milliseconds: 111) == [
                .resolved([resolved(more, .fenced)])
            ])
        #expect(appender.isFenced && appender.isIdle && appender.retryAt == nil)
    }

    /// The reply to a retry may be lost like any other.
    @Test("repeats a retry that is in doubt until its outcome is known")
    func aRetryMayBeInDoubt() {
        var appender = Appender(session: session)
        let (a, behind) = (row(0, 1), row(0, 2))
        _ = on(&appender, .offered([a]))
        _ = on(&appender, .finished(.refused("full")))
        _ = on(&appender, .woke, milliseconds: 50)
        _ = on(&appender, .offered([behind]), milliseconds: 51)
        #expect(
            on(&appender, .finished(.unknown("cut")), milliseconds: 52) == [.append(second, [a])])
        #expect(
            on(&appender, .finished(.refused("full")), milliseconds: 53) == [.append(second, [a])])
        #expect(
            on(&appender, .finished(.rows([.appended])), milliseconds: 54) == [
                .resolved([resolved(a, .durable)]), .append(BatchID(3 << 40 | 3), [behind]),
            ])
    }

    @Test("forgets the refused records of a partition that is opened again")
    func openedAgain() {
        var appender = Appender(session: session)
        _ = on(&appender, .offered([row(0, 1), row(0, 2)]))
        _ = on(&appender, .finished(.refused("full")))
        _ = on(&appender, .opened(PartitionID(0), next: Sequence(5)))
        #expect(appender.retryAt == nil && appender.waitingRows == 0)
        #expect(on(&appender, .offered([row(0, 5)])) == [.append(second, [row(0, 5)])])
    }
}
