import Journal
import MemoryEngine
import Model
import Ownership
import Testing

@testable import NodeCore

@Suite("A call of a database")
struct DatabaseCallTests {
    private static let partition = PartitionID(0)
    private let engine = MemoryEngine()
    private let caller: DatabaseCall.Caller

    init() throws {
        try engine.createPartitions(count: 1, histories: [History(7)])
        caller = DatabaseCall.Caller(session: try engine.beginSession(node: "a"), node: "a")
    }

    private func answer(_ call: DatabaseCall, clock: () -> Instant = { DatabaseCallTests.at(0) })
        -> DatabaseAnswer
    {
        call.answer(Result { try call.perform(on: engine, for: caller, clock: clock) })
    }

    private static func at(_ milliseconds: UInt64) -> Instant {
        Instant(
            monotonic: .zero + .milliseconds(milliseconds),
            wall: WallTime(milliseconds: Int64(milliseconds)))
    }

    private var poll: DatabaseCall {
        let info = Ownership.NodeInfo(isShard: true, isGateway: true, peer: "a", gossip: "a")
        return .poll(info, asked: .zero + .milliseconds(3))
    }

    /// A reading that came with the answer would have the answer's way in its round trip.
    @Test("reads the node's clocks just before and just after the database's")
    func clock() throws {
        engine.clock = WallTime(milliseconds: 50)
        var readings: [UInt64] = [60, 40]
        let events = answer(poll) { DatabaseCallTests.at(readings.popLast() ?? 0) }.events
        guard case .clockRead(let reading)? = events.first, events.count == 2 else {
            Issue.record("\(events)")
            return
        }
        #expect(reading.roundTrip == .milliseconds(20) && reading.likelyAhead == 0)
        guard case .polled(let poll, let asked) = events[1] else {
            Issue.record("\(events)")
            return
        }
        #expect(asked == .zero + .milliseconds(3) && poll.sessions.map(\.id) == [caller.session])
    }

    @Test("takes a partition, reads it and gives it up")
    func partition() throws {
        let row = try #require(try engine.partitions().first)
        guard
            case .ownership(.taken(Self.partition, let epoch?))? =
                answer(.takeOver(row, markingDead: nil)).events.first
        else {
            Issue.record("the partition is not taken")
            return
        }
        guard
            case (Self.partition, .engine(.loaded(_, epoch, quotas: _)))? =
                answer(.load(Self.partition, epoch, behind: nil)).message
        else {
            Issue.record("the partition is not read")
            return
        }
        guard case .ownership(.released)? = answer(.giveUp(Self.partition, epoch, left: [:])).events.first
        else {
            Issue.record("the partition is not given up")
            return
        }
        #expect(try engine.partitions().first?.owner == nil)
    }

    @Test("tells a dead session, and a database that does not answer")
    func failures() throws {
        engine.faults = [.fail(afterCommit: false)]
        _ = engine.append(session: caller.session, batch: BatchID(0), rows: [])
        guard case .ownership(.pollFailed)? = answer(poll).events.first else {
            Issue.record("the look does not fail")
            return
        }
        let trim = answer(.trim(Self.partition, below: Sequence(2), keeping: []))
        guard case (Self.partition, .engine(.trimFailed))? = trim.message else {
            Issue.record("the trim does not fail")
            return
        }
        #expect(trim.complaint?.error == "the disk failed")
        engine.crash(keepsUnacknowledged: true)
        try engine.fence(caller.session)
        guard case .ownership(.sessionDead)? = answer(poll).events.first else {
            Issue.record("the session lives")
            return
        }
        guard case (Self.partition, .lost)? = answer(.confirm(Self.partition, token: 1)).message else {
            Issue.record("the session is confirmed")
            return
        }
    }
}
