import Model
import PushMessages
import PushScheduling

/// How a node reaches the push services of one project: the keys and accounts, and the hosts that they lead
/// to. Made from the operator's settings; other settings make other routes.
public struct PushRoutes: Sendable {
    /// By the id of the key, `WebAddress.keyID`.
    public var web: [UInt64: WebPushRoute] = [:]
    /// Whether Web Push is on, whichever keys there are.
    public var isWebOn = false
    public var apns: [APNsApp: APNsRoute] = [:]
    /// `nil` if the project has no service account, or the relay is off.
    public var fcm: FCMRoute?

    public init() {}
}

/// What a node needs to push with one of a project's keys for Web Push.
public struct WebPushRoute: Sendable {
    /// The key for which the subscription was made, and the subject.
    public var vapid: VAPID
    /// The push services that may be called.
    public var policy: EndpointPolicy
    /// Certificate authorities of these services, PEM; `nil` for the system's.
    public var authority: String?

    public init(vapid: VAPID, policy: EndpointPolicy, authority: String? = nil) {
        (self.vapid, self.policy, self.authority) = (vapid, policy, authority)
    }
}

/// An app at Apple's push service, in one of Apple's environments.
public struct APNsApp: Hashable, Sendable {
    public var isSandbox: Bool
    public var bundleID: String
    public init(isSandbox: Bool, bundleID: String) {
        (self.isSandbox, self.bundleID) = (isSandbox, bundleID)
    }
}

/// What a node needs to push to one app at Apple's service.
public struct APNsRoute: Sendable {
    public var pool: APNsPool
    public var signer: APNsSigner
    public init(pool: APNsPool, signer: APNsSigner) { (self.pool, self.signer) = (pool, signer) }
}

/// What a node needs to relay to a Firebase project. Another setting makes another object, with other access
/// tokens.
public final class FCMRoute: Sendable {
    /// Where messages go, and where access tokens come from.
    public let messages: PushEndpoint
    public let tokens: PushEndpoint
    /// The hosts that the operator has named may be anywhere; Google's have public addresses.
    public let isTrusted: Bool
    /// Certificate authorities of both, PEM; `nil` for the system's.
    public let authority: String?
    /// Makes the body of a request for an access token. Signs, so that it takes about a millisecond.
    public let grant: @Sendable (WallTime) throws -> [UInt8]

    public init(
        messages: PushEndpoint, tokens: PushEndpoint, isTrusted: Bool = false, authority: String? = nil,
        grant: @escaping @Sendable (WallTime) throws -> [UInt8]
    ) {
        self.messages = messages
        self.tokens = tokens
        self.isTrusted = isTrusted
        self.authority = authority
        self.grant = grant
    }

    /// Whether a request to `endpoint` may go to this address, 4 or 16 bytes in network order.
    public func mayDial(_ address: [UInt8], for endpoint: PushEndpoint) -> Bool {
        let policy = isTrusted ? EndpointPolicy(trusting: endpoint) : EndpointPolicy(listed: [])
        return policy.mayDial(address, for: endpoint)
    }
}
