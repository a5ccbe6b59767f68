import Model

/// A condition that is being decided: what the device partitions have answered so far.
struct Resolution {
    var answers: [PartitionID: DeviceSet]
    let began: MonotonicTime
    var askedAt: MonotonicTime
    /// Some partition did not answer within `outboxRetry`.
    var isLate = false
}

// Conditions (rule: conditions-at-the-devices). The coordinator stores the send and asks each partition for
// which of its devices the condition holds. The partition decides by its device table, at one moment. It
// answers when the topics' partitions have got the changes on which the answer rests. With all answers the
// coordinator makes outbox entries, and answers the sender. A partition that is away keeps no other device
// waiting: it decides when it is back.

extension Partition {
    /// The sender is answered when all devices are decided: a change that begins after the answer must not
    /// count, unless the device's partition is away.
    func send(
        _ pending: PendingCondition, as id: RequestID, key: RequestKey?, fanoutsMax: Int, _ turn: inout Turn
    ) {
        let message = pending.message
        if let key, case .repeated = verdict(key),
            let open = state.conditions.first(where: { $0.value.message.id == message.id })
        {
            let answer = Answer(
                to: .request(id), reply: .accepted(message.id), isSend: true, isRepeat: true)
            // The first sender was answered without the partitions that are away.
            guard open.value.undecided.isEmpty else { return self.answer(answer) }
            conditionAnswers[open.key, default: []].append(answer)
            return
        }
        let ticket = pipeline.nextTicket
        let answer = acceptSend(
            .acceptCondition(
                key: key, project: pending.project, condition: pending.condition, message: message),
            as: id, key: key, message: message, of: pending.project, fanoutsMax: fanoutsMax, &turn)
        guard let answer else { return }
        pipeline.gated.tickets.append(ticket)
        pipeline.isUrgent = true
        #if DEBUG
            if options.planted.contains(.answerUndecided) { return answerWithOpenRecord(answer) }
        #endif
        conditionAnswers[ticket] = [answer]
    }

    /// Milliseconds within which a message with a time to live of zero must be decided.
    static let nowOrNeverDeadline: Int64 = 10_000

    func beginResolution(_ ticket: ConditionTicket, by proof: Proof, _ turn: inout Turn) {
        guard state.conditions[ticket] != nil else { return }
        let now = turn.now.monotonic
        resolutions[ticket] = Resolution(answers: [:], began: now, askedAt: now)
        ask(ticket, by: proof, &turn)
    }

    /// The partitions that have not decided the condition in a record.
    func awaited(_ pending: PendingCondition) -> [PartitionID] {
        guard pending.undecided.isEmpty else { return pending.undecided }
        return (0..<state.partitionCount).map { PartitionID(UInt16($0)) }
    }

    private func ask(_ ticket: ConditionTicket, by proof: Proof, _ turn: inout Turn) {
        guard let pending = state.conditions[ticket], let resolution = resolutions[ticket] else { return }
        let question = ConditionQuestion(
            asker: id, ticket: ticket, project: pending.project, condition: pending.condition)
        for partition in awaited(pending) where resolution.answers[partition] == nil {
            turn.effects.append(.ask(of: partition, Proven(question, restingOn: ticket.record, by: proof)))
        }
    }

    /// A device partition decides. A question that waits here already keeps the decision that it has.
    func onAsked(_ question: ConditionQuestion) {
        guard questions.insert(question).inserted else { return }
        let topics = question.condition.topics
        let sets = topics.map { state.devices(with: $0, in: question.project) }
        let universe = sets.reduce(DeviceSet()) { $0.union($1) }
        let devices = Partition.evaluate(question.condition.root, sets, within: universe)
        let homes = Set(topics.map { state.home(of: $0, in: question.project) })
        var answer = Answer(to: .question(question), reply: .matching(devices))
        answer.outboxes = homes.sorted().compactMap(newestUnderWay)
        self.answer(answer)
    }

