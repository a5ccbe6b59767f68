import Model

/// Why a device loses a message that waited for it, or would have waited.
public enum DropReason: String, CaseIterable, Sendable {
    /// One more message came than may wait for a device; all that waited went, or the greediest share.
    case waitingMax = "waiting_max"
    /// A message with the same collapse key took its place.
    case collapsed
    /// A fifth collapse key came, and the oldest one's message went.
    case keysMax = "collapse_keys_max"
    /// The project's bound of waiting bytes was reached, so the message does not wait.
    case bytesMax = "bytes_max"
    /// The time to live was over.
    case expired
    /// The time to live on streams was over when the message came to the device's partition.
    case late
    /// The body was not in the journal any more.
    case bodyGone = "body_gone"
    /// The device ended.
    case deviceEnded = "device_ended"
}

/// How many messages devices have lost, by reason: one for each device and message.
public struct MessageDrops: Hashable, Sendable {
    public private(set) var counts: [DropReason: Int] = [:]

    public init() {}

    public var isEmpty: Bool { counts.isEmpty }

    mutating func add(_ count: Int, _ reason: DropReason) {
        if count > 0 { counts[reason, default: 0] += count }
    }

    public mutating func add(_ others: MessageDrops) { counts.merge(others.counts, uniquingKeysWith: +) }
}

extension DeliveryLog {
    /// Counts what `body` takes out as lost for this reason.
    mutating func losing<Result>(
        _ reason: DropReason, _ body: (inout DeliveryLog) -> Result
    ) -> Result {
        losing = reason
        defer { losing = nil }
        return body(&self)
    }

    /// The drops since the last call.
    mutating func takeDrops() -> MessageDrops {
        defer { drops = MessageDrops() }
        return drops
    }
}

extension PartitionState {
    /// The device as operators and apps see it. A message that is over does not wait, though the log has not
    /// looked at it yet.
    func summary(of index: UInt32, on page: DevicePage, at slot: Int, _ now: WallTime) -> DeviceState {
        var device = DeviceState(of: index, on: page, at: slot)
        guard device.waitingCount > 0 else { return device }
        let kinds = transports.kinds(of: index)
        let over = log.waiting(for: index, after: .zero, limit: .max) { $0.ends.last(kinds) <= now }
        device.waitingCount = max(0, device.waitingCount - over.count)
        return device
    }
}
