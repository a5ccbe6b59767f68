import Model
import Testing

@testable import Partitions

// Invariants of the messages that push services are to get.

extension InvariantTests {
    private static let sending = PushTable.Sending(
        index: 3, position: Position(1), origin: origin, generation: 1)
    private static let origin = PushOrigin(ProjectNumber(5), Transport(kind: .web, address: [1]))

    private static func noteAnswer(_ number: UInt64, _ partition: Partition) {
        let tally = PushTally(
            kind: .web, outcome: .accepted, count: 1, newest: WallTime(milliseconds: 0))
        partition.pushes.tallies.note(
            tally, of: MessageID(time: 1, random: number), in: ProjectNumber(5), messagesMax: 2)
    }

    @Test("of the devices that wait for the sender are seen to be broken")
    func pushTable() throws {
        try isSeen("device 3 is not in the queue") { partition, _ in
            partition.pushes.devices[3] = PushTable.Device(state: .queued)
        }
        try isSeen("nothing wakes device 3") { partition, _ in
            partition.pushes.devices[3] = PushTable.Device(state: .waiting(tick: 9))
        }
        try isSeen("device 3 has nothing at the sender") { partition, _ in
            partition.pushes.devices[3] = PushTable.Device(state: .sending(number: 9))
        }
        try isSeen("device 3 is parked nowhere") { partition, _ in
            partition.pushes.devices[3] = PushTable.Device(state: .parked)
        }
        try isSeen("a service is closed to nobody") { partition, _ in
            partition.pushes.closed[InvariantTests.origin] = PushTable.ClosedOrigin(tick: 9)
        }
        try isSeen("the earliest tick is not the earliest") { partition, _ in
            partition.pushes.earliest = 4
        }
        try isSeen("the devices that wait for bodies are counted wrong") { partition, _ in
            partition.pushes.readings[3] = InvariantTests.origin
        }
        try isSeen("message 1 is at the sender, and its device does not wait for it") { partition, _ in
            partition.pushes.want(3)
            partition.pushes.sendings[1] = InvariantTests.sending
            partition.pushes.slots.add(InvariantTests.origin)
        }
        try isSeen("the slots of a service are counted wrong") { partition, _ in
            partition.pushes.slots.add(InvariantTests.origin)
        }
        try isSeen("the slots of a project are counted wrong") { partition, _ in
            partition.pushes.slots.byProject[ProjectNumber(5)] = 1
        }
        try isSeen("more attempts of pushes are kept than may be", options: { $0.pushAttemptsMax = 1 }) {
            partition, _ in
            let attempt = PushHistory.Attempt(
                message: nil, time: WallTime(milliseconds: 0), outcome: .gone, tries: 0)
            let entry = RecentAttempts.Entry(kind: .web, attempt: attempt)
            for index in UInt32(1)...2 { partition.pushes.failed.note(entry, of: index, devicesMax: 2) }
        }
        try isSeen("more answers to messages are kept than may be", options: { $0.pushAttemptsMax = 1 }) {
            partition, _ in
            for number in UInt64(1)...2 { InvariantTests.noteAnswer(number, partition) }
        }
        try isSeen("kept answers to messages are out of order") { partition, _ in
            InvariantTests.noteAnswer(1, partition)
            partition.pushes.tallies.table.order.append(partition.pushes.tallies.table.order[0])
        }
        try isSeen("devices of which a service doubts are out of order, or too many") { partition, _ in
            partition.pushes.doubts.order.append(1)
        }
        try isSeen("kept attempts of pushes are out of order") { partition, _ in
            let attempt = PushHistory.Attempt(
                message: nil, time: WallTime(milliseconds: 0), outcome: .gone, tries: 0)
            let entry = RecentAttempts.Entry(kind: .web, attempt: attempt)
            partition.pushes.failed.note(entry, of: 1, devicesMax: 2)
            partition.pushes.failed.table.order.append(1)
        }
    }

