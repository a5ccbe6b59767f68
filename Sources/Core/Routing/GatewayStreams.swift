import Model
import Partitions

/// The shell's side of a loop's device streams: a gateway writes its streams into a sink.
public protocol StreamSink: AnyObject {
    /// An event's bytes, created once and shared by every stream that gets it.
    associatedtype Chunk

    func event(_ body: [UInt8], position: Position, history: History) -> Chunk
    /// The event that reports to a device that older messages were dropped.
    func deletedMessages(position: Position, history: History) -> Chunk
    /// Queues a chunk; false if the stream is full or gone, and nothing was queued.
    func write(_ chunk: Chunk, to stream: UInt64) -> Bool
    /// The partition has accepted the device: the stream begins.
    func open(_ stream: UInt64)
    /// The answer instead of a stream.
    func refuse(_ stream: UInt64, _ refusal: Refusal)
    /// Another stream of the same device took this one's place: the sink says so on the stream and ends it.
    func endReplaced(_ stream: UInt64)
    /// The device is unregistered: the sink says so on the stream and ends it.
    func endUnregistered(_ stream: UInt64)
    /// The partition is served again, elsewhere or after a loss: the sink ends the stream; the device comes
    /// back and resumes.
    func endForReconnect(_ stream: UInt64)
}

/// The device streams of one gateway loop: which device each stream is for, and how far it was written.
///
/// A partition sends one frame for a message and all of its targets here. The gateway finds the streams,
/// writes the shared bytes to each, and reports to the partition the streams that could not take them. Such a
/// stream has fallen behind: the gateway writes nothing more to it until the partition brings it up to date
/// from the log. The gateway never writes a position below the stream's last one, whatever comes twice.
public struct GatewayStreams {
    struct Stream {
        var partition: PartitionID
        var device: DeviceIndex
        /// The number of the present attachment: how often the gateway has attached the stream at its
        /// partition.
        var attachment: UInt32 = 1
        var written = Position.zero
        var pace = Pace.current

        enum Pace {
            /// Not behind. A stream is also this before its partition has accepted it.
            case current
            /// The stream has fallen behind, and the gateway has not yet asked the partition to bring it up
            /// to date. Events that the partition sent before are not for the stream, or both ends would
            /// disagree on whether it is behind.
            case full
            /// The stream is behind, and the gateway has asked for what it lacks.
            case catchingUp
        }
    }
    static let pageSize = 1024

    private let gateway: GatewayID
    var streams: [UInt64: Stream] = [:]
    /// The numbers of each partition's streams: the gateway attaches these at a new owner, and one node may
    /// take over a hundred partitions at once.
    var members: [PartitionID: Set<UInt64>] = [:]
    /// Stream number by device index, in pages, for each partition; 0 for none.
    private(set) var byDevice: [PartitionID: [[UInt64]]] = [:]
    private(set) var lastNumber: UInt64 = 0
    private let histories: [History]
    /// In a cluster a stream outlives the owner of its partition. For the next owner the gateway keeps the
    /// device, its authority, and what it acknowledged by coming back, which no owner may have recorded yet.
    let outlivesOwners: Bool
    struct Listener {
        var device: Registration
        var authority: Authority
        var resume: EventID?
    }
    var listeners: [UInt64: Listener] = [:]
    /// Streams that no partition has accepted yet.
    public internal(set) var unopened: Set<UInt64> = []
    /// The newest position that was pushed to the live streams of each partition: each of them has everything
    /// for its device up to there. A stream is in `byDevice` when it is live, not before.
    private var pushed: [PartitionID: Position] = [:]
    /// The number of the last frame of pushes from each partition's machine.
    private(set) var numbers: [PartitionID: UInt64] = [:]
    /// The highest epoch received of each partition. All streams in `byDevice` are attached to that epoch's
    /// machine.
    var epochs: [PartitionID: Epoch] = [:]
    public var invariantSchedule = InvariantSchedule()

    /// `histories` by partition number.
    public init(gateway: GatewayID, histories: [History], outlivesOwners: Bool = false) {
        self.gateway = gateway
        self.histories = histories
        self.outlivesOwners = outlivesOwners
    }

