import Model
import Partitions
import Placement
import Quotas

extension Router {
    /// A partition's reply. The router drops a reply to a request that it does not know any more (past its
    /// deadline).
    public func replied(_ name: UInt64, _ reply: Reply, now: Instant, into effects: inout [RouterEffect]) {
        handle(now, into: &effects) { replied(name, with: reply, &$0) }
    }

    private func replied(_ name: UInt64, with reply: Reply, _ turn: inout Turn) {
        guard let number = settled(name) else { return }
        if options.isClustered {
            if mustAskAgain(number, reply) { return wait(number, &turn) }
            if let asked = pending[number] {
                if asked.isRepeated, asked.isSend, case .refused(let refusal) = reply, refusal.isOfNow {
                    return postpone(number, after: refusal, &turn)
                }
                if !waitingRequests.isEmpty, !isKnown(reply, of: asked.partition) {
                    heard(from: asked.partition, &turn)
                }
            }
        }
        settle(number, with: reply, &turn)
    }

    /// Ends the request with its reply.
    func settle(_ number: UInt64, with reply: Reply, _ turn: inout Turn) {
        guard let asked = pending.remove(number) else { return }
        switch asked.kind {
        case .part(let whole, let indices): finishPart(of: whole, at: indices, with: reply, &turn)
        case .register(let project, let offer):
            finishRegistration(asked, of: project, at: offer, with: reply, &turn)
        case .topics, .devices, .pushes: continueListing(asked, with: reply, &turn)
        case .send, .simple: turn.finish(asked.ticket, outcome(reply))
        }
    }

    /// Whether the process that was asked does not own the partition, so that the router must ask again.
    private func mustAskAgain(_ number: UInt64, _ reply: Reply) -> Bool {
        switch reply {
        case .refused(.moved):
            // The next copy gets another name: an answer to this copy must not count for it.
            guard let asked = pending[number] else { return true }
            if !asked.isSend { repeated(number) }
            if asked.unanswered > 0, asked.unanswered < .max { pending[number]?.unanswered -= 1 }
            return true
        case .refused(.handedOver):
            repeated(number)
            return true
        default: return false
        }
    }

    /// The owner that answered refused the send. If the gateway has asked two owners, the other owner may
    /// have accepted it, so the refusal decides nothing. The gateway asks again, and the send's number shows
    /// the result.
    private func postpone(_ number: UInt64, after refusal: PartitionRefusal, _ turn: inout Turn) {
        if case .unavailable = refusal { return waitAlone(number, after: refusal, &turn) }
        if let partition = pending[number]?.partition { heard(from: partition, &turn) }
        enter(number, &turn)
    }

    /// Whether the requests that wait for the partition have got the same refusal.
    private func isKnown(_ reply: Reply, of partition: PartitionID) -> Bool {
        guard case .refused(.unavailable) = reply, case .refusing = waitingRequests[partition]?.service else {
            return false
        }
        return true
    }

    /// The loop of the device's partition refused a send: the device is past its own limit.
    public func refused(_ name: UInt64, _ refusal: QuotaRefusal, into effects: inout [RouterEffect]) {
        guard let number = settled(name), let asked = pending.remove(number) else { return }
        // An owner may have accepted an earlier copy.
        let outcome = asked.isRepeated ? Refusal.deadlineExceeded : .quota(refusal)
        effects.append(.finish(ticket: asked.ticket, .refused(outcome)))
    }

    /// For a reply of another kind than the request wants.
    private static let unfitting = Outcome.refused(
        .unavailable("the partition's owner answered another request"))

    private func outcome(_ reply: Reply) -> Outcome {
        switch reply {
        case .accepted(let id): .accepted(id)
        case .done: .done
        case .members(let count): .topic(members: count)
        case .subscriptions(let list):
            .subscriptions(list.map { Subscription(topic: $0.topic, since: $0.since) })
        case .reachable(let list, let kinds):
            .reachable(list.map { Subscription(topic: $0.topic, since: $0.since) }, by: kinds)
        case .device(let device, let transports, let pushes): .device(device, transports, pushes: pushes)
        case .refused(let refusal): .refused(self.refusal(refusal))
        case .changes, .registered, .full, .topics, .devices, .pushes, .matching: Router.unfitting
        }
    }

