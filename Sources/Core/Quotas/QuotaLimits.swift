/// What a project may do (rule: tokens-are-leased). The defaults are FCM's if FCM states one.
///
/// Source: https://firebase.google.com/docs/cloud-messaging/throttling-and-quotas and …/topic-messaging.
public struct QuotaLimits: Hashable, Sendable {
    /// The largest limit for one device.
    public static let deviceCountMax: UInt32 = 1_000_000

    public var sends: QuotaRate
    public var subscriptionChanges: QuotaRate
    public var registrations: QuotaRate
    /// Fan-outs that were accepted and are not yet handed to every partition.
    public var fanouts: UInt32
    /// Messages addressed to one device, 0...deviceCountMax.
    public var devicePerMinute: UInt32 {
        didSet { devicePerMinute = min(devicePerMinute, Self.deviceCountMax) }
    }
    public var devicePerHour: UInt32 { didSet { devicePerHour = min(devicePerHour, Self.deviceCountMax) } }
    /// Devices that the project may have.
    public var devices: UInt64
    /// Names of topics that the project may have in one event loop. A name counts 1, and 1 more for each
    /// whole 64 bytes.
    public var topics: UInt64

    public init(
        sends: QuotaRate = QuotaRate(count: 10_000, burst: 600_000),
        subscriptionChanges: QuotaRate = QuotaRate(count: 3_000, burst: 3_000),
        registrations: QuotaRate = QuotaRate(count: 1_000, burst: 1_000),
        fanouts: UInt32 = 1_000, devicePerMinute: UInt32 = 240, devicePerHour: UInt32 = 5_000,
        devices: UInt64 = 20_000_000, topics: UInt64 = 5_000_000
    ) {
        self.sends = sends
        self.subscriptionChanges = subscriptionChanges
        self.registrations = registrations
        self.fanouts = fanouts
        self.devices = devices
        self.topics = topics
        self.devicePerMinute = min(devicePerMinute, Self.deviceCountMax)
        self.devicePerHour = min(devicePerHour, Self.deviceCountMax)
    }

    public static let standard = QuotaLimits()

    /// Sends as the command line has them: `count` a minute, and all of them may come at once.
    public mutating func setSends(perMinute count: UInt64) {
        sends = QuotaLimits.reduced(count: count, seconds: 60)
    }
    public mutating func setSubscriptionChanges(perSecond count: UInt64) {
        subscriptionChanges = QuotaRate(count: count, burst: count)
    }
    public mutating func setRegistrations(perSecond count: UInt64) {
        registrations = QuotaRate(count: count, burst: count)
    }

    /// The rate of sends in the unit of FCM and of the command line, rounded down.
    public var sendsPerMinute: UInt64 { sends.count * 60 / UInt64(sends.seconds) }

    /// The rate of a leased kind; `nil` for the others.
    public func rate(of kind: QuotaKind) -> QuotaRate? {
        switch kind {
        case .sends: sends
        case .subscriptionChanges: subscriptionChanges
        case .registrations: registrations
        case .fanouts, .deviceMinute, .deviceHour, .addressMinute, .addressDay, .devices,
            .addressChangesMinute, .addressChangesDay, .addressCallsMinute:
            nil
        }
    }

    /// A rate in whole tokens a second if that is exact: so the standard limits equal the same limits set by
    /// hand.
    private static func reduced(count: UInt64, seconds: UInt32) -> QuotaRate {
        let even = count % UInt64(seconds) == 0
        return QuotaRate(
            count: even ? count / UInt64(seconds) : count, perSeconds: even ? 1 : seconds, burst: count)
    }
}
