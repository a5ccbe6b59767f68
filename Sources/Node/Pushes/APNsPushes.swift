import FCMAPI
import Model
import NodeCore
import Partitions
import PushMessages

/// What a loop makes of its sender's messages for Apple's push service.
///
/// Confined to one loop.
struct APNsPushes {
    /// The newest message that was composed: a fan-out sends one message to many devices.
    private var last = LastComposed<APNsMessage>()

    /// The message for the dispatch, or the outcome where the message cannot go.
    mutating func message(
        _ job: PushJob, by senders: APNsSenders, composer: PushComposer, as ticket: PushTicket, now: Instant,
        left: PushTimeLeft, isOwner: @escaping @Sendable () -> Bool
    ) throws(PushRefusal) -> APNsDispatch.Message {
        guard let address = APNsAddress(packed: job.transport.address) else { throw .unknownAddress }
        let found = senders.sender(job.project, isSandbox: address.isSandbox, bundleID: address.bundleID)
        guard let sender = found else {
            let environment = address.isSandbox ? "sandbox" : "production"
            throw .noSettings(
                "there is no key for \(address.bundleID) in \(environment), or the service is off")
        }
        var content: APNsMessage
        do throws(PushContentError) {
            content = try last.message(of: job) { (event) throws(PushContentError) in
                try composer.apns(event, project: job.project)
            }
        } catch { throw PushRefusal(.refusedContent("\(error)")) }
        if job.isMomentary { content.expiration = 0 }
        var ticket = ticket
        ticket.host = "\(sender.pool.host):\(sender.pool.port)"
        return APNsDispatch.Message(
            ticket: ticket, sender: sender, content: content, address: address, registered: job.registered,
            underWay: PushUnderWay(revision: ticket.revision, now: now.monotonic),
            mayLeave: {
                guard isOwner() else { throw LostOwnership() }
                try left.check()
            })
    }
}
