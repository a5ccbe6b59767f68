import Model
import Partitions
import Quotas
import Routing

// The buckets of the projects whose home partition lives on this loop, and the way to the buckets of
// others.

extension LoopCore {
    func sendQuota(_ request: QuotaRequest) {
        switch places[home(of: request.project)] {
        case .here: post(.quotaRequest(request), toLoop: options.map.loop(ofBuckets: request.project))
        case .peer(let processID): say(.quotaRequest(request), to: processID)
        case .nowhere: break
        }
    }

    private func deliver(_ grant: QuotaGrant) {
        let gateway = grant.spender.gateway
        if gateway.processID == options.processID {
            post(.quotaGrant(grant), toLoop: gateway.loop)
        } else {
            say(.quotaGrant(grant), to: gateway.processID)
        }
    }

    private func refuse(_ id: RequestID, _ refusal: QuotaRefusal) {
        if id.gateway.processID == options.processID {
            post(.quotaRefusal(id, refusal), toLoop: id.gateway.loop)
        } else {
            say(.quotaRefusal(id, refusal), to: id.gateway.processID)
        }
    }

    /// A spender asks the owner of its project's buckets. A spender that gets no answer asks again.
    func grant(_ request: QuotaRequest) {
        if options.isClustered, partitions[home(of: request.project)] == nil { return }
        grantor.authority = host.authority
        var wanted: [QuotaGrantor.Effect] = []
        grantor.receive(request, now: now.monotonic, into: &wanted)
        for effect in wanted {
            switch effect {
            case .grant(let grant): deliver(grant)
            case .unknown(let request): if open(request.project) { grant(request) }
            }
        }
    }

    /// Opens the project's buckets. False while the owner cannot say yet what is in them.
    private func open(_ project: ProjectNumber) -> Bool {
        if options.isClustered { return openInCluster(project) }
        grantor.open(
            project, limits[project] ?? .standard, epoch: Epoch(1),
            beginning: options.formerQuotas.beginning(of: project, started: options.started),
            now: now.monotonic)
        return true
    }

    private func openInCluster(_ project: ProjectNumber) -> Bool {
        // Only the owner of the project's home partition grants.
        let home = home(of: project)
        guard var since = servedSince[home] else { return false }
        since = max(since, grantsAfter[home] ?? since)
        guard projects.contains(project) else {
            // Another node created the project a moment ago.
            effects.append(.look)
            return false
        }
        let epoch = epoch(of: home)
        var isFirst = births[project] == epoch
        #if DEBUG
            if options.planted.contains(.fullBuckets) { isFirst = true }
            if options.planted.contains(.hastyBuckets) { since = MonotonicTime.zero }
        #endif
        let left = handedOver.removeValue(forKey: project)
        guard
            let beginning = QuotaGrantor.beginning(
                isFirst: isFirst, left: left, since: since, now: now.monotonic, options.quotas)
        else { return false }
        grantor.open(
            project, limits[project] ?? .standard, epoch: epoch, beginning: beginning, now: now.monotonic)
        return true
    }

    /// Takes out the tokens that are left in the buckets of a partition's projects.
    func takeBuckets(of id: PartitionID) -> [ProjectNumber: [UInt64]] {
        var left = handedOver.filter { home(of: $0.key) == id }
        for project in left.keys { handedOver[project] = nil }
        left.merge(grantor.remainders(now: now.monotonic).filter { home(of: $0.key) == id }) { $1 }
        return left
    }

    /// Forgets tokens that came with the partition: an earlier owner counted them at another time.
    func forgetHandedOver(_ id: PartitionID) {
        handedOver = handedOver.filter { home(of: $0.key) != id }
    }

    /// On a lone node: the tokens that are left in the buckets of this loop as the node ends.
    public func remainders(now: Instant) -> [ProjectNumber: [UInt64]] {
        self.now = now
        // After a crash, buckets that no spender has asked for hold what has flowed in since the start.
        for project in options.formerQuotas.unknown
        where !grantor.isOpen(project) && options.map.loop(ofBuckets: project) == options.number {
            _ = open(project)
        }
        return grantor.remainders(now: now.monotonic)
    }

