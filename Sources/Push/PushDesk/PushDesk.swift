import Model
import PushMessages
import PushScheduling

/// Decides about messages under way to push services: by which route each goes, with which token, whether it
/// goes again, what an answer means, and whose settings are former.
///
/// A machine without clock and I/O, one for all loops. A message has a number from `want` until its effect
/// `end`, which comes once. A request for an access token has another number. Settings and their revision
/// change in one step, so no message leaves by one setting and is judged by another (rule:
/// former-keys-say-nothing).
///
/// `Content` is what a shell makes a request of; the desk hands it back with each `send`.
public struct PushDesk<Content: Sendable>: Sendable {
    public struct Bounds: Sendable {
        public var underWay = PushInFlight.Bounds()
        public var accessTokens = AccessTokens.Bounds()
        public var apnsTokens = APNsTokens.Bounds()
        public init() {}
    }
    /// Where a message goes, as its device's address says.
    public enum Target: Sendable {
        case web(keyID: UInt64, endpoint: String)
        case apns(APNsApp, APNsPush)
        case fcm
    }
    /// A message on its way out. `token` is the access token.
    public enum Way: Sendable {
        case web(WebPushRoute, PushEndpoint)
        case fcm(FCMRoute, token: String)
        /// The client for Apple's service asks for the token when the message leaves, by `authorization`.
        case apns(APNsRoute, APNsPush)
    }
    public enum Effect: Sendable {
        /// Send a request. What became of it comes back by `answered`, once.
        case send(UInt64, PushTicket, Way, Content)
        /// Ask for an access token. What became of the request comes back by `answered`, once.
        case fetchToken(UInt64, ProjectNumber, FCMRoute)
        /// Give up this connection of the pool, or all where it is `nil`.
        case renew(APNsPool, APNsConnectionID?)
        /// Tell the loop and the operator what became of a message.
        case end(PushTicket, PushInFlight.End)
    }

    enum Route: Sendable {
        case web(WebPushRoute, PushEndpoint)
        case apns(APNsRoute, APNsPush)
        /// The number of an account.
        case fcm(UInt64)
    }
    struct Message: Sendable {
        var ticket: PushTicket
        var route: Route
        var content: Content
        var underWay: PushInFlight
        /// The revision of the project's settings under which the message leaves.
        var revision: UInt64
    }
    /// A service account for FCM with its access tokens. Lives as long as its route or its messages.
    struct Account: Sendable {
        var project: ProjectNumber
        var route: FCMRoute
        var tokens: AccessTokens
        var messages = 0
    }
    struct Fetch: Sendable {
        var account: UInt64
        /// The number that the account's tokens gave the request.
        var number: UInt64
        var project: ProjectNumber
        var host: String
    }
    /// A key of Apple's. Apple counts how often a key's token changes, so a key has one token, whichever
    /// projects and apps use it.
    struct AppleKey: Hashable, Sendable {
        var teamID: String
        var keyID: String
        var digest: String
        init(_ pool: APNsPool) { (teamID, keyID, digest) = (pool.teamID, pool.keyID, pool.keyDigest) }
    }

    let bounds: Bounds
    var routes: [ProjectNumber: PushRoutes] = [:]
    /// How often each project's settings have changed.
    var revisions: [ProjectNumber: UInt64] = [:]
    var messages: [UInt64: Message] = [:]
    var fetches: [UInt64: Fetch] = [:]
    var accounts: [UInt64: Account] = [:]
    /// The account of each project that its present messages use.
    var presentAccounts: [ProjectNumber: UInt64] = [:]
    var appleTokens: [AppleKey: APNsTokens] = [:]
    var oldNews = APNsOldNews()
    private var lastNumber: UInt64 = 0

    #if DEBUG
        public var planted: PlantedInDesk = []
        public var plantedInFlight: PlantedInFlight = []
        public var plantedInTokens: PlantedInTokens = []
        /// What a change left for the project's next message, under planted bugs.
        var late: [ProjectNumber: PushRoutes?] = [:]
    #endif

    public init(_ bounds: Bounds = Bounds()) { self.bounds = bounds }

    mutating func nextNumber() -> UInt64 {
        lastNumber += 1
        return lastNumber
    }

    // MARK: Messages

    /// A loop hands a message over.
    public mutating func want(
        _ ticket: PushTicket, to target: Target, _ content: Content, now: MonotonicTime,
        into effects: inout [Effect]
    ) {
        var ticket = ticket
        let route: Route
        do throws(NoRoute) {
            route = try find(target, of: &ticket)
        } catch {
            return effects.append(.end(ticket, PushInFlight.End(error.outcome)))
        }
        let number = nextNumber()
        var underWay = PushInFlight(bounds.underWay, now: now)
        #if DEBUG
            underWay.planted = plantedInFlight
        #endif
        messages[number] = Message(
            ticket: ticket, route: route, content: content, underWay: underWay,
            revision: revisions[ticket.project, default: 0])
        #if DEBUG
            raiseLate(ticket.project)
        #endif
        guard case .fcm(let account) = route else { return send(number, into: &effects) }
        accounts[account]?.messages += 1
        decide(account, now: now, into: &effects) { $0.want(number, now: now, into: &$1) }
    }

