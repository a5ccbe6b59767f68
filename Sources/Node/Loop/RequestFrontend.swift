import COpenSSL
import Credentials
import Edge
import FCMAPI
import HTTPMessages
import Model
import NIOCore
import NodeCore
import Partitions
import Routing

/// A loop's side towards clients. Turns requests into operations, outcomes into answers, and events into
/// writes to streams.
///
/// A ticket is a request that is under way: the index of the request's responder in a table, so finding the
/// responder again costs nothing.
final class RequestFrontend {
    // Safe: the loop owns its frontend, and a loop lives as long as its node.
    unowned(unsafe) let loop: NodeLoop
    let api: API
    private struct Ticket {
        /// Shows whether a ticket still means the same request.
        var generation: UInt32 = 0
        var request: (responder: Responder, form: ResponseForm, payer: Share?, began: MonotonicTime)?
    }
    private var tickets: [Ticket] = []
    private var freeTickets: [Int] = []
    let latencies = OperationTimes()
    var written = 0
    var refused = 0
    /// Event streams by the number of their stream. The streams of user agents are in `userAgents`.
    var responders: [UInt64: Responder] = [:]
    private(set) lazy var userAgents = UserAgents(loop: loop, api: api)
    var countedStreams = 0
    var countedAgents = 0
    /// For ids and waits, which are no secrets. The system seeds the generator once.
    var random = SeededGenerator(seed: SystemRandomNumberGenerator.seed())
    private var lastMessageTime: UInt64 = 0
    /// A request that waits for the administrator, or for the loop with a project's buckets.
    private struct Parked {
        var request: HTTPRequest
        var responder: Responder
        var isAdmin: Bool
        /// The project whose quotas the request asks for.
        var project: Project?
    }
    private var attempts = RefusedAttempts()
    private var parked: [UInt64: Parked] = [:]
    private var lastParked: UInt64 = 0
    /// Clients that have asked for the metrics and wait for the text.
    private var scrapers: [Responder] = []
    private var pace = ScrapePace()

    init(loop: NodeLoop, api: API) {
        self.loop = loop
        self.api = api
        api.refusalOfSend = { [unowned loop] in loop.core.refusalOfSend(in: $0, now: loop.now) }
        api.otherTime = { [unowned loop] in loop.core.otherTime(loop.now) }
        api.refusalOfChange = { [unowned loop] in loop.core.refusalOfChange(in: $0, now: loop.now) }
    }

    // MARK: Requests

    /// The share of the loop's time for a request that did not come over the admin socket.
    func share(of request: HTTPRequest) -> UInt64 {
        api.share(of: request, now: loop.core.timeOfCredentials(loop.now)).number
    }

    /// How long the body of the request may be, or the answer that does not depend on the body.
    func admit(_ request: HTTPRequest, from peer: () -> Peer, isAdmin: Bool) -> BodyAdmission {
        let now = loop.core.timeOfCredentials(loop.now)
        switch api.bodyBound(of: request, isAdmin: isAdmin, now: now) {
        case .bytes(let most): return .upTo(most)
        case .answer(let response, let refused):
            if let refused {
                tell(refused, source(of: request, peer()), now: now)
            }
            latencies.record(0)
            return .refused(response)
        }
    }

    func handle(_ request: HTTPRequest, _ responder: Responder, isAdmin: Bool) {
        loop.beginTurn()
        let now = loop.core.timeOfCredentials(loop.now)
        let time = max(UInt64(max(0, now.milliseconds)) * 1000, lastMessageTime + 1)
        lastMessageTime = time
        let id = MessageID(time: time, random: random.next())
        let routed = api.route(request, isAdmin: isAdmin, now: now, at: loop.now.monotonic, id: id)
        if let refused = routed.refusedOperator {
            tell(refused, source(of: request, responder.peer), now: now)
        }
        carryOut(routed.action, request, responder: responder, payer: routed.payer, isAdmin: isAdmin)
    }

