import Model
import Partitions
import Routing
import StoryTelling
import Testing

/// The stories in `StreamStories` tell how a device gets its messages over a stream.
@Suite("Stories of streams") struct StreamStories {
    static let stories = Stories("StreamStories")

    @Test("go as they are told", arguments: stories.names)
    func told(_ name: String) throws {
        try StreamStories.stories.expect(name) { text in
            let told = try ToldStreams()
            return try Stories.play(text) { try told.perform($0) }
        }
    }

    @Test("are there: this suite is not green for want of stories")
    func areThere() { #expect(StreamStories.stories.names.count >= 5) }
}

/// What the gateway writes to devices. `isFull`: the device does not read.
private final class Sink: StreamSink {
    var isFull = false
    var tell: (_ deed: String) -> Void = { _ in }
    var opened: Set<UInt64> = []

    func event(_ body: [UInt8], position: Position, history: History) -> String {
        String(decoding: body, as: UTF8.self)
    }
    func deletedMessages(position: Position, history: History) -> String { "the notice of dropped messages" }
    func write(_ chunk: String, to stream: UInt64) -> Bool {
        tell(isFull ? "cannot write \(chunk): the phone does not read" : "writes \(chunk) to the phone")
        return !isFull
    }
    func open(_ stream: UInt64) {
        if opened.insert(stream).inserted { tell("opens stream \(stream) for the phone") }
    }
    func refuse(_ stream: UInt64, _ refusal: Refusal) { tell("refuses stream \(stream): \(refusal)") }
    func endReplaced(_ stream: UInt64) { tell("ends stream \(stream): another one took its place") }
    func endUnregistered(_ stream: UInt64) { tell("ends stream \(stream): the phone is unregistered") }
    func endForReconnect(_ stream: UInt64) { tell("ends stream \(stream): the phone has to come back") }
}

/// Plays the lines of a story with one device partition, one gateway and one device, the phone.
///
/// `phone registers`, `phone listens`, `phone listens after m2` (the last event that the phone has seen),
/// `phone acknowledges m2`, `phone goes`, `phone stops reading`, `phone reads again`. `backend sends m1`.
/// `owner dies`, `owner begins` (the next one). `frames lost 1`: the next frame to the gateway is lost. `run
/// 20ms`; `run 2s unseen` tells nothing.
private final class ToldStreams {
    private let world: PartitionWorld
    private var teller = Teller(began: PartitionWorld.began)
    private let sink = Sink()
    private var streams = GatewayStreams(
        gateway: PartitionWorld.gateway, histories: [history], outlivesOwners: true)
    private var phone: (registration: Registration, credential: DeviceMAC)?
    private var stream: UInt64 = 0
    /// The messages' positions, in order.
    private var known: [(position: Position, text: String)] = []
    private var epoch = 1
    private static let history = History(100)
    private static let partition = PartitionID(0)

    init() throws {
        world = try PartitionWorld(count: 1) { $0.streamsOutliveOwners = true }
        sink.tell = { [unowned self] deed in teller.tell(world.now, "the gateway", deed) }
        world.onEffect = { [unowned self] in note($1) }
        world.onEvent = { [unowned self] in note($1, $2) }
        world.onFrame = { [unowned self] in receive($1, isHere: $2) }
    }

    func perform(_ words: [String]) throws -> [String] {
        switch words[0] {
        case "phone": return act(words)
        case "backend":
            guard let phone else { break }
            world.ask(
                .sendToDevice(nil, phone.registration, world.message(words[2])), of: ToldStreams.partition)
        case "owner" where words[1] == "dies": world.die(ToldStreams.partition)
        case "owner":
            epoch += 1
            try world.succeed(ToldStreams.partition)
            // The gateway learns of the next owner from the routes.
            for command in streams.reattach(ToldStreams.partition) { send(command) }
        case "frames": world.framesToLose = Int(words[2]) ?? 0
        case "run":
            world.run(for: Stories.length(words[1]) ?? .zero)
            let told = teller.drain()
            return words.last == "unseen" ? [] : told
        default: return ["what is \(words[0])?"]
        }
        return []
    }

    private func act(_ words: [String]) -> [String] {
        if words[1] == "registers" {
            phone = world.register(in: ToldStreams.partition)
            teller = Teller(began: world.now)
        }
        guard let phone else { return ["the phone is not registered"] }
        let seen = known.last { $0.text == words.last }.map {
            EventID(position: $0.position, history: UInt16(ToldStreams.history.rawValue))
        }
        switch words[1] {
        case "listens":
            let (number, command) = streams.attach(
                phone.registration, by: .device(phone.credential), resume: seen)
            stream = number
            send(command)
        case "goes": if let (_, command) = streams.detach(stream) { send(command) }
        case "stops": sink.isFull = true
        case "reads":
            sink.isFull = false
            if let (_, command) = streams.drained(stream) { send(command) }
        case "acknowledges":
            guard let seen else { return ["what is \(words[2])?"] }
            world.ask(
                .acknowledge(phone.registration, by: .device(phone.credential), seen),
                of: ToldStreams.partition)
        default: break
        }
        return []
    }

