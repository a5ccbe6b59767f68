import Catalog
import FCMAPI
import Model
import NodeCore
import Partitions
import PushClient
import PushMessages

/// What a loop makes of its sender's messages for Web Push: the text for the service, the fields, and the
/// request.
///
/// Confined to one loop. Encryption runs on the client's thread.
struct WebPushes {
    /// The newest message that was composed: a fan-out sends one message to many devices.
    private var last = LastComposed<WebPushMessage>()

    /// The request for a message, or the outcome where the message cannot go.
    ///
    /// - Parameter isOwner: whether no other node can own the message's partition; asked again just before
    ///   the request leaves.
    mutating func request(
        _ request: PushSend, by senders: WebPushSenders, _ composer: PushComposer, now: Instant,
        left: PushTimeLeft, isOwner: @escaping @Sendable () -> Bool
    ) throws(PushRefusal) -> (request: PushHTTPRequest, host: String) {
        let job = request.job
        guard let address = WebAddress(packed: job.transport.address) else { throw .unknownAddress }
        guard let sender = senders.sender(job.project, key: address.keyID) else {
            guard senders.isOn(job.project) else { throw .noSettings("Web Push is off for the project") }
            throw PushRefusal(.credentials("the project has no such key for Web Push"))
        }
        do {
            let endpoint = try PushEndpoint.parse(address.endpoint, policy: sender.policy)
            let keys = try WebPushKeys(p256dh: address.p256dh, auth: address.auth)
            let token = try senders.tokens.token(of: sender.vapid, origin: endpoint.origin, now: now.wall)
            let message = try last.message(of: job) { (event) throws(PushContentError) in
                try composer.web(event, project: job.project)
            }
            let policy = sender.policy
            let mayLeave: @Sendable () throws -> Void = {
                guard isOwner() else { throw LostOwnership() }
                try left.check()
            }
            let made = PushHTTPRequest(
                number: request.number, share: UInt64(job.project.rawValue), url: endpoint.url,
                caPEM: sender.authority.map { String(decoding: $0, as: UTF8.self) },
                mayDial: { policy.mayDial($0, for: endpoint) }, mayLeave: mayLeave,
                prepare: {
                    try mayLeave()
                    let fields = message.fields(
                        to: endpoint, authorization: token,
                        ttlSeconds: min(left.secondsNow, message.ttlSeconds))
                    let body = try WebPushEncryption.encrypt(
                        message.payload, to: keys, key: try P256Key.generate(),
                        salt: try Catalog.random(WebPushEncryption.saltCount))
                    return (fields.map { ($0.name, $0.value) }, body)
                })
            return (made, endpoint.host)
        } catch let error as PushContentError {
            throw PushRefusal(.refusedContent("\(error)"))
        } catch let error as PushEndpointError {
            // The operator may list the service again.
            throw PushRefusal.noSettings("the service is not allowed: \(error)")
        } catch {
            throw PushRefusal(.unsent("\(error)"))
        }
    }
}