    /// Puts a refused attempt into the audit log, within the bounds of `RefusedAttempts`.
    private func tell(_ refused: RefusedOperator, _ source: String, now: WallTime) {
        let attempt = RefusedAttempts.Attempt(name: refused.name, source: source, subject: refused.subject)
        guard let entry = attempts.note(attempt, now: now) else { return }
        loop.shared.administrator.tellRefused([entry], loop.shared.log)
    }

    /// Adds to the audit log how many attempts followed the first ones.
    func tellRefused(now: WallTime) {
        loop.shared.administrator.tellRefused(attempts.drain(now: now), loop.shared.log)
    }

    private func carryOut(
        _ action: APIAction, _ request: HTTPRequest, responder: Responder, payer: Share?, isAdmin: Bool
    ) {
        switch action {
        case .respond(let response):
            // Answers from memory that refuse nothing, such as files, say nothing of operations.
            if response.status >= 400 { latencies.record(responder.waited.nanoseconds) }
            respond(response, payer, responder: responder)
        case .operation(let operation, let form):
            loop.submit(operation, ticket: open(responder, form, payer: payer))
        case .listen(let listen): self.listen(listen, responder)
        case .socket(let project, let client): userAgents.open(responder, of: project, client: client)
        case .makeProject(let name):
            let number = park(Parked(request: request, responder: responder, isAdmin: isAdmin))
            loop.shared.administrator.makeProject(name, on: loop) { loop, error in
                guard let parked = loop.frontend.unpark(number) else { return }
                if let error { return parked.responder.respond(APIFailure.unavailable(error)) }
                loop.frontend.handle(parked.request, parked.responder, isAdmin: parked.isAdmin)
            }
        case .node(let wanted): respond(wanted, responder)
        case .admin(let wanted):
            let number = park(Parked(request: request, responder: responder, isAdmin: isAdmin))
            let requester = requester(request, responder, isAdmin: isAdmin)
            loop.shared.administrator.carryOut(wanted, by: requester, on: loop) { loop, response in
                loop.frontend.unpark(number)?.responder.respond(response)
            }
        case .later(let delay, let action):
            loop.eventLoop.assumeIsolated().scheduleTask(in: TimeAmount(delay)) { [loop] in
                guard responder.isOpen else { return }
                loop.beginTurn()
                loop.frontend.carryOut(action, request, responder: responder, payer: payer, isAdmin: isAdmin)
            }
        }
    }

    /// The address from which an operator's request comes. Behind a trusted proxy, the address names both
    /// ends of the way.
    private func source(of request: HTTPRequest, _ peer: Peer) -> String {
        let peer = peer.host
        return api.forwarded(request).map { "\($0) by \(peer)" } ?? peer
    }

    /// The operator who makes the request.
    private func requester(
        _ request: HTTPRequest, _ responder: Responder, isAdmin: Bool
    ) -> Administrator.Requester {
        if isAdmin { return .local(responder.peer) }
        let name = api.author(of: request, now: loop.core.timeOfCredentials(loop.now))
        guard api.forwarded(request) != nil else { return .named(name, responder.peer) }
        return .named(name, .address(source(of: request, responder.peer)))
    }

    /// A request for what the node says of itself, which came over a separate address.
    func probe(_ request: HTTPRequest, _ responder: Responder) {
        loop.beginTurn()
        let action = API.routeProbe(request)
        carryOut(action, request, responder: responder, payer: nil, isAdmin: false)
    }

    private func park(_ request: Parked) -> UInt64 {
        lastParked += 1
        parked[lastParked] = request
        return lastParked
    }

    private func unpark(_ number: UInt64) -> Parked? { parked.removeValue(forKey: number) }

