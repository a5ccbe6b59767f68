import Bytes
import Model
import Placement
import StoryTelling
import Testing

@testable import Partitions

/// The stories in `OutboxStories` tell how two partitions agree on what one of them has decided.
@Suite("Stories of outboxes") struct OutboxStories {
    static let stories = Stories("OutboxStories")

    @Test("go as they are told", arguments: stories.names)
    func told(_ name: String) throws {
        try OutboxStories.stories.expect(name) { text in
            let told = try ToldOutboxes()
            return try Stories.play(text) { try told.perform($0) }
        }
    }

    @Test("are there: this suite is not green for want of stories")
    func areThere() { #expect(OutboxStories.stories.names.count >= 5) }
}

/// Plays the lines of a story with two partitions: the topic partition, to which all topics hash, and the
/// device partition, in which all devices are registered.
///
/// `databases 2` gives each partition a database of its own. `phone registers`, `phone subscribes to news`,
/// `phone unsubscribes from news`, `backend sends m1 to news`. `owner of topic partition dies`, or `begins`.
/// `messages come twice`. `journal of topic partition loses 1` (record), `generation rises` (all owners
/// begin again). `member phone of news is lost` (by an error, at the topic partition). `run 20ms`; `run 2s
/// unseen` tells nothing. `look` compares the two ends.
private final class ToldOutboxes {
    private var world: PartitionWorld
    private var teller = Teller(began: PartitionWorld.began)
    private var devices: [(name: String, registration: Registration, credential: DeviceMAC)] = []
    private var askers: [UInt64: String] = [:]
    private let topicPartition: PartitionID
    private var devicePartition: PartitionID { PartitionID(1 - topicPartition.rawValue) }

    init() throws {
        world = try PartitionWorld(count: 2)
        topicPartition = Placement.partition(of: ToldOutboxes.topic, in: PartitionWorld.project, count: 2)
        watch()
    }

    private func watch() {
        world.onEffect = { [unowned self] in note($0, $1) }
        world.onEvent = { [unowned self] in note($0, $1, $2) }
    }

    private static let topic = TopicName(checked: Array("news".utf8))

    func perform(_ words: [String]) throws -> [String] {
        let partition = words.contains("topic") ? topicPartition : devicePartition
        switch words[0] {
        case "databases":
            world = try PartitionWorld(count: 2) { $0.databaseCount = Int(words[1]) ?? 1 }
            watch()
        case "owner":
            if words.last == "dies" { world.die(partition) } else { try world.succeed(partition) }
        case "messages": world.isDoubling = words.last == "twice"
        case "journal": world.journals[Int(partition.rawValue)].removeLast(Int(words[5]) ?? 0)
        case "generation":
            world.raiseGeneration()
            for id in [devicePartition, topicPartition] { world.die(id) }
            for id in [devicePartition, topicPartition] { try world.succeed(id) }
        case "member": loseMember(words[1])
        case "run":
            world.run(for: Stories.length(words[1]) ?? .zero)
            let told = teller.drain()
            return words.last == "unseen" ? [] : told
        case "look": return look()
        case "backend":
            let request = Request.sendToTopic(
                nil, project: PartitionWorld.project, ToldOutboxes.topic, world.message(words[2]),
                fanoutsMax: 10)
            askers[world.ask(request, of: topicPartition)] = "the backend"
        default: return act(words)
        }
        return []
    }

    private func act(_ words: [String]) -> [String] {
        if words[1] == "registers" {
            guard let (device, credential) = world.register(in: devicePartition) else { return ["not done"] }
            devices.append((words[0], device, credential))
            teller = Teller(began: world.now)
            return []
        }
        guard let device = devices.first(where: { $0.name == words[0] }) else {
            return ["what is \(words[0])?"]
        }
        let request = Request.change(
            words[1] == "subscribes" ? .subscribe : .unsubscribe, project: PartitionWorld.project,
            topic: ToldOutboxes.topic, devices: [device.registration], by: .device(device.credential))
        askers[world.ask(request, of: devicePartition)] = device.name
        return []
    }

    private func loseMember(_ name: String) {
        guard let device = devices.first(where: { $0.name == name }) else { return }
        let machine = world.partitions[Int(topicPartition.rawValue)]
        let gone = machine.state.topics.leave(
            [device.registration.index.rawValue], of: devicePartition, from: ToldOutboxes.topic,
            in: PartitionWorld.project, machine.state.names)
        machine.state.marks[devicePartition]?.fingerprint ^= gone
    }

