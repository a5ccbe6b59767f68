import Credentials
import HTTPMessages
import Model
import Quotas
import RegistrationIDs
import Routing

/// Settings of the API.
public struct APISettings: Sendable {
    /// A development server: it creates each project that a request names, takes the bearer `owner` for every
    /// project, and lets apps register without a key.
    public var isDev = false
    /// What a development server does for tests; `nil` on any other server.
    public var emulator: Emulator?
    /// The hosts and origins that a development server answers.
    public var devHosts = DevHosts(names: [])
    /// The values of `token_uri` in service-account files: the audiences that assertions may have.
    public var tokenURIs: Set<String> = []
    /// The first key that signs access tokens.
    public var signingKey = [UInt8](repeating: 0, count: SigningKeys.materialBytes)
    public var partitionCount = 32
    /// The bounds for one client's address. All loops share them.
    public var clients = ClientLimits()
    #if DEBUG
        /// Whether sends to the topics of `AnswerFailpoint` fail.
        public var hasAnswerFailpoint = false
    #endif
    public init() {}
}

/// What the loop must do with a request.
public enum APIAction: Sendable {
    /// Run the operation, then answer with `render(outcome, form)`.
    case operation(Operation, ResponseForm)
    case listen(ListenRequest)
    /// A request to open a WebSocket, by a user agent of the project at this address.
    case socket(Project, ClientAddress?)
    case respond(HTTPResponse)
    /// Development only: create the project, then route the request again.
    case makeProject(String)
    case node(NodeRequest)
    case admin(AdminRequest)
    /// Development only: carry out the action after this long.
    indirect case later(TimeSpan, APIAction)
}

/// The result of routing: the action, and what the loop needs for it and for the audit log.
public struct Routed: Sendable {
    public var action: APIAction
    /// The share that pays in time for a refusal by a quota: the share of the project whose bearer the
    /// request showed. The path does not count, because any client may name any project there.
    public var payer: Share?
    /// Set if the request was a refused attempt to act as an operator.
    public var refusedOperator: RefusedOperator?
}

/// A request to open a stream.
public struct ListenRequest: Sendable {
    public var registration: Registration
    public var credential: DeviceMAC
    public var resume: EventID?
    /// Whether the client is an `EventSource` of a browser, for which each answer but 200 is the last one
    /// (WHATWG HTML §9.2.3).
    public var isEventSource = false
}

/// A request that only an operator may make. The node carries it out.
public enum AdminRequest: Sendable {
    case createProject(id: String, tokenURI: String?)
    case projects
    case deleteProject(Project)
    case credentials(CredentialRequest)
    case serverKeys(ServerKeyRequest)
    /// The newest entries of the audit log, at most so many.
    case audit(Int)
    case setQuota(Project, [String: UInt64])
    case push(PushSettingsRequest)
    /// How the node sees its cluster.
    case cluster
    /// The node of this name must leave in order and stay out; `force`: also the last of its role.
    case drain(String, force: Bool)
    /// The node of this name may come back.
    case uncordon(String)
    /// All nodes must refuse the certificate; `force`: also if a node shows it now.
    case refuse(CertificateFingerprint, force: Bool)
    /// The nodes may take the certificate again.
    case accept(CertificateFingerprint)
}

/// The form of the answer to an outcome.
public struct ResponseForm: Sendable {
    enum Kind: Sendable {
        case send
        case refusedSend(RefusedContent)
        case refusedBatch(RefusedContent)
        /// One slot for each token of the batch: an error that is known already, or `nil` if the next outcome
        /// answers the token.
        case batch([String?])
        case topicCreate(registration: String, topic: TopicName)
        case topicDelete(allowMissing: Bool)
        case topicGet(registration: String, topic: TopicName)
        /// `after`: the last name of the page before.
        case topicList(registration: String, size: Int, after: [UInt8])
        case topicUpsert(registration: String, topic: TopicName)
        case info(details: Bool)
        case relation
        case deviceChange
        case classic(token: String)
        /// The text that is the answer to `POST /register`.
        case appToken([UInt8])
        case register
        case installation
        case endInstallation
        /// The auth token that is the answer.
        case authToken([UInt8])
        /// The registration token that is in the answer.
        case upsert(token: [UInt8])
        case device(registration: String)
        case done
        case topicCount(TopicName)
        case topics
        case devices
        case messagePushes(MessageID)
        /// A sender's message: first whether the channel is there, then the send.
        case pushPost(PushPost)
        case pushed(PushPost)
        /// The outcome goes to a user agent's session, by its number.
        case session(UInt64, PushSession.Work)

