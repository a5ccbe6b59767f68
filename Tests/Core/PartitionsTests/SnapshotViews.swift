import Model

@testable import Partitions

extension SnapshotWriter {
    /// A snapshot of the state in one piece.
    static func whole(of state: borrowing PartitionState) -> [UInt8] {
        let writer = SnapshotWriter(state)
        while !writer.isWritten { writer.advance(4096, state) }
        defer { writer.releaseNames(state.names) }
        return writer.drain(upTo: .max)
    }
}

extension PartitionState {
    /// The state in lines, read from its tables and not through the snapshot's writer: a field that the
    /// writer forgets is missing here after a snapshot was read, and so tells the two states apart.
    borrowing func lines() -> [String] {
        var lines = [
            "\(history) \(applied) \(epoch) \(generation) \(formerGenerations) \(comparedGeneration)",
            "days \(days)",
            "next \(devices.next) last \(log.last)",
        ]
        func name(_ topic: TopicNumber) -> String {
            "\(names.project(of: topic)) \(String(decoding: names.nameBytes(topic), as: UTF8.self))"
        }
        devices.forEach { index, page, slot in
            let list = page.topics[slot]
            let topics = (0..<list.count).map { "\(name(list[$0].topic)) \(list[$0].since)" }.sorted()
            lines.append(
                "device \(index) \(page.projects[slot]) \(page.nonces[slot]) \(page.secrets[slot])"
                    + " \(page.seen[slot]) \(page.waiting[slot]) \(page.collapsible[slot]) \(topics)"
                    + " told \(String(describing: overflowed[index]?.told)) \(transports[index] ?? [])")
            return true
        }
        lines += topics.numbers.map { topic in
            let parts = topics.parts(topic).map { "\($0.partition) \($0.devices.sorted)" }
            return "topic \(name(topic)) \(parts)"
        }.sorted()
        log.forEach { entry in
            let ends = [entry.ends.stream] + Transport.Kind.allCases.map { entry.ends[$0] }
            lines.append(
                "message \(entry.position) \(ends)"
                    + " \(entry.project) \(String(describing: log.keys.name(of: entry.key))) \(entry.record)"
                    + " \(entry.ordinal) \(entry.bytes) \(entry.targets.sorted)")
        }
        outboxes.forEach { partition, outbox in
            lines.append("outbox \(partition) \(outbox.last) \(outbox.fingerprint) \(outbox.weight)")
            lines += outbox.unacknowledged.map { entry in
                let items = entry.items.map { item in
                    guard case .message(let project, let message, let targets) = item else {
                        return "\(item)"
                    }
                    return "\(project) \(message) \(targets.sorted)"
                }
                return "entry \(entry.number) \(entry.predecessor) \(entry.fingerprint) \(items)"
            }
        }
        marks.forEach { lines.append("mark \($0) \($1)") }
        lines += windows.sorted(by: <).map { "window \($0.key) \($0.value)" }
        lines += conditions.sorted { ConditionTicket.isBefore($0.key, $1.key) }.map {
            "\($0.key) \($0.value)"
        }
        return lines
    }
}