    public var count: Int { streams.count }
    /// Streams to which the gateway writes the pushes of their partitions.
    public var live: [LiveStream] {
        streams.sorted { $0.key < $1.key }.filter { isIndexed($0.key, $0.value) }.map { number, stream in
            LiveStream(partition: stream.partition, device: stream.device, stream: id(number, stream))
        }
    }

    // MARK: From clients

    /// A device wants to listen. Returns the number of its stream, and the command for its partition.
    public mutating func attach(
        _ registration: Registration, by authority: Authority, resume: EventID?
    ) -> (stream: UInt64, command: StreamCommand) {
        defer { checkInvariants() }
        lastNumber += 1
        streams[lastNumber] = Stream(partition: registration.partition, device: registration.index)
        members[registration.partition, default: []].insert(lastNumber)
        unopened.insert(lastNumber)
        if outlivesOwners {
            listeners[lastNumber] = Listener(device: registration, authority: authority, resume: resume)
        }
        let id = StreamID(gateway: gateway, number: lastNumber)
        return (lastNumber, .attach(id, registration, by: authority, resume: resume))
    }

    /// The client is gone.
    public mutating func detach(_ number: UInt64) -> (PartitionID, StreamCommand)? {
        defer { checkInvariants() }
        guard let stream = forget(number) else { return nil }
        return (stream.partition, .detach(id(number, stream), stream.device))
    }

    /// The client has read enough that a stream which fell behind can take events again.
    public mutating func drained(_ number: UInt64) -> (PartitionID, StreamCommand)? {
        guard let stream = streams[number], stream.pace == .full else { return nil }
        streams[number]?.pace = .catchingUp
        return (stream.partition, .caughtUp(id(number, stream), stream.device))
    }

    // MARK: From partitions

    /// Carries out a partition's frame; `commands` gets the answers to that partition, in order.
    public mutating func receive<Sink: StreamSink>(
        _ frame: StreamFrame, from partition: PartitionID, sink: Sink, refusal: (PartitionRefusal) -> Refusal,
        commands: inout [StreamCommand]
    ) {
        defer { checkInvariants() }
        switch frame {
        case .attached(let id, let device, let epoch, let from):
            guard isCurrent(epoch, of: partition, &commands) else { return }
            guard let stream = streams[id.number] else { return commands.append(.detach(id, device)) }
            // A frame for an earlier attachment is not for this one: it would make the stream live while the
            // partition does not push to it.
            guard id.attachment == stream.attachment else { return }
            let written = max(written(id.number, stream), from)
            streams[id.number]?.written = written
            unindex(id.number, stream)
            unopened.remove(id.number)
            sink.open(id.number)
        case .refused(let id, let reason):
            if streams[id.number]?.attachment == id.attachment, forget(id.number) != nil {
                sink.refuse(id.number, refusal(reason))
            }
        case .replaced(let id, _):
            if forget(id.number) != nil { sink.endReplaced(id.number) }
        case .ended(let id, _):
            if forget(id.number) != nil { sink.endUnregistered(id.number) }
        case .events(let id, let device, let epoch, let after, let deleted, let events):
            guard isCurrent(epoch, of: partition, &commands) else { return }
            write(
                events, after: after, deleted: deleted, to: id, of: device, in: partition, sink: sink,
                &commands)
        case .push(let push):
            guard isCurrent(push.epoch, of: partition, &commands) else { return }
            notice(push.number, of: partition, &commands)
            for item in push.items { self.push(item, of: partition, sink: sink, &commands) }
            if let last = push.items.last { pushed[partition] = last.position }
            commands.append(.processed(gateway, frame: push.number))
        case .cutOff(let cut):
            guard isCurrent(cut.epoch, of: partition, &commands) else { return }
            notice(cut.number, of: partition, &commands)
            cut.devices.forEach { freeze($0, partition) }
            commands.append(.processed(gateway, frame: cut.number))
        }
    }

    /// Frames come in the order of their numbers. If one is missing, pushes are missing: the gateway attaches
    /// the live streams again, and the partition reads from the log what they missed (rule: numbered-pushes).
    private mutating func notice(
        _ number: UInt64, of partition: PartitionID, _ commands: inout [StreamCommand]
    ) {
        guard outlivesOwners else { return }
        let last = numbers.updateValue(number, forKey: partition) ?? 0
        if number != last &+ 1 { commands.append(contentsOf: reattach(partition, where: isIndexed)) }
    }

