import Model

// Requests of gateways. A send's time to live begins when its partition accepts it, by that partition's
// clock, whatever the gateway's clock shows (rule: ages-travel). Errors on which backends delete tokens wait
// for proof too (rule: proven-answers).

extension Partition {
    func onRequest(_ request: Request, as id: RequestID, _ turn: inout Turn) {
        if isRefused, !isKnown(request) { return refuseAtOnce(id, &turn) }
        switch request {
        case .register(let project, let limit, let nonce, let secret):
            register(id, in: project, limit: limit, nonce: nonce, secret: secret, &turn)
        case .change(let kind, let project, let topic, let devices, let authority):
            change(id, kind: kind, topic: topic, in: project, devices: devices, by: authority, &turn)
        case .subscriptions(let registration, let authority):
            reply(id, subscriptions(registration, authority), behind: changesUnderWay(of: registration))
        case .subscription(let registration, let topic, let authority):
            reply(
                id, subscription(of: registration, to: topic, by: authority),
                behind: changesUnderWay(of: registration))
        case .unregister(let registration, let authority):
            unregister(id, registration: registration, by: authority, &turn)
        case .unregisterUnused(let registration, let authority):
            if isUsed(registration, authority) { return reply(id, .done) }
            unregister(id, registration: registration, by: authority, &turn)
        case .acknowledge(let registration, let authority, let event):
            acknowledgeEvent(id, event: event, of: registration, by: authority, &turn)
        case .sendToTopic(let key, let project, let topic, var message, let fanoutsMax):
            message.sent = turn.now.wall
            let answer = acceptSend(
                .accept(key: key, project: project, topic: topic, message: message), as: id, key: key,
                message: message, of: project, fanoutsMax: fanoutsMax, &turn)
            if let answer { answerWithOpenRecord(answer) }
        case .sendToCondition(let key, let project, let condition, var message, let fanoutsMax):
            message.sent = turn.now.wall
            send(
                PendingCondition(project: project, condition: condition, message: message), as: id, key: key,
                fanoutsMax: fanoutsMax, &turn)
        case .sendToDevice(let key, let registration, var message):
            message.sent = turn.now.wall
            sendToDevice(id, key: key, message: message, to: registration, &turn)
        case .check(let registration, let authority):
            let refusal = examine(registration, authority).refusal
            reply(id, refusal.map { .refused($0) } ?? .done)
        case .setTransport(let registration, let authority, let transport):
            set(transport, of: registration, by: authority, as: id, &turn)
        case .endTransport(let registration, let authority, let kind):
            endTransport(kind, of: registration, by: authority, as: id, &turn)
        case .device(let registration, let authority):
            reply(
                id, device(registration, authority, at: turn.now.wall),
                behind: changesUnderWay(of: registration))
        case .members(let project, let topic):
            let number = state.names.number(of: topic.utf8, in: project)
            reply(id, .members(UInt64(number.map { state.topics.members($0) } ?? 0)))
        case .topics(let project, let after, let limit):
            reply(id, topics(in: project, after: after, limit: limit))
        case .devices(let project, let after, let limit):
            reply(id, devices(in: project, after: after, limit: limit))
        case .pushes(let project, let message):
            reply(id, .pushes(pushes.tallies[project, message]))
        }
        noteCaller(of: request, turn.now)
    }

    func reply(_ id: RequestID, _ reply: Reply, behind marks: [OutboxMark] = []) {
        answer(Answer(to: .request(id), reply: reply, outboxes: marks))
    }
    func refuse(_ id: RequestID, _ refusal: PartitionRefusal) { reply(id, .refused(refusal)) }

    /// The journal is behind, or the engine refuses records. The partition has done nothing, and a refusal
    /// says nothing about the state, so it waits for nothing.
    func refuseAtOnce(_ id: RequestID, _ turn: inout Turn) {
        let reply = Proven(
            Reply.refused(whyNothingBegins), restingOn: .zero, by: pipeline.confirmed())
        turn.effects.append(.reply(id, reply))
    }

    var whyRefused: PartitionRefusal? {
        refusal.map { .unavailable("the journal takes no records: \($0)") }
    }

    /// Why nothing new begins while the partition is overloaded.
    var whyNothingBegins: PartitionRefusal { whyRefused ?? Partition.behind }

