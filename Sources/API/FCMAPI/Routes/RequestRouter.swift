import Credentials
import HTTPMessages
import Model
import Quotas
import RegistrationIDs
import Routing
import WebClient

/// Finds out which operation one request asks for, and whether its sender may ask for it.
struct RequestRouter {
    let api: API
    let request: HTTPRequest
    let isAdmin: Bool
    let now: WallTime
    let id: MessageID
    var target: Target
    /// The row of the request's method and path, once `route()` has looked.
    private(set) var row: Route?

    init(api: API, request: HTTPRequest, isAdmin: Bool, now: WallTime, id: MessageID) {
        self.api = api
        self.request = request
        self.isAdmin = isAdmin
        self.now = now
        self.id = id
        target = Target(request.target)
    }

    mutating func route() throws(APIError) -> APIAction {
        if request.method == .head { return try head() }
        return try routeWhole()
    }

    /// The answer to GET, of which the edge sends the head alone (RFC 9110 §9.3.2). A stream or a socket
    /// would begin, so it has no head.
    private func head() throws(APIError) -> APIAction {
        let whole = HTTPRequest(
            method: .get, target: request.target, authority: request.authority, fields: request.fields,
            body: request.body, isSecure: request.isSecure, client: request.client)
        var router = RequestRouter(api: api, request: whole, isAdmin: isAdmin, now: now, id: id)
        let action = try router.routeWhole()
        switch action {
        case .listen, .socket: return .respond(HTTPResponse(status: 405, fields: [("allow", "GET")]))
        default: return action
        }
    }

    private mutating func routeWhole() throws(APIError) -> APIAction {
        if target.hasTooManyParameters {
            throw .invalid("query", "The query may have at most \(Target.parametersMax) parameters.")
        }
        let found = Route.tree.find(target, request.method)
        row = found?.route
        if let found { target.dropLast(found.verbLength) }
        if target.matches(0, "admin") { return try isAdmin ? admin() : adminOverNetwork() }
        if let row { return try answer(row.endpoint) }
        if let answer = webFile() { return .respond(answer) }
        throw .notFoundHere
    }

    /// The answer of the node to this client, if the client may have it.
    func nodeAnswer(_ endpoint: Endpoint) throws(APIError) -> APIAction {
        switch NodeRequest(endpoint, target) {
        case nil: throw .notFoundHere
        case .metrics where !isOfOperators: throw .notFoundHere
        // A client behind a balancer is outside.
        case .ready(let unready, _) where request.client?.isNamed == true:
            return NodeRequest.ready(unready: unready, isReasonTold: false).action(for: request.method)
        case let wanted?: return wanted.action(for: request.method)
        }
    }

    /// Whether the request comes from a place at which operators work. Clients reach the same port, also
    /// through a proxy on this machine; `--listen-metrics` is for scrapers elsewhere.
    private var isOfOperators: Bool {
        if isAdmin { return true }
        if request.client?.isNamed == true || api.settings.clients.isOfProxy(request) { return false }
        if api.settings.isDev { return true }
        return request.client?.isLoopback == true && request.fields["x-forwarded-for"] == nil
            && request.fields["forwarded"] == nil
    }

    /// The file for browsers at the path: the JavaScript client, or a development server's page.
    private func webFile() -> HTTPResponse? {
        guard request.method == .get || request.method == .head, target.count > 0 else { return nil }
        let path = String(decoding: request.target.prefix { $0 != UInt8(ascii: "?") }, as: UTF8.self)
        let file = WebClient.file(at: path, isDev: api.settings.isDev)
        return file?.answer(noneMatch: request.fields.string("if-none-match"))
    }

    // MARK: Who

    /// The party for which the request speaks. An operator with a sufficient role counts as an owner of every
    /// project.
    var principal: Principal? {
        if isAdmin { return .owner }
        let shown = shown
        guard case .operator = shown else { return shown }
        return operatorRefusal == nil ? .owner : nil
    }

    /// The party to which the bearer token belongs.
    var shown: Principal? { api.authenticator.principal(request, api.directory, now: now) }

    /// The path's project, if the request may speak for it, or the name of a project that must be created
    /// first.
    func authorized(_ name: String) throws(APIError) -> Found {
        guard let principal else { throw .unauthenticated }
        let found = try project(name)
        if case .known(let project) = found, case .project(let number) = principal, number != project.number {
            throw .permissionDenied
        }
        return found
    }

    /// SDKs take a 404 without an `FcmError` for the end of a device, so only the command line gets it.
    var unknownProject: APIError { isAdmin ? .projectUnknown : .permissionDenied }

    enum Found {
        case known(Project)
        /// Only on a development server: the project is created by the first request that needs it.
        case missing(String)
    }

    /// `stranger`: the error for a request that shows no bearer, as for a project that exists: it must not
    /// reveal which projects exist.
    func project(_ name: String, stranger: APIError = .unauthenticated) throws(APIError) -> Found {
        // The first lookup reads one table, without a copy of the whole directory.
        if let project = api.directory.byID[name] ?? api.directory.project(name) { return .known(project) }
        guard api.settings.isDev, Project.isValid(name.utf8) else {
            // A project's token must not reveal which other projects exist.
            if case .project = principal { throw .permissionDenied }
            throw principal == nil ? stranger : unknownProject
        }
        return .missing(name)
    }

