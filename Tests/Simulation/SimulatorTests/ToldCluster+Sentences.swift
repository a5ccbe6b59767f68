import Bytes
import Journal
import Model
import Quotas
import Routing
import StoryTelling

@testable import Partitions
@testable import Simulator

// Frames and records in words.

extension ToldCluster {
    private func sentences(of partition: PartitionID) -> Sentences {
        Sentences { [unowned self] in deviceName(partition, $0) }
    }

    private func deviceName(_ partition: PartitionID, _ index: UInt32) -> String {
        let device = world.clients.firstIndex {
            $0.registration?.partition == partition && $0.registration?.index.rawValue == index
        }
        return device.map { deviceNames[$0] } ?? "device \(index)"
    }

    func text(_ outcome: Outcome?) -> String {
        switch outcome {
        case nil: "none, the connection broke"
        case .accepted: "accepted"
        case .registered(let new): "registered in partition \(new.registration.partition.rawValue)"
        case .changes(let changes):
            Teller.list(
                changes.map { change in
                    switch change {
                    case .changed: "done"
                    case .unchanged: "already done"
                    case .refused(let refusal): "refused, \(refusal)"
                    }
                })
        case .refused(.quota(let refusal)):
            "the limit is \(refusal.limit) a minute, try again in \(milliseconds(refusal.retryDelay))"
        case .refused(let refusal): "refused, \(refusal)"
        default: "done"
        }
    }

    // MARK: Records

    func name(of row: Row) -> String {
        "record \(row.sequence.rawValue) of partition \(row.partition.rawValue)"
    }

    func isBarrier(_ row: Row) -> Bool {
        if case .barrier? = facts(row).first { true } else { false }
    }

    func sentence(of row: Row) -> String {
        let facts = facts(row).map { text($0, in: row.partition) }
        return "writes \(name(of: row)): \(facts.joined(separator: "; "))"
    }

    private func facts(_ row: Row) -> [Fact] {
        guard let record = try? RecordCodec.decode(row.payload, expecting: row.partition, row.sequence) else {
            return []
        }
        var reader = ByteReader(record.body)
        var facts: [Fact] = []
        while !reader.isAtEnd, let fact = try? Fact.decode(from: &reader) { facts.append(fact) }
        return facts
    }

    private func text(_ fact: Fact, in partition: PartitionID) -> String {
        let sentences = sentences(of: partition)
        return switch fact {
        case .register: "a device is registered"
        case .subscribe(_, let topic, _, let indices): "\(sentences.names(indices)) subscribes to \(topic)"
        case .unsubscribe(_, let topic, let indices):
            "\(sentences.names(indices)) unsubscribes from \(topic)"
        case .accept(_, _, let topic, let message): "\(Sentences.text(message)) is accepted for \(topic)"
        case .acceptDirect(_, _, let index, let message, _):
            "\(Sentences.text(message)) is accepted for \(deviceName(partition, index))"
        case .receive(let from, _, let entry, _):
            "entry \(entry.number.rawValue) of partition \(from.rawValue) is applied"
        case .acknowledge(let marks):
            Teller.list(
                marks.map { "partition \($0.partition.rawValue) has all entries up to \($0.number.rawValue)" }
            )
        case .read(let readers):
            Teller.list(readers.map { "a device has seen \(text(upTo: $0.position, in: partition))" })
        case .seen: "the days on which devices were seen"
        default: "bookkeeping"
        }
    }

    // MARK: Frames

    /// One sentence for each message of the frame that is not gossip.
    func sentences(of frame: [UInt8], to peer: String) -> [String] {
        var reader = ByteReader(frame)
        var sentences: [String] = []
        while !reader.isAtEnd, let message = try? PeerMessage.decode(from: &reader) {
            if let sentence = sentence(of: message, to: peer) { sentences.append(sentence) }
        }
        return sentences
    }

    private func sentence(of message: PeerMessage, to peer: String) -> String? {
        switch message {
        case .partition(let id, let event):
            sentence(of: event, to: "\(peer), for partition \(id.rawValue)", id)
        case .request(let id, let epoch, let asked, let request, _):
            "sends \(peer) request \(number(asked)) for partition \(id.rawValue) in epoch \(epoch.rawValue): "
                + text(request)
        case .reply(let asked, let reply):
            "sends \(peer) the answer to request \(number(asked)): \(Sentences.text(reply))"
        case .stream(let from, _, let frame): "sends \(peer) \(text(frame, of: from))"
        case .quotaRequest(let request): isWithoutQuotas ? nil : sentence(of: request, to: peer)
        case .quotaGrant(let grant): isWithoutQuotas ? nil : sentence(of: grant, to: peer)
        case .quotaRefusal(let asked, _): "sends \(peer) the answer to request \(number(asked)): past a quota"
        case .nudge: "nudges \(peer): the tables have changed"
        case .leave: "sends \(peer) the wish that it leaves"
        case .gossip: nil
        case .gap: "sends \(peer) a gap notice: frames between the two may be lost"
        case .follow(let id): "asks its heir \(peer) to read partition \(id.rawValue) ahead"
        case .followed(let id): "tells \(peer) that it has read partition \(id.rawValue)"
        }
    }

