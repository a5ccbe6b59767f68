import Model
import Testing

@testable import Partitions

// Invariants of a partition's machine: the records that it writes, and what it awaits from and owes to
// others.

extension InvariantTests {
    /// Closes a record of which the journal has not heard.
    private func seal(_ partition: Partition) {
        partition.propose(.expire(now: WallTime(milliseconds: 0)))
        #expect(partition.pipeline.seal(&partition.state) != nil)
    }

    @Test("of records in flight are seen to be broken")
    func inFlight() throws {
        try isSeen("more records are in flight than may be", options: { $0.recordsInFlightMax = 2 }) {
            partition, _ in
            for _ in 0..<3 { seal(partition) }
        }
        try isSeen("the records in flight do not follow each other") { partition, _ in
            for _ in 0..<2 { seal(partition) }
            partition.pipeline.inFlight.removeFirst()
        }
        try isSeen("what is folded is neither durable nor in flight") { partition, _ in
            seal(partition)
            partition.pipeline.inFlight = []
        }
        try isSeen("nobody is woken to close the open record") { partition, harness in
            partition.propose(.expire(now: WallTime(milliseconds: 0)))
            partition.bookkeepingDue = harness.now.monotonic
            partition.wakes = WakePlan()
        }
        try isSeen("a snapshot is written of what is not durable") { partition, _ in
            seal(partition)
            partition.snapshots.start(partition.id, covering: partition.applied, token: 1)
            partition.snapshots.current?.parts = 1
        }
        try isSeen("a snapshot's last part is written, and it does not end") { partition, _ in
            partition.snapshots.start(partition.id, covering: partition.applied, token: 1)
            partition.snapshots.current?.isLast = true
        }
    }

    @Test("of confirmations are seen to be broken")
    func confirmations() throws {
        func wait(_ tokens: [UInt64], _ partition: Partition) {
            let answer = Answer(
                to: .request(RequestID(gateway: PartitionHarness.gateway, number: 1)), reply: .done)
            partition.confirmations = .init(tokens.map { (token: $0, answer: answer) })
            partition.confirmInFlight = true
        }
        try isSeen("confirmations are out of order") { partition, _ in wait([1, 1], partition) }
        try isSeen("a token was never given") { partition, _ in wait([1000], partition) }
    }

    @Test("of frames that wait are seen to be broken")
    func deferred() throws {
        func wait(for others: [UInt16], _ partition: Partition) throws {
            let outbox = try #require(partition.state.outboxes[PartitionID(1)])
            let now = Instant(monotonic: .init(nanoseconds: 1), wall: .init(milliseconds: 1))
            var frame = partition.frame(Array(outbox.unacknowledged), to: PartitionID(1), now)
            seal(partition)
            partition.deferred = others.map {
                frame.from = PartitionID($0)
                return frame
            }
        }
        try isSeen("more bytes of frames wait than may", options: { $0.deferredBytesMax = 1 }) {
            partition, _ in try wait(for: [1, 2], partition)
        }
        let longer: (inout PartitionOptions) -> Void = {
            $0.deferredBytesMax = 1
            $0.offerBytesMax = 1
        }
        try isSeen("a frame waits that is longer than an offer", options: longer) { partition, _ in
            try wait(for: [1], partition)
            partition.deferred[0].entries += partition.deferred[0].entries
        }
        try isSeen("two frames of a partition wait") { partition, _ in try wait(for: [1, 1], partition) }
    }

    @Test("of what others are told are seen to be broken")
    func told() throws {
        let other = PartitionID(1)
        try isSeen("nothing is offered to it") { partition, harness in
            partition.offered[PartitionID(2)] = .init(upTo: .zero, at: harness.now.monotonic)
        }
        try isSeen("more entries are offered than its window takes") { partition, harness in
            let (second, _) = try #require(harness.register(in: 0))
            let topic = try topic(harness, at: other)
            for number in 0..<64 {
                _ = harness.change(number % 2 == 0 ? .subscribe : .unsubscribe, topic, [second])
            }
            #expect(partition.brokenInvariant(isWhole: true) == nil)
            let last = try #require(partition.state.outboxes[other]?.last)
            partition.offered[other]?.upTo = last
        }
        try isSeen("an empty list of answers waits for it") { partition, _ in
            partition.outboxWaiters[PartitionID(2)] = []
        }
        try isSeen("more slices were told than there are") { partition, harness in
            partition.repairs[other] = Repair(count: 2, next: 3, began: harness.now.monotonic)
        }
        try isSeen("nobody is woken to compare the pairs that are left") { partition, harness in
            partition.comparison = Comparison(left: [other], at: harness.now.monotonic)
            partition.wakes = WakePlan()
        }
        try isSeen("a comparison with nobody is under way") { partition, harness in
            partition.comparison = Comparison(left: [], at: harness.now.monotonic)
            partition.wakes = WakePlan([MonotonicTime.zero])
        }
        try isSeen("partitions are compared again") { partition, harness in
            partition.comparison = Comparison(left: [other], at: harness.now.monotonic)
            partition.wakes = WakePlan([MonotonicTime.zero])
        }
    }

    @Test("of who is asked about conditions are seen to be broken")
    func asked() throws {
        let condition = try Condition.parse(Array("'a' in topics".utf8))
        let ticket = ConditionTicket(record: Sequence(1), ordinal: 0)
        func ask(_ answers: Int, _ partition: Partition, _ harness: PartitionHarness) {
            let message = harness.envelope("c")
            partition.state.conditions[ticket] = PendingCondition(
                project: PartitionHarness.project, condition: condition, message: message)
            partition.state.fanouts.begin(PartitionHarness.project, message.id, parts: 1)
            let told = (0..<answers).map { (PartitionID(UInt16($0)), DeviceSet()) }
            partition.resolutions[ticket] = Resolution(
                answers: Dictionary(uniqueKeysWithValues: told), began: harness.now.monotonic,
                askedAt: harness.now.monotonic)
            partition.wakes = WakePlan([MonotonicTime.zero])
        }
        try isSeen("all partitions have answered, and are awaited") { partition, harness in
            ask(partition.state.partitionCount, partition, harness)
        }
        try isSeen("an empty list of senders waits") { partition, harness in
            ask(0, partition, harness)
            partition.conditionAnswers[ticket] = []
        }
        try isSeen("nobody is woken to ask about conditions again") { partition, harness in
            ask(1, partition, harness)
            #expect(partition.brokenInvariant(isWhole: true) == nil)
            partition.wakes = WakePlan()
        }
    }

    @Test("of links to gateways are seen to be broken")
    func links() throws {
        try isSeen("device 0 is live, and its link does not say so") { partition, _ in
            _ = partition.streams.links[PartitionHarness.gateway]?.live.remove(0)
        }
        try isSeen("device 0 is live since a frame that was not sent") { partition, _ in
            partition.streams.attachments[0]?.state = .live(since: 1000)
        }
        try isSeen("the positions of its frames fall") { partition, _ in
            let sent = try #require(partition.streams.links[PartitionHarness.gateway]?.sent)
            partition.streams.links[PartitionHarness.gateway]?.sent = sent + 1
            partition.streams.links[PartitionHarness.gateway]?.processed = sent
            partition.streams.links[PartitionHarness.gateway]?.processedPosition = Position(2)
            partition.streams.links[PartitionHarness.gateway]?.outstanding = [(sent + 1, Position(1))]
        }
    }
}