    /// The device's credential, in any of the places in which SDKs put it.
    var credential: DeviceMAC? {
        if let field = request.fields["x-goog-firebase-installations-auth"] {
            // The web SDK names the scheme; the others do not.
            let scheme = Array("FIS ".utf8)
            return api.keys.parseProof(field.starts(with: scheme) ? field.dropFirst(scheme.count) : field)
        }
        if let text = target.parameter("credential") { return api.keys.parseProof(Array(text.utf8)) }
        guard let field = request.fields["authorization"] else { return nil }
        if let bearer = Authenticator.bearer(field) { return api.keys.parseProof(bearer) }
        let login = Array("AidLogin ".utf8)
        guard field.starts(with: login), let colon = field.lastIndex(of: UInt8(ascii: ":")) else {
            return nil
        }
        return api.keys.parseProof(field[(colon + 1)...])
    }

    /// Whether the request has an API key with which apps of the project may register.
    func hasAPIKey(_ project: Project) -> Bool {
        var shown = request.fields["x-goog-api-key"].map { Array($0) }
        if shown == nil { shown = target.parameter("key").map { Array($0.utf8) } }
        guard let shown else { return false }
        let name = KeyHash.of(shown)
        guard let key = api.directory.keys[name], key.kind == .device, key.project == project.number,
            now.isBefore(key.end)
        else { return false }
        api.authenticator.uses.note(name, now: now)
        return true
    }

    // MARK: Parts

    /// Reads a registration id from the path or the body. Errors are FCM's.
    func registration(_ text: [UInt8], in project: Project?, field: String) throws(APIError) -> Registration {
        switch read(api.keys.decipher(text)) {
        case .success(let registration):
            if let project, registration.project != project.number {
                throw APIError(
                    api.directory.refusal(ofForeign: registration), project: project.id, field: field)
            }
            return registration
        case .failure(let refusal): throw APIError(refusal, project: project?.id ?? "", field: field)
        }
    }

    /// The meaning of a deciphered id. An id counts as an invalid token only if no key can have created it,
    /// because backends delete tokens that a server calls invalid.
    func read(_ result: Result<Registration, RegistrationError>) -> Result<Registration, Refusal> {
        switch result {
        case .success(let registration):
            guard Int(registration.partition.rawValue) < api.settings.partitionCount else {
                return .failure(.invalidToken)
            }
            return .success(registration)
        case .failure(.retiredKey): return .failure(.unregistered)
        case .failure(.malformed): return .failure(.invalidToken)
        case .failure(.unknownKey):
            return .failure(
                api.areKeysCurrent() ? .invalidToken : .unavailable("its keys are not up to date"))
        }
    }

    func segment(_ index: Int, lenient: Bool = false) throws(APIError) -> [UInt8] {
        guard let decoded = target.decoded(index, lenient: lenient) else {
            throw APIError(
                status: .invalidArgument, message: "The path is not percent-encoded correctly.",
                fcmCode: "INVALID_ARGUMENT")
        }
        return decoded
    }

    func topic(_ bytes: [UInt8], field: String = "topic_name") throws(APIError) -> TopicName {
        guard let name = TopicName(bytes) else { throw .invalid(field, "Invalid topic name.") }
        return name
    }

    // MARK: OAuth

    func exchange() -> HTTPResponse {
        let clients = api.settings.clients
        let client = clients.client(of: request)
        if let refusal = clients.mayExchange(client, now: api.moment) { return tooManyRefused(refusal) }
        let exchange = TokenExchange(
            directory: api.directory, keys: api.accountKeys, tokenURIs: api.tokenURIs, parser: api.parser)
        let body: [UInt8]
        do throws(APIError) { body = try self.body() } catch {
            clients.noteRefused(client, now: api.moment)
            return error.iidResponse()
        }
        var out = JSONWriter()
        out.beginObject()
        var status = 200
        do {
            let (key, account) = try exchange.signer(
                Form(body, wanted: "grant_type", "assertion"), now: now, or: api.otherTime?())
            let (token, seconds) = api.authenticator.makeAccessToken(
                account.project, key: key, now: now)
            api.authenticator.uses.note(key, now: now)
            out.field("access_token", token)
            out.key("expires_in")
            out.number(seconds)
            out.field("token_type", "Bearer")
        } catch {
            clients.noteRefused(client, now: api.moment)
            status = 400
            out.field("error", error.code)
            out.field("error_description", error.description)
        }
        out.endObject()
        return tokenAnswer(status, out)
    }

    /// Answers 429. A 400 `invalid_grant` would mean to a backend that its key is wrong.
    private func tooManyRefused(_ refusal: QuotaRefusal) -> HTTPResponse {
        var out = JSONWriter()
        out.beginObject()
        out.field("error", "temporarily_unavailable")
        out.field(
            "error_description",
            "Too many assertions of this address were refused: the limit is \(refusal.limit) a"
                + " \(refusal.kind == .addressDay ? "day" : "minute").")
        out.endObject()
        var response = tokenAnswer(429, out)
        response.fields.append(("retry-after", "\(refusal.retryDelay.seconds + 1)"))
        return response
    }

    private func tokenAnswer(_ status: Int, _ out: borrowing JSONWriter) -> HTTPResponse {
        HTTPResponse(
            status: status, fields: [("content-type", APIError.jsonType), ("cache-control", "no-store")],
            body: out.bytes)
    }
}