        /// Whether a page of any origin may call this with a device's credential or an API key, and read the
        /// answer.
        var isForPages: Bool {
            switch self {
            case .register, .done, .deviceChange, .installation, .endInstallation, .authToken, .upsert,
                .device, .topicGet, .topicList:
                true
            default: false
            }
        }
    }
    var kind: Kind
    var project: Project
    /// The session of a user agent that waits for the outcome, by its number.
    public var session: (number: UInt64, work: PushSession.Work)? {
        if case .session(let number, let work) = kind { (number, work) } else { nil }
    }
    /// A batch's answer has the form of the Instance ID API, and not of the command line's.
    var isOfIID = true
}

/// The answer to a send or a batch whose content is refused, given once the request has spent what it costs
/// of the quota. An object, so that the forms of other answers need no room for it.
final class RefusedContent: Sendable {
    let response: HTTPResponse
    init(_ response: HTTPResponse) { self.response = response }
}

/// Translates between FCM's wire forms and operations and outcomes. Confined to one loop.
public final class API {
    public var directory = Directory() {
        didSet {
            authenticator.forget()
            accountKeys.forget()
        }
    }
    public let settings: APISettings
    /// The values of `token_uri` in service-account files: the audiences that assertions may have.
    public var tokenURIs: Set<String>
    public let keys: RegistrationKeys
    /// Whether the keys are as new as the cluster's configuration. While they may be older, an id under an
    /// unknown key is answered 503, because backends delete tokens that a server calls invalid.
    public var areKeysCurrent: () -> Bool = { true }
    /// The keys that sign access tokens. Must be set before the directory: only a new directory makes the
    /// authenticator forget verified tokens.
    public var signingKeys: SigningKeys {
        get { authenticator.signingKeys }
        set { authenticator.signingKeys = newValue }
    }
    /// When the newest request came, for the bounds of its client's address.
    private(set) var moment = MonotonicTime.zero
    /// Why a quota surely refuses a send of the project; `nil` if that is not certain. Asked before the
    /// body is parsed, so that sends far beyond a project's quota cost the other projects almost nothing.
    public var refusalOfSend: ((ProjectNumber) -> QuotaRefusal?)?
    /// The same of a batch of the project.
    public var refusalOfChange: ((ProjectNumber) -> QuotaRefusal?)?
    /// The other time that may be right; `nil` if the server believes its wall clock.
    public var otherTime: (() -> WallTime?)?
    let authenticator: Authenticator
    let accountKeys = AccountKeys()
    private var deciphered: [Result<Registration, RegistrationError>] = []
    let parser = JSONParser()
    let senderTokens = SenderTokens()
    let busyDevices = BusyDevices()
    #if DEBUG
        var failpoint = AnswerFailpoint()
    #endif

    public init(settings: APISettings, keys: RegistrationKeys) {
        self.settings = settings
        tokenURIs = settings.tokenURIs
        self.keys = keys
        authenticator = Authenticator(SigningKeys(settings.signingKey), isDev: settings.isDev)
    }

    /// `isAdmin`: the request came over the admin socket. `moment`: when it came. `id`: the message's id, if
    /// the request is a send.
    public func route(
        _ request: HTTPRequest, isAdmin: Bool, now: WallTime, at moment: MonotonicTime, id: MessageID
    ) -> Routed {
        authenticator.reset()
        self.moment = moment
        var refused: RefusedOperator?
        let action = action(for: request, isAdmin: isAdmin, now: now, id: id, refused: &refused)
        var payer: Share?
        if case .project(let number) = authenticator.shown { payer = .of(number) }
        return Routed(action: action, payer: payer, refusedOperator: refused)
    }

    private func action(
        for request: HTTPRequest, isAdmin: Bool, now: WallTime, id: MessageID,
        refused: inout RefusedOperator?
    ) -> APIAction {
        if settings.isDev, !isAdmin, let refusal = settings.devHosts.refusal(of: request) {
            return .respond(refusal.response())
        }
        if request.method == .options { return .respond(API.preflight(request)) }
        var router = RequestRouter(api: self, request: request, isAdmin: isAdmin, now: now, id: id)
        let isIID = router.target.matches(0, "iid")
        do {
            if let fault = try router.fieldFault() {
                if let answer = fault.answer {
                    let response = isIID ? answer.error.iidResponse() : answer.error.response()
                    return router.later(fault, .respond(response))
                }
                return router.later(fault, try router.route())
            }
            return try router.route()
        } catch {
            var error = error
            if error.isUnknownPath, let target = Target(request.target).withPlainColon {
                router.target = target
                do throws(APIError) { return try router.route() } catch let second { error = second }
            }
            if error.status == .unauthenticated {
                if let refusal = router.operatorRefusal
                    ?? authenticator.newness(of: request, directory, now: now)
                {
                    error = refusal
                } else if error.fcmCode == nil {
                    error.credentialReason = CredentialReason(request)
                }
            }
            refused = router.refused(error)
            return .respond(router.answer(error))
        }
    }

