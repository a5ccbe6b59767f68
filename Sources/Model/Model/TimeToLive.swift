/// How long a message may wait on each way to a device, in whole seconds from when it was sent,
/// 0...2,419,200. 0 means best effort: one attempt, nothing stored.
///
/// Each platform has its own time, as at FCM: `android.ttl`, the TTL header of Web Push and `apns-expiration`
/// say nothing for each other (docs/decisions/0028).
public struct TimesToLive: Hashable, Sendable {
    /// For Tidecast's own streams.
    public var stream: UInt32
    public var web: UInt32
    public var apns: UInt32
    public var fcm: UInt32

    public init(stream: UInt32, web: UInt32, apns: UInt32, fcm: UInt32) {
        self.stream = stream
        self.web = web
        self.apns = apns
        self.fcm = fcm
    }

    /// The same on each way.
    public init(_ seconds: UInt32) { self.init(stream: seconds, web: seconds, apns: seconds, fcm: seconds) }

    public subscript(kind: Transport.Kind) -> UInt32 {
        switch kind {
        case .web: web
        case .apns: apns
        case .fcm: fcm
        }
    }

    public var areSame: Bool { web == stream && apns == stream && fcm == stream }
    public var longest: UInt32 { max(max(stream, web), max(apns, fcm)) }

    /// The push services with a time to live of 0.
    public var momentary: Transport.Kinds {
        var kinds: Transport.Kinds = []
        if web == 0 { kinds.insert(Transport.Kinds(.web)) }
        if apns == 0 { kinds.insert(Transport.Kinds(.apns)) }
        if fcm == 0 { kinds.insert(Transport.Kinds(.fcm)) }
        return kinds
    }
}

extension Transport {
    /// A set of push services, as three bits.
    public struct Kinds: OptionSet, Hashable, Sendable {
        public let rawValue: UInt8
        public init(rawValue: UInt8) { self.rawValue = rawValue }
        public init(_ kind: Kind) { rawValue = 1 << (kind.rawValue - 1) }
        public init(_ kinds: some Swift.Sequence<Kind>) { self = kinds.reduce([]) { $0.union(Kinds($1)) } }
        public static let all = Kinds(Kind.allCases)
        public func contains(_ kind: Kind) -> Bool { contains(Kinds(kind)) }
    }
}
