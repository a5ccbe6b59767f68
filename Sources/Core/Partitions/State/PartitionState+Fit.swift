import Model

// Whether what a journal says fits the state (rule: damage-is-quarantined). The fold relies on facts that fit
// together. A record that was lost, doubled or swapped with another one decodes, and its facts do not fit.

extension PartitionState {
    /// Why the fact cannot be folded into this state; `nil` if it can. Asked only while a journal is read:
    /// a living owner makes facts from the state itself.
    func misfit(_ fact: Fact, of record: Sequence) -> String? {
        switch fact {
        case .barrier(_, _, let rules):
            return StoredRules.refusal(of: "records", rules, here: StoredRules.ofPartitions)
        case .register(let index, let project, _, _, _):
            if index < devices.next { return "device \(index) is registered again" }
            return project.rawValue == 0 ? "device \(index) is of no project" : nil
        case .subscribe(let project, let topic, _, let indices):
            return misfit(indices, of: project, topic: topic, areIn: false)
        case .unsubscribe(let project, let topic, let indices):
            return misfit(indices, of: project, topic: topic, areIn: true)
        case .acceptDirect(_, _, _, _, let decision): return misfit([decision])
        case .receive(let sender, let history, let entry, let decisions):
            guard mark(of: sender, history).isNext(entry, behind: 0) else { return PartitionState.gap }
            return misfit(decisions)
        case .receivePart(let sender, let history, let entry, let decisions, let behind, _):
            guard mark(of: sender, history).isNext(entry, behind: behind) else { return PartitionState.gap }
            return misfit(decisions)
        case .acknowledge(let marks):
            let isAhead = marks.contains { $0.number >= record }
            return isAhead ? "an outbox entry is acknowledged that was not offered" : nil
        case .resolve(let ticket, let targets, let undecided):
            guard let pending = conditions[ticket] else { return nil }
            let isAwaited = (targets.map(\.partition) + undecided).allSatisfy(pending.isAwaited)
            return isAwaited ? nil : "a partition decides a condition again"
        case .end, .accept, .acceptCondition, .read, .pass, .gone, .expire, .seen,
            .repair, .evict, .generation, .rebase, .compared, .setTransport, .endTransport,
            .markTransport,
            .pushedOne, .pushedKept:
            return nil
        }
    }

    private static let gap = "an outbox entry does not follow its mark"

    /// `areIn`: the devices must be subscribed to the topic, and else must not.
    private func misfit(
        _ indices: [UInt32], of project: ProjectNumber, topic: TopicName, areIn: Bool
    ) -> String? {
        let number = names.number(of: topic.utf8, in: project)
        for index in indices {
            guard let (page, slot) = devices.find(index), page.projects[slot] == project.rawValue else {
                return "a topic's device \(index) is not there"
            }
            let isIn = number.map { page.topics[slot].index(of: $0) != nil } ?? false
            if isIn != areIn { return "device \(index) is \(isIn ? "" : "not ")in the topic already" }
            if !areIn, page.topics[slot].count >= StoredRules.topicsMax {
                return "device \(index) is in too many topics"
            }
        }
        return nil
    }

    /// Positions rise, and leave room for a loss that is reported before the message.
    private func misfit(_ decisions: [DeliveryDecision]) -> String? {
        var last = log.last
        for decision in decisions {
            guard decision.position > last else { return "a message has a position of the past" }
            last = decision.position
        }
        return nil
    }
}
