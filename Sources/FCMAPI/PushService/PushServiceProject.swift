import Credentials
import HTTPMessages
import Model
import Quotas
import RegistrationIDs
import Routing

/// What the API knows of a project that is a push service for user agents.
public struct PushServiceProject: Sendable {
    public var isOn: Bool
    /// See `PushServiceSettings.origin`.
    public var origin: String

    public init(_ settings: PushServiceSettings) {
        isOn = settings.isOn
        origin = settings.origin
    }

    /// Why the text is no origin; `nil` where it is one. Browsers take no subscription at another scheme than
    /// `https`, but for this machine itself.
    public static func check(origin: String) -> String? {
        let wanted = "The origin must be https://HOST or https://HOST:PORT, without a path."
        guard origin.utf8.count <= PushServiceSettings.originBytesMax else {
            return "The origin is too long."
        }
        let isSecure = origin.hasPrefix("https://")
        guard isSecure || origin.hasPrefix("http://") else { return wanted }
        let authority = origin.dropFirst(isSecure ? 8 : 7)
        let port = authority.last == "]" ? nil : authority.lastIndex(of: ":")
        let host = authority[..<(port ?? authority.endIndex)]
        let isName = host.utf8.allSatisfy { byte in
            switch byte {
            case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "0")...UInt8(ascii: "9"),
                UInt8(ascii: "."), UInt8(ascii: "-"):
                true
            default: false
            }
        }
        guard !host.isEmpty, isName || host == "[::1]" else { return wanted }
        if let port {
            let digits = authority[authority.index(after: port)...]
            guard let number = UInt16(digits), number > 0, String(number) == digits else { return wanted }
        }
        let isLocal = host == "localhost" || host == "127.0.0.1" || host == "[::1]"
        return isSecure || isLocal ? nil : "http:// is for localhost only: browsers want https://."
    }
}

extension API: PushIdentities {
    func device(_ new: NewRegistration) -> (Registration, DeviceMAC)? {
        var device = new.registration
        device.key = keys.newestKey
        return keys.credentialProof(secret: new.secret, key: device.key).map { (device, $0) }
    }

    /// The `uaid` of a device that was made under the key for new ids.
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

    /// Counts a message of a user agent. False where its address has sent too many lately.
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
