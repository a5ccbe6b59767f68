import Model
import Testing

@testable import Partitions

// Invariants of the fold: the state that a partition's records add up to.

extension InvariantTests {
    private typealias Former = PartitionState.FormerGeneration

    @Test("of generations are seen to be broken")
    func generations() throws {
        func former(_ number: UInt64, next: UInt64) -> Former {
            Former(number: number, ended: .zero, before: .zero, next: next)
        }
        try isSeen("a generation to come was compared") { partition, _ in
            partition.state.comparedGeneration = 1
        }
        try isSeen("more generations are kept than may be") { partition, _ in
            let count = UInt64(Former.countMax) + 1
            partition.state.formerGenerations = (0..<count).map { former($0, next: $0 + 1) }
            partition.state.generation = count
        }
        try isSeen("generations do not follow each other") { partition, _ in
            partition.state.formerGenerations = [former(0, next: 1), former(2, next: 3)]
            partition.state.generation = 3
        }
        try isSeen("a generation is forgotten") { partition, _ in
            partition.state.formerGenerations = [former(0, next: 1)]
            partition.state.generation = 2
        }
    }

    /// Adds `count` messages for a device, and counts them at the device.
    private func add(
        _ count: Int = 1, to index: UInt32, _ partition: Partition, record: Sequence, withKeys: Bool = false
    ) throws {
        let (page, slot) = try device(index, partition)
        for number in 0..<count {
            let key =
                withKeys
                ? partition.state.log.key(Array("k\(number)".utf8), in: PartitionHarness.project.rawValue) : 0
            partition.state.log.append(
                LogEntry(
                    position: Position(partition.state.log.last.rawValue + 1),
                    ends: .same(WallTime(milliseconds: 1_900_000_000_000)),
                    project: PartitionHarness.project.rawValue,
                    key: key, record: record, ordinal: 0, bytes: 1, targets: DeviceSet(index)))
            if withKeys { page.collapsible[slot] += 1 } else { page.waiting[slot] += 1 }
        }
    }

    @Test("of how much there is for a device are seen to be broken")
    func deviceBounds() throws {
        try isSeen("an entry of a record to come waits") { partition, _ in
            try add(to: 1, partition, record: partition.applied.next.next)
        }
        try isSeen("more waits for device 1 than may") { partition, _ in
            try add(Int(DeliveryLimits().waitingHardMax), to: 1, partition, record: partition.applied)
        }
        try isSeen("more waits for device 1 than may") { partition, _ in
            try add(
                Int(DeliveryLimits().collapsibleMax), to: 1, partition, record: partition.applied,
                withKeys: true)
        }
        try isSeen("device 1 is in more topics than may be") { partition, harness in
            let (page, slot) = try device(1, partition)
            for number in 0..<DeliveryLimits().topicsPerDeviceMax {
                let topic = harness.names.retain(Array("more-\(number)".utf8), in: PartitionHarness.project)
                page.topics[slot].append(topic, since: Day(0))
            }
        }
        try isSeen("the next device would get an index that is used") { partition, _ in
            let (page, slot) = try device(1, partition)
            page.projects[slot + 1] = PartitionHarness.project.rawValue
        }
    }

