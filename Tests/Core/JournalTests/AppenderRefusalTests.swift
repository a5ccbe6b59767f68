import Journal
import Model
import Testing

/// A record that the engine refused is certainly not in: the appender keeps it and appends it again.
extension AppenderTests {
    @Test("appends refused records again in order, after longer pauses, while others go on")
    func inOrder() {
        let (a, behind, other, late) = (row(0, 1), row(0, 2), row(1, 1), row(0, 3))
        _ = on(.offered([a]))
        _ = on(.offered([behind, other]))
        #expect(
            on(.finished(.refused("full"))) == [
                .resolved([Resolved(a, .postponed("full"))]), .append(second, [other]),
            ], "others go on")
        #expect(on(.offered([late])) == [])
        #expect(
            on(.finished(.rows([.appended])), milliseconds: 1) == [
                .resolved([Resolved(other, .durable)])
            ])
        #expect(appender.isIdle && appender.waitingRows == 3)
        #expect(appender.retryAt == MonotonicTime(.milliseconds(50)))
        #expect(on(.woke, milliseconds: 49) == [])
        let third = BatchID(3 << 40 | 3)
        #expect(on(.woke, milliseconds: 50) == [.append(third, [a, behind, late])])
        let last = row(0, 4)
        #expect(on(.offered([last]), milliseconds: 51) == [])
        #expect(
            on(.finished(.refused("full")), milliseconds: 60) == [
                .resolved([Resolved(a, .postponed("full"))])
            ])
        #expect(appender.retryAt == MonotonicTime(.milliseconds(160)), "twice as long")
        let fourth = BatchID(3 << 40 | 4)
        #expect(on(.woke, milliseconds: 160) == [.append(fourth, [a, behind, late, last])])
        let appended = AppendOutcome.rows([.appended, .appended, .appended, .appended])
        #expect(
            on(.finished(appended), milliseconds: 161) == [
                .resolved([a, behind, late, last].map { Resolved($0, .durable) })
            ])
        #expect(appender.isIdle && appender.retryAt == nil)
    }

    @Test("waits longer after each refusal, and at most 2 s")
    func theBackOffIsBounded() {
        var time: UInt64 = 0
        var pauses: [UInt64] = []
        _ = on(.offered([row(0, 1)]))
        for _ in 0..<8 {
            _ = on(.finished(.refused("full")), milliseconds: time)
            let due = (appender.retryAt?.nanoseconds ?? 0) / 1_000_000
            pauses.append(due - time)
            time = due
            _ = on(.woke, milliseconds: time)
        }
        #expect(pauses == [50, 100, 200, 400, 800, 1600, 2000, 2000])
    }

    /// When the engine takes a record, each refused partition tries again 250 ms after its last try.
    @Test("tries refused partitions again within 250 ms once the engine takes another record")
    func shorterBackOff() {
        _ = on(.offered([row(0, 1)]))
        var time: UInt64 = 0
        for _ in 0..<6 {
            _ = on(.finished(.refused("full")), milliseconds: time)
            time = (appender.retryAt?.nanoseconds ?? 0) / 1_000_000
            _ = on(.woke, milliseconds: time)
        }
        _ = on(.finished(.refused("full")), milliseconds: time)
        _ = on(.offered([row(1, 1)]), milliseconds: time)
        _ = on(.finished(.rows([.appended])), milliseconds: time + 10)
        #expect(appender.retryAt == MonotonicTime(.milliseconds(time + 250)))
    }

    /// A record that cannot go in must not hold up other partitions for ever.
    @Test("tries fewer partitions in each retry, in turns with new records")
    func halves() {
        _ = on(.offered([row(999, 1)]))
        _ = on(.offered((0..<256).map { row($0, 1) }))
        _ = on(.finished(.rows([.appended])))
        _ = on(.finished(.refused("full")))
        guard case .append(_, let half)? = on(.woke, milliseconds: 50).last else {
            Issue.record("nothing is tried again")
            return
        }
        #expect(half.count == 128)
        // New records take turns with records that are tried again.
        _ = on(.offered([row(999, 2)]), milliseconds: 51)
        guard case .append(_, let new)? = on(.finished(.refused("full")), milliseconds: 60).last
        else {
            Issue.record("what is new is not appended")
            return
        }
        #expect(new == [row(999, 2)])
    }

    @Test("appends refused records of more than one batch in order, batch after batch")
    func beyondBatch() {
        let large = (1...3).map { row(0, UInt64($0), bytes: JournalOptions().batchBytesMax / 2 + 1) }
        _ = on(.offered(large))
        _ = on(.finished(.refused("full")))
        var order: [UInt64] = []
        var effects = on(.woke, milliseconds: 50)
        while case .append(_, let rows) = effects.last {
            order += rows.map(\.sequence.rawValue)
            effects = on(.finished(.rows(rows.map { _ in .appended })), milliseconds: 51)
        }
        #expect(order == [1, 2, 3] && appender.isIdle && appender.waitingRows == 0)
    }

    @Test("drops the refused records of a partition that is given up")
    func givenUpDrops() {
        let (a, behind) = (row(0, 1), row(0, 2))
        _ = on(.offered([a, behind]))
        _ = on(.finished(.refused("full")))
        let reason = Resolution.refused("the node is giving the partition up")
        #expect(
            on(.closing(a.partition)) == [
                .resolved([Resolved(a, reason), Resolved(behind, reason)]), .closed(a.partition),
            ])
        #expect(appender.retryAt == nil && on(.woke, milliseconds: 9999) == [])
    }

    /// The appender settles the try under way first. Where the engine refuses again, the appender drops the
    /// record.
    @Test("tries a record no more whose partition is given up during a retry")
    func givenUpInFlight() {
        let a = row(0, 1)
        _ = on(.offered([a]))
        _ = on(.finished(.refused("full")))
        _ = on(.woke, milliseconds: 50)
        #expect(on(.closing(a.partition), milliseconds: 51) == [])
        #expect(
            on(.finished(.refused("full")), milliseconds: 52) == [
                .resolved([Resolved(a, .refused("full"))]), .closed(a.partition),
            ])
        #expect(appender.retryAt == nil)
    }

    @Test("ends retries where the partition is taken or the session is dead")
    func retryTooLate() {
        let (a, behind, other) = (row(0, 1), row(0, 2), row(1, 1))
        _ = on(.offered([a, other]))
        _ = on(.finished(.refused("full")))
        _ = on(.woke, milliseconds: 50)
        _ = on(.offered([behind]), milliseconds: 51)
        #expect(
            on(.finished(.rows([.unowned, .appended])), milliseconds: 52) == [
                .resolved([
                    Resolved(a, .taken), Resolved(other, .durable), Resolved(behind, .taken),
                ])
            ])
        let more = row(1, 2)
        _ = on(.offered([more]), milliseconds: 60)
        _ = on(.finished(.refused("full")), milliseconds: 60)
        _ = on(.woke, milliseconds: 110)
        #expect(on(.finished(.rows([.fenced])), milliseconds: 111) == [.resolved([Resolved(more, .fenced)])])
        #expect(appender.isFenced && appender.isIdle && appender.retryAt == nil)
    }

    /// The reply to a retry may be lost like any other.
    @Test("repeats a retry that is in doubt until its outcome is known")
    func aRetryMayBeInDoubt() {
        let (a, behind) = (row(0, 1), row(0, 2))
        _ = on(.offered([a]))
        _ = on(.finished(.refused("full")))
        _ = on(.woke, milliseconds: 50)
        _ = on(.offered([behind]), milliseconds: 51)
        #expect(on(.finished(.unknown("cut")), milliseconds: 52) == [.append(second, [a])])
        #expect(on(.finished(.refused("full")), milliseconds: 53) == [.append(second, [a])])
        #expect(
            on(.finished(.rows([.appended])), milliseconds: 54) == [
                .resolved([Resolved(a, .durable)]), .append(BatchID(3 << 40 | 3), [behind]),
            ])
    }

    @Test("forgets the refused records of a partition that is opened again")
    func openedAgain() {
        _ = on(.offered([row(0, 1), row(0, 2)]))
        _ = on(.finished(.refused("full")))
        _ = on(.opened(PartitionID(0), next: Sequence(5)))
        #expect(appender.retryAt == nil && appender.waitingRows == 0)
        #expect(on(.offered([row(0, 5)])) == [.append(second, [row(0, 5)])])
    }
}
