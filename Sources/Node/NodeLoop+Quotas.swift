import Model
import NIOCore
import Partitions
import Placement
import Quotas
import Routing

// The buckets of the projects whose home partition lives on this loop, and the way to those of others.

extension NodeLoop {
    func loop(ofBuckets project: ProjectNumber) -> Int {
        shared.loop(ofBuckets: project)
    }

    /// A spender asks the owner of its project's buckets. Who is not answered asks again.
    func grant(_ request: QuotaRequest) {
        if shared.isClustered {
            guard partitions[home(of: request.project)] != nil else { return }
            grantor.authority = shared.authority
        }
        var effects: [QuotaGrantor.Effect] = []
        grantor.receive(request, now: now.monotonic, into: &effects)
        for effect in effects {
            switch effect {
            case .grant(let grant): sendGrant(grant)
            case .unknown(let request):
                if open(request.project) { self.grant(request) }
            }
        }
    }

    /// False where nothing can be said yet of what is in the project's buckets.
    private func open(_ project: ProjectNumber) -> Bool {
        if shared.isClustered { return openInCluster(project) }
        grantor.open(
            project, limits[project] ?? .standard, epoch: Epoch(1),
            shared.formerQuotas.beginning(of: project, started: shared.started), now: now.monotonic)
        return true
    }

    private func openInCluster(_ project: ProjectNumber) -> Bool {
        // Only the owner of the project's home partition grants.
        let home = home(of: project)
        guard let since = servedSince[home] else { return false }
        guard knows(project) else {
            // Made on another node a moment ago.
            shared.cluster?.handle(.nudged)
            return false
        }
        let epoch = shared.epoch(of: home)
        let left = handedOver.removeValue(forKey: project)
        guard
            let beginning = QuotaGrantor.beginning(
                isFirst: births[project] == epoch, left: left, since: since, now: now.monotonic)
        else { return false }
        grantor.open(
            project, limits[project] ?? .standard, epoch: epoch, beginning, now: now.monotonic)
        return true
    }

    /// What is left in the buckets of this loop, as the node ends.
    func remainders() -> [ProjectNumber: [UInt64]] {
        now = Clock.now()
        // Who was not asked for since a crash has what has flowed in since.
        for project in shared.formerQuotas.unknown
        where !grantor.isOpen(project) && loop(ofBuckets: project) == number { _ = open(project) }
        return grantor.remainders(now: now.monotonic)
    }

    /// Counts a send addressed to one device, here where the device lives, so that all gateways together
    /// keep its limit. True where the limit refused it.
    func isPastDeviceLimit(_ event: PartitionEvent) -> Bool {
        guard case .request(let id, .sendToDevice(_, let device, _)) = event else { return false }
        let limits = limits[device.project] ?? .standard
        let time = now.monotonic
        guard let refusal = deviceLimiter.take(device.partition, device.index, limits, now: time) else {
            return false
        }
        refuse(id, refusal)
        return true
    }

    /// What is in a project's buckets, by the limits' names.
    func levels(of project: ProjectNumber) -> [(name: String, value: UInt64)] {
        if !grantor.isOpen(project) { _ = open(project) }
        let kinds: [(String, QuotaKind)] = [
            ("sends", .sends), ("subscriptionChanges", .subscriptionChanges),
            ("registrations", .registrations),
        ]
        return kinds.compactMap { name, kind in
            grantor.level(of: kind, project, now: now.monotonic).map { (name, $0) }
        }
    }

    /// New limits of projects, from the administrator.
    func adopt(_ limits: [ProjectNumber: QuotaLimits]) {
        self.limits = limits
        router.admission.adopt(limits)
        now = Clock.now()
        for (project, limit) in limits where grantor.isOpen(project) {
            grantor.change(project, to: limit, now: now.monotonic)
        }
    }

    func scheduleQuotaWake(at time: MonotonicTime) {
        let delay = time.since(Clock.monotonic())
        eventLoop.assumeIsolated().scheduleTask(in: .nanoseconds(Int64(clamping: delay))) {
            self.now = Clock.now()
            var done: [RouterEffect] = []
            self.router.quotaWoke(now: self.now, into: &done)
            self.carryOut(done)
            self.scheduleTurn()
        }
    }
}

extension QuotaLimits {
    /// The limits that were set by name, the rest as they are by default.
    init(named limits: [String: UInt64]) {
        self = .standard
        if let count = limits["sendsPerMinute"] { setSends(perMinute: count) }
        if let count = limits["subscriptionsPerSecond"] { setSubscriptionChanges(perSecond: count) }
        if let count = limits["registrationsPerSecond"] { setRegistrations(perSecond: count) }
        if let count = limits["fanouts"] { fanouts = UInt32(clamping: count) }
        if let count = limits["devicePerMinute"] { devicePerMinute = UInt32(clamping: count) }
        if let count = limits["devicePerHour"] { devicePerHour = UInt32(clamping: count) }
    }

    /// By name, as the API and the command line show them.
    var named: [(name: String, value: UInt64)] {
        [
            ("sendsPerMinute", sendsPerMinute), ("subscriptionsPerSecond", subscriptionChanges.perSecond),
            ("registrationsPerSecond", registrations.perSecond), ("fanouts", UInt64(fanouts)),
            ("devicePerMinute", UInt64(devicePerMinute)), ("devicePerHour", UInt64(devicePerHour)),
        ]
    }
}
