import Model
import Testing

@testable import Partitions

/// Breaks each invariant of a partition's machine, in a machine that has worked for a while.
@Suite("The invariants of a partition")
struct InvariantTests {
    /// Partition 0 has two devices in three topics: one listens, the other has messages waiting, with and
    /// without a collapse key. Partition 1 gets no outbox frames, so an entry for it waits.
    func harness(_ options: (inout PartitionOptions) -> Void) throws -> PartitionHarness {
        let harness = PartitionHarness(count: 3, options)
        let (first, credential) = try #require(harness.register(in: 0))
        let (second, _) = try #require(harness.register(in: 0))
        harness.listen(first, credential, stream: 1)
        for number in 0..<3 {
            let topic = try topic(harness, at: PartitionID(UInt16(number)))
            #expect(harness.change(.subscribe, topic, [first, second]) != nil)
            harness.publish("a", to: topic)
            harness.publish("b", to: topic, key: "key")
        }
        harness.settle()
        harness.away = [PartitionID(1)]
        _ = harness.change(.unsubscribe, try topic(harness, at: PartitionID(1)), [second])
        for partition in harness.partitions {
            partition.invariantSchedule.isHolders = true
            #expect(partition.brokenInvariant(isWhole: true) == nil)
        }
        return harness
    }

    func topic(_ harness: PartitionHarness, at home: PartitionID) throws -> String {
        try #require((0..<1000).lazy.map { "topic-\($0)" }.first { harness.home($0) == home })
    }

    func device(_ index: UInt32, _ partition: Partition) throws -> (page: DevicePage, slot: Int) {
        let found = partition.state.devices.find(index)
        return try #require(found)
    }

