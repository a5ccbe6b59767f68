/// A way in which a push service reaches a device: the service, and the device's address there.
///
/// Partitions store the address as it is. The API checks and packs it before, and the sender for the service
/// unpacks it.
public struct Transport: Hashable, Sendable {
    public enum Kind: UInt8, CaseIterable, Comparable, Sendable {
        /// Web Push (RFC 8030): endpoint and keys of a browser's subscription.
        case web = 1
        /// Apple's push service: device token, environment and bundle id.
        case apns = 2
        /// A token of the operator's own Firebase project.
        case fcm = 3
        /// The service in settings, counters and logs.
        public var word: String {
            switch self {
            case .web: "web"
            case .apns: "apns"
            case .fcm: "fcm"
            }
        }
        public static func < (left: Kind, right: Kind) -> Bool { left.rawValue < right.rawValue }
    }

    /// The most bytes of an address. The longest endpoint that the API takes is 2,048 bytes.
    public static let addressBytesMax = 2560

    public var kind: Kind
    public var address: [UInt8]
    /// Whether the device acknowledges its messages itself. Then a push is only a doorbell: the messages that
    /// the service has taken go on waiting for the device's stream. Without, a message is delivered when the
    /// service has taken it, as at FCM.
    public var keepsMessages: Bool
    public init(kind: Kind, address: [UInt8], keepsMessages: Bool = false) {
        self.kind = kind
        self.address = address
        self.keepsMessages = keepsMessages
    }
}

extension Transport {
    /// The service that the address belongs to: scheme, host and port of a Web Push service, the app and its
    /// environment at Apple's, or FCM. Messages of one project to one origin share a fate.
    public var origin: [UInt8] {
        switch kind {
        case .web: WebAddress.origin(ofPacked: address).map(Array.init) ?? address
        // A project has a key for each app.
        case .apns: APNsAddress.app(ofPacked: address).map(Array.init) ?? address
        case .fcm: []
        }
    }
}

/// What push services' words about a device have left beside its address (rule: gone-by-generation). The
/// address stays as it is, so that the mark can be taken back.
public struct AddressMark: Hashable, Sendable {
    public enum State: UInt8, CaseIterable, Sendable {
        /// A service has said that the address is gone, and nothing has confirmed this word.
        case doubted = 1
        /// Confirmed: nothing is pushed to the address, and senders learn of it.
        case gone = 2
        /// The same, and the device has shown itself since: the address counts as none.
        case unused = 3
    }
    public var state: State
    /// When the answer came, of a doubted address the first one.
    public var since: WallTime
    /// The checksum of the project's settings for the service under which the answer came.
    public var setting: UInt64
    public init(_ state: State, since: WallTime, setting: UInt64) {
        self.state = state
        self.since = since
        self.setting = setting
    }
}

/// A transport as a device's partition has it.
public struct StoredTransport: Hashable, Sendable {
    public var transport: Transport
    /// When the device last registered the address. An answer that the address is gone counts only if it is
    /// newer.
    public var registered: WallTime
    /// The record that stored the address. Another address of the same kind has another generation, so that
    /// an answer about the previous address does not end the new one.
    public var generation: UInt64
    /// If the device acknowledges itself: the service has taken, or was not to get, what waits up to here.
    public var pushedUpTo: Position
    public var mark: AddressMark?
    /// Whether both are the same address. One record may have stored addresses of several kinds.
    public func isSame(as other: StoredTransport?) -> Bool {
        generation == other?.generation && transport.kind == other?.transport.kind
    }
    /// Nothing is pushed to the address.
    public var isGone: Bool { mark.map { $0.state != .doubted } ?? false }
    /// The address counts as none.
    public var isUnused: Bool { mark?.state == .unused }
    public init(
        transport: Transport, registered: WallTime, generation: UInt64, pushedUpTo: Position = .zero,
        mark: AddressMark? = nil
    ) {
        self.transport = transport
        self.registered = registered
        self.generation = generation
        self.pushedUpTo = pushedUpTo
        self.mark = mark
    }
}
