import Model
import Quotas

/// The quotas of a gateway loop, as its router asks them.
public final class Admission {
    /// What projects were given in place of the defaults.
    public var limits: [ProjectNumber: [String: UInt64]] = [:]

    public init() {}
    func take(_ kind: QuotaKind, _ count: Int, _ project: ProjectNumber, now: MonotonicTime) -> QuotaRefusal?
    { nil }
    func takeUpTo(
        _ count: Int, _ kind: QuotaKind, _ project: ProjectNumber, now: MonotonicTime
    ) -> (granted: Int, refusal: QuotaRefusal?) { (count, nil) }
    func take(device: Registration, now: MonotonicTime) -> QuotaRefusal? { nil }
    func fanoutsMax(_ project: ProjectNumber) -> Int {
        Int(clamping: limits[project]?["fanouts"] ?? 1000)
    }
}