    /// Whether the request is a send that was looked at before: the send may be in, or may still go in.
    private func isKnown(_ request: Request) -> Bool {
        switch request {
        case .sendToTopic(let key?, _, _, _, _), .sendToCondition(let key?, _, _, _, _),
            .sendToDevice(let key?, _, _):
            if case .new = verdict(key) { false } else { true }
        default: false
        }
    }

    private static let behind = PartitionRefusal.unavailable("too much waits for the partition's journal")
    private static let topicBehind = PartitionRefusal.unavailable("too much waits for the topic's partition")

    /// Whether the outbox to a partition has room for more. That partition may be away for long.
    func hasRoom(to partition: PartitionID) -> Bool {
        (state.outboxes[partition]?.weight ?? 0) < options.outboxBytesMax
    }

    // MARK: Devices

    /// Looks a registration up, and checks the token's suffix and the caller's credential. A wrong suffix is
    /// reported before a wrong credential.
    func examine(
        _ registration: Registration, _ authority: Authority
    ) -> (refusal: PartitionRefusal?, page: DevicePage?, slot: Int) {
        guard let (page, slot) = state.devices.find(registration.index.rawValue),
            page.projects[slot] == registration.project.rawValue, page.nonces[slot] == registration.nonce
        else { return (.unregistered, nil, 0) }
        let secret = page.secrets[slot]
        if let suffix = registration.suffix {
            guard let expected = proofs.tokenProof(secret: secret, key: registration.key),
                expected.matches(suffix)
            else { return (.invalidToken, nil, 0) }
        }
        if case .device(let shown) = authority {
            guard let expected = proofs.credentialProof(secret: secret, key: registration.key),
                expected.matches(shown)
            else { return (.wrongCredential, nil, 0) }
        }
        return (nil, page, slot)
    }

    private func register(
        _ id: RequestID, in project: ProjectNumber, limit: Int, nonce: UInt32, secret: UInt64,
        _ turn: inout Turn
    ) {
        guard !isOverloaded else { return refuseAtOnce(id, &turn) }
        let held = state.devices.counts[project.rawValue] ?? 0
        guard held < limit else { return reply(id, .full(holding: held)) }
        let index = state.devices.next
        guard index < DeviceIndex.limit else { return refuse(id, .indicesUsedUp) }
        propose(
            .register(
                index: index, project: project, nonce: nonce & 0xFF_FFFF, secret: secret,
                day: today(turn.now)))
        answerWithOpenRecord(
            Answer(
                to: .request(id),
                reply: .registered(index: DeviceIndex(index), nonce: nonce & 0xFF_FFFF, secret: secret)))
    }

    private func unregister(
        _ id: RequestID, registration: Registration, by authority: Authority, _ turn: inout Turn
    ) {
        if let refusal = examine(registration, authority).refusal { return refuse(id, refusal) }
        guard !isOverloaded else { return refuseAtOnce(id, &turn) }
        let homes = state.homes(of: registration.index.rawValue)
        guard homes.allSatisfy(hasRoom) else { return refuse(id, Partition.topicBehind) }
        propose(.end(index: registration.index.rawValue))
        endStream(of: registration.index)
        answerWithOpenRecord(Answer(to: .request(id), reply: .done))
    }

    /// Whether the device has a topic or a stream. Both may have come after its gateway looked.
    private func isUsed(_ registration: Registration, _ authority: Authority) -> Bool {
        let found = examine(registration, authority)
        guard let page = found.page else { return false }
        return page.topics[found.slot].count > 0
            || streams.attachment(registration.index.rawValue) != nil
    }

    private func acknowledgeEvent(
        _ id: RequestID, event: EventID, of registration: Registration, by authority: Authority,
        _ turn: inout Turn
    ) {
        if let refusal = examine(registration, authority).refusal { return refuse(id, refusal) }
        let index = registration.index.rawValue
        guard let position = clamp(event), isWaiting(index, upTo: position) else { return reply(id, .done) }
        guard !isOverloaded else { return refuseAtOnce(id, &turn) }
        #if DEBUG
            if options.planted.contains(.acknowledgeUnrecorded) { return reply(id, .done) }
        #endif
        propose(.read([ReadUpTo(position: position, devices: DeviceSet(index))]))
        answerWithOpenRecord(Answer(to: .request(id), reply: .done))
    }