    private func receive(_ frame: StreamFrame, isHere: Bool) {
        guard isHere else {
            return teller.tell(world.now, "the network", "loses \(content(frame))")
        }
        var commands: [StreamCommand] = []
        streams.receive(
            frame, from: ToldStreams.partition, sink: sink, refusal: { _ in .unregistered },
            commands: &commands)
        for command in commands { send(command) }
    }

    // MARK: What is told

    private func send(_ command: StreamCommand) {
        switch command {
        case .attach(let id, _, _, let resume):
            let seen = resume.map { ", for a phone that has seen \(upTo($0.position))" } ?? ""
            tellGateway("attaches stream \(id.number) at the owner, attachment \(id.attachment)\(seen)")
        case .detach(let id, _): tellGateway("tells the owner that stream \(id.number) has ended")
        case .fellBehind(let id, _, let written):
            tellGateway(
                "tells the owner that stream \(id.number) fell behind, with \(upTo(written)) written")
        case .caughtUp(let id, _): tellGateway("tells the owner that stream \(id.number) takes events again")
        case .processed(_, let frame): tellGateway("confirms frame \(frame)")
        }
        world.send(.stream(command), to: ToldStreams.partition)
    }

    private func tellGateway(_ deed: String) { teller.tell(world.now, "the gateway", deed) }
    private func tellOwner(_ deed: String) {
        teller.tell(world.now, "the owner of epoch \(epoch)", deed)
    }

    private func note(_ event: PartitionEvent, _ isServed: Bool) {
        if case .appended(let sequence) = event {
            teller.tell(world.now, "the database", "has record \(sequence.rawValue)")
        }
        guard !isServed else { return }
        teller.tell(world.now, "the partition", "has no owner: what came is lost")
    }

    private func note(_ effect: PartitionEffect) {
        switch effect {
        case .append(let sequence, _): tellOwner("writes record \(sequence.rawValue)")
        case .readRecords(let sequences, _, _):
            tellOwner("reads record \(Teller.list(sequences.map { "\($0.rawValue)" })) from the journal")
        case .reply(_, let reply):
            switch reply.value {
            case .accepted: tellOwner("answers the backend: accepted")
            case .done: tellOwner("answers the phone: done")
            default: break
            }
        case .stream(_, let frame): note(frame.value)
        default: break
        }
    }

    private func note(_ frame: StreamFrame) {
        switch frame {
        case .events(_, _, _, _, _, let events):
            for event in events { note(event.position, event.event) }
        case .push(let push): for item in push.items { note(item.position, item.event) }
        default: break
        }
        tellOwner("sends \(content(frame))")
    }

    private func content(_ frame: StreamFrame) -> String {
        switch frame {
        case .attached(let id, _, _, let from):
            "word that it has attached stream \(id.number), for what comes after \(upTo(from))"
        case .refused(let id, let refusal): "word that it refuses stream \(id.number): \(refusal)"
        case .replaced(let id, _): "word that stream \(id.number) is replaced"
        case .ended(let id, _): "word that stream \(id.number) has ended"
        case .events(let id, _, _, _, nil, let events) where events.isEmpty:
            "word that nothing more waits: stream \(id.number) is live"
        case .events(_, _, _, _, let deleted, let events):
            (deleted == nil ? "" : "word that messages were dropped, and ")
                + Teller.list(events.map { String(decoding: $0.event, as: UTF8.self) })
                + " from the log"
        case .push(let push) where push.items.isEmpty: "frame \(push.number), to be confirmed"
        case .push(let push):
            "frame \(push.number), a push of "
                + Teller.list(push.items.map { String(decoding: $0.event, as: UTF8.self) })
        case .cutOff(let cut): "frame \(cut.number), word that pushes end here"
        }
    }

    private func note(_ position: Position, _ event: [UInt8]) {
        guard !known.contains(where: { $0.position == position }) else { return }
        known.append((position, String(decoding: event, as: UTF8.self)))
    }

    /// The last message up to the position.
    private func upTo(_ position: Position) -> String {
        known.filter { $0.position <= position }.max { $0.position < $1.position }?.text ?? "the beginning"
    }
}
