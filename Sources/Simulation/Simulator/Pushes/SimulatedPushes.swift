import Model
import NodeCore
import Partitions
import PushDesk
import PushMessages
import PushScheduling

/// A message of a loop's limiter, on its way to a push service.
struct PushRequest {
    /// The loop, and its limiter's number.
    var loop: Int
    var number: UInt64
    var job: PushJob
    /// When the loop handed the message over, by the process's clock.
    var since: MonotonicTime
    /// How often the process had heard until then that the project's settings changed.
    var changes: Int
    /// The setting of the service under which the message leaves.
    var setting: UInt64
}

/// A simulated process's way to push services, in the place of `PushDispatch`: carries out what the desk
/// decides.
final class SimulatedPushes {
    typealias Desk = PushDesk<PushRequest>
    private unowned let process: SimulatedProcess
    private unowned let world: ClusterSimulation
    private let client: SimulatedHTTPClient
    private lazy var apple = SimulatedAppleClient(process, self)
    private var desk: Desk
    private(set) lazy var checks = UnderWayChecks(process, self)
    private var tokenChecks: [ObjectIdentifier: (route: FCMRoute, checks: AccessTokenChecks)] = [:]
    private var routes: [ProjectNumber: PushRoutes] = [:]
    private var services: [ProjectNumber: PushServices] = [:]
    /// How often the process has heard that a project's settings changed.
    private var changes: [ProjectNumber: Int] = [:]

    init(_ process: SimulatedProcess) {
        self.process = process
        world = process.world
        client = SimulatedHTTPClient(process)
        let options = world.options
        var bounds = Desk.Bounds()
        bounds.underWay = options.underWay
        (bounds.accessTokens, bounds.apnsTokens) = (options.accessTokens, options.apnsTokens)
        desk = Desk(bounds)
        #if DEBUG
            (desk.planted, desk.plantedInFlight) = (options.plantedInDesk, options.plantedInFlight)
            desk.plantedInTokens = options.plantedInTokens
        #endif
        guard !options.changesServices else { return }
        let all = PushAddress.services(Transport.Kind.allCases)
        change(Dictionary(uniqueKeysWithValues: world.projects.map { ($0, all) }))
    }

    // MARK: Events

    /// The process hears of the projects' services, those that changed and others.
    func change(_ next: [ProjectNumber: PushServices]) {
        var changed: [ProjectNumber: PushRoutes] = [:]
        for (project, next) in next where services[project] != next {
            services[project] = next
            changes[project, default: 0] += 1
            changed[project] = PushRoutes(simulating: next, of: project, after: routes[project])
        }
        routes.merge(changed) { $1 }
        decide { $0.change(changed, into: &$1) }
    }

    /// A loop's limiter sends a message.
    func send(_ send: PushSend, fromLoop number: Int) {
        let (job, kind) = (send.job, send.job.transport.kind)
        let request = PushRequest(
            loop: number, number: send.number, job: job, since: process.monotonic,
            changes: changes(of: job.project), setting: services[job.project]?.settings[kind] ?? 0)
        let ticket = PushTicket(loop: number, number: send.number, kind: kind, project: job.project)
        checks.hands(request)
        guard let target = world.target(of: job) else {
            return tell(.unsent("an address that no device told"), of: ticket)
        }
        decide { $0.want(ticket, to: target, request, now: request.since, into: &$1) }
    }

    func changes(of project: ProjectNumber) -> Int { changes[project] ?? 0 }

    /// The present setting of a service; `nil` if the project does not use the service.
    func setting(of project: ProjectNumber, _ kind: Transport.Kind) -> UInt64? {
        guard let services = services[project], services.has(kind) else { return nil }
        return services.settings[kind] ?? 0
    }

    /// What became of a request of a message.
    func answered(
        _ number: UInt64, _ result: PushResult, of request: PushRequest,
        on connection: APNsConnectionID? = nil
    ) {
        checks.hears(result, of: request)
        decide { $0.answered(number, result, on: connection, now: process.clock, into: &$1) }
    }

    /// A token for Apple's service, for a message that leaves now.
    func authorization(for number: UInt64, of key: String) throws -> String {
        let now = process.clock.wall
        let text = try desk.authorization(for: number, now: now)
        checks.uses(text, of: key, now: now)
        return text
    }

