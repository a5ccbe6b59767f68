import Credentials
import HTTPMessages
import Model
import RegistrationIDs
import Routing

// The Instance ID API: /iid/…

extension RequestRouter {
    /// `needsSign`: a batch takes an OAuth token only with `access_token_auth: true`, as all SDKs send it. A
    /// legacy server key is never accepted.
    private func iidPrincipal(needsSign: Bool = false) throws(APIError) -> Principal {
        if isAdmin { return .owner }
        if needsSign {
            guard let sign = request.fields["access_token_auth"], sign.elementsEqual("true".utf8) else {
                throw .unauthenticated
            }
        }
        guard let principal else { throw .unauthenticated }
        return principal
    }

    func batch(_ kind: SubscriptionChange.Kind) throws(APIError) -> APIAction {
        let principal = try iidPrincipal(needsSign: true)
        guard case .project(let number) = principal else { return try changes(kind, in: nil) }
        guard let project = api.directory.byNumber[number] else { throw .unauthenticated }
        return try batch(kind, in: project)
    }

    /// A batch of a project. What the batch says wrong costs the project changes.
    func batch(_ kind: SubscriptionChange.Kind, in project: Project) throws(APIError) -> APIAction {
        if let refusal = api.refusalOfChange?(project.number) {
            let form = ResponseForm(kind: .batch([]), project: project, isOfIID: isIID)
            return .respond(api.render(.refused(.quota(refusal)), form))
        }
        do {
            return try changes(kind, in: project)
        } catch {
            guard (400..<500).contains(error.code) else { throw error }
            return refused(isIID ? error.iidResponse() : error.response(), costing: 1, project)
        }
    }

    private var isIID: Bool { target.matches(0, "iid") }

    /// The answer to a batch that changes nothing, once its project has paid for it.
    private func refused(_ response: HTTPResponse, costing count: Int, _ project: Project) -> APIAction {
        .operation(
            .refusedChanges(project: project.number, count: count),
            ResponseForm(
                kind: .refusedBatch(RefusedContent(response)), project: project, isOfIID: isIID))
    }

    /// `named`: the token's project, or the path's. An operator's batch without one has the project of its
    /// registrations.
    private func changes(_ kind: SubscriptionChange.Kind, in named: Project?) throws(APIError) -> APIAction {
        var to: [UInt8]?
        var tokens: [Bytes] = []
        let body = try json()
        guard body.kind == .object else { throw .badJSON("The body must be an object.") }
        try body.forEachField { (name, value) throws(APIError) in
            if Schema.equal(name, "to") {
                to = value.string.map { Array($0) }
            } else if Schema.equal(name, "registration_tokens") {
                tokens = try RequestRouter.tokens(value)
            }
        }
        guard let to, let topic = TopicName(to) else {
            throw .invalid("to", "The topic must have the form /topics/NAME.")
        }
        guard !tokens.isEmpty else { throw RequestRouter.tokenCount }
        var project = named
        var errors: [String?] = []
        var devices: [Registration] = []
        errors.reserveCapacity(tokens.count)
        devices.reserveCapacity(tokens.count)
        api.decipher(tokens) { results in
            for result in results {
                switch classify(result, &project) {
                case .success(let device):
                    devices.append(device)
                    errors.append(nil)
                case .failure(let refusal): errors.append(API.iidWord(refusal))
                }
            }
        }
        let owner = project ?? Project(id: "", number: ProjectNumber(0))
        let form = ResponseForm(kind: .batch(errors), project: owner, isOfIID: isIID)
        guard !devices.isEmpty else {
            let answer = api.render(.changes([]), form)
            guard let named else { return .respond(answer) }
            return refused(answer, costing: errors.count, named)
        }
        let change = SubscriptionChange(
            project: owner.number, kind: kind, topic: topic, devices: devices,
            falseTokens: errors.count - devices.count)
        return .operation(.changeSubscriptions(change), form)
    }

    static let tokensMax = 1000
    private static let tokenCount = APIError.invalid(
        "registration_tokens", "The list must have from 1 to 1,000 tokens.")

