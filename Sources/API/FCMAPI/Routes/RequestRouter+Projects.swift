import Credentials
import HTTPMessages
import Model
import Quotas
import Routing

// /v1/projects/{project}/…

extension RequestRouter {
    /// The project's name in a path below `/v1/projects`.
    func projectName() throws(APIError) -> String { String(decoding: try segment(2), as: UTF8.self) }

    func quotas(_ name: String) throws(APIError) -> APIAction {
        try with(try authorized(name)) { .node(.quotas($0)) }
    }

    private func with(
        _ found: Found, _ body: (Project) throws(APIError) -> APIAction
    ) throws(APIError) -> APIAction {
        switch found {
        case .known(let project): return try body(project)
        case .missing(let name): return .makeProject(name)
        }
    }

    // MARK: Sending

    func send(_ name: String) throws(APIError) -> APIAction {
        guard case .known(let project) = try authorized(name) else { return .makeProject(name) }
        if let refusal = api.refusalOfSend?(project.number) {
            let form = ResponseForm(kind: .send, project: project)
            return .respond(api.render(.refused(.quota(refusal)), form))
        }
        do {
            return try send(in: project)
        } catch {
            guard (400..<500).contains(error.code) else { throw error }
            return .operation(
                .refusedSend(project: project.number),
                ResponseForm(kind: .refusedSend(RefusedContent(error.response())), project: project))
        }
    }

    private func send(in project: Project) throws(APIError) -> APIAction {
        let reader = MessageReader(
            project: project.id, id: id, now: now,
            hasPush: api.directory.hasPush(project.number))
        let body = try json()
        let message = try reader.read(body)
        let target: Send.Target
        switch message.target {
        case .topic(let topic):
            #if DEBUG
                if api.settings.hasAnswerFailpoint, let error = api.failpoint.error(for: topic) {
                    throw error
                }
            #endif
            target = .topic(topic)
        case .condition(let condition): target = .condition(condition)
        case .fid(let text): target = .device(try registration(text, in: project, field: "message.fid"))
        case .token(let text): target = .device(try registration(text, in: project, field: "message.token"))
        }
        let send = Send(
            project: project.number, target: target, message: message.envelope,
            validateOnly: message.validateOnly)
        return emulate(send, message, body: body, in: project)
    }

    // MARK: Registrations

    func registrations(_ name: String) throws(APIError) -> APIAction {
        try with(try authorized(name)) { project throws(APIError) in
            .operation(
                .devices(project: project.number, page: try pageToken(), limit: try pageSize()),
                ResponseForm(kind: .devices, project: project))
        }
    }

    func register(_ name: String) throws(APIError) -> APIAction {
        let isWrong =
            installation == nil && request.fields["x-goog-firebase-installations-auth"] != nil
            && credential == nil
        let found = try project(
            name, stranger: isWrong ? RequestRouter.noInstallation : RequestRouter.appKeyWanted)
        guard case .known(let project) = found else { return .makeProject(name) }
        if let installation { return try registerInstallation(installation, in: project) }
        if isWrong { throw RequestRouter.noInstallation }
        try mayRegister(in: project)
        if try transport(in: project) != nil {
            throw RequestRouter.noInstallation
        }
        return .operation(.register(project: project.number), ResponseForm(kind: .register, project: project))
    }

    /// Throws if the sender of the request may not create a device of the project, or has created too many.
    func mayRegister(in project: Project) throws(APIError) {
        switch principal {
        case .owner: return
        case .operator: throw .permissionDenied
        case .project(let number):
            guard number == project.number else { throw .permissionDenied }
        case nil:
            guard api.settings.isDev || hasAPIKey(project) else {
                throw RequestRouter.appKeyWanted
            }
            if let refusal = api.settings.clients.register(client, now: api.moment) {
                throw exhausted(refusal, project)
            }
        }
    }

    static let appKeyWanted = APIError(
        status: .unauthenticated,
        message: "To register, send an API key of the project in x-goog-api-key.")

    var client: ClientAddress? { api.settings.clients.client(of: request) }

    func exhausted(_ refusal: QuotaRefusal, _ project: Project) -> APIError {
        var error = APIError(.quota(refusal), project: project.id, field: "name")
        error.fcmCode = "RESOURCE_EXHAUSTED"
        return error
    }