    /// Forgets buckets that are full and of which no token is out. The shell calls this now and then.
    public func forgetIdleBuckets(now: Instant) {
        self.now = now
        grantor.forgetIdle(now: now.monotonic)
    }

    /// Counts a send to one device. The loop of the device's partition counts, so that all gateways together
    /// keep the device's limit. True if the limit refused the send.
    func isPastDeviceLimit(_ event: PartitionEvent) -> Bool {
        guard case .request(let id, .sendToDevice(_, let device, _)) = event else { return false }
        let limits = limits[device.project] ?? .standard
        let time = now.monotonic
        guard let refusal = deviceLimiter.take(device.partition, device.index, within: limits, now: time)
        else { return false }
        refuse(id, refusal)
        return true
    }

    /// Why the quota would refuse a send of the project, if that is certain.
    public func refusalOfSend(in project: ProjectNumber, now: Instant) -> QuotaRefusal? {
        router.refusalOfSend(in: project, now: now)
    }

    /// The same of a change of subscriptions.
    public func refusalOfChange(in project: ProjectNumber, now: Instant) -> QuotaRefusal? {
        router.refusalOfChange(in: project, now: now)
    }

    /// The tokens in a project's buckets, by the limits' names.
    func levels(of project: ProjectNumber) -> [BucketLevel] {
        if !grantor.isOpen(project) { _ = open(project) }
        let kinds: [(String, QuotaKind)] = [
            ("sends", .sends), ("subscriptionChanges", .subscriptionChanges),
            ("registrations", .registrations),
        ]
        return kinds.compactMap { name, kind in
            grantor.level(of: kind, project, now: now.monotonic).map { BucketLevel(name: name, tokens: $0) }
        }
    }

    /// How many tokens this loop may spend, and grant to others, in `length` without another
    /// message: those that it holds, those in the project's bucket here, and those that flow in. For the
    /// simulator's checkers.
    public func tokensAtHand(
        _ kind: QuotaKind, of project: ProjectNumber, for length: TimeSpan, now: MonotonicTime
    ) -> UInt64 {
        let held = router.admission.atHand(kind, project)
        guard servedSince[home(of: project)] != nil,
            let rate = (limits[project] ?? .standard).rate(of: kind)
        else { return held }
        let level = grantor.level(of: kind, project, now: now) ?? levelAtOpening(kind, project, rate: rate)
        return held + level + rate.inflow(in: length)
    }

    /// The number of this loop's last request for tokens. For the simulator's checkers.
    public var lastQuotaRequest: UInt64 { router.admission.lastRequest }

    /// The tokens that a bucket would hold if a spender's request opened it.
    private func levelAtOpening(_ kind: QuotaKind, _ project: ProjectNumber, rate: QuotaRate) -> UInt64 {
        if births[project] == epoch(of: home(of: project)) { return rate.burst }
        guard let left = handedOver[project], left.indices.contains(Int(kind.rawValue)) else { return 0 }
        return left[Int(kind.rawValue)]
    }

    /// Asks for the tokens in a project's buckets. Answered by `levels` with the number of the question.
    public func askLevels(of project: ProjectNumber, question: UInt64) {
        let asked = LoopMessage.levelsAsked(project, by: options.number, question: question)
        post(asked, toLoop: options.map.loop(ofBuckets: project))
    }

    /// Takes over the administrator's changes: the projects, their limits, and in a cluster the epoch of its
    /// home partition in which each project was created.
    public func updateCatalog(
        projects: Set<ProjectNumber>, limits: [ProjectNumber: QuotaLimits], births: [ProjectNumber: Epoch],
        now: Instant
    ) {
        self.now = now
        self.projects = projects
        self.births = births
        self.limits = limits
        router.admission.setLimits(limits)
        names.bounds.standard = QuotaLimits.standard.topics
        names.bounds.ofProjects = limits.mapValues(\.topics)
        for (project, limit) in limits where grantor.isOpen(project) {
            grantor.change(project, to: limit, now: now.monotonic)
        }
    }
}