    func onTold(_ told: ConditionAnswer, _ turn: inout Turn) {
        guard resolutions[told.ticket] != nil, Int(told.partition.rawValue) < state.partitionCount,
            let pending = state.conditions[told.ticket], pending.isAwaited(told.partition)
        else { return }
        // The journal is behind, so the answer is dropped; `retryResolutions` asks for it again.
        guard !isOverloaded else { return endConditionWait(for: told.partition, &turn) }
        resolutions[told.ticket]?.answers[told.partition] = told.devices
        silent.remove(told.partition)
        guard let answers = resolutions[told.ticket]?.answers else { return }
        let left = pending.undecided.isEmpty ? state.partitionCount : pending.undecided.count
        guard answers.count == left || isOnlySilenceLeft(pending, answers) else { return }
        resolve(told.ticket, isOver: false, &turn)
    }

    /// One condition waits for a partition that is away, and not each later one too. Partitions that come
    /// back decide what is left in few records, one for each retry.
    private func isOnlySilenceLeft(_ pending: PendingCondition, _ answers: [PartitionID: DeviceSet]) -> Bool {
        guard !silent.isEmpty, pending.undecided.isEmpty else { return false }
        return awaited(pending).allSatisfy { answers[$0] != nil || silent.contains($0) }
    }

    func lookForSilence() { silent = Set(state.conditions.values.flatMap(\.undecided)) }

    /// Records what is decided. Partitions that have not decided go on being asked, unless the message's time
    /// is over.
    private func resolve(_ ticket: ConditionTicket, isOver: Bool, _ turn: inout Turn) {
        guard let pending = state.conditions[ticket], let answers = resolutions[ticket]?.answers else {
            return
        }
        let undecided = awaited(pending).filter { answers[$0] == nil }
        if !undecided.isEmpty, pending.undecided.isEmpty || isOver {
            turn.effects.append(.notice(.undecided(pending.message.id, at: undecided, isOver: isOver)))
        }
        if undecided.isEmpty || isOver {
            resolutions[ticket] = nil
        } else {
            resolutions[ticket]?.answers = [:]
        }
        let targets = answers.filter { !$0.value.isEmpty }
            .map { PartitionTargets(partition: $0.key, devices: $0.value) }
            .sorted { $0.partition < $1.partition }
        propose(.resolve(ticket: ticket, targets: targets, undecided: isOver ? [] : undecided))
        if !isOver { silent.formUnion(undecided) }
        pipeline.isUrgent = true
        for answer in conditionAnswers.removeValue(forKey: ticket) ?? [] { answerWithOpenRecord(answer) }
    }

    /// Asks the partitions again that did not answer. A message past its time to live goes to nobody else.
    func retryResolutions(_ turn: inout Turn) {
        guard !resolutions.isEmpty || !conditionWaits.isEmpty else { return }
        var hasEnded = false
        defer {
            if hasEnded, !silent.isEmpty { lookForSilence() }
            lookForStalledConditions(&turn)
        }
        let proof = pipeline.confirmed()
        for (ticket, resolution) in resolutions.sorted(by: { ConditionTicket.isBefore($0.key, $1.key) })
        where turn.now.monotonic.since(resolution.askedAt) >= options.outboxRetry {
            guard let message = state.conditions[ticket]?.message else {
                resolutions[ticket] = nil
                continue
            }
            let deadline =
                message.times.longest == 0
                ? message.sent.milliseconds + Partition.nowOrNeverDeadline
                : message.end(message.times.longest).milliseconds
            if turn.now.wall.milliseconds >= deadline {
                resolve(ticket, isOver: true, &turn)
                hasEnded = true
            } else {
                resolutions[ticket]?.askedAt = turn.now.monotonic
                resolutions[ticket]?.isLate = true
                if mayAnswer(resolution, turn.now.monotonic) { resolve(ticket, isOver: false, &turn) }
                ask(ticket, by: proof, &turn)
            }
        }
    }

    /// Whether the devices of the partitions that have answered get the message now.
    private func mayAnswer(_ resolution: Resolution, _ now: MonotonicTime) -> Bool {
        guard !resolution.answers.isEmpty, !isOverloaded else { return false }
        #if DEBUG
            if options.planted.contains(.impatient) { return true }
        #endif
        return now.since(resolution.began) >= options.conditionPatience
    }

    /// `universe`: the devices of the condition's topics. A condition does not hold for a device in none of
    /// its topics.
    private static func evaluate(
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