    private func decide(_ body: (inout Desk, inout [Desk.Effect]) -> Void) {
        var effects: [Desk.Effect] = []
        body(&desk, &effects)
        if let broken = desk.brokenInvariant {
            world.violate("invariant", "\(process.index), desk: \(broken)")
        }
        for effect in effects { carryOut(effect) }
    }

    // MARK: Effects

    private func carryOut(_ effect: Desk.Effect) {
        switch effect {
        case .send(let number, let ticket, let way, var request):
            checks.submits(request, by: way.setting, now: process.monotonic)
            request.setting = way.setting
            switch way {
            case .web(_, let endpoint):
                submit(number, request, to: endpoint, token: nil, of: ticket.project)
            case .fcm(let route, let token):
                violate(checks(of: route).uses(token, now: process.monotonic), ticket.project)
                checks.leaves(request, with: token)
                submit(number, request, to: route.messages, token: token, of: ticket.project) {
                    guard case .answered(401, _, _) = $0, self.checks.mayGoAgain(request) else { return }
                    self.world.count("access tokens refused")
                    self.tokenChecks[ObjectIdentifier(route)]?.checks
                        .rejected(token, now: self.process.monotonic)
                }
            case .apns(let route, _): apple.send(number, request, to: route.pool)
            }
        case .fetchToken(let number, let project, let route): fetch(number, of: project, by: route)
        case .renew(let pool, let connection): apple.renew(pool, connection)
        case .end(let ticket, let end):
            if case .unset = end.outcome { world.count("pushes without a service") }
            checks.ends(end, of: ticket)
            tell(end.outcome, of: ticket)
        }
    }

    private func submit(
        _ number: UInt64, _ request: PushRequest, to endpoint: PushEndpoint, token: String?,
        of project: ProjectNumber, heard: @escaping (PushResult) -> Void = { _ in }
    ) {
        client.submit(
            SimulatedRequest(
                key: .init(share: UInt64(project.rawValue), origin: endpoint.origin),
                asked: .message(request, token: token), since: process.monotonic,
                hindrance: { [unowned process] in process.hindrance },
                done: { [weak self] result in
                    heard(result)
                    self?.answered(number, result, of: request)
                }))
    }

    private func checks(of route: FCMRoute) -> AccessTokenChecks {
        tokenChecks[ObjectIdentifier(route)]?.checks ?? AccessTokenChecks(world.options.accessTokens)
    }

    private func violate(_ broken: Violation?, _ project: ProjectNumber) {
        guard let broken else { return }
        world.violate(
            broken.guarantee, "\(process.index), project \(project.rawValue): \(broken.description)")
    }

    private func fetch(_ number: UInt64, of project: ProjectNumber, by route: FCMRoute) {
        world.count("access tokens fetched")
        let name = ObjectIdentifier(route)
        var known = checks(of: route)
        violate(known.fetches(number, now: process.monotonic), project)
        tokenChecks[name] = (route, known)
        client.submit(
            SimulatedRequest(
                key: .init(share: UInt64(project.rawValue), origin: route.tokens.origin),
                asked: .token(project, setting: route.setting), since: process.monotonic,
                hindrance: { nil },
                done: { [weak self] result in
                    guard let self else { return }
                    let now = process.clock
                    tokenChecks[name]?.checks.fetched(
                        number, AccessTokenAnswer(result, now: now.wall), now: now.monotonic)
                    decide { $0.answered(number, result, now: now, into: &$1) }
                }))
    }

    /// Tells the loop. The answer comes twice now and then, and is lost now and then.
    private func tell(_ outcome: PushOutcome, of ticket: PushTicket) {
        if !world.isHealing, world.chance(5) { return world.count("pushes unanswered") }
        let answer = { [unowned process] in
            process.loops[ticket.loop].post(.pushed(ticket.number, outcome))
        }
        world.after(.microseconds(100), .network, process: process, body: answer)
        if world.chance(20) { world.after(.milliseconds(20), .network, process: process, body: answer) }
    }
}

extension SimulatedProcess {
    /// Why a message must not leave any more: as in the shells, another node may own the partition, and may
    /// have pushed the message.
    var hindrance: String? {
        monotonic < authority ? nil : "another node may own the device's partition"
    }
}
