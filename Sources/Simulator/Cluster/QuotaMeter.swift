import Model
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

        init(_ rate: QuotaRate, _ projects: Int) {
            let count = UInt64(projects)
            let rate = QuotaRate(
                count: rate.count * count, perSeconds: rate.seconds, burst: rate.burst * count)
            self.rate = rate
            units = rate.burst * UInt64(rate.seconds) * 1_000_000_000
        }

        /// False where it does not hold so many.
        mutating func take(_ count: Int, _ now: UInt64) -> Bool {
            units = min(units + (now - at) * rate.count, rate.burst * scale)
            at = now
            let wanted = UInt64(count) * scale
            defer { units -= min(units, wanted) }
            return wanted <= units
        }
    }
    private var sends: Bucket
    private var changes: Bucket

    init(_ limits: QuotaLimits, projects: Int) {
        sends = Bucket(limits.sends, projects)
        changes = Bucket(limits.subscriptionChanges, projects)
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

    func admitted(_ count: Int, _ kind: QuotaKind) {
        self.count("admitted \(kind)", count)
        if !meter.take(count, kind, now) {
            violate("G6", "\(count) \(kind) are admitted past burst + rate × window")
        }
    }
}