    @Test("of attempts of now or never are seen to be broken")
    func momentary() throws {
        func message(_ event: [UInt8]) -> MomentaryPushes.Message {
            MomentaryPushes.Message(
                position: Position(1), record: Sequence(1), event: event, sent: WallTime(milliseconds: 0),
                kinds: .all, kept: DeviceSet(), until: MonotonicTime(nanoseconds: .max))
        }
        let most = MomentaryPushes.Load(attempts: 9, bytes: 9)
        func add(_ event: [UInt8], _ devices: [UInt32], _ partition: Partition) {
            partition.pushes.momentary.add(
                message(event), of: InvariantTests.origin.project, for: [(InvariantTests.origin, devices)],
                most: most)
        }
        try isSeen("more waits for now or never than may", options: { $0.momentaryMax = 1 }) {
            partition, _ in add([1], [1, 2], partition)
        }
        try isSeen("more waits for now or never than may", options: { $0.momentaryBytesMax = 1 }) {
            partition, _ in add([1, 2], [1], partition)
        }
        try isSeen("the load of now or never is counted wrong") { partition, _ in
            partition.pushes.momentary.load.bytes = 1
        }
        try isSeen("attempts of now or never are counted wrong") { partition, _ in
            add([1], [1], partition)
            partition.pushes.momentary.lines = [:]
        }
        try isSeen("an empty line waits for now or never") { partition, _ in
            partition.pushes.momentary.lines[InvariantTests.origin] = MomentaryPushes.Line()
        }
        try isSeen("nobody looks at a line of now or never") { partition, _ in
            add([1], [1], partition)
            partition.pushes.momentary.ready = []
        }
        try isSeen("no answer brings a line of now or never further") { partition, _ in
            add([1], [1], partition)
            partition.pushes.momentary.lines[InvariantTests.origin]?.state = .full
        }
        try isSeen("nothing wakes a line of now or never") { partition, _ in
            add([1], [1], partition)
            partition.pushes.momentary.lines[InvariantTests.origin]?.state = .held(until: .zero)
        }
    }

    @Test("of the messages at the sender are seen to be broken")
    func pushes() throws {
        try isSeen("more messages are at the sender than may be", options: { $0.pushesAtOnce = 1 }) {
            partition, _ in
            for number in UInt64(1)...2 {
                partition.pushes.sendings[number] = InvariantTests.sending
                partition.pushes.slots.add(InvariantTests.origin)
            }
        }
        try isSeen("a service has more slots than its share", options: { $0.pushesAtOnce = 4 }) {
            partition, _ in
            for index in UInt32(1)...3 {
                partition.pushes.want(index)
                partition.pushes.setReading(index, for: InvariantTests.origin)
            }
        }
        try isSeen("a project has more slots than its share", options: { $0.pushesAtOnce = 4 }) {
            partition, _ in
            for index in UInt32(1)...4 {
                let web = Transport(kind: .web, address: [UInt8(index % 2)])
                partition.pushes.want(index)
                partition.pushes.setReading(index, for: PushOrigin(ProjectNumber(5), web))
            }
        }
        try isSeen("ends that senders saw are counted wrong") { partition, _ in
            partition.pushes.countedEnds.count = 1
        }
        try isSeen("device 2 waits for a service that its next message does not go to") {
            partition, harness in
            guard let (device, _) = harness.register(in: UInt16(partition.id.rawValue)) else { return }
            let web = Transport(kind: .web, address: [1])
            _ = harness.request(.setTransport(device, by: .backend, web), of: device.partition)
            partition.pushes.want(device.index.rawValue)
            let later = MonotonicTime(nanoseconds: .max)
            partition.pushes.close(InvariantTests.origin, until: later, parking: device.index.rawValue)
        }
        try isSeen("a push has a number that was never given") { partition, _ in
            partition.pushes.sendings[partition.lastToken + 1] = InvariantTests.sending
            partition.pushes.slots.add(InvariantTests.origin)
        }
        try isSeen("a message waits for device 2, and nobody pushes it") { partition, harness in
            guard let (device, _) = harness.register(in: UInt16(partition.id.rawValue)) else { return }
            let web = Transport(kind: .web, address: [1])
            _ = harness.request(.setTransport(device, by: .backend, web), of: device.partition)
            _ = harness.request(.sendToDevice(nil, device, harness.envelope("a")), of: device.partition)
            partition.pushes = PushTable()
        }
    }
}
