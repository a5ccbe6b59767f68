import Journal
import Model
import Routing
import Testing

@testable import NodeCore
@testable import Partitions

@Suite("A node of its own, of requests")
struct LoneWindowTests {
    private func send(_ desk: LoopDesk, incarnation: UInt64) -> LoopMessage {
        .request(
            LoopDesk.partition, RequestID(gateway: desk.gateway, number: incarnation),
            .sendToTopic(
                RequestKey(session: incarnation, number: 1), project: LoopDesk.project,
                TopicName(checked: Array("t".utf8)),
                Envelope(
                    id: MessageID(time: incarnation, random: 1), event: [], sent: desk.now.wall,
                    ttlSeconds: 60), fanoutsMax: 1000),
            RequestGuard(
                epoch: Epoch(0), deadline: Deadline(desk.host.monotonic.advanced(by: .seconds(5)))))
    }

    /// Each start has incarnations of its own: without this a partition would get one more window for each
    /// loop with each start, for ever.
    @Test("forgets who asked its partitions before it began")
    func windows() throws {
        let desk = LoopDesk(isClustered: false)
        desk.turn(.engine(.loaded(LoopDesk.stored(), Epoch(0), quotas: [:])))
        var records = [
            StoredRecord(
                sequence: Sequence(1), epoch: Epoch(1),
                body: Partition.barrier(session: SessionID(1), epoch: Epoch(1)))
        ]
        for incarnation in 1...200 as ClosedRange<UInt64> {
            let row = try #require(desk.turn(send(desk, incarnation: incarnation)).rows.first)
            desk.turn(.resolved(Resolved(row, .durable)))
            records.append(
                StoredRecord(
                    sequence: row.sequence, epoch: Epoch(1), body: try RecordCodec.decode(row.payload).body))
        }
        #expect(desk.core.partitions[LoopDesk.partition]?.state.windows.count == 200)
        let stored = StoredPartition(LoopDesk.partition, records: records)
        let next = LoopDesk(isClustered: false)
        next.turn(.engine(.loaded(stored, Epoch(0), quotas: [:])))
        #expect(next.core.partitions[LoopDesk.partition]?.state.windows.count == 0)
    }

    /// The client has got the answer "not done", and may have asked for the opposite.
    @Test("does nothing of what lay in an inbox past its deadline")
    func late() {
        let desk = LoopDesk(isClustered: false)
        desk.turn(.engine(.loaded(LoopDesk.stored(), Epoch(0), quotas: [:])))
        let request = send(desk, incarnation: 1)
        desk.pass(milliseconds: 6000)
        let effects = desk.turn(request)
        #expect(effects.rows.isEmpty)
        #expect(effects.contains { if case .noted(.requestLate) = $0 { true } else { false } })
    }
}
