import Model

/// The kinds of quotas. FCM's error details hold the texts of a kind (metric, limit, unit).
public enum QuotaKind: UInt8, CaseIterable, Hashable, Sendable {
    /// Messages sent by a project.
    case sends
    /// Subscriptions made or ended by a project, counted in devices.
    case subscriptionChanges
    /// Devices registered in a project.
    case registrations
    /// Topic messages of a project that are accepted and not yet handed to every partition.
    case fanouts
    /// Messages addressed to one device, in a minute.
    case deviceMinute
    /// Messages addressed to one device, in an hour.
    case deviceHour
    /// Registrations from one address in a minute, and in a day. Only the node that refuses knows the count.
    case addressMinute, addressDay
    /// Devices that a project has.
    case devices
    /// Subscriptions that devices make or end from one address, in a minute and in a day. Only the node that
    /// refuses knows the count.
    case addressChangesMinute, addressChangesDay
    /// Other requests of devices from one address, in a minute. Only the node that refuses knows the count.
    case addressCallsMinute
}

/// The quota that refused, its limit, and when to ask again.
public struct QuotaRefusal: Hashable, Sendable {
    public var kind: QuotaKind
    /// The limit in the unit in which it is set:
    ///
    /// - sends a minute, other operations a second;
    /// - unfinished operations for `fanouts`, devices for `devices`;
    /// - messages a minute or hour for the device limits;
    /// - registrations, subscription changes or other calls a minute or day for the address limits.
    public var limit: UInt64
    /// The time until the bucket will hold enough, by refill alone.
    public var retryDelay: TimeSpan
    public init(kind: QuotaKind, limit: UInt64, retryDelay: TimeSpan) {
        self.kind = kind
        self.limit = limit
        self.retryDelay = retryDelay
    }
}