    /// Whether an acknowledgement up to `position` changes anything for the device. Without a change there is
    /// no record: one old event id, repeated without end, would fill the journal.
    func isWaiting(_ index: UInt32, upTo position: Position) -> Bool {
        if let loss = state.overflowed[index], loss.told <= position { return true }
        return isWaiting(index) && state.log.isWaiting(index, upTo: position)
    }

    /// Whether messages wait for the device, or the news that it has lost some.
    func isWaiting(_ index: UInt32) -> Bool {
        guard let (page, slot) = state.devices.find(index) else { return false }
        return page.waiting[slot] > 0 || page.collapsible[slot] > 0 || state.overflowed[index] != nil
    }

    /// The position that an event id acknowledges. For an earlier generation it is at most the position at
    /// which that generation ended, because the device has not seen what came there afterwards
    /// (rule: lost-ends-raise-the-generation). `nil` if the id belongs to an unknown history.
    func clamp(_ event: EventID) -> Position? {
        func isOf(_ generation: UInt64) -> Bool {
            event.history == UInt16(truncatingIfNeeded: history.rawValue &+ generation)
        }
        if isOf(options.generation) { return min(event.position, state.log.last) }
        return state.formerGenerations.last { isOf($0.number) }.map { min(event.position, $0.ended) }
    }

    // MARK: Subscriptions

    private func change(
        _ id: RequestID, kind: Request.ChangeKind, topic: TopicName, in project: ProjectNumber,
        devices: [Registration], by authority: Authority, _ turn: inout Turn
    ) {
        guard !isOverloaded else { return refuseAtOnce(id, &turn) }
        let home = state.home(of: topic, in: project)
        guard hasRoom(to: home) else { return refuse(id, Partition.topicBehind) }
        var outcomes: [DeviceChange] = []
        outcomes.reserveCapacity(devices.count)
        var changing: [UInt32] = []
        var pending: Set<UInt32> = []
        let number = state.names.number(of: topic.utf8, in: project)
        let hasRoom = number != nil || state.names.hasRoom(forBytes: topic.utf8.count, in: project)
        let today = today(turn.now)
        for registration in devices {
            let found = examine(registration, authority)
            guard let page = found.page, found.refusal == nil else {
                outcomes.append(.refused(found.refusal ?? .unregistered))
                continue
            }
            let index = registration.index.rawValue
            let topics = page.topics[found.slot]
            let since = number.flatMap { topics.index(of: $0) }.map { topics[$0].since }
            switch kind {
            case .subscribe:
                if let since {
                    outcomes.append(.unchanged(since))
                } else if pending.contains(index) {
                    outcomes.append(.unchanged(today))
                } else if topics.count >= options.delivery.topicsPerDeviceMax || !hasRoom {
                    outcomes.append(.refused(.tooManyTopics))
                } else {
                    pending.insert(index)
                    changing.append(index)
                    outcomes.append(.changed(today))
                }
            case .unsubscribe:
                if since != nil, pending.insert(index).inserted {
                    changing.append(index)
                    outcomes.append(.changed(today))
                } else {
                    outcomes.append(.unchanged(nil))
                }
            }
        }
        changing.sort()
        switch kind {
        case _ where changing.isEmpty: break
        case .subscribe: propose(.subscribe(project: project, topic: topic, day: today, indices: changing))
        case .unsubscribe: propose(.unsubscribe(project: project, topic: topic, indices: changing))
        }
        // The answer "already subscribed" is a promise too. D sends it only after T has acknowledged every
        // outbox entry that was under way to T when the request came.
        var answer = Answer(to: .request(id), reply: .changes(outcomes))
        answer.outboxes = [newestUnderWay(to: home)].compactMap { $0 }
        #if DEBUG
            if options.planted.unproves(already: changing.isEmpty) { answer.outboxes = [] }
        #endif
        if changing.isEmpty { self.answer(answer) } else { answerWithOpenRecord(answer) }
    }

    // MARK: Sends

    /// Folds the send in, and returns the answer; `nil` if the send was answered otherwise.
    func acceptSend(
        _ fact: @autoclosure () -> Fact, as id: RequestID, key: RequestKey?, message: Envelope,
        of project: ProjectNumber, fanoutsMax: Int, _ turn: inout Turn
    ) -> Answer? {
        guard admit(id, key: key, message: message, &turn) else { return nil }
        guard state.fanouts.count(of: project) < fanoutsMax || hasNoBound else {
            refuse(id, .tooManyFanouts(limit: fanoutsMax))
            return nil
        }
        propose(fact())
        return Answer(to: .request(id), reply: .accepted(message.id), isSend: true)
    }