    private static func tokens(_ list: JSONValue) throws(APIError) -> [Bytes] {
        guard list.kind == .array else { throw .type("registration_tokens", "LIST", value: list) }
        var tokens: [Bytes] = []
        try list.forEachElement { (_, token) throws(APIError) in
            guard tokens.count < tokensMax else { throw tokenCount }
            // What is no string is no token. Its error must not be that of all the others.
            tokens.append(token.string ?? Bytes(start: nil, count: 0))
        }
        return tokens
    }

    /// Checks one token of a batch. For an operator the first registration of this cluster decides the
    /// project.
    private func classify(
        _ result: Result<Registration, RegistrationError>, _ project: inout Project?
    ) -> Result<Registration, Refusal> {
        read(result).flatMap { registration in
            if project == nil {
                switch api.directory.owner(of: registration) {
                case .success(let owner): project = owner
                case .failure(let refusal): return .failure(refusal)
                }
            }
            return registration.project == project?.number
                ? .success(registration) : .failure(api.directory.refusal(ofForeign: registration))
        }
    }

    /// The registration in the path, and its project. A project's token must be of the same project.
    private func device(_ index: Int) throws(APIError) -> (Registration, Project) {
        let principal = try iidPrincipal()
        let text = try segment(index)
        let device = try registration(text, in: nil, field: "token")
        if case .project(let number) = principal, number != device.project { throw .permissionDenied }
        switch api.directory.owner(of: device) {
        case .success(let project): return (device, project)
        case .failure(let refusal): throw APIError(refusal, project: "", field: "token")
        }
    }

    func info() throws(APIError) -> APIAction {
        let place = target.count - 1
        // Without `info` only a token is one: each has a colon, and so has `v1:batchAdd`.
        if place == 1 {
            let text = try segment(place)
            guard text.contains(UInt8(ascii: ":")), !text.starts(with: "v1:".utf8) else {
                throw .notFoundHere
            }
        }
        let (device, project) = try device(place)
        // Python's `str(True)` is `True`.
        let details = ["true", "1"].contains(target.parameter("details")?.lowercased())
        return .operation(
            .subscriptions(of: device, by: .backend),
            ResponseForm(kind: .info(details: details), project: project))
    }

    func relation(_ kind: SubscriptionChange.Kind) throws(APIError) -> APIAction {
        let (device, project) = try device(2)
        let topic = try topic(try segment(5))
        return change(kind, topic, device: device, caller: .backend, project: project, form: .relation)
    }

    /// `POST /iid/register`, a form with which the classic device SDK subscribes itself. That SDK looks only
    /// at the answer's text.
    func classic() throws(APIError) -> APIAction {
        func fail(_ code: String) -> APIAction { .respond(API.classic("Error=\(code)")) }
        guard
            let form = Form(
                try body(), wanted: "sender", "token", "X-gcm.topic", "X-scope", "delete")
        else { return fail("INVALID_PARAMETERS") }
        let token = form["sender"] ?? form["token"] ?? ""
        guard let name = form["X-gcm.topic"] ?? form["X-scope"], let topic = TopicName(name) else {
            return fail("INVALID_PARAMETERS")
        }
        let device: Registration
        switch read(api.keys.decipher(Array(token.utf8))) {
        case .success(let registration): device = registration
        case .failure(let refusal): return fail(API.classicWord(refusal))
        }
        let project: Project
        switch api.directory.owner(of: device) {
        case .success(let owner): project = owner
        case .failure(let refusal): return fail(API.classicWord(refusal))
        }
        guard credential != nil || shownLogin != nil else { return fail("AUTHENTICATION_FAILED") }
        if let refusal = refusalOfDeviceChange() { return fail(API.classicWord(.quota(refusal))) }
        guard let caller = classicCaller(Array(token.utf8)) else { return fail("AUTHENTICATION_FAILED") }
        let kind: SubscriptionChange.Kind = form["delete"] == "true" ? .unsubscribe : .subscribe
        return change(
            kind, topic, device: device, caller: caller, project: project, form: .classic(token: token))
    }
}
