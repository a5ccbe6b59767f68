import Model

/// What a condition still waits for: the members of its topics, by the topics' indices.
struct Resolution {
    var members: [[PartitionTargets]?]
    var askedAt: MonotonicTime
}

// Conditions: the coordinator accepts a send, asks each topic's owner for the topic's members, combines them,
// and only then makes outbox entries.

extension Partition {
    /// Milliseconds within which a message with a time to live of zero must be resolved.
    static let nowOrNeverDeadline: Int64 = 10_000

    func beginResolution(_ ticket: ConditionTicket, by proof: Proof, _ turn: inout Turn) {
        guard let pending = state.conditions[ticket] else { return }
        resolutions[ticket] = Resolution(
            members: Array(repeating: nil, count: pending.condition.topics.count),
            askedAt: turn.now.monotonic)
        ask(ticket, by: proof, &turn)
    }

    private func ask(_ ticket: ConditionTicket, by proof: Proof, _ turn: inout Turn) {
        guard let pending = state.conditions[ticket], let resolution = resolutions[ticket] else { return }
        for (index, topic) in pending.condition.topics.enumerated() where resolution.members[index] == nil {
            let question = ConditionQuestion(
                asker: id, ticket: ticket, topicIndex: index, project: pending.project, topic: topic)
            let home = state.home(of: topic, in: pending.project)
            turn.effects.append(.ask(of: home, Proven(question, restingOn: ticket.record, by: proof)))
        }
    }

    /// T answers with the topic's members as they are now, when they are proven.
    func onAsked(_ question: ConditionQuestion) {
        let number = state.names.number(of: question.topic.utf8, in: question.project)
        let members = number.map { state.topics.parts($0) } ?? []
        answer(Answer(to: .question(question), reply: .memberSets(members)))
    }

    func onTold(_ told: ConditionAnswer) {
        guard var resolution = resolutions[told.ticket], told.topicIndex < resolution.members.count,
            let pending = state.conditions[told.ticket]
        else { return }
        // The journal is behind, so the answer is dropped; `retryResolutions` asks for it again.
        guard !isOverloaded else { return }
        resolution.members[told.topicIndex] = told.members
        resolutions[told.ticket] = resolution
        let members = resolution.members.compactMap { $0 }
        guard members.count == resolution.members.count else { return }
        resolutions[told.ticket] = nil
        propose(.resolve(ticket: told.ticket, targets: combine(pending.condition, members)))
        pipeline.isUrgent = true
    }

    /// Asks again the topics' owners that did not answer. A message past its time to live goes to nobody.
    func retryResolutions(_ turn: inout Turn) {
        let proof = pipeline.confirmed()
        for (ticket, resolution) in resolutions.sorted(by: { ConditionTicket.isBefore($0.key, $1.key) })
        where turn.now.monotonic.since(resolution.askedAt) >= options.outboxRetry {
            guard let pending = state.conditions[ticket] else {
                resolutions[ticket] = nil
                continue
            }
            let message = pending.message
            let deadline =
                message.times.longest == 0
                ? message.sent.milliseconds + Partition.nowOrNeverDeadline
                : message.end(message.times.longest).milliseconds
            if turn.now.wall.milliseconds >= deadline {
                resolutions[ticket] = nil
                propose(.resolve(ticket: ticket, targets: []))
                pipeline.isUrgent = true
            } else {
                resolutions[ticket]?.askedAt = turn.now.monotonic
                ask(ticket, by: proof, &turn)
            }
        }
    }

    /// The devices for which the condition holds, partition by partition. A condition does not hold for a
    /// device in none of its topics, so only the devices of its topics are looked at.
    func combine(_ condition: Condition, _ members: [[PartitionTargets]]) -> [PartitionTargets] {
        var parts: [PartitionID: [DeviceSet]] = [:]
        for (index, list) in members.enumerated() {
            for part in list {
                parts[part.partition, default: Array(repeating: DeviceSet(), count: members.count)][index] =
                    part.devices
            }
        }
        var targets: [PartitionTargets] = []
        for partition in parts.keys.sorted() {
            guard let sets = parts[partition] else { continue }
            let universe = sets.reduce(DeviceSet()) { $0.union($1) }
            let devices = evaluate(condition.root, sets, within: universe)
            if !devices.isEmpty { targets.append(PartitionTargets(partition: partition, devices: devices)) }
        }
        return targets
    }

    private func evaluate(
        _ node: Condition.Node, _ sets: [DeviceSet], within universe: DeviceSet
    ) -> DeviceSet {
        switch node {
        case .topic(let index): sets[index]
        case .not(let inner): universe.subtracting(evaluate(inner, sets, within: universe))
        case .and(let left, let right):
            evaluate(left, sets, within: universe).intersection(evaluate(right, sets, within: universe))
        case .or(let left, let right):
            evaluate(left, sets, within: universe).union(evaluate(right, sets, within: universe))
        }
    }
}

extension ConditionTicket {
    static func isBefore(_ left: ConditionTicket, _ right: ConditionTicket) -> Bool {
        (left.record, left.ordinal) < (right.record, right.ordinal)
    }
}
