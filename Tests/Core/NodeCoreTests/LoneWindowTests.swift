import Journal
import Model
import Routing
import Testing

@testable import NodeCore
@testable import Partitions

@Suite("A node of its own, of requests")
struct LoneWindowTests {
    private func send(_ harness: LoopHarness, incarnation: UInt64) -> LoopMessage {
        .request(
            LoopHarness.partition, RequestID(gateway: harness.gateway, number: incarnation),
            .sendToTopic(
                RequestKey(session: incarnation, number: 1), project: LoopHarness.project,
                TopicName(checked: Array("t".utf8)),
                Envelope(
                    id: MessageID(time: incarnation, random: 1), event: [], sent: harness.now.wall,
                    ttlSeconds: 60), fanoutsMax: 1000),
            RequestGuard(
                epoch: Epoch(0), deadline: Deadline(harness.host.monotonic.advanced(by: .seconds(5)))))
    }

    /// Each start has incarnations of its own: without this a partition would get one more window for each
    /// loop with each start, for ever.
    @Test("forgets who asked its partitions before it began")
    func windows() throws {
        let harness = LoopHarness(isClustered: false)
        harness.turn(.engine(.loaded(LoopHarness.stored(), Epoch(0), quotas: [:])))
        var records = [
            StoredRecord(
                sequence: Sequence(1), epoch: Epoch(1),
                body: Partition.barrier(session: SessionID(1), epoch: Epoch(1)))
        ]
        for incarnation in 1...200 as ClosedRange<UInt64> {
            let row = try #require(harness.turn(send(harness, incarnation: incarnation)).rows.first)
            harness.turn(.resolved(Resolved(row, .durable)))
            records.append(
                StoredRecord(
                    sequence: row.sequence, epoch: Epoch(1), body: try RecordCodec.decode(row.payload).body))
        }
        #expect(harness.core.partitions[LoopHarness.partition]?.state.windows.count == 200)
        let stored = StoredPartition(LoopHarness.partition, records: records)
        let next = LoopHarness(isClustered: false)
        next.turn(.engine(.loaded(stored, Epoch(0), quotas: [:])))
        #expect(next.core.partitions[LoopHarness.partition]?.state.windows.count == 0)
    }

    /// The client has got the answer "not done", and may have asked for the opposite.
    @Test("does nothing of what lay in an inbox past its deadline")
    func late() {
        let harness = LoopHarness(isClustered: false)
        harness.turn(.engine(.loaded(LoopHarness.stored(), Epoch(0), quotas: [:])))
        let request = send(harness, incarnation: 1)
        harness.pass(milliseconds: 6000)
        let effects = harness.turn(request)
        #expect(effects.rows.isEmpty)
        #expect(effects.contains { if case .noted(.requestLate) = $0 { true } else { false } })
    }
}
