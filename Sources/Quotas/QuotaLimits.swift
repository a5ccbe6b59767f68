/// What a project may do (rule: tokens-are-leased). The defaults are FCM's, where FCM states one.
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

    /// A rate in whole tokens a second, where that is exact: so the standard limits equal the same limits set
    /// by hand.
    private static func reduced(count: UInt64, seconds: UInt32) -> QuotaRate {
        let even = count % UInt64(seconds) == 0
        return QuotaRate(
            count: even ? count / UInt64(seconds) : count, perSeconds: even ? 1 : seconds, burst: count)
    }
}

/// The form in which the engine stores limits: 97 bytes, integers little-endian.
///
///     0     version, 3
///     1     for sends, subscription changes, registrations in turn, 20 bytes:
///           count (8), seconds (4), burst (8)
///     61    unfinished fan-outs (4), per device and minute (4), per device and hour (4)
///     73    devices of the project (8)
///     81    names of topics of the project (8)
///     89    the first 8 bytes again, to show a cut or shifted text
extension QuotaLimits {
    public static let encodedVersion: UInt8 = 3
    public static let encodedCount = 97

    public var encoded: [UInt8] {
        var bytes: [UInt8] = [QuotaLimits.encodedVersion]
        func put(_ value: some FixedWidthInteger) {
            withUnsafeBytes(of: value.littleEndian) { bytes.append(contentsOf: $0) }
        }
        for rate in [sends, subscriptionChanges, registrations] {
            put(rate.count)
            put(rate.seconds)
            put(rate.burst)
        }
        put(fanouts)
        put(devicePerMinute)
        put(devicePerHour)
        put(devices)
        put(topics)
        bytes.append(contentsOf: bytes[0..<8])
        return bytes
    }

    /// `nil` where `encoded` does not make these bytes: another version, another length, values out of range.
    public init?(encoded bytes: some Collection<UInt8>) {
        let bytes = Array(bytes)
        guard bytes.count == QuotaLimits.encodedCount, bytes[0] == QuotaLimits.encodedVersion,
            bytes[0..<8] == bytes[89..<97]
        else { return nil }
        var offset = 1
        func next<T: FixedWidthInteger>(_ type: T.Type) -> T {
            defer { offset += T.bitWidth / 8 }
            return bytes.withUnsafeBytes {
                T(littleEndian: $0.loadUnaligned(fromByteOffset: offset, as: T.self))
            }
        }
        func rate() -> QuotaRate {
            QuotaRate(count: next(UInt64.self), perSeconds: next(UInt32.self), burst: next(UInt64.self))
        }
        self.init(
            sends: rate(), subscriptionChanges: rate(), registrations: rate(), fanouts: next(UInt32.self),
            devicePerMinute: next(UInt32.self), devicePerHour: next(UInt32.self),
            devices: next(UInt64.self), topics: next(UInt64.self))
        guard encoded == bytes else { return nil }
    }
}
