import Model
import Quotas

/// Holds what a project was admitted, over all gateways together, against burst + rate × window, over every
/// window (G6): a bucket that is full at first and that no admission may overdraw.
struct QuotaMeter {
    private struct Bucket {
        let rate: QuotaRate
        /// Units of which `rate.count` come in each nanosecond and `scale` make a token.
        var units: UInt64
        var at: UInt64 = 0
        var scale: UInt64 { UInt64(rate.seconds) * 1_000_000_000 }

        init(_ rate: QuotaRate) {
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

    init(_ limits: QuotaLimits) {
        sends = Bucket(limits.sends)
        changes = Bucket(limits.subscriptionChanges)
    }

    mutating func take(_ count: Int, _ kind: QuotaKind, _ now: UInt64) -> Bool {
        kind == .sends ? sends.take(count, now) : changes.take(count, now)
    }
}

extension ClusterSimulation {
    func admitted(_ count: Int, _ kind: QuotaKind) {
        self.count("admitted \(kind)", count)
        if !meter.take(count, kind, now) {
            violate("G6", "\(count) \(kind) are admitted past burst + rate × window")
        }
    }
}
