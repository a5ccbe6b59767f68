import FCMAPI
import Model
import NodeCore
import Partitions
import PushClient
import PushMessages

/// What a loop makes of its sender's messages. Each service has a file of its own.
///
/// Confined to one loop.
struct LoopPushes {
    let composer = PushComposer()
    var web = WebPushes()
    var apns = APNsPushes()
}

/// The newest message that was composed, with the event that it was made of.
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

/// A message that no request can be made of, and what that means.
struct PushRefusal: Error {
    var outcome: PushOutcome
    init(_ outcome: PushOutcome) { self.outcome = outcome }

    static let unknownAddress = PushRefusal(.unsent("an address that this build does not know"))

    static func noSettings(_ reason: String) -> PushRefusal { PushRefusal(.unset(reason)) }
}

/// Another node may own the partition, and may have pushed the message.
struct LostOwnership: Error, CustomStringConvertible {
    let description = "another node may own the device's partition"
}

/// What is left of a message's time to live at its push service.
struct PushTimeLeft: Sendable {
    /// No request leaves after this.
    private let end: MonotonicTime
    private let isMomentary: Bool

    init(_ job: PushJob, now: Instant) throws(PushRefusal) {
        // A message of now or never has no time to live, and an attempt begins soon after the send.
        let ends = job.expires.milliseconds + (job.isMomentary ? Partition.momentaryDeadline : 0)
        let longest = Int64(MessageLimits.ttlSecondsMax) * 1000
        let left = min(ends - now.wall.milliseconds, longest)
        guard left > 0 else { throw PushRefusal(.expired) }
        end = now.monotonic.advanced(by: .milliseconds(UInt64(left)))
        isMomentary = job.isMomentary
    }

    /// What is left now, in whole seconds; 0 for now or never.
    var secondsNow: Int { isMomentary ? 0 : Int(clamping: end.since(Clock.monotonic()).seconds) }

    /// Throws where the message has waited for a connection or a token until its time was over.
    func check() throws {
        if end <= Clock.monotonic() { throw TimeIsOver() }
    }
}

/// The message's time to live at its push service is over.
struct TimeIsOver: Error, CustomStringConvertible {
    let description = PushOutcome.timeIsOver
}

extension NodeLoop {
    /// Tells the metrics what the loop's sender has. An idle loop tells with its regular work, so that no
    /// pause that is long over stays in sight.
    func tellPushes() {
        pushesTold = now.monotonic
        shared.counters.pushes.note(core.pushLoads(), of: number)
    }

    /// Sends a message of the core's sender. The answer comes back as a message to this loop.
    func push(_ request: PushSend) {
        let shared = shared
        let isOwner: @Sendable () -> Bool = {
            !shared.isClustered || Clock.monotonic() < shared.authority
        }
        let kind = request.job.transport.kind
        var ticket = PushTicket(
            loop: number, number: request.number, kind: kind, project: request.job.project, host: "",
            revision: shared.administrator.pushRevisions[request.job.project])
        do throws(PushRefusal) {
            // The partition dated the message's end by the time that the node believes.
            let left = try PushTimeLeft(request.job, now: core.believed(now))
            switch kind {
            case .web:
                let made = try pushes.web.request(
                    request, by: shared.administrator.webPush, pushes.composer, now: now, left: left,
                    isOwner: isOwner)
                ticket.host = made.host
                shared.pushes.send(made.request, ticket)
            case .fcm: try relay(request, ticket, left: left, isOwner: isOwner)
            case .apns:
                shared.apple.send(
                    try pushes.apns.message(
                        request.job, by: shared.administrator.apns, composer: pushes.composer, as: ticket,
                        now: now, left: left, isOwner: isOwner))
            }
        } catch {
            shared.pushes.notices.tell(error.outcome, ticket)
            enqueue(.pushed(request.number, error.outcome))
        }
    }

    private func relay(
        _ request: PushSend, _ ticket: PushTicket, left: PushTimeLeft,
        isOwner: @escaping @Sendable () -> Bool
    ) throws(PushRefusal) {
        let job = request.job
        guard let address = FCMAddress(packed: job.transport.address) else { throw .unknownAddress }
        guard let sender = shared.administrator.relays.sender(job.project) else {
            throw .noSettings("the project has no service account for FCM, or the relay is off")
        }
        let body: [UInt8]
        do throws(PushContentError) {
            body = try pushes.composer.relay(job.event, token: address.token, ttlSeconds: left.secondsNow)
        } catch { throw PushRefusal(.refusedContent("\(error)")) }
        guard body.count <= PushClientSettings().sentBytesMax else {
            throw PushRefusal(.refusedContent("the message has \(body.count) bytes for FCM"))
        }
        var ticket = ticket
        ticket.host = sender.origin
        shared.relays.send(
            RelayDispatch.Message(
                ticket: ticket, sender: sender, body: body,
                underWay: PushUnderWay(revision: ticket.revision, now: now.monotonic),
                mayLeave: {
                    guard isOwner() else { throw LostOwnership() }
                    try left.check()
                }))
    }
}