    @Test("of entries to other partitions are seen to be broken")
    func entries() throws {
        let other = PartitionID(1)
        func replace(_ partition: Partition, _ change: (OutboxEntry) -> [OutboxEntry]) throws {
            let outbox = try #require(partition.state.outboxes[other])
            let entries = change(try #require(outbox.unacknowledged.last))
            partition.state.outboxes[other] = Outbox(
                entries: entries, last: try #require(entries.last).number, fingerprint: outbox.fingerprint)
        }
        func entry(
            _ number: Sequence, after predecessor: Sequence, like entry: OutboxEntry, isEmpty: Bool = false
        ) -> OutboxEntry {
            OutboxEntry(
                number: number, predecessor: predecessor, items: isEmpty ? [] : entry.items,
                fingerprint: entry.fingerprint)
        }
        try isSeen("an entry is before the one that it follows") { partition, _ in
            try replace(partition) { [entry($0.number, after: $0.number, like: $0)] }
        }
        try isSeen("an entry says nothing") { partition, _ in
            try replace(partition) { [entry($0.number, after: $0.predecessor, like: $0, isEmpty: true)] }
        }
        try isSeen("its bytes are counted wrongly") { partition, _ in
            partition.state.outboxes[other]?.weight += 1
        }
        try isSeen("an outbox entry of a record to come") { partition, _ in
            let number = partition.applied.next.next
            try replace(partition) { [$0, entry(number, after: $0.number, like: $0)] }
        }
        try isSeen("a topic's partition was told of no member") { partition, _ in
            partition.state.outboxes[PartitionID(2)] = nil
            partition.offered[PartitionID(2)] = nil
            partition.acknowledged[PartitionID(2)] = nil
        }
    }

    @Test("of members are seen to be broken")
    func members() throws {
        func restore(_ set: MemberSet, _ partition: Partition, _ harness: PartitionHarness) throws {
            let name = try #require((0..<1000).map { "set-\($0)" }.first { harness.home($0) == partition.id })
            let number = harness.names.retain(Array(name.utf8), in: PartitionHarness.project)
            partition.state.topics.restore(number, set)
        }
        let many = DeviceSet(sorted: Array(0..<UInt32(MemberSet.partMembersMax) * 2))
        try isSeen("a topic without members is kept") { try restore(MemberSet(), $0, $1) }
        try isSeen("the parts of a topic's set are out of order") {
            try restore(MemberSet(parts: [(PartitionID(2), many), (PartitionID(1), many)]), $0, $1)
        }
        try isSeen("an empty part of a topic's set is kept") {
            let parts = [(PartitionID(0), many), (PartitionID(1), many), (PartitionID(2), DeviceSet())]
            try restore(MemberSet(parts: parts.map { (partition: $0, devices: $1) }), $0, $1)
        }
        try isSeen("the members of a topic are out of order") {
            let devices = DeviceSet(sorted: [2, 1])
            try restore(MemberSet(parts: [(PartitionID(0), devices)]), $0, $1)
        }
        try isSeen("the members of a topic are counted wrongly") {
            let bitmap = Bitmap(sorted: Array(0..<UInt32(MemberSet.partMembersMax) * 2))
            try restore(MemberSet(parts: [(PartitionID(0), DeviceSet(bitmap))]), $0, $1)
            // No code of the machine does this to a shared bitmap.
            #expect(bitmap.add(1_000_000))
        }
    }

    @Test("of the delivery log as a whole are seen to be broken")
    func wholeLog() throws {
        func block(_ partition: Partition) throws -> LogBlock {
            try #require(partition.state.log.spans.first?.blocks.first)
        }
        try isSeen("a message waits behind the last position") { partition, _ in
            let block = try block(partition)
            let last = partition.state.log.last
            block.entries[block.entries.count - 1].position = Position(last.rawValue + 1)
        }
        try isSeen("what is not gone durably is not in the order of its records") { partition, _ in
            let positions = try block(partition).entries.filter { !$0.targets.isEmpty }.map(\.position)
            for (record, position) in [(2, positions[0]), (1, positions[1])] {
                partition.state.log.removingRecord = Sequence(UInt64(record))
                _ = partition.state.log.drop(at: position) { _, _ in }
            }
        }
        try isSeen("waiting messages are counted wrongly") { partition, _ in
            let block = try block(partition)
            let slot = try #require(block.entries.firstIndex { !$0.targets.isEmpty })
            block.entries[slot].targets = DeviceSet()
            block.occupied -= 1
        }
        try isSeen("more bodies are cached than may be") { partition, _ in
            partition.state.log.bodyCacheBytesMax = 0
        }
        try isSeen("a message expires unnoticed") { partition, _ in partition.state.log.earliest = nil }
        try isSeen("a collapse key has two numbers, or none") { partition, _ in
            partition.state.log.keys.numbers = [:]
        }
    }

    @Test("of transports are seen to be broken")
    func transports() throws {
        func stored(_ kind: Transport.Kind, _ bytes: Int = 1, generation: UInt64 = 1) -> StoredTransport {
            StoredTransport(
                transport: Transport(kind: kind, address: [UInt8](repeating: 0, count: bytes)),
                registered: WallTime(milliseconds: 0), generation: generation)
        }
        try isSeen("device 99999 is gone, and has a transport") { partition, _ in
            partition.state.transports[99_999] = [stored(.web)]
        }
        try isSeen("device 1 has an empty list of transports") { partition, _ in
            partition.state.transports[1] = []
        }
        try isSeen("device 1 has transports out of order") { partition, _ in
            partition.state.transports[1] = [stored(.apns), stored(.web)]
        }
        try isSeen("device 1 has an address that is too long") { partition, _ in
            partition.state.transports[1] = [stored(.web, Transport.addressBytesMax + 1)]
        }
        try isSeen("device 1 has an address of a record to come") { partition, _ in
            partition.state.transports[1] = [stored(.web, generation: partition.applied.rawValue + 2)]
        }
        try isSeen("device 1 was pushed what the log does not have") { partition, _ in
            var ahead = stored(.apns)
            ahead.transport.keepsMessages = true
            ahead.pushedUpTo = Position(partition.state.log.last.rawValue + 1)
            partition.state.transports[1] = [ahead]
        }
        try isSeen("device 1 has a mark of pushes, and does not acknowledge itself") { partition, _ in
            partition.state.log.skip(to: Position(9))
            var marked = stored(.apns)
            marked.pushedUpTo = Position(9)
            partition.state.transports[1] = [marked]
        }
        try isSeen("the devices with addresses are counted wrong") { partition, _ in
            partition.state.transports.count = 1
        }
        try isSeen("the devices that nobody can reach are not those whose addresses are gone") {
            partition, _ in
            partition.state.transports[1] = [stored(.web)]
            partition.state.transports.unreachable.set(1, since: WallTime(milliseconds: 1))
        }
        try isSeen("the devices of a push service are not those that have its addresses") { partition, _ in
            partition.state.transports[1] = [stored(.web)]
            _ = partition.state.transports.devices[1].add(1)
        }
        try isSeen("the devices with marks are wrong") { partition, _ in
            partition.state.transports[1] = [stored(.web)]
            _ = partition.state.transports.markedDevices[0].add(1)
        }
        try isSeen("the devices that are looked at one by one are wrong") { partition, _ in
            partition.state.transports[1] = [stored(.web)]
            _ = partition.state.transports.oddDevices[0].add(1)
        }
    }
}