    /// A partition's refusal as the API knows it.
    public func refusal(_ refusal: PartitionRefusal) -> Refusal {
        switch refusal {
        case .unregistered: .unregistered
        case .invalidToken: .invalidToken
        case .wrongCredential: .wrongCredential
        case .tooManyTopics: .tooManyTopics
        case .tooManyFanouts(let limit):
            .quota(QuotaRefusal(kind: .fanouts, limit: UInt64(limit), retryDelay: .seconds(1)))
        case .indicesUsedUp: .unavailable("the partition has no index left for a new device")
        case .pushKeyRefused: .pushKeyRefused
        case .unavailable(let reason): .unavailable(reason)
        case .unknown: .deadlineExceeded
        case .moved, .handedOver: .unavailable("the partition is moving to another node")
        }
    }

    // MARK: Changes

    private func finishPart(of whole: UInt64, at indices: [Int], with reply: Reply, _ turn: inout Turn) {
        guard var change = pending[change: whole] else { return }
        switch reply {
        case .changes(let changes) where changes.count == indices.count:
            for (index, done) in zip(indices, changes) { change.outcomes[index] = outcome(done) }
        case .refused(let refusal):
            // A part that is not known to be done makes the whole worth repeating, which is safe.
            pending.removeChange(whole)
            return turn.finish(change.ticket, .refused(self.refusal(refusal)))
        default:
            pending.removeChange(whole)
            return turn.finish(change.ticket, Router.unfitting)
        }
        change.partsLeft -= 1
        if change.partsLeft > 0 {
            pending[change: whole] = change
        } else {
            pending.removeChange(whole)
            turn.finish(change.ticket, .changes(change.outcomes.compactMap { $0 }))
        }
    }

    private func outcome(_ change: DeviceChange) -> ChangeOutcome {
        switch change {
        case .changed(let day): .changed(day)
        case .unchanged(let day): .unchanged(day)
        case .refused(let refusal): .refused(self.refusal(refusal))
        }
    }

    // MARK: Registering

    /// Registers a device at one partition after the other, under one deadline that runs `since` the first.
    func register(
        _ project: ProjectNumber, ticket: UInt64, since began: MonotonicTime? = nil, _ turn: inout Turn
    ) {
        guard let offer = placement(of: project, turn.now).offer else {
            if placements[project.rawValue]?.isFull ?? false {
                return turn.finish(ticket, .refused(.quota(full(project, turn.now))))
            }
            return turn.finish(
                ticket, .refused(.unavailable("no partition has an index left for a new device")))
        }
        let request = Request.register(
            project: project, limit: Int(offer.limit),
            nonce: UInt32(truncatingIfNeeded: random.next()) & 0xFF_FFFF,
            secret: random.next())
        ask(
            request, of: offer.partition, ticket: ticket, kind: .register(project: project, offer),
            since: began, &turn)
    }

    /// The placement of the project's devices under its present limit.
    private func placement(of project: ProjectNumber, _ now: Instant) -> DevicePlacement {
        let most = admission.limits(of: project).devices
        var placement = placements[project.rawValue].flatMap { $0.most == most ? $0 : nil }
        if let until = fullUntil[project.rawValue], until <= now.monotonic {
            fullUntil[project.rawValue] = nil
            placement?.lookAgain()
        }
        let found =
            placement ?? DevicePlacement(project: project, count: options.partitionCount, most: most)
        placements[project.rawValue] = found
        return found
    }

    /// The project has all devices that it may have. The router asks its partitions again after a while.
    private func full(_ project: ProjectNumber, _ now: Instant) -> QuotaRefusal {
        let until = fullUntil[project.rawValue] ?? now.monotonic.advanced(by: Router.fullPause)
        fullUntil[project.rawValue] = until
        return QuotaRefusal(
            kind: .devices, limit: admission.limits(of: project).devices,
            retryDelay: until.since(now.monotonic))
    }

    private static let fullPause: TimeSpan = .seconds(10)