    private func look() -> [String] {
        let topics = world.partitions[Int(topicPartition.rawValue)]
        let held = world.partitions[Int(devicePartition.rawValue)]
        let topic = ToldOutboxes.topic
        let number = topics.state.names.number(of: topic.utf8, in: PartitionWorld.project)
        let members = number.map { topics.state.topics.members($0, of: devicePartition) } ?? []
        let subscribed = devices.filter { device in
            guard let (page, slot) = held.state.devices.find(device.registration.index.rawValue) else {
                return false
            }
            let list = page.topics[slot]
            return (0..<list.count).contains { held.state.names.name(list[$0].topic) == topic }
        }
        var lines = [
            "the device partition has as subscribed to news: \(Teller.list(subscribed.map(\.name)))",
            "the topic partition has as members of news: \(Teller.list(members.map(name)))",
        ]
        for device in devices {
            let index = device.registration.index.rawValue
            let waiting = held.state.log.waiting(for: index, after: .zero, limit: 100).map {
                String(decoding: $0.body ?? [], as: UTF8.self)
            }
            if !waiting.isEmpty {
                lines.append("the device partition keeps for \(device.name): \(Teller.list(waiting))")
            }
        }
        return lines
    }

    // MARK: What is told

    private func name(_ index: UInt32) -> String {
        devices.first { $0.registration.index.rawValue == index }?.name ?? "device \(index)"
    }
    private var sentences: Sentences { Sentences { [unowned self] in name($0) } }
    private func name(_ id: PartitionID) -> String {
        id == topicPartition ? "the topic partition" : "the device partition"
    }

    private func tell(_ id: PartitionID, _ deed: String) { teller.tell(world.now, name(id), deed) }

    private func note(_ id: PartitionID, _ event: PartitionEvent, _ isServed: Bool) {
        switch event {
        case .appended(let sequence):
            teller.tell(world.now, "the database", "has record \(sequence.rawValue) of \(name(id))")
        case .offered, .acknowledged, .request:
            if !isServed { tell(id, "has no owner: the message is lost") }
        default: break
        }
    }

    private func note(_ id: PartitionID, _ effect: PartitionEffect) {
        switch effect {
        case .append(let sequence, let body):
            let facts = ToldOutboxes.facts(body).map(text).joined(separator: "; ")
            tell(id, "writes record \(sequence.rawValue): \(facts)")
        case .offer(let to, let proven):
            let frame = proven.value
            if frame.entries.isEmpty {
                let generation = frame.generation > 0 ? ", in generation \(frame.generation)" : ""
                tell(id, "asks \(name(to)) how far it is\(generation)")
            }
            for entry in frame.entries {
                let items = Teller.list(entry.items.map(sentences.text))
                tell(id, "offers entry \(entry.number.rawValue) to \(name(to)): \(items)")
            }
        case .acknowledge(let to, let said):
            let mark = said.value.mark.rawValue
            let done = mark > 0 ? "all up to entry \(mark) is" : "no entry is"
            tell(id, "tells \(name(to)): \(done) applied here")
        case .reply(let request, let reply):
            guard let asker = askers[request.number] else { return }
            tell(id, "answers \(asker): \(Sentences.text(reply.value))")
        case .fingerprintsDiffer(let other):
            tell(id, "sees by the fingerprint that \(name(other)) has other members")
        default: break
        }
    }

    private static func facts(_ body: [UInt8]) -> [Fact] {
        var reader = ByteReader(body)
        var facts: [Fact] = []
        while !reader.isAtEnd, let fact = try? Fact.decode(from: &reader) { facts.append(fact) }
        return facts
    }

    private func text(_ fact: Fact) -> String {
        switch fact {
        case .subscribe(_, let topic, _, let indices): "\(sentences.names(indices)) subscribes to \(topic)"
        case .unsubscribe(_, let topic, let indices): "\(sentences.names(indices)) unsubscribes from \(topic)"
        case .accept(_, _, let topic, let message): "\(Sentences.text(message)) is accepted for \(topic)"
        case .receive(let from, _, let entry, _): "entry \(entry.number.rawValue) of \(name(from)) is applied"
        case .acknowledge(let marks):
            Teller.list(
                marks.map { "\(name($0.partition)) has applied all up to entry \($0.number.rawValue)" })
        case .repair(let to, let slice):
            "\(name(to)) is to have exactly these members: \(sentences.text(slice))"
        case .generation(let number, _): "generation \(number) begins"
        case .rebase(let from, _, let generation, let number):
            "of \(name(from)) in generation \(generation), all up to entry \(number.rawValue) is applied"
        case .compared(let generation): "all pairs of generation \(generation) are compared"
        case .seen: "the days on which devices were seen"
        default: "bookkeeping"
        }
    }
}