    private func sentence(of event: PartitionEvent, to receiver: String, _ id: PartitionID) -> String? {
        switch event {
        case .offered(let frame):
            if frame.entries.isEmpty {
                return
                    "sends \(receiver): partition \(frame.from.rawValue) asks which of its entries are applied"
            }
            let entries = frame.entries.map { entry in
                // A message is for devices of the receiver. Everything else is about devices of the sender.
                let items = entry.items.map { item in
                    sentences(of: item.message == nil ? frame.from : id).text(item)
                }
                return "entry \(entry.number.rawValue) of partition \(frame.from.rawValue), "
                    + Teller.list(items)
            }
            return "sends \(receiver): " + entries.joined(separator: "; ")
        case .acknowledged(let said):
            let mark = said.mark.rawValue
            return "sends \(receiver): partition \(said.from.rawValue) has applied "
                + (mark > 0 ? "all entries up to \(mark)" : "no entry")
        case .stream(let command): return "sends \(receiver): \(text(command, of: id))"
        default: return nil
        }
    }

    /// The request's number in the story.
    private func number(_ request: RequestID) -> Int {
        if let known = requests.firstIndex(of: request) { return known + 1 }
        requests.append(request)
        return requests.count
    }

    private func text(_ request: Request) -> String {
        switch request {
        case .register: "register a device"
        case .change(let kind, _, let topic, let devices, _):
            (kind == .subscribe ? "subscribe " : "unsubscribe ")
                + Teller.list(devices.map { deviceName($0.partition, $0.index.rawValue) })
                + (kind == .subscribe ? " to " : " from ") + "\(topic)"
        case .sendToTopic(_, _, let topic, let message, _): "send \(Sentences.text(message)) to \(topic)"
        case .sendToDevice(_, let device, let message):
            "send \(Sentences.text(message)) to \(deviceName(device.partition, device.index.rawValue))"
        default: "\(request)"
        }
    }

    // MARK: Streams

    private func text(_ command: StreamCommand, of partition: PartitionID) -> String {
        switch command {
        case .attach(let id, let device, _, let resume):
            "attach stream \(id.number) of \(deviceName(partition, device.index.rawValue)), "
                + "attachment \(id.attachment)"
                + (resume.map { ", behind \(text(upTo: $0.position, in: partition))" } ?? "")
        case .detach(let id, _): "stream \(id.number) has ended"
        case .fellBehind(let id, _, let written):
            "stream \(id.number) fell behind, with \(text(upTo: written, in: partition)) written"
        case .caughtUp(let id, _): "stream \(id.number) takes events again"
        case .processed(_, let frame): "push \(frame) is confirmed"
        }
    }

    private func text(_ frame: StreamFrame, of partition: PartitionID) -> String {
        switch frame {
        case .events(_, _, _, _, _, let events):
            for event in events { note(event.position, event.event, in: partition) }
        case .push(let push): for item in push.items { note(item.position, item.event, in: partition) }
        default: break
        }
        return switch frame {
        case .attached(let id, _, _, let from):
            "word that stream \(id.number) is attached behind \(text(upTo: from, in: partition))"
        case .refused(let id, let refusal): "word that stream \(id.number) is refused: \(refusal)"
        case .replaced(let id, _): "word that another stream takes the place of stream \(id.number)"
        case .ended(let id, _): "word that the device of stream \(id.number) is gone"
        case .events(let id, _, _, _, nil, let events) where events.isEmpty:
            "word that nothing more waits: stream \(id.number) is live"
        case .events(let id, _, _, _, _, let events):
            Teller.list(events.map { String(decoding: $0.event, as: UTF8.self) })
                + " from the log, for stream \(id.number)"
        case .push(let push):
            "push \(push.number) of partition \(partition.rawValue): "
                + Teller.list(push.items.map { text($0, in: partition) })
        case .cutOff(let cut): "push \(cut.number): word that pushes end here"
        }
    }

    private func text(_ item: StreamFrame.PushItem, in partition: PartitionID) -> String {
        var indices: [UInt32] = []
        item.targets.forEach { indices.append($0) }
        let names = sentences(of: partition).names(indices)
        return "\(String(decoding: item.event, as: UTF8.self)) for \(names)"
    }

    private func note(_ position: Position, _ event: [UInt8], in partition: PartitionID) {
        places.append((partition, position, String(decoding: event, as: UTF8.self)))
    }

    /// The last message up to the position.
    private func text(upTo position: Position, in partition: PartitionID) -> String {
        places.filter { $0.partition == partition && $0.position <= position }
            .max { $0.position < $1.position }?.text ?? "the beginning"
    }

    // MARK: Quotas

    private func sentence(of request: QuotaRequest, to peer: String) -> String {
        let spent = "\(request.spent + request.shareSpent) spent in all"
        if request.isRelease { return "gives \(peer) back what it holds, with \(spent)" }
        let needed = request.needed > 0 ? " (for a send that waits)" : ""
        return "asks \(peer) for \(tokens(request.demand))\(needed), with \(request.held) held and \(spent)"
    }

    private func sentence(of grant: QuotaGrant, to peer: String) -> String {
        let again = grant.retryAfter > .zero ? "; it may ask again in \(milliseconds(grant.retryAfter))" : ""
        if grant.tokens == 0 { return "has no token for \(peer)\(again)" }
        let share =
            grant.shareRate > 0
            ? ", and a share of \(grant.shareRate) a second for \(milliseconds(grant.shareLength))" : ""
        let length = milliseconds(grant.leaseLength)
        return "grants \(peer) \(tokens(grant.tokens)) for \(length)\(share)\(again)"
    }

    private func tokens(_ count: UInt64) -> String { count == 1 ? "1 token" : "\(count) tokens" }
    private func milliseconds(_ length: TimeSpan) -> String {
        "\((length + .nanoseconds(999_999)).milliseconds) ms"
    }
}