    /// Counts a change with a device's credential, and refuses it if the client's address has made too many
    /// lately. Only the device partition can check the credential, and the project's quota is charged before.
    func refusalOfDeviceChange() -> QuotaRefusal? {
        api.settings.clients.change(client, now: api.moment)
    }

    /// Counts a request of a device, or of a client with what looks like a device's credential, and throws if
    /// the client's address has made too many lately. Only the device partition can check the credential, and
    /// no project's quota is charged.
    func mayCall(in project: Project) throws(APIError) {
        guard principal == nil, let refusal = api.settings.clients.call(client, now: api.moment) else {
            return
        }
        throw exhausted(refusal, project)
    }

    func unregister(_ name: String) throws(APIError) -> APIAction {
        let project = try known(name)
        let device = try ownRegistration(in: project)
        let caller = try caller(project, device)
        let form = ResponseForm(kind: .done, project: project)
        if principal == nil, isWebInstallation {
            if let refusal = refusalOfDeviceChange() { throw exhausted(refusal, project) }
            return .operation(.endTransport(device, by: caller, .web), form)
        }
        try mayCall(in: project)
        return .operation(.unregister(device, by: caller), form)
    }

    func listen(_ name: String) throws(APIError) -> APIAction {
        let project = try known(name)
        guard let credential else { throw .unauthenticated }
        let device = try ownRegistration(in: project)
        try mayCall(in: project)
        var last = request.fields["last-event-id"].map { Array($0) }
        if last == nil { last = target.parameter("lastEventId", "last_event_id").map { Array($0.utf8) } }
        return .listen(
            ListenRequest(
                registration: device, credential: credential, resume: last.flatMap { EventID($0) },
                isEventSource: request.wantsOnlyEvents))
    }

    func acknowledge(_ name: String) throws(APIError) -> APIAction {
        let project = try known(name)
        guard let credential else { throw .unauthenticated }
        let device = try ownRegistration(in: project)
        try mayCall(in: project)
        var event: EventID?
        try json().forEachField { (field, value) throws(APIError) in
            guard Schema.equal(field, "eventId") || Schema.equal(field, "event_id") else {
                throw .unknownField(String(decoding: field, as: UTF8.self), at: "")
            }
            guard let text = value.string else { throw .type("event_id", "TYPE_STRING", value: value) }
            event = EventID(text)
        }
        guard let event else {
            throw .invalid("event_id", "The event id must be one that the stream has sent.")
        }
        return .operation(
            .acknowledge(device, by: .device(credential), event), ResponseForm(kind: .done, project: project))
    }

    // MARK: Topic subscriptions

    /// `…/topicSubscriptions/T:subscribe` and `:unsubscribe`, the calls of device SDKs.
    func deviceChange(_ kind: SubscriptionChange.Kind, _ name: String) throws(APIError) -> APIAction {
        let project = try known(name)
        let device = try ownRegistration(in: project)
        let own = try ownCaller(device)
        let caller: Caller
        if let own { caller = own } else { caller = try self.caller(project, device) }
        let topic = try topic(try segment(6, lenient: true))
        if own != nil, let refusal = refusalOfDeviceChange() { throw exhausted(refusal, project) }
        return change(kind, topic, device: device, caller: caller, project: project, form: .deviceChange)
    }

    func change(
        _ kind: SubscriptionChange.Kind, _ topic: TopicName, device: Registration, caller: Caller,
        project: Project, form: ResponseForm.Kind
    ) -> APIAction {
        let change = SubscriptionChange(
            project: project.number, kind: kind, topic: topic, devices: [device], caller: caller)
        return .operation(.changeSubscriptions(change), ResponseForm(kind: form, project: project))
    }

    func topicSubscriptions(_ name: String) throws(APIError) -> APIAction {
        if principal == nil, credential != nil || installation != nil {
            return try ownSubscriptions(try known(name))
        }
        let (project, device, _) = try subscriber(name)
        return try subscriptions(of: device, by: .backend, in: project)
    }

    /// The device in the path, for a backend of its project, and its name as the path has it.
    private func subscriber(
        _ name: String
    ) throws(APIError) -> (project: Project, device: Registration, shown: String) {
        guard let principal else { throw .unauthenticated }
        let project = try known(name)
        if case .project(let number) = principal, number != project.number { throw .permissionDenied }
        let text = try segment(4)
        let device = try registration(text, in: project, field: "name")
        return (project, device, String(decoding: text, as: UTF8.self))
    }

