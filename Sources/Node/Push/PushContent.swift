import APNsClient
import Catalog
import Model
import PushClient
import PushDesk
import PushMessages

/// A message as a loop has composed it, and until when it may leave.
struct PushContent: Sendable {
    enum Body: Sendable {
        case web(WebPushMessage, WebPushKeys)
        case apns(APNsMessage, APNsAddress)
        case fcm([UInt8])
    }
    var body: Body
    var left: PushTimeLeft
    /// Whether no other node can own the message's partition.
    var isOwner: @Sendable () -> Bool

    /// Asked when the request is made, and again just before it leaves.
    func mayLeave() throws {
        guard isOwner() else { throw LostOwnership() }
        try left.check()
    }
}

/// Another node may own the partition, and may have pushed the message.
struct LostOwnership: Error, CustomStringConvertible {
    let description = "another node may own the device's partition"
}

/// The message's time to live at its push service is over.
struct TimeIsOver: Error, CustomStringConvertible {
    let description = PushOutcome.timeIsOver
}

// Requests for the clients. What `prepare` does runs on the client's thread.

extension PushContent {
    /// - Parameter token: `VAPID.authorization`.
    func request(
        _ number: UInt64, of project: ProjectNumber, by route: WebPushRoute, to endpoint: PushEndpoint,
        token: String
    ) -> PushHTTPRequest? {
        guard case .web(let message, let keys) = body else { return nil }
        return request(
            number, of: project, to: endpoint, authority: route.authority,
            mayDial: { route.policy.mayDial($0, for: endpoint) },
            prepare: { [left] in
                let fields = message.fields(
                    to: endpoint, authorization: token, ttlSeconds: min(left.secondsNow, message.ttlSeconds))
                let body = try WebPushEncryption.encrypt(
                    message.payload, to: keys, key: try P256Key.generate(),
                    salt: try Catalog.random(WebPushEncryption.saltCount))
                return (fields.map { ($0.name, $0.value) }, body)
            })
    }

    func request(
        _ number: UInt64, of project: ProjectNumber, by route: FCMRoute, token: String
    ) -> PushHTTPRequest? {
        guard case .fcm(let body) = body else { return nil }
        let fields = [("authorization", "Bearer \(token)"), ("content-type", "application/json")]
        return request(
            number, of: project, to: route.messages, authority: route.authority,
            mayDial: { route.mayDial($0, for: route.messages) }, prepare: { (fields, body) })
    }

    private func request(
        _ number: UInt64, of project: ProjectNumber, to endpoint: PushEndpoint, authority: String?,
        mayDial: @escaping @Sendable ([UInt8]) -> Bool,
        prepare: @escaping @Sendable () throws -> (fields: [(String, String)], body: [UInt8])
    ) -> PushHTTPRequest {
        PushHTTPRequest(
            number: number, share: UInt64(project.rawValue), url: endpoint.url, caPEM: authority,
            mayDial: mayDial, mayLeave: { try self.mayLeave() },
            prepare: {
                try self.mayLeave()
                return try prepare()
            })
    }

    /// - Parameter authorization: the desk's token for the message.
    func request(
        _ number: UInt64, by route: APNsRoute, _ push: APNsPush,
        authorization: @escaping @Sendable () throws -> String
    ) -> APNsRequest? {
        guard case .apns(let message, let address) = body else { return nil }
        return APNsRequest(
            number: number, pool: route.pool, path: message.path(to: address),
            prepare: {
                try self.mayLeave()
                let token = try authorization()
                return (message.fields(to: address, authorization: token, id: push.id), message.payload)
            })
    }
}

extension FCMRoute {
    /// A request for an access token.
    func tokenRequest(_ number: UInt64, of project: ProjectNumber) -> PushHTTPRequest {
        PushHTTPRequest(
            number: number, share: UInt64(project.rawValue), url: tokens.url, caPEM: authority,
            mayDial: { self.mayDial($0, for: self.tokens) },
            prepare: {
                let body = try self.grant(Clock.now().wall)
                return ([("content-type", "application/x-www-form-urlencoded")], body)
            })
    }
}
