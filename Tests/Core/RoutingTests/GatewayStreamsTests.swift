import Model
import Testing

@testable import Partitions
@testable import Routing

/// A sink that takes `room` chunks and refuses all others.
final class CountingSink: StreamSink {
    var room = Int.max
    var written: [UInt64] = []

    func event(_ body: [UInt8], position: Position, history: History) -> UInt64 { position.rawValue }
    func deletedMessages(position: Position, history: History) -> UInt64 { position.rawValue }
    func write(_ chunk: UInt64, to stream: UInt64) -> Bool {
        guard room > 0 else { return false }
        room -= 1
        written.append(chunk)
        return true
    }
    func open(_ stream: UInt64) {}
    func refuse(_ stream: UInt64, _ refusal: Refusal) {}
    func endReplaced(_ stream: UInt64) {}
    func endUnregistered(_ stream: UInt64) {}
    func endForReconnect(_ stream: UInt64) {}
}

@Suite("Streams of a gateway")
struct GatewayStreamsTests {
    private let harness = StreamsHarness()
    private static let partition = PartitionID(0)
    private static let gateway = GatewayID(256)
    private static let device = DeviceIndex(3)

    private final class StreamsHarness {
        var streams = GatewayStreams(
            gateway: gateway, histories: [History(7)], outlivesOwners: true)
        let sink = CountingSink()
        var commands: [StreamCommand] = []

        init() {
            let registration = Registration(
                project: ProjectNumber(1), partition: partition, index: device, nonce: 1, key: 0)
            _ = streams.attach(registration, by: .backend, resume: nil)
        }

        func hear(_ frame: StreamFrame) {
            streams.receive(
                frame, from: partition, sink: sink, refusal: { _ in .unregistered }, commands: &commands)
        }
        /// The number of the stream's present attachment: the first, and one more for each time that the
        /// gateway attached the stream again.
        var attachment: UInt32 { UInt32(attachCount) + 1 }
        private func id(_ attachment: UInt32?) -> StreamID {
            StreamID(gateway: gateway, number: 1, attachment: attachment ?? self.attachment)
        }
        func reattach() { commands += streams.reattach(partition) }
        func attached(epoch: UInt64 = 1, attachment: UInt32? = nil) {
            hear(.attached(id(attachment), device, Epoch(epoch), from: .zero))
        }
        func events(_ positions: [UInt64], after: UInt64, epoch: UInt64 = 1, attachment: UInt32? = nil) {
            let events = positions.map { StreamFrame.Event(position: Position($0), event: []) }
            hear(.events(id(attachment), device, Epoch(epoch), after: Position(after), deleted: nil, events))
        }
        private var numbers: [UInt64: UInt64] = [:]
        /// The next push of the epoch's machine. The `lost` pushes before it did not arrive.
        func push(_ position: UInt64, to index: UInt32, epoch: UInt64 = 1, lost: UInt64 = 0) {
            numbers[epoch, default: 0] += 1 + lost
            let item = StreamFrame.PushItem(
                position: Position(position), event: [], targets: DeviceSet(index), deleted: DeviceSet())
            hear(.push(.init(epoch: Epoch(epoch), number: numbers[epoch] ?? 0, items: [item])))
        }
        func cutOff(_ devices: DeviceSet, at position: UInt64) {
            numbers[1, default: 0] += 1
            hear(
                .cutOff(
                    .init(
                        epoch: Epoch(1), number: numbers[1] ?? 0, position: Position(position),
                        devices: devices)))
        }
        var reportedBehind: [UInt64] {
            commands.compactMap {
                if case .fellBehind(_, _, let written) = $0 { written.rawValue } else { nil }
            }
        }
        var attachCount: Int { commands.count { if case .attach = $0 { true } else { false } } }
    }

    @Test("the next owner is told too what a device acknowledged by coming back")
    func resumeIsKept() {
        var streams = GatewayStreams(
            gateway: GatewayStreamsTests.gateway, histories: [History(7)], outlivesOwners: true)
        let registration = Registration(
            project: ProjectNumber(1), partition: GatewayStreamsTests.partition,
            index: GatewayStreamsTests.device, nonce: 1, key: 0)
        let resume = EventID(position: Position(40), history: 7)
        _ = streams.attach(registration, by: .backend, resume: resume)
        let commands = streams.reattach(GatewayStreamsTests.partition)
        guard commands.count == 1, case .attach(_, registration, .backend, resume) = commands[0] else {
            Issue.record("\(commands)")
            return
        }
    }

