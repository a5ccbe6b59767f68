import Model

// Questions about the topics of one device.

extension Partition {
    /// The newest entry to the partition; `nil` if all are acknowledged.
    func newestUnderWay(to partition: PartitionID) -> OutboxMark? {
        state.outboxes[partition].map { OutboxMark(partition: partition, number: $0.last) }
    }

    /// The newest changes of the device's topics that the topics' partitions may not have got yet. A read
    /// waits for them: the sends that follow it must find what it says (rule: reads-rest-on-both-ends).
    func changesUnderWay(of registration: Registration) -> [OutboxMark] {
        #if DEBUG
            if options.planted.contains(.readAhead) { return [] }
        #endif
        let index = registration.index.rawValue
        var marks: [OutboxMark] = []
        state.outboxes.forEach { partition, outbox in
            guard let last = outbox.unacknowledged.last(where: { $0.changes(index) }) else { return }
            marks.append(OutboxMark(partition: partition, number: last.number))
        }
        return marks
    }

    func subscriptions(_ registration: Registration, _ authority: Authority) -> Reply {
        let found = examine(registration, authority)
        if let refusal = found.refusal { return .refused(refusal) }
        guard let page = found.page else { return .refused(.unregistered) }
        let topics = page.topics[found.slot]
        let list = (0..<topics.count).map {
            (topic: state.names.name(topics[$0].topic), since: topics[$0].since)
        }
        guard let stored = state.transports[registration.index.rawValue] else { return .subscriptions(list) }
        let kinds = stored.filter { !$0.isGone }.map(\.transport.kind)
        return kinds.isEmpty ? .subscriptions(list) : .reachable(list, by: kinds)
    }

    /// A device may have 2,000 topics, so the partition looks for the one.
    func subscription(
        of registration: Registration, to topic: TopicName, by authority: Authority
    ) -> Reply {
        let found = examine(registration, authority)
        if let refusal = found.refusal { return .refused(refusal) }
        guard let page = found.page else { return .refused(.unregistered) }
        let topics = page.topics[found.slot]
        let number = state.names.number(of: topic.utf8, in: registration.project)
        return .subscriptions(
            number.flatMap { topics.index(of: $0) }.map { [(topic: topic, since: topics[$0].since)] } ?? [])
    }
}