    func createSubscription(_ name: String) throws(APIError) -> APIAction {
        let (project, device, shown) = try subscriber(name)
        try ignoredBody()
        let named = target.parameter("topic_name", "topicName") ?? ""
        let topic = try topic(Array(named.utf8))
        return change(
            .subscribe, topic, device: device, caller: .backend, project: project,
            form: .topicCreate(registration: shown, topic: topic))
    }

    private var isMissingAllowed: Bool {
        target.parameter("allow_missing", "allowMissing") == "true"
    }

    func patchSubscription(_ name: String) throws(APIError) -> APIAction {
        let (project, device, shown) = try subscriber(name)
        let topic = try topic(try segment(6))
        try ignoredBody()
        guard isMissingAllowed else { return try subscriptions(of: device, by: .backend, in: project) }
        return change(
            .subscribe, topic, device: device, caller: .backend, project: project,
            form: .topicUpsert(registration: shown, topic: topic))
    }

    func endSubscription(_ name: String) throws(APIError) -> APIAction {
        let (project, device, _) = try subscriber(name)
        return change(
            .unsubscribe, try topic(try segment(6)), device: device, caller: .backend, project: project,
            form: .topicDelete(allowMissing: isMissingAllowed))
    }

    /// A device's own topics, by its credential or its installation's token: with the list an app repairs
    /// what it missed.
    private func ownSubscriptions(_ project: Project) throws(APIError) -> APIAction {
        let device = try ownRegistration(in: project)
        let caller = try caller(project, device)
        try mayCall(in: project)
        return try subscriptions(of: device, by: caller, in: project)
    }

    /// The topic in the path, or a page of all topics.
    private func subscriptions(
        of device: Registration, by caller: Caller, in project: Project
    ) throws(APIError) -> APIAction {
        let shown = String(decoding: try segment(4), as: UTF8.self)
        let form: ResponseForm.Kind =
            target.count == 6
            ? .topicList(registration: shown, size: try pageSize(), after: try pageStart())
            : .topicGet(registration: shown, topic: try topic(try segment(6)))
        return .operation(
            .subscriptions(of: device, by: caller), ResponseForm(kind: form, project: project))
    }

    // MARK: Listings

    func topics(_ name: String) throws(APIError) -> APIAction {
        guard case .known(let project) = try authorized(name) else { return .makeProject(name) }
        if target.count == 5 {
            let topic = try topic(try segment(4))
            return .operation(
                .topic(project: project.number, topic),
                ResponseForm(kind: .topicCount(topic), project: project))
        }
        return .operation(
            .topics(project: project.number, page: try pageToken(), limit: try pageSize()),
            ResponseForm(kind: .topics, project: project))
    }

    /// 1,000 by default, at most 2,000.
    private func pageSize() throws(APIError) -> Int {
        guard let text = target.parameter("pageSize", "page_size"), !text.isEmpty else { return 1000 }
        guard let asked = Int(text), asked >= 0 else {
            throw .invalid("page_size", "The page size must be a whole number, not negative.")
        }
        return asked == 0 ? 1000 : min(asked, 2000)
    }

    private var pageTokenText: String? {
        target.parameter("pageToken", "page_token").flatMap { $0.isEmpty ? nil : $0 }
    }

    private static let badPage = APIError.invalid(
        "page_token", "The page token must be the nextPageToken of an earlier page.")

    private func pageToken() throws(APIError) -> PageToken? {
        guard let text = pageTokenText else { return nil }
        let parts = text.split(separator: ".", omittingEmptySubsequences: false)
        guard parts.count == 2, let partition = UInt16(parts[0]), let cursor = UInt64(parts[1]),
            Int(partition) < min(api.settings.partitionCount, PartitionID.countMax)
        else { throw RequestRouter.badPage }
        return PageToken(partition: PartitionID(partition), cursor: cursor)
    }

    /// The name after which a page of subscriptions begins; empty for the first page.
    private func pageStart() throws(APIError) -> [UInt8] {
        guard let text = pageTokenText else { return [] }
        guard let name = Base64URL.decode(text.utf8), name.count <= TopicName.lengthMax else {
            throw RequestRouter.badPage
        }
        return name
    }
}