    private func finishRegistration(
        _ asked: Pending, of project: ProjectNumber, at offer: DevicePlacement.Offer, with reply: Reply,
        _ turn: inout Turn
    ) {
        switch reply {
        case .registered(let index, let nonce, let secret):
            let registration = Registration(
                project: project, partition: asked.partition, index: index, nonce: nonce, key: 0)
            let new = NewRegistration(registration: registration, secret: secret, created: turn.now.wall)
            turn.finish(asked.ticket, .registered(new))
        case .full(let held):
            placements[project.rawValue]?.full(offer, holding: UInt32(clamping: held))
            register(project, ticket: asked.ticket, since: asked.began, &turn)
        case .refused(.indicesUsedUp):
            placements[project.rawValue]?.closed(offer.partition)
            register(project, ticket: asked.ticket, since: asked.began, &turn)
        default: turn.finish(asked.ticket, outcome(reply))
        }
    }

    // MARK: Listings

    func list(
        _ kind: Pending.Kind, from: PageToken, ticket: UInt64, since began: MonotonicTime? = nil,
        _ turn: inout Turn
    ) {
        switch kind {
        case .topics(let project, let limit, let found):
            let request = Request.topics(project: project, after: from.cursor, limit: limit - found.count)
            ask(request, of: from.partition, ticket: ticket, kind: kind, since: began, &turn)
        case .devices(let project, let limit, let found):
            let request = Request.devices(project: project, after: from.cursor, limit: limit - found.count)
            ask(request, of: from.partition, ticket: ticket, kind: kind, since: began, &turn)
        case .pushes(let project, let message, _):
            let request = Request.pushes(project: project, of: message)
            ask(request, of: from.partition, ticket: ticket, kind: kind, since: began, &turn)
        default: break
        }
    }

    /// Goes on with the next partition until the page is full.
    private func continueListing(_ asked: Pending, with reply: Reply, _ turn: inout Turn) {
        var kind = asked.kind
        var cursor: UInt64?
        var isFull = false
        switch (kind, reply) {
        case (.topics(let project, let limit, let found), .topics(let more, let next)):
            kind = .topics(project: project, limit: limit, found: found + more)
            cursor = next
            isFull = found.count + more.count >= limit
        case (.devices(let project, let limit, let found), .devices(let more, let next)):
            let summaries = more.map { summary($0, of: project, in: asked.partition) }
            kind = .devices(project: project, limit: limit, found: found + summaries)
            cursor = next
            isFull = found.count + more.count >= limit
        case (.pushes(let project, let message, var found), .pushes(let more)):
            for tally in more { found.add(tally) }
            kind = .pushes(project: project, of: message, found: found)
        default: return turn.finish(asked.ticket, outcome(reply))
        }
        let following = Int(asked.partition.rawValue) + 1
        var token: PageToken?
        if let cursor {
            token = PageToken(partition: asked.partition, cursor: cursor)
        } else if following < options.partitionCount {
            token = PageToken(partition: PartitionID(UInt16(following)), cursor: 0)
        }
        if !isFull, let token {
            return list(kind, from: token, ticket: asked.ticket, since: asked.began, &turn)
        }
        switch kind {
        case .topics(_, _, let found): turn.finish(asked.ticket, .topics(found, next: token))
        case .devices(_, _, let found): turn.finish(asked.ticket, .devices(found, next: token))
        case .pushes(_, _, let found): turn.finish(asked.ticket, .pushes(found))
        default: break
        }
    }

    private func summary(
        _ state: DeviceState, of project: ProjectNumber, in partition: PartitionID
    ) -> DeviceSummary {
        DeviceSummary(
            registration: Registration(
                project: project, partition: partition, index: state.index, nonce: state.nonce, key: 0),
            lastSeen: state.lastSeen, topicCount: state.topicCount, waitingCount: state.waitingCount)
    }
}

extension PartitionRefusal {
    /// An owner may accept the same request a moment later.
    fileprivate var isOfNow: Bool {
        switch self {
        case .unavailable, .tooManyFanouts, .pushKeyRefused: true
        default: false
        }
    }
}
