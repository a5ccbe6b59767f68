import Credentials
import HTTPMessages
import Model
import Quotas
import RegistrationIDs
import Routing

extension API: PushIdentities {
    func device(_ new: NewRegistration) -> (Registration, DeviceMAC)? {
        var device = new.registration
        device.key = keys.newestKey
        return keys.credentialProof(secret: new.secret, key: device.key).map { (device, $0) }
    }

    /// The `uaid` of a device that was created under the key for new ids.
    func userAgent(_ new: NewRegistration) -> [UInt8] {
        keys.fid(new.registration) + keys.credential(secret: new.secret)
    }

    func endpoint(of address: ChannelAddress) -> [UInt8] {
        let origin = directory.pushServices[address.device.project]?.origin ?? ""
        return Array("\(origin)/push/v1/".utf8) + keys.seal(address)
    }

    /// The session of a connection that a user agent has opened.
    public func pushSession(of project: Project) -> PushSession {
        PushSession(project: project.number, identities: self)
    }

    /// Reads a message of a user agent, and hands it to the session.
    public func receive(
        _ text: [UInt8], by session: inout PushSession, now: MonotonicTime,
        into effects: inout [PushSession.Effect]
    ) {
        guard let message = PushServiceMessage.read(text, self, in: session.project) else {
            return session.end(PushSession.Code.protocolError, into: &effects)
        }
        session.receive(message, now: now, into: &effects)
    }

    /// Counts a message of a user agent. False if its address has sent too many lately.
    public func mayTell(_ client: ClientAddress?, now: MonotonicTime) -> Bool {
        settings.clients.call(client, now: now) == nil
    }

    /// Counts what a session asks for, and refuses what its address has asked for too often lately.
    public func refusal(
        of work: PushSession.Work, by client: ClientAddress?, now: MonotonicTime
    ) -> QuotaRefusal? {
        switch work {
        case .registration: settings.clients.register(client, now: now)
        case .register, .unregister: settings.clients.change(client, now: now)
        case .acknowledgement, .farewell: nil
        }
    }

    public func form(
        ofSession number: UInt64, _ work: PushSession.Work, of project: Project
    ) -> ResponseForm {
        ResponseForm(kind: .session(number, work), project: project)
    }
}
