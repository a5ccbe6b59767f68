import Quotas

extension QuotaLimits {
    /// The limits that are set by name, and the defaults for the rest.
    package init(named limits: [String: UInt64]) {
        self = .standard
        if let count = limits["sendsPerMinute"] { setSends(perMinute: count) }
        if let count = limits["subscriptionsPerSecond"] { setSubscriptionChanges(perSecond: count) }
        if let count = limits["registrationsPerSecond"] { setRegistrations(perSecond: count) }
        if let count = limits["fanouts"] { fanouts = UInt32(clamping: count) }
        if let count = limits["devicePerMinute"] { devicePerMinute = UInt32(clamping: count) }
        if let count = limits["devices"] { devices = count }
        if let count = limits["topics"] { topics = count }
        if let count = limits["devicePerHour"] { devicePerHour = UInt32(clamping: count) }
    }

    /// By name, as the API and the command line show them.
    package var named: [(name: String, value: UInt64)] {
        [
            ("sendsPerMinute", sendsPerMinute), ("subscriptionsPerSecond", subscriptionChanges.perSecond),
            ("registrationsPerSecond", registrations.perSecond), ("fanouts", UInt64(fanouts)),
            ("devicePerMinute", UInt64(devicePerMinute)), ("devicePerHour", UInt64(devicePerHour)),
            ("devices", devices), ("topics", topics),
        ]
    }
}