    /// The partition has cut the device's stream off: later pushes are not for this stream.
    private mutating func freeze(_ index: UInt32, _ partition: PartitionID) {
        let page = Int(index) / GatewayStreams.pageSize
        guard let pages = byDevice[partition], page < pages.count, !pages[page].isEmpty else { return }
        let number = pages[page][Int(index) % GatewayStreams.pageSize]
        guard number > 0, var stream = streams[number] else { return }
        stream.written = written(number, stream)
        streams[number] = stream
        unindex(number, stream)
    }

    /// Whether the frame's epoch is the highest received of the partition. The first frame of a newer owner
    /// makes the gateway attach its live streams at that owner. Pushes that the owner made before are not for
    /// these streams.
    private mutating func isCurrent(
        _ epoch: Epoch, of partition: PartitionID, _ commands: inout [StreamCommand]
    ) -> Bool {
        let known = epochs[partition] ?? epoch
        guard epoch >= known else { return false }
        epochs[partition] = epoch
        if epoch > known {
            numbers[partition] = nil
            commands.append(contentsOf: reattach(partition, where: isIndexed))
        }
        return true
    }

    /// Refuses the streams up to this number that no partition has accepted, as while the database is away.
    /// Returns the number up to which others wait.
    public mutating func expire<Sink: StreamSink>(upTo last: UInt64, sink: Sink) -> UInt64? {
        defer { checkInvariants() }
        for number in unopened.filter({ $0 <= last }).sorted() {
            _ = forget(number)
            sink.refuse(number, Router.late)
        }
        return unopened.isEmpty ? nil : lastNumber
    }

    /// The owner has lost the partition: its streams end, and their devices come back.
    public mutating func lost<Sink: StreamSink>(_ partition: PartitionID, sink: Sink) {
        for (number, _) in streams(of: partition) {
            _ = forget(number)
            sink.endForReconnect(number)
        }
    }

    /// The partition has another owner, or the link to its owner broke: the gateway attaches each stream
    /// again. What was written stays written: the owner begins with what the device has not acknowledged, and
    /// of that only positions above the last written go out again (rule: streams-outlive-owners).
    public mutating func reattach(_ partition: PartitionID) -> [StreamCommand] {
        reattach(partition) { _, _ in true }
    }

    private mutating func reattach(
        _ partition: PartitionID, where isMeant: (UInt64, Stream) -> Bool
    ) -> [StreamCommand] {
        var commands: [StreamCommand] = []
        for (number, var stream) in streams(of: partition) where isMeant(number, stream) {
            guard let listener = listeners[number] else { continue }
            stream.written = written(number, stream)
            stream.pace = .current
            stream.attachment &+= 1
            streams[number] = stream
            unindex(number, stream)
            commands.append(
                .attach(
                    id(number, stream), listener.device, by: listener.authority, resume: listener.resume))
        }
        return commands
    }

    /// The position up to which a stream has everything. All live streams of a partition share one position
    /// of the pushes.
    private func written(_ number: UInt64, _ stream: Stream) -> Position {
        guard stream.pace == .current, isIndexed(number, stream) else { return stream.written }
        return max(stream.written, pushed[stream.partition] ?? .zero)
    }

    private func id(_ number: UInt64, _ stream: Stream) -> StreamID {
        StreamID(gateway: gateway, number: number, attachment: stream.attachment)
    }

    private func isIndexed(_ number: UInt64, _ stream: Stream) -> Bool {
        let page = Int(stream.device.rawValue) / GatewayStreams.pageSize
        guard let pages = byDevice[stream.partition], page < pages.count, !pages[page].isEmpty else {
            return false
        }
        return pages[page][Int(stream.device.rawValue) % GatewayStreams.pageSize] == number
    }