    /// Where a message goes, or why it cannot.
    private struct NoRoute: Error {
        var outcome: PushOutcome
    }

    private mutating func find(_ target: Target, of ticket: inout PushTicket) throws(NoRoute) -> Route {
        let project = ticket.project
        let routes = routesNow(of: project)
        switch target {
        case .web(let keyID, let text):
            guard let route = routes?.web[keyID] else {
                guard routes?.isWebOn ?? false else {
                    throw NoRoute(outcome: .unset("Web Push is off for the project"))
                }
                throw NoRoute(outcome: .credentials("the project has no such key for Web Push"))
            }
            do throws(PushEndpointError) {
                let endpoint = try PushEndpoint.parse(text, policy: route.policy)
                ticket.host = endpoint.host
                return .web(route, endpoint)
            } catch {
                // The operator may list the service again.
                throw NoRoute(outcome: .unset("the service is not allowed: \(error)"))
            }
        case .apns(let app, let push):
            guard let route = routes?.apns[app] else {
                let environment = app.isSandbox ? "sandbox" : "production"
                let reason = "there is no key for \(app.bundleID) in \(environment), or the service is off"
                throw NoRoute(outcome: .unset(reason))
            }
            ticket.host = "\(route.pool.host):\(route.pool.port)"
            return .apns(route, push)
        case .fcm:
            guard let number = presentAccounts[project], let account = accounts[number] else {
                let reason = "the project has no service account for FCM, or the relay is off"
                throw NoRoute(outcome: .unset(reason))
            }
            ticket.host = account.route.messages.origin
            return .fcm(number)
        }
    }

    /// The message leaves, to another service than FCM.
    private func send(_ number: UInt64, into effects: inout [Effect]) {
        guard let message = messages[number] else { return }
        switch message.route {
        case .web(let route, let endpoint):
            effects.append(.send(number, message.ticket, .web(route, endpoint), message.content))
        case .apns(let route, let push):
            effects.append(.send(number, message.ticket, .apns(route, push), message.content))
        case .fcm: break
        }
    }

    /// Says what became of a request. A number that is not under way counts for nothing.
    ///
    /// - Parameter connection: Apple's connection that the answer came on.
    public mutating func answered(
        _ number: UInt64, _ result: PushResult, on connection: APNsConnectionID? = nil, now: Instant,
        into effects: inout [Effect]
    ) {
        if let fetch = fetches.removeValue(forKey: number) {
            let answer = AccessTokenAnswer(result, now: now.wall)
            return decide(fetch.account, now: now.monotonic, into: &effects) {
                $0.fetched(fetch.number, answer, now: now.monotonic, into: &$1)
            }
        }
        guard let message = messages[number] else { return }
        switch message.route {
        case .web(_, let endpoint):
            finish(
                number, message.underWay.judge(web: result, host: endpoint.host, now: now.wall),
                into: &effects)
        case .apns(let route, let push):
            judge(number, result, of: push, by: route, on: connection, now: now, into: &effects)
        case .fcm(let account): judge(number, result, by: account, now: now, into: &effects)
        }
    }

    /// The message's end. What is said under former settings raises no alarm.
    mutating func finish(_ number: UInt64, _ end: PushInFlight.End, into effects: inout [Effect]) {
        guard let message = messages.removeValue(forKey: number) else { return }
        var end = end
        end.isFormer = isFormer(message)
        if end.isFormer { (end.alarm, end.reason) = (nil, "") }
        effects.append(.end(message.ticket, end))
        if case .fcm(let account) = message.route { leave(account) }
    }

    /// Whether the project's settings have changed since the message left.
    func isFormer(_ message: Message) -> Bool {
        #if DEBUG
            if planted.contains(.believeFormer) { return false }
        #endif
        return revisions[message.ticket.project, default: 0] != message.revision
    }

    /// Where a request goes, for operators.
    public typealias Place = (kind: Transport.Kind, project: ProjectNumber, host: String, isOfToken: Bool)

    /// Where the request of this number goes; `nil` if it is not under way.
    public func place(of number: UInt64) -> Place? {
        if let fetch = fetches[number] { return (.fcm, fetch.project, fetch.host, true) }
        return messages[number].map { ($0.ticket.kind, $0.ticket.project, $0.ticket.host, false) }
    }
}
