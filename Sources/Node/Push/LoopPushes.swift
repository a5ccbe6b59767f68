import FCMAPI
import Model
import NodeCore
import Partitions
import PushClient
import PushDesk
import PushMessages

/// A message that no request can be made of, and what that means.
struct PushRefusal: Error {
    var outcome: PushOutcome
    init(_ outcome: PushOutcome) { self.outcome = outcome }

    static let unknownAddress = PushRefusal(.unsent("an address that this build does not know"))
}

/// What is left of a message's time to live at its push service.
struct PushTimeLeft: Sendable {
    /// No request leaves after this.
    private let end: MonotonicTime
    private let isMomentary: Bool

    init(_ job: PushJob, now: Instant) throws(PushRefusal) {
        // A TTL-0 message has no time left at the service, and an attempt begins soon after the send.
        let ends = job.expires.milliseconds + (job.isMomentary ? Partition.momentaryDeadline : 0)
        let longest = Int64(MessageLimits.ttlSecondsMax) * 1000
        let left = min(ends - now.wall.milliseconds, longest)
        guard left > 0 else { throw PushRefusal(.expired) }
        end = now.monotonic.advanced(by: .milliseconds(UInt64(left)))
        isMomentary = job.isMomentary
    }

    /// What is left now, in whole seconds; 0 for best effort.
    var secondsNow: Int { isMomentary ? 0 : Int(clamping: end.since(Clock.monotonic()).seconds) }

    /// Throws if the message has waited for a connection or a token until its time was over.
    func check() throws {
        if end <= Clock.monotonic() { throw TimeIsOver() }
    }
}

/// Composes what a loop's partitions push, for the desk.
///
/// Confined to one loop.
struct LoopPushes {
    private let composer = PushComposer()
    private var web = LastComposed<WebPushMessage>()
    private var apns = LastComposed<APNsMessage>()

    mutating func compose(
        _ job: PushJob, left: PushTimeLeft, isOwner: @escaping @Sendable () -> Bool
    ) throws(PushRefusal) -> (target: PushDesk<PushContent>.Target, content: PushContent) {
        do {
            let (target, body) =
                switch job.transport.kind {
                case .web: try composeWeb(job)
                case .apns: try composeAPNs(job)
                case .fcm: try composeFCM(job, left)
                }
            return (target, PushContent(body: body, left: left, isOwner: isOwner))
        } catch let error as PushRefusal {
            throw error
        } catch let error as PushContentError {
            throw PushRefusal(.refusedContent("\(error)"))
        } catch {
            throw PushRefusal(.unsent("\(error)"))
        }
    }

    private typealias Composed = (PushDesk<PushContent>.Target, PushContent.Body)

    private mutating func composeWeb(_ job: PushJob) throws -> Composed {
        guard let address = WebAddress(packed: job.transport.address) else {
            throw PushRefusal.unknownAddress
        }
        let keys = try WebPushKeys(p256dh: address.p256dh, auth: address.auth)
        let composer = composer
        let message = try web.message(of: job) { (event) throws(PushContentError) in
            try composer.web(event, project: job.project)
        }
        return (.web(keyID: address.keyID, endpoint: address.endpoint), .web(message, keys))
    }

    private mutating func composeAPNs(_ job: PushJob) throws -> Composed {
        guard let address = APNsAddress(packed: job.transport.address) else {
            throw PushRefusal.unknownAddress
        }
        let composer = composer
        var message = try apns.message(of: job) { (event) throws(PushContentError) in
            try composer.apns(event, project: job.project)
        }
        if job.isMomentary { message.expiration = 0 }
        let push = APNsPush(
            id: APNsMessage.id(message: message.messageID, token: address.token), registered: job.registered,
            isAboutAddress: message.isAbout(address))
        let app = APNsApp(isSandbox: address.isSandbox, bundleID: address.bundleID)
        return (.apns(app, push), .apns(message, address))
    }

    private func composeFCM(_ job: PushJob, _ left: PushTimeLeft) throws -> Composed {
        guard let address = FCMAddress(packed: job.transport.address) else {
            throw PushRefusal.unknownAddress
        }
        let body = try composer.relay(job.event, token: address.token, ttlSeconds: left.secondsNow)
        guard body.count <= PushClientSettings().sentBytesMax else {
            throw PushRefusal(.refusedContent("the message has \(body.count) bytes for FCM"))
        }
        return (.fcm, .fcm(body))
    }
}

/// The newest message that was composed, with the event that it was made of: a fan-out sends one message to
/// many devices.
struct LastComposed<Message> {
    private var last: (event: [UInt8], project: ProjectNumber, message: Message)?

    mutating func message(
        of job: PushJob, _ compose: ([UInt8]) throws(PushContentError) -> Message
    ) throws(PushContentError) -> Message {
        if let last, last.project == job.project, last.event == job.event { return last.message }
        let message = try compose(job.event)
        last = (job.event, job.project, message)
        return message
    }
}

extension NodeLoop {
    /// Updates the metrics with what the loop's sender has. An idle loop does so with its regular work, so
    /// that no pause that is long over stays in sight.
    func tellPushes() {
        pushesTold = now.monotonic
        shared.counters.pushes.note(core.pushLoads(), of: number)
    }

    /// Sends a message of the core's sender. The answer comes back as a message to this loop.
    func push(_ request: PushSend) {
        let (shared, job) = (shared, request.job)
        let isOwner: @Sendable () -> Bool = {
            !shared.isClustered || Clock.monotonic() < shared.authority
        }
        let ticket = PushTicket(
            loop: number, number: request.number, kind: job.transport.kind, project: job.project)
        do throws(PushRefusal) {
            // The partition dated the message's end by the time that the node believes.
            let left = try PushTimeLeft(job, now: core.believed(now))
            let (target, content) = try pushes.compose(job, left: left, isOwner: isOwner)
            shared.pushes.want(ticket, to: target, content, now: now.monotonic)
        } catch {
            shared.pushes.finish(PushInFlight.End(error.outcome), ticket)
        }
    }
}
