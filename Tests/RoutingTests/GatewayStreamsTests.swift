import Model
import Testing

@testable import Partitions
@testable import Routing

/// Takes everything; keeps the positions that were written to each stream.
private final class Pipe: StreamSink {
    var written: [UInt64: [UInt64]] = [:]

    func event(_ body: [UInt8], position: Position, history: History) -> UInt64 { position.rawValue }
    func deletedMessages(position: Position, history: History) -> UInt64 { position.rawValue }
    func write(_ chunk: UInt64, to stream: UInt64) -> Bool {
        written[stream, default: []].append(chunk)
        return true
    }
    func open(_ stream: UInt64) {}
    func refuse(_ stream: UInt64, _ refusal: Refusal) {}
    func endReplaced(_ stream: UInt64) {}
    func endUnregistered(_ stream: UInt64) {}
    func endForReconnect(_ stream: UInt64) {}
}

@Suite("A gateway's streams in a cluster")
struct GatewayStreamsTests {
    private let device = Registration(
        project: ProjectNumber(1), partition: PartitionID(0), index: DeviceIndex(4), nonce: 1, key: 1)

    private func make() -> GatewayStreams {
        GatewayStreams(gateway: GatewayID(2), histories: [History(7)], outlivesOwners: true)
    }

    @Test("tell the next owner too what a device acknowledged by coming back")
    func resumeIsKept() {
        var streams = make()
        let resume = EventID(position: Position(40), history: 7)
        let (stream, _) = streams.attach(device, by: .backend, resume: resume)
        let commands = streams.reattach(PartitionID(0))
        guard commands.count == 1, case .attach(let id, device, .backend, resume) = commands[0] else {
            Issue.record("\(commands)")
            return
        }
        #expect(id == StreamID(gateway: GatewayID(2), number: stream))
    }

    /// What the partition says, in its order; what is written to the streams.
    private func hear(_ frames: [StreamFrame], _ streams: inout GatewayStreams, _ pipe: Pipe) {
        var commands: [StreamCommand] = []
        for frame in frames {
            streams.receive(
                frame, from: PartitionID(0), sink: pipe, refusal: { _ in .unregistered },
                commands: &commands)
        }
    }

    private func push(_ number: UInt64, _ position: UInt64, to index: UInt32) -> StreamFrame {
        .push(
            StreamFrame.Push(
                number: number,
                items: [
                    StreamFrame.PushItem(
                        position: Position(position), event: [], targets: DeviceSet(index),
                        deleted: DeviceSet())
                ]))
    }

    @Test("write to one that was live nothing twice when its partition's owner changes")
    func liveOnesGoOn() {
        var streams = make()
        let pipe = Pipe()
        let (stream, _) = streams.attach(device, by: .backend, resume: nil)
        let id = StreamID(gateway: GatewayID(2), number: stream)
        hear(
            [.attached(id, device.index), .live(id, device.index), push(1, 10, to: 4)],
            &streams, pipe)
        _ = streams.reattach(PartitionID(0))
        let again = [10, 20].map { StreamFrame.Event(position: Position($0), event: []) }
        hear([.attached(id, device.index), .events(id, device.index, deleted: nil, again)], &streams, pipe)
        #expect(pipe.written[stream] == [10, 20])
    }

    @Test("write nothing twice to one that was told of twice and got a push in between")
    func toldTwice() {
        var streams = make()
        let pipe = Pipe()
        let (stream, _) = streams.attach(device, by: .backend, resume: nil)
        let id = StreamID(gateway: GatewayID(2), number: stream)
        _ = streams.reattach(PartitionID(0))
        _ = streams.reattach(PartitionID(0))
        let again = [StreamFrame.Event(position: Position(10), event: [])]
        hear(
            [
                .attached(id, device.index), .live(id, device.index), push(1, 10, to: 4),
                .attached(id, device.index), .events(id, device.index, deleted: nil, again),
                .live(id, device.index), push(2, 20, to: 4),
            ], &streams, pipe)
        #expect(pipe.written[stream] == [10, 20])
    }

    @Test("lose nothing of one that still waited for what it missed when its partition's owner changes")
    func waitingOnesMissNothing() {
        var streams = make()
        let pipe = Pipe()
        let (stream, _) = streams.attach(device, by: .backend, resume: nil)
        let id = StreamID(gateway: GatewayID(2), number: stream)
        // What it missed is being read while another device of the partition gets a push.
        hear([.attached(id, device.index), push(1, 10, to: 5)], &streams, pipe)
        _ = streams.reattach(PartitionID(0))
        let missed = [3, 7].map { StreamFrame.Event(position: Position($0), event: []) }
        hear([.attached(id, device.index), .events(id, device.index, deleted: nil, missed)], &streams, pipe)
        #expect(pipe.written[stream] == [3, 7])
    }
}
