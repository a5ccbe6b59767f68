import Model
import Quotas

/// Devices that were past their own limit of messages a moment ago. The gateway refuses messages to them
/// until they may get one again. Otherwise each message would take a token of the project before the owner
/// of the device's partition refuses the message. Senders of one device could then use up the sends of all.
///
/// Confined to one loop.
final class BusyDevices {
    /// Devices of a loop. Past the bound the gateway forgets all of them, and the owners refuse.
    static let countMax = 1024
    /// After this time the gateway asks the owner again: the limit may be another one.
    static let keptMax: TimeSpan = .seconds(60)
    private struct Entry {
        var refusal: QuotaRefusal
        var until: MonotonicTime
        /// The end of the refusal, which may be later than `until`.
        var end: MonotonicTime
    }
    private var entries: [Registration: Entry] = [:]

    var count: Int { entries.count }

    /// Notes a refusal if it is one for the device.
    func note(_ device: Registration, _ refusal: QuotaRefusal, now: MonotonicTime) {
        guard refusal.kind == .deviceMinute || refusal.kind == .deviceHour else { return }
        if entries.count >= BusyDevices.countMax { entries = entries.filter { now < $0.value.until } }
        if entries.count >= BusyDevices.countMax { entries.removeAll(keepingCapacity: true) }
        let kept = min(refusal.retryDelay, BusyDevices.keptMax)
        entries[device] = Entry(
            refusal: refusal, until: now.advanced(by: kept), end: now.advanced(by: refusal.retryDelay))
    }

    /// Why the device gets no message now; `nil` if nothing is known.
    func refusal(of device: Registration, now: MonotonicTime) -> QuotaRefusal? {
        guard let entry = entries[device] else { return nil }
        guard now < entry.until else {
            entries[device] = nil
            return nil
        }
        var refusal = entry.refusal
        refusal.retryDelay = entry.end.since(now)
        return refusal
    }
}
