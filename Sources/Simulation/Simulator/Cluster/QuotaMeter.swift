import Model
import NodeCore
import Quotas
import Routing

/// Checks the admissions of each project, over all gateways together, against burst + rate × window for every
/// window (G6): a bucket that is full at first, and that no admission may overdraw.
struct QuotaMeter {
    private struct Bucket {
        let rate: QuotaRate
        /// `rate.count` units come in each nanosecond, and `scale` units make a token.
        var units: UInt64
        var at = MonotonicTime.zero
        var scale: UInt64 { UInt64(rate.seconds) * 1_000_000_000 }
        private typealias Pots = [ProcessID: (tokens: UInt64, until: MonotonicTime)]
        /// Tokens beyond the bucket of each machine that was suspended, and until when the machine may spend
        /// them. `beyond`: tokens that it held or may grant. `granted`: tokens that it was granted.
        private var beyond: Pots = [:]
        private var granted: Pots = [:]

        init(_ rate: QuotaRate) {
            self.rate = rate
            units = rate.burst * UInt64(rate.seconds) * 1_000_000_000
        }

        /// `false` if the bucket does not hold so many tokens. A machine that was suspended spends its own
        /// tokens first. When the bucket is empty, others may spend what such a machine granted.
        mutating func take(_ count: Int, by machine: ProcessID, _ now: MonotonicTime) -> Bool {
            units = min(units + now.since(at).nanoseconds * rate.count, rate.burst * scale)
            at = now
            beyond = beyond.filter { now <= $0.value.until }
            granted = granted.filter { now <= $0.value.until }
            let left = Bucket.spend(Bucket.spend(UInt64(count), of: machine, &granted), of: machine, &beyond)
            let wanted = left * scale
            defer { units -= min(units, wanted) }
            guard wanted > units else { return true }
            var missing = (wanted - units + scale - 1) / scale
            for other in beyond.keys.sorted() where missing > 0 {
                missing = Bucket.spend(missing, of: other, &beyond)
            }
            return missing == 0
        }

        mutating func fill() { units = rate.burst * scale }

        /// Spends tokens of the machine; returns the part of `count` for which there were none.
        private static func spend(_ count: UInt64, of machine: ProcessID, _ pots: inout Pots) -> UInt64 {
            let spent = min(count, pots[machine]?.tokens ?? 0)
            pots[machine]?.tokens -= spent
            return count - spent
        }

        mutating func forgive(
            _ count: UInt64, of machine: ProcessID, until end: MonotonicTime, isGranted: Bool
        ) {
            if isGranted {
                granted[machine] = ((granted[machine]?.tokens ?? 0) + count, end)
            } else {
                beyond[machine] = ((beyond[machine]?.tokens ?? 0) + count, end)
            }
        }
    }
    private struct Key: Hashable {
        var project: ProjectNumber
        var kind: QuotaKind
    }
    static let kinds = [QuotaKind.sends, .subscriptionChanges, .registrations]
    private var buckets: [Key: Bucket] = [:]

    init(_ limits: QuotaLimits, projects: [ProjectNumber]) {
        for project in projects {
            for kind in Self.kinds {
                buckets[Key(project: project, kind: kind)] = limits.rate(of: kind).map { Bucket($0) }
            }
        }
    }

    /// All buckets may be full.
    mutating func fill() {
        for key in buckets.keys { buckets[key]?.fill() }
    }

    /// `isGranted`: only this machine may spend the tokens.
    mutating func forgive(
        _ count: UInt64, _ kind: QuotaKind, in project: ProjectNumber, of machine: ProcessID,
        until end: MonotonicTime,
        isGranted: Bool = false
    ) {
        buckets[Key(project: project, kind: kind)]?.forgive(
            count, of: machine, until: end, isGranted: isGranted)
    }

    mutating func take(_ admitted: Admission.Admitted, by machine: ProcessID, _ now: MonotonicTime) -> Bool {
        buckets[Key(project: admitted.project, kind: admitted.kind)]?.take(admitted.count, by: machine, now)
            ?? false
    }
}

extension ClusterSimulation {
    /// An operator changes a project's limits now and then.
    func scheduleLimits() {
        guard options.limitsGapMax > .zero else { return }
        after(roll(options.limitsGapMax), .client) {
            guard self.isLoading, !self.isHealing else { return }
            let project = self.projects[Int(self.roll(UInt64(self.projects.count)))]
            self.home.change(project, to: self.options.limits.times(1 + self.roll(3)))
            self.scheduleLimits()
        }
    }

    /// A machine whose clock was stopped spends what it holds, and grants what it may grant, as if no time
    /// had passed. That ends when it learns that it has no lease any more. The meter allows that much, and no
    /// more.
    func forgiveQuotas(of process: SimulatedProcess) {
        let valid = options.ownership.lease + options.quotas.share + options.quotas.lease
        for project in projects {
            for kind in QuotaMeter.kinds {
                let count = process.loops.reduce(0) {
                    $0 + $1.core.tokensAtHand(kind, of: project, for: valid, now: process.monotonic)
                }
                meter.forgive(count, kind, in: project, of: process.processID, until: now + valid)
            }
        }
        let end = now + max(options.quotas.lease, options.quotas.share)
        for loop in process.loops { loop.askedBeforeStandstill = (loop.core.lastQuotaRequest, end) }
    }

    /// A grant that the loop asked for before its standstill runs from the request by the loop's clock, even
    /// if the answer comes only now. The owner that granted it may count it as spent by then.
    func forgive(_ grant: QuotaGrant, to loop: SimulatedLoop) {
        let (number, end) = loop.askedBeforeStandstill
        guard now <= end, grant.number <= number else { return }
        let share = grant.shareRate * grant.shareLength.nanoseconds / 1_000_000_000
        meter.forgive(
            grant.tokens + share, grant.kind, in: grant.project, of: loop.processID, until: end,
            isGranted: true)
    }

    /// An operator makes keys and takes keys out of use: for these machines, another version of the catalog.
    func scheduleKeys() {
        guard options.keysGapMax > .zero else { return }
        after(roll(options.keysGapMax), .client) {
            guard self.isLoading, !self.isHealing else { return }
            self.home.changeKeys()
            self.scheduleKeys()
        }
    }

    func check(_ admitted: Admission.Admitted, by process: SimulatedProcess) {
        count("admitted \(admitted.kind)", admitted.count)
        if !meter.take(admitted, by: process.processID, now) {
            let (count, kind, project) = (admitted.count, admitted.kind, admitted.project.rawValue)
            violate("G6", "project \(project): \(count) \(kind) are admitted past burst + rate × window")
        }
    }
}