    private func respond(_ wanted: NodeRequest, _ responder: Responder) {
        switch wanted {
        case .health:
            responder.respond(
                HTTPResponse(status: 200, fields: RequestFrontend.text, body: Array("ok\n".utf8)))
        case .ready(let unready, let isReasonTold):
            let reason = loop.shared.notReady
            let word = reason ?? loop.shared.readyWord
            let short = reason == nil ? "ready" : "not ready"
            responder.respond(
                HTTPResponse(
                    status: reason == nil ? 200 : unready, fields: RequestFrontend.text,
                    body: Array("\(isReasonTold ? word : short)\n".utf8)))
        case .metrics: scrape(responder)
        case .quotas(let project): answerQuotas(project, responder)
        }
    }

    /// Hundreds of requests at once must not hold up the loop.
    private func scrape(_ responder: Responder) {
        scrapers.append(responder)
        guard let wait = pace.ask(now: Clock.monotonic()) else { return }
        loop.eventLoop.assumeIsolated().scheduleTask(in: TimeAmount(wait)) { [loop] in
            loop.frontend.answerScrapers()
        }
    }

    private func answerScrapers() {
        pace.made(now: Clock.monotonic())
        var asked: [Responder] = []
        swap(&asked, &scrapers)
        guard asked.contains(where: \.isOpen) else { return }
        let response = HTTPResponse(
            status: 200, fields: [("content-type", MetricText.contentType)],
            body: Array(loop.shared.metricsText().utf8))
        for responder in asked { responder.respond(response) }
    }

    /// Only the loop with the project's buckets knows what is left in them.
    private func answerQuotas(_ project: Project, _ responder: Responder) {
        let request = HTTPRequest(method: .get, target: [])
        let number = park(Parked(request: request, responder: responder, isAdmin: false, project: project))
        loop.askLevels(of: project.number, question: number)
    }

    /// Takes the answer of the loop with the buckets.
    func answer(_ question: UInt64, _ levels: [BucketLevel]) {
        guard let parked = unpark(question), let project = parked.project else { return }
        parked.responder.respond(loop.shared.administrator.quotas(of: project, left: levels))
    }

    static let text = [(name: "content-type", value: "text/plain; charset=utf-8")]

    // MARK: Tickets

    private func open(_ responder: Responder, _ form: ResponseForm, payer: Share?) -> UInt64 {
        let slot: Int
        if let free = freeTickets.popLast() {
            slot = free
        } else {
            slot = tickets.count
            tickets.append(Ticket())
        }
        // From the request's last byte on, with the time for which the request waited for its turn.
        let arrived = loop.now.monotonic.rewound(by: responder.waited)
        tickets[slot].request = (responder, form, payer, arrived)
        return TicketID(generation: tickets[slot].generation, slot: slot).number
    }

    /// An operation of a user agent's session.
    func submit(_ operation: Operation, _ form: ResponseForm, for responder: Responder) {
        loop.submit(operation, ticket: open(responder, form, payer: nil))
    }

    func finish(_ ticket: UInt64, _ outcome: Outcome) {
        let ticket = TicketID(number: ticket)
        let slot = ticket.slot
        guard slot < tickets.count, tickets[slot].generation == ticket.generation,
            let (responder, form, payer, began) = tickets[slot].request.take()
        else { return }
        latencies.record(loop.now.monotonic.since(began).nanoseconds)
        tickets[slot].generation &+= 1
        freeTickets.append(slot)
        if case .accepted = outcome { loop.shared.counters.sendsAccepted.add(1, ordering: .relaxed) }
        if let (number, work) = form.session { return userAgents.finish(number, work, by: outcome) }
        guard responder.isOpen else { return }
        if let (operation, form) = api.next(after: outcome, form) {
            return loop.submit(operation, ticket: open(responder, form, payer: payer))
        }
        respond(api.render(outcome, form), payer, responder: responder)
    }

