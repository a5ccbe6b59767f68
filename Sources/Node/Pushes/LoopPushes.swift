import FCMAPI
import Model
import NodeCore
import PushClient
import PushMessages

/// What a loop makes of its sender's messages: the text for the service, the fields, and the request.
///
/// Confined to one loop. Encryption runs on the client's thread.
struct LoopPushes {
    private struct TokenKey: Hashable {
        var publicKey: [UInt8]
        var subject: String
        var origin: String
    }
    private static let tokensMax = 4096
    fileprivate static let over = "the message's time to live is over"

    private let composer = PushComposer()
    /// The newest message that was composed: a fan-out sends one message to many devices.
    private var last: (event: [UInt8], project: ProjectNumber, message: WebPushMessage)?
    /// A service gets the same token for hours, since some count new tokens.
    private var tokens: [TokenKey: (text: String, expires: Int64)] = [:]

    /// The request for a message, or the outcome where the message cannot go.
    ///
    /// - Parameter isOwner: whether no other node can own the message's partition; asked again just before
    ///   the request leaves.
    mutating func request(
        _ request: PushSend, by senders: WebPushSenders, now: Instant,
        isOwner: @escaping @Sendable () -> Bool
    ) throws(PushRefusal) -> (request: PushHTTPRequest, host: String) {
        let job = request.job
        guard let address = WebAddress(packed: job.transport.address) else {
            throw PushRefusal(.unsent("an address that this build does not know"))
        }
        guard let sender = senders.sender(job.project, key: address.keyID) else {
            throw PushRefusal(.credentials("the project has no such key for Web Push, or Web Push is off"))
        }
        guard job.isMomentary || job.expires > now.wall else { throw PushRefusal(.unsent(LoopPushes.over)) }
        let longest = Int64(MessageLimits.ttlSecondsMax) * 1000
        let left = UInt64(max(0, min(job.expires.milliseconds - now.wall.milliseconds, longest)))
        let end = job.isMomentary ? nil : now.monotonic.advanced(by: .milliseconds(left))
        do {
            let endpoint = try PushEndpoint.parse(address.endpoint, policy: sender.policy)
            let keys = try WebPushKeys(p256dh: address.p256dh, auth: address.auth)
            let token = try token(of: sender.vapid, origin: endpoint.origin, now: now.wall)
            let message = try composed(job.event, of: job.project)
            let seconds = min(Int(clamping: left / 1000), message.ttlSeconds)
            let fields = message.fields(to: endpoint, authorization: token, ttlSeconds: seconds)
            let policy = sender.policy
            let made = PushHTTPRequest(
                number: request.number, url: endpoint.url,
                caPEM: sender.authority.map { String(decoding: $0, as: UTF8.self) },
                mayDial: { policy.mayDial($0, for: endpoint) },
                prepare: {
                    guard isOwner() else { throw LostOwnership() }
                    if let end, end <= Clock.monotonic() { throw TimeIsOver() }
                    let body = try WebPushEncryption.encrypt(message.payload, to: keys)
                    return (fields.map { ($0.name, $0.value) }, body)
                })
            return (made, endpoint.host)
        } catch let error as PushContentError {
            throw PushRefusal(.refusedContent("\(error)"))
        } catch let error as PushEndpointError {
            // The operator may list the service again.
            throw PushRefusal(.credentials("the service is not allowed: \(error)"))
        } catch {
            throw PushRefusal(.unsent("\(error)"))
        }
    }

    private mutating func composed(
        _ event: [UInt8], of project: ProjectNumber
    ) throws(PushContentError) -> WebPushMessage {
        if let last, last.project == project, last.event == event { return last.message }
        let message = try composer.web(event, project: project)
        last = (event, project, message)
        return message
    }

    private mutating func token(
        of vapid: VAPID, origin: String, now: WallTime
    ) throws(PushCryptoError) -> String {
        let name = TokenKey(publicKey: vapid.key.publicBytes, subject: vapid.subject, origin: origin)
        let expires = VAPID.expiry(now)
        if let known = tokens[name], known.expires == expires { return known.text }
        if tokens.count >= LoopPushes.tokensMax { tokens.removeAll() }
        let text = try vapid.authorization(origin: origin, now: now)
        tokens[name] = (text, expires)
        return text
    }
}

/// A message that no request can be made of, and what that means.
struct PushRefusal: Error {
    var outcome: PushOutcome
    init(_ outcome: PushOutcome) { self.outcome = outcome }
}

/// Another node may own the partition, and may have pushed the message.
private struct LostOwnership: Error, CustomStringConvertible {
    let description = "another node may own the device's partition"
}

/// The message waited for a connection until its time to live was over.
private struct TimeIsOver: Error, CustomStringConvertible {
    let description = LoopPushes.over
}

extension NodeLoop {
    /// Sends a message of the core's sender. The answer comes back as a message to this loop.
    func push(_ request: PushSend) {
        let shared = shared
        let isOwner: @Sendable () -> Bool = {
            !shared.isClustered || Clock.monotonic() < shared.authority
        }
        do throws(PushRefusal) {
            let made = try pushes.request(
                request, by: shared.administrator.webPush, now: now, isOwner: isOwner)
            shared.pushes.send(made.request, host: made.host, for: number)
        } catch {
            shared.pushes.tell(error.outcome, "")
            enqueue(.pushed(request.number, error.outcome))
        }
    }
}