    @Test("what is read from the log goes on where pushes stopped, however often the stream is full")
    func nothingTwice() {
        harness.attached()
        harness.events([], after: 0)
        for position: UInt64 in [10, 20] { harness.push(position, to: 3) }
        harness.sink.room = 0
        harness.push(30, to: 3)
        _ = harness.streams.drained(1)
        harness.events([30], after: 28)
        #expect(harness.reportedBehind == [28, 28])
        harness.sink.room = 10
        _ = harness.streams.drained(1)
        harness.events([30], after: 28)
        #expect(harness.sink.written == [10, 20, 30])
    }

    @Test("a stream that waits for the log does not count as written by what others were pushed")
    func notLiveYet() {
        harness.attached()
        harness.push(50, to: 4)
        harness.reattach()
        harness.attached()
        harness.events([40], after: 0)
        #expect(harness.sink.written == [40])
    }

    @Test("what was said to an earlier attachment does not make a stream live")
    func earlierTurns() {
        harness.attached()
        harness.reattach()
        harness.events([], after: 0, attachment: 1)
        harness.push(50, to: 4)
        harness.attached()
        harness.events([40], after: 0)
        harness.events([], after: 40)
        #expect(harness.sink.written == [40])
        harness.push(60, to: 3)
        #expect(harness.sink.written == [40, 60])
    }

    @Test("attached a second time, it waits for the log again")
    func attachedTwice() {
        harness.attached()
        harness.events([], after: 0)
        harness.attached()
        harness.push(50, to: 4)
        harness.events([40, 50], after: 0)
        #expect(harness.sink.written == [40, 50])
    }

    @Test("frames from before its partition knew that it fell behind leave no gap")
    func staleFrames() {
        harness.attached()
        harness.sink.room = 1
        harness.events([10, 20], after: 0)
        harness.sink.room = 10
        harness.events([30], after: 20)
        harness.events([], after: 30)
        harness.events([10, 20], after: 0)
        #expect(harness.sink.written == [10] && harness.reportedBehind == [10])
        #expect(harness.streams.drained(1) != nil)
        harness.events([20, 30], after: 10)
        #expect(harness.sink.written == [10, 20, 30])
    }

    @Test("the first word of a newer machine has the streams told to it, an older one's is not heard")
    func machines() {
        harness.attached()
        harness.events([], after: 0)
        harness.push(10, to: 3)
        harness.push(50, to: 4, epoch: 2)
        #expect(harness.attachCount == 1)
        harness.push(60, to: 3, epoch: 1)
        harness.attached(epoch: 2)
        harness.events([40, 50], after: 0, epoch: 2)
        #expect(harness.sink.written == [10, 40, 50])
    }

    @Test("after a frame that was lost its streams are told again, and miss nothing")
    func gaps() {
        harness.attached()
        harness.events([], after: 0)
        harness.push(10, to: 3)
        harness.push(30, to: 3, lost: 1)
        #expect(harness.sink.written == [10] && harness.attachCount == 1)
        harness.attached()
        harness.events([20, 30], after: 10)
        harness.events([], after: 30)
        harness.push(40, to: 3)
        #expect(harness.sink.written == [10, 20, 30, 40] && harness.attachCount == 1)
    }

    @Test("a stream that was cut off does not count as written by what others are pushed")
    func cutOff() {
        harness.attached()
        harness.events([], after: 0)
        harness.push(10, to: 3)
        harness.cutOff(DeviceSet(sorted: [3, 900_000]), at: 10)
        harness.push(50, to: 4)
        harness.push(60, to: 3)
        harness.events([20, 40, 60], after: 10)
        #expect(harness.sink.written == [10, 20, 40, 60])
        harness.events([], after: 60)
        harness.push(70, to: 3)
        #expect(harness.sink.written == [10, 20, 40, 60, 70] && harness.attachCount == 0)
        let confirmed = harness.commands.compactMap {
            if case .processed(_, let frame) = $0 { frame } else { nil }
        }
        #expect(confirmed == [1, 2, 3, 4, 5])
    }

    @Test("no position of a peer ends the gateway")
    func positions() {
        harness.attached()
        harness.events([], after: 0)
        harness.sink.room = 0
        for position: UInt64 in [0, 1, .max] { harness.push(position, to: 3) }
    }
}
