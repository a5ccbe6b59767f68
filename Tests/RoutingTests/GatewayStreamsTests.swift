import Model
import Testing

@testable import Partitions
@testable import Routing

/// A sink that takes `room` chunks and refuses all others.
private final class Sink: StreamSink {
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
    private static let partition = PartitionID(0)
    private static let gateway = GatewayID(256)
    private static let device = DeviceIndex(3)

    private final class Bench {
        var streams = GatewayStreams(
            gateway: gateway, histories: [History(7)], outlivesOwners: true)
        let sink = Sink()
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
        var turn: UInt32 { UInt32(attachCount) + 1 }
        private func id(_ turn: UInt32?) -> StreamID {
            StreamID(gateway: gateway, number: 1, turn: turn ?? self.turn)
        }
        func reattach() { commands += streams.reattach(partition) }
        func attached(epoch: UInt64 = 1, turn: UInt32? = nil) {
            hear(.attached(id(turn), device, Epoch(epoch), from: .zero))
        }
        func events(_ positions: [UInt64], after: UInt64, epoch: UInt64 = 1, turn: UInt32? = nil) {
            let events = positions.map { StreamFrame.Event(position: Position($0), event: []) }
            hear(.events(id(turn), device, Epoch(epoch), after: Position(after), deleted: nil, events))
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
        let bench = Bench()
        bench.attached()
        bench.events([], after: 0)
        for position: UInt64 in [10, 20] { bench.push(position, to: 3) }
        bench.sink.room = 0
        bench.push(30, to: 3)
        _ = bench.streams.drained(1)
        bench.events([30], after: 28)
        #expect(bench.reportedBehind == [28, 28])
        bench.sink.room = 10
        _ = bench.streams.drained(1)
        bench.events([30], after: 28)
        #expect(bench.sink.written == [10, 20, 30])
    }

    @Test("a stream that waits for the log does not count as written by what others were pushed")
    func notLiveYet() {
        let bench = Bench()
        bench.attached()
        bench.push(50, to: 4)
        bench.reattach()
        bench.attached()
        bench.events([40], after: 0)
        #expect(bench.sink.written == [40])
    }

    @Test("what was said to an earlier turn does not make a stream live")
    func earlierTurns() {
        let bench = Bench()
        bench.attached()
        bench.reattach()
        bench.events([], after: 0, turn: 1)
        bench.push(50, to: 4)
        bench.attached()
        bench.events([40], after: 0)
        bench.events([], after: 40)
        #expect(bench.sink.written == [40])
        bench.push(60, to: 3)
        #expect(bench.sink.written == [40, 60])
    }

    @Test("attached a second time, it waits for the log again")
    func attachedTwice() {
        let bench = Bench()
        bench.attached()
        bench.events([], after: 0)
        bench.attached()
        bench.push(50, to: 4)
        bench.events([40, 50], after: 0)
        #expect(bench.sink.written == [40, 50])
    }

    @Test("frames from before its partition knew that it fell behind leave no gap")
    func staleFrames() {
        let bench = Bench()
        bench.attached()
        bench.sink.room = 1
        bench.events([10, 20], after: 0)
        bench.sink.room = 10
        bench.events([30], after: 20)
        bench.events([], after: 30)
        bench.events([10, 20], after: 0)
        #expect(bench.sink.written == [10] && bench.reportedBehind == [10])
        #expect(bench.streams.drained(1) != nil)
        bench.events([20, 30], after: 10)
        #expect(bench.sink.written == [10, 20, 30])
    }

    @Test("the first word of a newer machine has the streams told to it, an older one's is not heard")
    func machines() {
        let bench = Bench()
        bench.attached()
        bench.events([], after: 0)
        bench.push(10, to: 3)
        bench.push(50, to: 4, epoch: 2)
        #expect(bench.attachCount == 1)
        bench.push(60, to: 3, epoch: 1)
        bench.attached(epoch: 2)
        bench.events([40, 50], after: 0, epoch: 2)
        #expect(bench.sink.written == [10, 40, 50])
    }

    @Test("after a frame that was lost its streams are told anew, and miss nothing")
    func gaps() {
        let bench = Bench()
        bench.attached()
        bench.events([], after: 0)
        bench.push(10, to: 3)
        bench.push(30, to: 3, lost: 1)
        #expect(bench.sink.written == [10] && bench.attachCount == 1)
        bench.attached()
        bench.events([20, 30], after: 10)
        bench.events([], after: 30)
        bench.push(40, to: 3)
        #expect(bench.sink.written == [10, 20, 30, 40] && bench.attachCount == 1)
    }

    @Test("a stream that was cut off does not count as written by what others are pushed")
    func cutOff() {
        let bench = Bench()
        bench.attached()
        bench.events([], after: 0)
        bench.push(10, to: 3)
        bench.cutOff(DeviceSet(sorted: [3, 900_000]), at: 10)
        bench.push(50, to: 4)
        bench.push(60, to: 3)
        bench.events([20, 40, 60], after: 10)
        #expect(bench.sink.written == [10, 20, 40, 60])
        bench.events([], after: 60)
        bench.push(70, to: 3)
        #expect(bench.sink.written == [10, 20, 40, 60, 70] && bench.attachCount == 0)
        let confirmed = bench.commands.compactMap {
            if case .processed(_, let frame) = $0 { frame } else { nil }
        }
        #expect(confirmed == [1, 2, 3, 4, 5])
    }

    @Test("no position of a peer ends the gateway")
    func positions() {
        let bench = Bench()
        bench.attached()
        bench.events([], after: 0)
        bench.sink.room = 0
        for position: UInt64 in [0, 1, .max] { bench.push(position, to: 3) }
    }
}
