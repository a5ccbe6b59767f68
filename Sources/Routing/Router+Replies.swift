import Model
import Partitions
import Placement
import Quotas

extension Router {
    /// A partition's reply. The router drops a reply to a request that it does not know any more (past its
    /// deadline).
    public func replied(_ name: UInt64, _ reply: Reply, now: Instant, into effects: inout [RouterEffect]) {
        defer { checkInvariants() }
        guard let number = settled(name) else { return }
        if options.isClustered {
            if mustAskAgain(number, reply) { return wait(number, now, &effects) }
            if let asked = pending[number] {
                if asked.isRepeated, asked.isSend, case .refused(let refusal) = reply, refusal.isOfNow {
                    return postpone(number, refusal, now, &effects)
                }
                if !waitingRequests.isEmpty, !isKnown(reply, of: asked.partition) {
                    heard(from: asked.partition, now, &effects)
                }
            }
        }
        settle(number, reply, now, &effects)
    }

    /// Ends the request with its reply.
    func settle(_ number: UInt64, _ reply: Reply, _ now: Instant, _ effects: inout [RouterEffect]) {
        guard let asked = pending.remove(number) else { return }
        switch asked.kind {
        case .part(let whole, let places): finishPart(whole, places, reply, &effects)
        case .register(let project, let offer):
            finishRegistration(asked, project, offer, reply, now, &effects)
        case .topics, .devices: continueListing(asked, reply, now, &effects)
        case .send, .simple, .whole: finish(asked.ticket, outcome(reply, asked), &effects)
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

    /// The owner that answered refused the send. Where the gateway has asked two owners, the other owner may
    /// have accepted it, so the refusal says nothing. The gateway asks again, and the send's number tells.
    private func postpone(
        _ number: UInt64, _ refusal: PartitionRefusal, _ now: Instant, _ effects: inout [RouterEffect]
    ) {
        if case .unavailable = refusal { return waitAlone(number, refusal, now, &effects) }
        if let partition = pending[number]?.partition { heard(from: partition, now, &effects) }
        enter(number, now, &effects)
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
        if asked.isRepeated { return finish(asked.ticket, .refused(.deadlineExceeded), &effects) }
        finish(asked.ticket, .refused(.quota(refusal)), &effects)
    }

    private func outcome(_ reply: Reply, _ asked: Pending) -> Outcome {
        switch reply {
        case .accepted(let id): .accepted(id)
        case .done: .done
        case .members(let count): .topic(members: count)
        case .subscriptions(let list):
            .subscriptions(list.map { Subscription(topic: $0.topic, since: $0.since) })
        case .refused(let refusal): .refused(self.refusal(refusal))
        case .changes, .registered, .full, .topics, .devices, .memberSets:
            .refused(.unavailable("an answer to another question"))
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
        case .indicesUsedUp: .unavailable("the partition takes no new devices")
        case .unavailable(let reason): .unavailable(reason)
        case .unknown: .deadlineExceeded
        case .moved, .handedOver: .unavailable("the partition is being moved")
        }
    }

    // MARK: Changes

    private func finishPart(_ whole: UInt64, _ places: [Int], _ reply: Reply, _ effects: inout [RouterEffect])
    {
        guard var sum = pending[whole], case .whole(var outcomes, let partsLeft) = sum.kind else { return }
        switch reply {
        case .changes(let changes) where changes.count == places.count:
            for (place, change) in zip(places, changes) { outcomes[place] = outcome(change) }
        case .refused(let refusal):
            // A part that is not known to be done makes the whole worth repeating, which is safe.
            pending.remove(whole)
            return finish(sum.ticket, .refused(self.refusal(refusal)), &effects)
        default:
            pending.remove(whole)
            return finish(sum.ticket, .refused(.unavailable("an answer to another question")), &effects)
        }
        if partsLeft > 1 {
            sum.kind = .whole(outcomes: outcomes, partsLeft: partsLeft - 1)
            pending[whole] = sum
        } else {
            pending.remove(whole)
            finish(sum.ticket, .changes(outcomes.compactMap { $0 }), &effects)
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
        _ project: ProjectNumber, _ ticket: UInt64, since began: MonotonicTime? = nil, _ now: Instant,
        _ effects: inout [RouterEffect]
    ) {
        guard let offer = placement(of: project, now).offer else {
            if placements[project.rawValue]?.isFull ?? false {
                return finish(ticket, .refused(.quota(full(project, now))), &effects)
            }
            return finish(ticket, .refused(.unavailable("no partition takes new devices")), &effects)
        }
        let request = Request.register(
            project: project, limit: Int(offer.limit),
            nonce: UInt32(truncatingIfNeeded: random.next()) & 0xFF_FFFF,
            secret: random.next())
        ask(
            offer.partition, request, ticket, .register(project: project, offer), since: began, now, &effects)
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

    private static let fullPause: UInt64 = .seconds(10)

    private func finishRegistration(
        _ asked: Pending, _ project: ProjectNumber, _ offer: DevicePlacement.Offer, _ reply: Reply,
        _ now: Instant,
        _ effects: inout [RouterEffect]
    ) {
        switch reply {
        case .registered(let index, let nonce, let secret):
            let registration = Registration(
                project: project, partition: asked.partition, index: index, nonce: nonce, key: 0)
            let new = NewRegistration(registration: registration, secret: secret, created: now.wall)
            finish(asked.ticket, .registered(new), &effects)
        case .full(let held):
            placements[project.rawValue]?.full(offer, holding: UInt32(clamping: held))
            register(project, asked.ticket, since: asked.began, now, &effects)
        case .refused(.indicesUsedUp):
            placements[project.rawValue]?.closed(offer.partition)
            register(project, asked.ticket, since: asked.began, now, &effects)
        default: finish(asked.ticket, outcome(reply, asked), &effects)
        }
    }

    // MARK: Listings

    func list(
        _ kind: Pending.Kind, _ from: PageToken, _ ticket: UInt64, since began: MonotonicTime? = nil,
        _ now: Instant, _ effects: inout [RouterEffect]
    ) {
        switch kind {
        case .topics(let project, let limit, let found):
            let request = Request.topics(project: project, after: from.place, limit: limit - found.count)
            ask(from.partition, request, ticket, kind, since: began, now, &effects)
        case .devices(let project, let limit, let found):
            let request = Request.devices(project: project, after: from.place, limit: limit - found.count)
            ask(from.partition, request, ticket, kind, since: began, now, &effects)
        default: break
        }
    }

    /// Goes on with the next partition until the page is full.
    private func continueListing(
        _ asked: Pending, _ reply: Reply, _ now: Instant, _ effects: inout [RouterEffect]
    ) {
        var kind = asked.kind
        var place: UInt64?
        var isFull = false
        switch (kind, reply) {
        case (.topics(let project, let limit, let found), .topics(let more, let next)):
            kind = .topics(project: project, limit: limit, found: found + more)
            place = next
            isFull = found.count + more.count >= limit
        case (.devices(let project, let limit, let found), .devices(let more, let next)):
            let summaries = more.map { summary($0, project, asked.partition) }
            kind = .devices(project: project, limit: limit, found: found + summaries)
            place = next
            isFull = found.count + more.count >= limit
        default: return finish(asked.ticket, outcome(reply, asked), &effects)
        }
        let following = Int(asked.partition.rawValue) + 1
        var token: PageToken?
        if let place {
            token = PageToken(partition: asked.partition, place: place)
        } else if following < options.partitionCount {
            token = PageToken(partition: PartitionID(UInt16(following)), place: 0)
        }
        if !isFull, let token {
            return list(kind, token, asked.ticket, since: asked.began, now, &effects)
        }
        switch kind {
        case .topics(_, _, let found): finish(asked.ticket, .topics(found, next: token), &effects)
        case .devices(_, _, let found): finish(asked.ticket, .devices(found, next: token), &effects)
        default: break
        }
    }

    private func summary(_ state: DeviceState, _ project: ProjectNumber, _ partition: PartitionID)
        -> DeviceSummary
    {
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
        case .unavailable, .tooManyFanouts: true
        default: false
        }
    }
}