    private mutating func write<Sink: StreamSink>(
        _ events: [StreamFrame.Event], after: Position, deleted: Position?, to id: StreamID,
        of device: DeviceIndex, in partition: PartitionID, sink: Sink, _ commands: inout [StreamCommand]
    ) {
        guard var stream = streams[id.number], id.attachment == stream.attachment else { return }
        stream.written = written(id.number, stream)
        // The partition sent these events before it knew that the stream has fallen behind. Something is
        // missing between the two positions, and the partition will send it again.
        guard after <= stream.written, stream.pace != .full else { return }
        let history = histories[Int(partition.rawValue)]
        stream.pace = .current
        unindex(id.number, stream)
        if let deleted, deleted > stream.written {
            if sink.write(sink.deletedMessages(position: deleted, history: history), to: id.number) {
                stream.written = deleted
            } else {
                stream.pace = .full
            }
        }
        for event in events where event.position > stream.written && stream.pace == .current {
            let chunk = sink.event(event.event, position: event.position, history: history)
            if sink.write(chunk, to: id.number) {
                stream.written = event.position
            } else {
                stream.pace = .full
            }
        }
        streams[id.number] = stream
        if stream.pace == .full {
            commands.append(.fellBehind(id, device, written: stream.written))
        } else if events.isEmpty, deleted == nil {
            index(id.number, of: device, in: partition)
        }
    }

    private mutating func push<Sink: StreamSink>(
        _ item: StreamFrame.PushItem, of partition: PartitionID, sink: Sink, _ commands: inout [StreamCommand]
    ) {
        guard let pages = byDevice[partition] else { return }
        let history = histories[Int(partition.rawValue)]
        let chunk = sink.event(item.event, position: item.position, history: history)
        let deleted = item.deleted
        let told = item.position.before(1)
        var behind: [UInt64] = []
        item.targets.forEach { index in
            let page = Int(index) / GatewayStreams.pageSize
            guard page < pages.count, !pages[page].isEmpty else { return }
            let number = pages[page][Int(index) % GatewayStreams.pageSize]
            guard number > 0 else { return }
            if !deleted.isEmpty, deleted.contains(index) {
                let said = sink.write(sink.deletedMessages(position: told, history: history), to: number)
                if !said { return behind.append(number) }
            }
            if !sink.write(chunk, to: number) { behind.append(number) }
        }
        for number in behind {
            guard var stream = streams[number], stream.pace == .current else { continue }
            stream.pace = .full
            // A live stream keeps no position, but everything up to two below this push is written (one below
            // may be `deletedMessages`). From here on the stream keeps one: the log's events go on behind it.
            stream.written = max(stream.written, item.position.before(2))
            streams[number] = stream
            unindex(number, stream)
            commands.append(.fellBehind(id(number, stream), stream.device, written: stream.written))
        }
    }

    // MARK: Table

    /// In the order in which the streams came.
    private func streams(of partition: PartitionID) -> [(key: UInt64, value: Stream)] {
        (members[partition] ?? []).sorted().compactMap { number in streams[number].map { (number, $0) } }
    }

    private mutating func index(_ number: UInt64, of device: DeviceIndex, in partition: PartitionID) {
        let page = Int(device.rawValue) / GatewayStreams.pageSize
        var pages = byDevice[partition] ?? []
        byDevice[partition] = nil
        while pages.count <= page { pages.append([]) }
        if pages[page].isEmpty { pages[page] = Array(repeating: 0, count: GatewayStreams.pageSize) }
        pages[page][Int(device.rawValue) % GatewayStreams.pageSize] = number
        byDevice[partition] = pages
    }

    private mutating func forget(_ number: UInt64) -> Stream? {
        guard let stream = streams.removeValue(forKey: number) else { return nil }
        members[stream.partition]?.remove(number)
        if members[stream.partition]?.isEmpty ?? false { members[stream.partition] = nil }
        if outlivesOwners { listeners[number] = nil }
        unopened.remove(number)
        unindex(number, stream)
        return stream
    }

    /// Takes the stream out of `byDevice`, in which pushes look: it has ended, or is not live.
    private mutating func unindex(_ number: UInt64, _ stream: Stream) {
        let page = Int(stream.device.rawValue) / GatewayStreams.pageSize
        let slot = Int(stream.device.rawValue) % GatewayStreams.pageSize
        if let pages = byDevice[stream.partition], page < pages.count, !pages[page].isEmpty,
            pages[page][slot] == number
        {
            byDevice[stream.partition]?[page][slot] = 0
        }
    }
}

extension Position {
    /// Stops at 0: a peer may name any position.
    fileprivate func before(_ count: UInt64) -> Position { Position(rawValue - min(rawValue, count)) }
}
