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
        /// Tokens beyond that, of each machine that stood still, and until when it may spend them.
        private var beyond: [UInt32: (tokens: UInt64, until: UInt64)] = [:]

        init(_ rate: QuotaRate, _ projects: Int) {
            let count = UInt64(projects)
            let rate = QuotaRate(
                count: rate.count * count, perSeconds: rate.seconds, burst: rate.burst * count)
            self.rate = rate
            units = rate.burst * UInt64(rate.seconds) * 1_000_000_000
        }

        /// False where it does not hold so many. A machine that stood still spends its own first; what it
        /// granted to others is theirs to spend, when the bucket is empty.
        mutating func take(_ count: Int, by machine: UInt32, _ now: UInt64) -> Bool {
            units = min(units + (now - at) * rate.count, rate.burst * scale)
            at = now
            beyond = beyond.filter { now <= $0.value.until }
            let left = spend(UInt64(count), of: machine)
            let wanted = left * scale
            defer { units -= min(units, wanted) }
            guard wanted > units else { return true }
            var missing = (wanted - units + scale - 1) / scale
            for other in beyond.keys.sorted() where missing > 0 { missing = spend(missing, of: other) }
            return missing == 0
        }

        /// What is left of `count` when the machine's own are spent.
        private mutating func spend(_ count: UInt64, of machine: UInt32) -> UInt64 {
            let spent = min(count, beyond[machine]?.tokens ?? 0)
            beyond[machine]?.tokens -= spent
            return count - spent
        }

        mutating func forgive(_ count: UInt64, of machine: UInt32, until end: UInt64) {
            beyond[machine] = ((beyond[machine]?.tokens ?? 0) + count, end)
        }
    }
    private var sends: Bucket
    private var changes: Bucket

    init(_ limits: QuotaLimits, projects: Int) {
        sends = Bucket(limits.sends, projects)
        changes = Bucket(limits.subscriptionChanges, projects)
    }

    mutating func forgive(_ count: UInt64, _ kind: QuotaKind, of machine: UInt32, until end: UInt64) {
        if kind == .sends {
            sends.forgive(count, of: machine, until: end)
        } else {
            changes.forgive(count, of: machine, until: end)
        }
    }

    mutating func take(_ count: Int, _ kind: QuotaKind, by machine: UInt32, _ now: UInt64) -> Bool {
        kind == .sends
            ? sends.take(count, by: machine, now) : changes.take(count, by: machine, now)
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
            meter.forgive(count, kind, of: process.life, until: now + valid)
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

    func admitted(_ count: Int, _ kind: QuotaKind, by process: SimulatedProcess) {
        self.count("admitted \(kind)", count)
        if !meter.take(count, kind, by: process.life, now) {
            violate("G6", "\(count) \(kind) are admitted past burst + rate × window")
        }
    }
}
