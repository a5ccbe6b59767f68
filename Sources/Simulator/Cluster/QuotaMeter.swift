import Model
import NodeCore
import Quotas

/// Holds what all projects were admitted, over all gateways together, against burst + rate × window, over
/// every window (G6): a bucket that is full at first and that no admission may overdraw.
struct QuotaMeter {
    private struct Bucket {
        let rate: QuotaRate
        /// Units of which `rate.count` come in each nanosecond and `scale` make a token.
        var units: UInt64
        var at: UInt64 = 0
        var scale: UInt64 { UInt64(rate.seconds) * 1_000_000_000 }
        /// Tokens beyond that, of machines that stood still, and until when they may be spent.
        var forgiven: UInt64 = 0
        var forgivenUntil: UInt64 = 0
        /// Tokens that were taken from the bucket meanwhile.
        var taken: UInt64 = 0

        init(_ rate: QuotaRate, _ projects: Int) {
            let count = UInt64(projects)
            let rate = QuotaRate(
                count: rate.count * count, perSeconds: rate.seconds, burst: rate.burst * count)
            self.rate = rate
            units = rate.burst * UInt64(rate.seconds) * 1_000_000_000
        }

        /// False where it does not hold so many.
        mutating func take(_ count: Int, _ now: UInt64) -> Bool {
            if now > forgivenUntil { settle() }
            refill(now)
            let wanted = UInt64(count) * scale
            defer { units -= min(units, wanted) }
            guard wanted > units else {
                taken += UInt64(count)
                return true
            }
            taken += units / scale
            let missing = (wanted - units + scale - 1) / scale
            guard now <= forgivenUntil, missing <= forgiven else { return false }
            forgiven -= missing
            return true
        }

        private mutating func refill(_ now: UInt64) {
            units = min(units + (now - at) * rate.count, rate.burst * scale)
            at = now
        }

        /// Which machine spent what is not known here. So what is left of the tokens beyond may have been
        /// spent, and what they were charged to is in its owner's bucket still.
        private mutating func settle() {
            if forgiven > 0 {
                refill(max(at, forgivenUntil))
                units = min(units + min(forgiven, taken) * scale, rate.burst * scale)
            }
            (forgiven, taken) = (0, 0)
        }

        mutating func forgive(_ count: UInt64, now: UInt64, until end: UInt64) {
            if now > forgivenUntil { settle() }
            forgiven += count
            forgivenUntil = max(forgivenUntil, end)
        }
    }
    private var sends: Bucket
    private var changes: Bucket

    init(_ limits: QuotaLimits, projects: Int) {
        sends = Bucket(limits.sends, projects)
        changes = Bucket(limits.subscriptionChanges, projects)
    }

    mutating func forgive(_ count: UInt64, _ kind: QuotaKind, now: UInt64, until end: UInt64) {
        if kind == .sends {
            sends.forgive(count, now: now, until: end)
        } else {
            changes.forgive(count, now: now, until: end)
        }
    }

    mutating func take(_ count: Int, _ kind: QuotaKind, _ now: UInt64) -> Bool {
        kind == .sends ? sends.take(count, now) : changes.take(count, now)
    }
}

extension ClusterSimulation {
    /// An operator changes a project's limits now and then.
    func scheduleLimits() {
        guard options.limitsGapMax > 0 else { return }
        after(roll(options.limitsGapMax), .client) {
            guard self.isLoading, !self.isHealing else { return }
            let project = self.projects[Int(self.roll(UInt64(self.projects.count)))]
            self.home.change(project, to: self.options.limits.times(1 + self.roll(3)))
            self.scheduleLimits()
        }
    }

    /// A machine whose clock stood still spends what it holds, and grants what it may grant, as if no time
    /// had passed, until it hears that it has no lease any more: so much, and no more.
    func forgiveQuotas(of process: SimulatedProcess) {
        let valid = options.ownership.lease + options.quotas.share + options.quotas.lease
        for kind in [QuotaKind.sends, .subscriptionChanges] {
            let count = process.loops.reduce(0) {
                $0 + $1.core.tokensAtHand(kind, for: valid, now: process.monotonic)
            }
            meter.forgive(count, kind, now: now, until: now + valid)
        }
    }

    /// Keys are made and taken out of use: to the machines here that is another version of the catalog.
    func scheduleKeys() {
        guard options.keysGapMax > 0 else { return }
        after(roll(options.keysGapMax), .client) {
            guard self.isLoading, !self.isHealing else { return }
            self.home.changeKeys()
            self.scheduleKeys()
        }
    }

    func admitted(_ count: Int, _ kind: QuotaKind) {
        self.count("admitted \(kind)", count)
        if !meter.take(count, kind, now) {
            violate("G6", "\(count) \(kind) are admitted past burst + rate × window")
        }
    }
}