    /// The credentials that were used lately, with their times, for the node to store.
    public func takeUses(now: WallTime) -> [String: WallTime] { authenticator.uses.drain(now: now) }

    /// The sender of a request that did not come over the admin socket, as the audit log names it.
    public func author(of request: HTTPRequest, now: WallTime) -> String {
        switch authenticator.principal(request, directory, now: now) {
        case .owner: return "owner"
        case .operator(_, let bits):
            let found = directory.operators.first {
                UInt64($0.key.prefix(Credential.idLength), radix: 16) == bits
            }
            return "operator \(found?.value.label ?? "") (\(Credential.id(of: found?.key ?? "")))"
        case .project(let number): return directory.byNumber[number]?.id ?? "unknown"
        case nil: return "unknown"
        }
    }

    /// The address for which a trusted proxy has sent the request; `nil` without such a proxy.
    public func forwarded(_ request: HTTPRequest) -> String? { settings.clients.forwarded(request) }

    /// Deciphers many ids together, in memory that it keeps for the next call.
    func decipher(_ ids: [Bytes], _ body: ([Result<Registration, RegistrationError>]) -> Void) {
        keys.decipher(ids, into: &deciphered)
        body(deciphered)
    }

    /// Bytes of the fields that a page's request may name.
    private static let askedFieldsMax = 1024

    /// The answer to `OPTIONS`: a page of any origin may listen and register with the keys that it has. The
    /// page may set any field, since the server trusts no field for its origin: libraries for event streams
    /// set `Cache-Control` and `X-Requested-With`.
    private static func preflight(_ request: HTTPRequest) -> HTTPResponse {
        let isPost = Target(request.target).matches(0, "push")
        let usual =
            isPost
            ? "authorization, content-encoding, content-type, topic, ttl, urgency"
            : "accept, authorization, cache-control, content-type, last-event-id, x-firebase-client,"
                + " x-goog-api-key, x-goog-firebase-installations-auth, x-requested-with"
        var headers = usual
        if let asked = request.fields["access-control-request-headers"], !asked.isEmpty,
            asked.count <= askedFieldsMax, asked.allSatisfy(isOfFieldList)
        {
            headers = String(decoding: asked, as: UTF8.self)
        }
        return HTTPResponse(
            status: 204,
            fields: [
                ("access-control-allow-origin", "*"),
                ("access-control-allow-methods", "GET, POST, DELETE, PATCH, OPTIONS"),
                ("access-control-allow-headers", headers),
                ("access-control-max-age", "86400"),
            ])
    }

    /// Letters, digits and the other characters of field names (RFC 9110 §5.6.2), commas and blanks.
    private static func isOfFieldList(_ byte: UInt8) -> Bool {
        switch byte {
        case 0x30...0x39, 0x41...0x5A, 0x61...0x7A: true
        default: "!#$%&'*+-.^_`|~, ".utf8.contains(byte)
        }
    }

    // MARK: Events

    /// The bytes of an event:
    ///
    /// ```
    /// id: 000660bdeed60db8.2b40
    /// event: message
    /// data: {"messageId":"…"}
    /// ```
    public static func event(_ body: [UInt8], _ id: EventID) -> [UInt8] {
        frame("message", body, id: id)
    }

    /// Reports to the device that older messages were dropped. The app should ask its own server for them.
    public static func deletedMessages(_ id: EventID) -> [UInt8] {
        frame("deleted_messages", Array("{}".utf8), id: id)
    }

    public static let keepAlive = Array(": keep-alive\n\n".utf8)
    public static let opening = Array(": listening\n\n".utf8)

    private static func frame(_ event: StaticString, _ body: [UInt8], id: EventID) -> [UInt8] {
        var out: [UInt8] = []
        out.reserveCapacity(body.count + 64)
        out.append(contentsOf: "id: ".utf8)
        id.append(to: &out)
        out.append(contentsOf: "\nevent: ".utf8)
        event.withUTF8Buffer { out.append(contentsOf: $0) }
        out.append(contentsOf: "\ndata: ".utf8)
        out.append(contentsOf: body)
        out.append(contentsOf: "\n\n".utf8)
        return out
    }
}