    /// A planted bug.
    private var hasNoBound: Bool {
        #if DEBUG
            return options.planted.contains(.unboundedFanouts)
        #else
            return false
        #endif
    }

    private func sendToDevice(
        _ id: RequestID, key: RequestKey?, message: Envelope, to registration: Registration,
        _ turn: inout Turn
    ) {
        if let refusal = examine(registration, .backend).refusal { return refuse(id, refusal) }
        // A send that was accepted before the address was gone is accepted when the gateway repeats it.
        guard admit(id, key: key, message: message, &turn) else { return }
        let index = registration.index.rawValue
        // Backends delete tokens on this answer, so it waits for proof like the others.
        if isUnreachable(index, turn.now) { return refuse(id, .unregistered) }
        if isKeyRefused(for: index, turn.now) { return refuse(id, .pushKeyRefused) }
        var alone = Burst(companions: 1)
        let decision = decideDelivery(
            message, of: registration.project, to: DeviceSet(index), in: &alone, after: state.log.last,
            at: turn.now)
        propose(
            .acceptDirect(
                key: key, project: registration.project, index: index, message: message, decision: decision))
        answerWithOpenRecord(Answer(to: .request(id), reply: .accepted(message.id), isSend: true))
    }

    func verdict(_ key: RequestKey) -> DeduplicationWindow.Verdict {
        #if DEBUG
            if options.planted.contains(.forgetWindow) { return .new }
        #endif
        return (state.windows[key.session] ?? DeduplicationWindow())
            .verdict(key.number, within: UInt64(options.requestWindow))
    }

    /// Whether the send is new and there is room for it. Otherwise the send is answered here.
    private func admit(_ id: RequestID, key: RequestKey?, message: Envelope, _ turn: inout Turn) -> Bool {
        if let key {
            switch verdict(key) {
            case .new: break
            case .repeated:
                answer(
                    Answer(
                        to: .request(id), reply: .accepted(message.id),
                        isSend: true, isRepeat: true))
                return false
            case .tooOld:
                answer(
                    Answer(
                        to: .request(id), reply: .refused(.unknown),
                        isSend: true, isRepeat: true))
                return false
            }
        }
        guard !isOverloaded else {
            refuseAtOnce(id, &turn)
            return false
        }
        return true
    }

    // MARK: Listings

    private func topics(in project: ProjectNumber, after: UInt64, limit: Int) -> Reply {
        guard state.names.weight(of: project) > 0 else { return .topics([], next: nil) }
        var found: [(name: TopicName, members: UInt64)] = []
        var looks = 0
        var (shard, first) = TopicTable.readCursor(after)
        while shard < TopicTable.shardCount {
            let count = state.topics.count(inShard: shard)
            // One shard is looked at in any case.
            if looks > 0, looks + count > options.listedAtOnce {
                return .topics(found, next: TopicTable.cursor(shard: shard, from: first))
            }
            looks += count
            let own = state.topics.numbers(inShard: shard) {
                $0.rawValue >= first && state.names.project(of: $0) == project
            }
            for number in own {
                if found.count == limit {
                    return .topics(
                        found, next: TopicTable.cursor(shard: shard, from: number.rawValue))
                }
                found.append((state.names.name(number), UInt64(state.topics.members(number))))
            }
            (shard, first) = (shard + 1, 0)
        }
        return .topics(found, next: nil)
    }

    private func devices(in project: ProjectNumber, after: UInt64, limit: Int) -> Reply {
        let first = UInt32(clamping: after)
        guard let count = state.devices.counts[project.rawValue] else { return .devices([], next: nil) }
        var found: [DeviceState] = []
        var next: UInt64?
        state.devices.forEach(from: first) { index, page, slot in
            // Most devices may be other projects'.
            if first == 0, found.count == count { return false }
            if Int(index - first) >= options.listedAtOnce {
                next = UInt64(index)
                return false
            }
            guard page.projects[slot] == project.rawValue else { return true }
            if found.count == limit {
                next = UInt64(index)
                return false
            }
            found.append(DeviceState(of: index, on: page, at: slot))
            return true
        }
        return .devices(found, next: next)
    }
}