    func isSeen(
        _ invariant: String, sourceLocation: SourceLocation = #_sourceLocation,
        options: (inout PartitionOptions) -> Void = { _ in },
        _ change: (Partition, PartitionHarness) throws -> Void
    ) throws {
        let harness = try harness(options)
        try change(harness.partitions[0], harness)
        let broken = harness.partitions[0].brokenInvariant(isWhole: true)
        #expect(
            broken == invariant || broken?.hasSuffix(": \(invariant)") ?? false,
            "\(invariant), seen: \(broken ?? "none")",
            sourceLocation: sourceLocation)
    }

    @Test("of its journal are seen to be broken")
    func journal() throws {
        try isSeen("the open record does not follow what is folded") { partition, _ in
            partition.state.applied = partition.state.applied.next
        }
        try isSeen("something waits for a record that is empty") { partition, _ in
            partition.pipeline.gated.bodiesGone = 1
        }
        try isSeen("something waits for a record that is empty") { partition, _ in
            partition.pipeline.isUrgent = true
        }
        try isSeen("the open record waits for nothing") { partition, _ in
            partition.propose(.expire(now: WallTime(milliseconds: 0)))
        }
        try isSeen("answers wait for a confirmation that nobody asked for") { partition, _ in
            partition.confirmations.append(
                (
                    1,
                    Answer(
                        to: .request(RequestID(gateway: PartitionHarness.gateway, number: 1)), reply: .done)
                ))
        }
        try isSeen("a confirmation is awaited for nobody") { partition, _ in partition.confirmInFlight = true
        }
        try isSeen("frames wait for a record in flight, and there is none") { partition, harness in
            partition.deferred = [harness.partitions[2].frame([], to: PartitionID(0), harness.now)]
        }
        try isSeen("snapshots cover what is not folded") { partition, _ in
            partition.snapshots.restored(partition.applied.next, bytes: 1)
        }
        try isSeen("a snapshot is made that is not newer than the last") { partition, _ in
            partition.snapshots.start(partition.id, covering: .zero, token: 1)
        }
    }

    @Test("of its outboxes are seen to be broken")
    func outboxes() throws {
        let other = PartitionID(1)
        try isSeen("what is durable is not offered to it") { partition, _ in partition.offered[other] = nil }
        try isSeen("it has acknowledged what was never sent") { partition, _ in
            partition.state.outboxes[PartitionID(2)] = nil
        }
        try isSeen("it has acknowledged what is not durable") { partition, _ in
            partition.acknowledged[other] = partition.applied.next
        }
        try isSeen("what is not durable was offered to it") { partition, _ in
            partition.offered[other]?.upTo = partition.applied.next
        }
        try isSeen("nobody is woken to offer to it again") { partition, _ in partition.wakes = WakePlan() }
        try isSeen("its mark is forgotten") { partition, _ in
            partition.durableMarks[other] = InboxMark(history: History(1), number: .zero, fingerprint: 0)
            partition.state.marks[other] = nil
        }
        try isSeen("its durable mark is ahead of its mark") { partition, _ in
            let own = PartitionID(0)
            let number = try #require(partition.state.marks[own]?.number)
            partition.durableMarks[own]?.number = number.next
        }
        try isSeen("a part of no entry of partition 0 is applied") { partition, _ in
            partition.state.marks[PartitionID(0)]?.part = InboxMark.Part(
                entry: Sequence(1), items: 1, fingerprint: 0)
        }
        try isSeen("the newest entry does not say who is to be there") { partition, _ in
            partition.state.outboxes[other]?.fingerprint ^= 1
        }
        try isSeen("partition 2 is to have others than are subscribed") { partition, _ in
            partition.state.outboxes[PartitionID(2)]?.fingerprint ^= 1
        }
        try isSeen("an entry does not name the one before") { partition, _ in
            let outbox = try #require(partition.state.outboxes[other])
            let entry = try #require(outbox.unacknowledged.last)
            let next = OutboxEntry(
                number: entry.number.next, predecessor: .zero, items: entry.items,
                fingerprint: entry.fingerprint)
            partition.state.outboxes[other] = Outbox(
                entries: [entry, next], last: next.number, fingerprint: next.fingerprint)
        }
        try isSeen("the newest entry is not the last") { partition, _ in
            let outbox = try #require(partition.state.outboxes[other])
            partition.state.outboxes[other] = Outbox(
                entries: Array(outbox.unacknowledged), last: outbox.last.former,
                fingerprint: outbox.fingerprint)
        }
        try isSeen("an answer waits for what it has acknowledged") { partition, _ in
            let waiters = try #require(partition.outboxWaiters[other])
            partition.outboxWaiters[PartitionID(2)] = waiters
        }
        try isSeen("nothing brings its repair further") { partition, _ in
            partition.repairs[other] = Repair(count: 2, began: MonotonicTime.zero)
        }
        try isSeen("whether its repair is at its end is not clear") { partition, _ in
            partition.repairs[other] = Repair(count: 2, next: 2, began: MonotonicTime.zero)
        }
        try isSeen("the unfinished messages of project 7 are counted wrongly") { partition, _ in
            partition.state.fanouts.begin(PartitionHarness.project, MessageID(time: 1, random: 1), parts: 1)
        }
    }

    @Test("of devices and what waits for them are seen to be broken")
    func devices() throws {
        try isSeen("what waits for device 1 is counted wrongly") { partition, _ in
            let (page, slot) = try device(1, partition)
            page.waiting[slot] += 1
        }
        try isSeen("what waits for device 1 is counted wrongly") { partition, _ in
            let (page, slot) = try device(1, partition)
            page.collapsible[slot] = 0
        }
        try isSeen("the devices of a page are counted wrongly") { partition, _ in
            let (page, _) = try device(1, partition)
            page.used += 1
        }
        try isSeen("devices are counted wrongly") { partition, _ in
            let (page, slot) = try device(1, partition)
            page.projects[slot] = 0
        }
        try isSeen("device 99 is gone, and to be told of a loss") { partition, _ in
            partition.state.overflowed[99] = .init(told: Position(1), record: Sequence(1))
        }
        try isSeen("device 1 is to be told of a loss to come") { partition, _ in
            partition.state.overflowed[1] = .init(told: Position(.max), record: Sequence(1))
        }
        try isSeen("a stranger's message waits for 1") { partition, _ in
            partition.state.devices.remove(index: 1)
        }
        try isSeen("a topic of another partition has members here") { partition, harness in
            let strange = try topic(harness, at: PartitionID(1))
            let name = try #require(TopicName(strange))
            _ = partition.state.topics.join(
                [1], of: PartitionID(0), to: name, in: PartitionHarness.project, harness.names)
        }
    }

    @Test("of the delivery log are seen to be broken")
    func log() throws {
        func block(_ partition: Partition) throws -> LogBlock {
            try #require(partition.state.log.spans.first?.blocks.first)
        }
        try isSeen("positions of waiting messages do not rise") { partition, _ in
            try block(partition).entries[1].position = Position(1)
        }
        try isSeen("a waiting message is not found by its device") { partition, _ in
            _ = try block(partition).union.remove(1)
        }
        try isSeen("the messages of a block are counted wrongly") { partition, _ in
            try block(partition).occupied += 1
        }
        try isSeen("messages whose bodies stand in a record are counted wrongly") { partition, _ in
            try block(partition).entries[0].record = Sequence(1)
        }
        try isSeen("bytes of waiting messages are counted wrongly") { partition, _ in
            try block(partition).entries[0].bytes += 1
        }
        try isSeen("bytes of cached bodies are counted wrongly") { partition, _ in
            try block(partition).entries[0].body = nil
        }
        try isSeen("messages that expire in a minute are counted wrongly") { partition, _ in
            try block(partition).entries[0].ends = .same(WallTime(milliseconds: 0))
        }
        try isSeen("the keys that name a share are counted wrongly") { partition, _ in
            partition.state.log.keys.shareCount += 1
        }
        try isSeen("the messages of a collapse key are counted wrongly") { partition, _ in
            let block = try block(partition)
            let slot = try #require(
                block.entries.indices.first {
                    block.entries[$0].key != 0 && !block.entries[$0].targets.isEmpty
                })
            block.entries[slot].key += 100
        }
    }

    @Test("of streams are seen to be broken")
    func streams() throws {
        try isSeen("nothing lets device 0 begin") { partition, _ in
            partition.streams.attach(0, StreamID(gateway: PartitionHarness.gateway, number: 2), after: .zero)
        }
        try isSeen("nothing lets device 0 go on") { partition, _ in
            partition.streams.setLosing(0)
        }
        try isSeen("device 0 and its link do not agree on whether it waits for its turn") { partition, _ in
            partition.streams.attachments[0]?.state = .waiting
        }
        try isSeen("streams that wait for their turn are counted wrongly") { partition, _ in
            _ = partition.streams.links[PartitionHarness.gateway]?.waiting.add(77)
        }
        try isSeen("records for which streams wait are counted wrongly") { partition, _ in
            partition.streams.setBehind(0, written: .zero)
            partition.streams.attachments[0]?.state = .reading(records: 1)
        }
        try isSeen("device 0 is cut off, and its link does not say so") { partition, _ in
            partition.streams.attachments[0]?.state = .cutOff
        }
        try isSeen("device 0 is neither live nor cut off at its link") { partition, _ in
            partition.streams.attachments[0]?.state = .behind
        }
        try isSeen("links count other streams than there are") { partition, _ in
            partition.streams.attachments = [:]
        }
        try isSeen("device 0 listens at a gateway without a link") { partition, _ in
            partition.streams.links = [:]
        }
        try isSeen("its live streams are counted wrongly") { partition, _ in
            partition.streams.links[PartitionHarness.gateway]?.liveCount = 2
        }
        try isSeen("it has confirmed what was not sent") { partition, _ in
            partition.streams.links[PartitionHarness.gateway]?.processed = 1000
        }
        try isSeen("its frames are out of order") { partition, _ in
            partition.streams.links[PartitionHarness.gateway]?.outstanding = [(1000, .zero)]
        }
        try isSeen("nobody asks the gateways of those that are cut off") { partition, _ in
            partition.streams.setCutOff(0)
            _ = partition.streams.numberProbe(PartitionHarness.gateway)
            partition.streams.mayBeStuck = false
        }
        try isSeen("nobody is woken to ask the gateways of those that are cut off") { partition, harness in
            partition.streams.mayBeStuck = true
            partition.probedAt = harness.now.monotonic
            partition.wakes = WakePlan()
        }
        try isSeen("nothing brings back who was cut off") { partition, _ in
            partition.streams.setCutOff(0)
            partition.streams.mayBeStuck = false
            partition.streams.links[PartitionHarness.gateway]?.outstanding = []
        }
        try isSeen("device 9 is gone, and listens") { partition, _ in
            partition.streams.attach(9, StreamID(gateway: PartitionHarness.gateway, number: 2), after: .zero)
        }
    }

    @Test("of conditions are seen to be broken")
    func conditions() throws {
        let condition = try Condition.parse(Array("'a' in topics".utf8))
        let ticket = ConditionTicket(record: Sequence(1), ordinal: 0)
        try isSeen("nobody asks about a condition of record 1") { partition, harness in
            let message = harness.envelope("c")
            partition.state.conditions[ticket] = PendingCondition(
                project: PartitionHarness.project, condition: condition, message: message)
            partition.state.fanouts.begin(PartitionHarness.project, message.id, parts: 1)
        }
        try isSeen("what is resolved is asked about") { partition, harness in
            partition.resolutions[ticket] = Resolution(
                answers: [:], began: harness.now.monotonic, askedAt: harness.now.monotonic)
        }
        try isSeen("the sender of what is resolved waits") { partition, _ in
            partition.conditionAnswers[ticket] = []
        }
    }

    /// The answer "already subscribed" may come to wait behind an answer that waits for a later entry.
    @Test("an answer is given as soon as what it waits for is acknowledged")
    func waiters() throws {
        let harness = PartitionHarness(count: 2)
        let (device, _) = try #require(harness.register(in: 0))
        let (other, _) = try #require(harness.register(in: 0))
        let (listener, _) = try #require(harness.register(in: 1))
        let own = try self.topic(harness, at: PartitionID(0))
        let topic = try topic(harness, at: PartitionID(1))
        let name = try #require(TopicName(topic))
        _ = harness.change(.subscribe, own, [listener])
        _ = harness.change(.subscribe, topic, [device])
        // A message for partition 1, which gets no frames: no answer waits for its entry.
        harness.away = [PartitionID(1)]
        harness.publish("a", to: own)
        let partition = harness.partitions[0]
        func change(_ device: Registration, _ number: UInt64, _ effects: inout [PartitionEffect]) {
            let request = Request.change(
                .subscribe, project: PartitionHarness.project, topic: name, devices: [device], by: .backend)
            partition.handle(
                .request(RequestID(gateway: PartitionHarness.gateway, number: number), request),
                now: harness.now,
                into: &effects)
        }
        // The first device is subscribed already, so its answer waits for a confirmation. The second change
        // goes into a record, and the record is durable sooner.
        var effects: [PartitionEffect] = []
        change(device, 901, &effects)
        partition.flush(now: harness.now, into: &effects)
        change(other, 902, &effects)
        partition.flush(now: harness.now, into: &effects)
        let entry = try #require(partition.state.outboxes[PartitionID(1)]?.unacknowledged.first)
        partition.handle(.appended(partition.applied), now: harness.now, into: &effects)
        for effect in effects {
            if case .confirm(let token) = effect {
                partition.handle(.confirmed(token), now: harness.now, into: &effects)
            }
        }
        partition.flush(now: harness.now, into: &effects)
        effects = []
        let said = OutboxAcknowledgement(
            from: PartitionID(1), history: partition.history, generation: 0, mark: entry.number,
            fingerprint: entry.fingerprint)
        partition.handle(.acknowledged(said), now: harness.now, into: &effects)
        partition.flush(now: harness.now, into: &effects)
        #expect(effects.contains { if case .reply(let id, _) = $0 { id.number == 901 } else { false } })
        #expect(partition.brokenInvariant(isWhole: true) == nil)
    }
}