    /// A 429 for a quota costs time of the project whose bearer the request showed, whether the loop refuses
    /// immediately or the owner of the buckets has answered.
    private func respond(_ response: HTTPResponse, _ payer: Share?, responder: Responder) {
        if response.status == 429, let payer {
            responder.refuse(response, of: payer.number)
        } else {
            responder.respond(response)
        }
    }

    // MARK: Streams

    private func listen(_ listen: ListenRequest, _ responder: Responder) {
        let stream = loop.attach(
            listen.registration, by: .device(listen.credential), resume: listen.resume)
        responder.userTag = stream
        responder.userNote = StreamOwner(listen).number
        responders[stream] = responder
    }

    /// Ends the streams of deleted projects, and the streams of devices under retired registration keys.
    func endStreams(of projects: Set<ProjectNumber>, under keys: Set<UInt8>) {
        userAgents.endStopped(under: keys)
        guard !projects.isEmpty || !keys.isEmpty else { return }
        for (stream, responder) in responders {
            let owner = StreamOwner(number: responder.userNote)
            guard projects.contains(owner.project) || keys.contains(owner.key) else { continue }
            endUnregistered(stream)
            loop.detach(stream)
        }
    }

    /// The client is gone, or has ended its request.
    func cancelled(_ responder: Responder) {
        if userAgents.cancelled(responder) { return }
        let stream = responder.userTag
        guard stream > 0, responders[stream] === responder else { return }
        responders[stream] = nil
        loop.detach(stream)
    }

    func drained(_ responder: Responder) { loop.drained(responder.userTag) }

    /// Writes a comment to every stream, so that a broken connection shows itself.
    func keepAlive() {
        let comment = SharedBytes(API.keepAlive)
        for responder in responders.values { _ = responder.write(comment) }
        userAgents.tick()
    }

    /// Ends every stream. Each device comes back, here or elsewhere, after a random time from 0.5 s to 5 s.
    func endStreams() {
        for (stream, responder) in responders {
            let wait = 500 + Int(random.next(upperBound: UInt64(4500)))
            _ = responder.write(SharedBytes(EventStream.ending("reconnect", retryMilliseconds: wait)))
            responder.endStream()
            loop.detach(stream)
        }
        responders = [:]
        userAgents.endAll()
    }
}

/// The handler of one listener: the loop's frontend, and whether the listener is the operator's.
final class EdgeHandler: RequestHandler {
    private let frontend: RequestFrontend
    private let isAdmin: Bool

    init(frontend: RequestFrontend, isAdmin: Bool) {
        self.frontend = frontend
        self.isAdmin = isAdmin
    }

    func share(of request: HTTPRequest) -> UInt64 { isAdmin ? 0 : frontend.share(of: request) }
    func handle(_ request: HTTPRequest, _ responder: Responder) {
        frontend.handle(request, responder, isAdmin: isAdmin)
    }
    func admit(_ request: HTTPRequest, from peer: () -> Peer) -> BodyAdmission {
        frontend.admit(request, from: peer, isAdmin: isAdmin)
    }
    func contentBytesMax(of request: HTTPRequest) -> Int { API.contentMax(of: request, isAdmin: isAdmin) }
    func cancelled(_ responder: Responder) { frontend.cancelled(responder) }
    func drained(_ responder: Responder) { frontend.drained(responder) }
    func received(_ message: [UInt8], _ responder: Responder) {
        frontend.userAgents.received(message, responder)
    }
}

/// The handler of `listenMetrics`.
final class ProbeHandler: RequestHandler {
    private let frontend: RequestFrontend

    init(frontend: RequestFrontend) { self.frontend = frontend }

    func share(of request: HTTPRequest) -> UInt64 { 0 }
    func handle(_ request: HTTPRequest, _ responder: Responder) { frontend.probe(request, responder) }
    /// No path here reads a body.
    func admit(_ request: HTTPRequest, from peer: () -> Peer) -> BodyAdmission { .upTo(0) }
    func contentBytesMax(of request: HTTPRequest) -> Int { 0 }
}
