import Bytes
import Catalog
import Credentials
import EngineDriver
import FCMAPI
import HTTPMessages
import Journal
import Listener
import Model
import NIOCore
import NodeCore
import Ownership
import PeerLink
import Quotas
import Routing
import SQLiteEngine
import Synchronization

/// Changes projects, keys and quotas: each change as a whole in the engine, and then on every loop.
final class Administrator: Sendable {
    typealias Answer = @Sendable (NodeLoop, HTTPResponse) -> Void

    private let contents: Mutex<Catalog.Contents>
    let engine: EngineThread
    private let map: NodeMap
    let defaultTokenURI: String
    let vault: Vault
    /// What the node needs to push for each project. Any thread may read it.
    let webPush: WebPushSenders
    let apns: APNsSenders
    let relays: RelaySenders
    let refusedCertificates: RefusedCertificates
    let pushRevisions = PushRevisions()
    private let mailboxes: Mutex<[Mailbox]> = Mutex([])
    private let certificates: Mutex<CertificateKeeper?> = Mutex(nil)

    init(
        _ contents: Catalog.Contents, engine: EngineThread, map: NodeMap, defaultTokenURI: String
    ) {
        self.map = map
        vault = contents.vault
        webPush = WebPushSenders(contents.webPush)
        apns = APNsSenders(contents.apns)
        relays = RelaySenders(contents.relays)
        refusedCertificates = RefusedCertificates(contents.refusedCertificates)
        self.contents = Mutex(contents)
        self.engine = engine
        self.defaultTokenURI = defaultTokenURI
    }

    /// The push services that each of these projects has now.
    private func pushServices(
        of projects: Set<ProjectNumber>, in contents: Catalog.Contents
    ) -> [ProjectNumber: PushServices] {
        Dictionary(
            uniqueKeysWithValues: projects.map { project in
                var services = PushServices()
                services.web = webPush.hasSender(project)
                services.apps = apns.apps(of: project)
                services.triesOtherEnvironment = apns.triesOtherEnvironment(project)
                services.fcm = relays.sender(project) != nil
                services.settings[.web] = contents.webPush[project].map { Checksum.of($0.encoded) }
                services.settings[.apns] = contents.apns[project].map { Checksum.of($0.encoded) }
                services.settings[.fcm] = contents.relays[project].map { Checksum.of($0.encoded) }
                return (project, services)
            })
    }

    /// The push services of all projects that have some.
    var pushServices: [ProjectNumber: PushServices] {
        let contents = current
        return pushServices(
            of: Set(contents.webPush.keys).union(contents.apns.keys).union(contents.relays.keys),
            in: contents)
    }

    func attach(_ mailboxes: [Mailbox], _ certificates: CertificateKeeper?) {
        self.mailboxes.withLock { $0 = mailboxes }
        self.certificates.withLock { $0 = certificates }
    }

    var boxes: [Mailbox] { mailboxes.withLock { $0 } }

    var current: Catalog.Contents { contents.withLock { $0 } }

    /// Computes the change on the engine's thread from the stored catalog, and writes it if no other process
    /// has changed the catalog meanwhile. Otherwise tries again after a pause, in which the thread does other
    /// work.
    ///
    /// - Parameter work: the entry of the audit log, which is written with the change or not at all.
    func change<Value: Sendable>(
        on loop: NodeLoop, for work: Work?, after tries: ChangeTries = ChangeTries(),
        _ change: @escaping @Sendable (inout CatalogDraft) throws -> Value,
        _ done: @escaping @Sendable (NodeLoop, Result<Value, any Error>) -> Void
    ) {
        let mailbox = loop.mailboxes[loop.number]
        engine.perform({ engine -> Value? in
            var draft = try CatalogDraft(engine, self.vault)
            let value = try change(&draft)
            let entry = draft.writes.isEmpty ? nil : work?.entry(draft.detail)
            if let entry { draft.tell(entry) }
            guard let contents = try draft.commit() else { return nil }
            self.apply(contents)
            if let entry { work?.log(entry) }
            return value
        }) { result in
            mailbox.run { loop in
                switch result {
                case .success(nil): self.again(on: loop, for: work, after: tries, change, done)
                case .success(let value?):
                    loop.shared.cluster?.tell(.announce)
                    done(loop, .success(value))
                case .failure(let error):
                    // The change may be written, and only the answer lost.
                    loop.shared.cluster?.tell(.announce)
                    done(loop, .failure(error))
                }
            }
        }
    }

    private func again<Value: Sendable>(
        on loop: NodeLoop, for work: Work?, after tries: ChangeTries,
        _ change: @escaping @Sendable (inout CatalogDraft) throws -> Value,
        _ done: @escaping @Sendable (NodeLoop, Result<Value, any Error>) -> Void
    ) {
        var tries = tries
        var random = SystemRandomNumberGenerator()
        guard let pause = tries.pause(using: &random) else {
            return done(loop, .failure(CatalogDraft.overtaken))
        }
        loop.eventLoop.assumeIsolated().scheduleTask(in: TimeAmount(pause)) { [tries] in
            self.change(on: loop, for: work, after: tries, change, done)
        }
    }

    /// Takes a catalog that this node has read or changed. Ignores a catalog older than the known one.
    func apply(_ next: Catalog.Contents) {
        contents.withLock { contents in
            guard Catalog.number(of: next.version ?? []) >= Catalog.number(of: contents.version ?? []) else {
                return
            }
            contents = next
            let changed = webPush.update(next.webPush).union(apns.update(next.apns))
                .union(relays.update(next.relays))
            pushRevisions.raise(changed)
            let services = pushServices(of: changed, in: next)
            // Posted inside the lock, so that every loop hears the newest catalog last.
            for box in boxes {
                box.run { $0.apply(next) }
                if !services.isEmpty { box.post(.pushesChanged(services)) }
            }
            certificates.withLock { $0?.change(secret: next.signingKeys.newest) }
            refusedCertificates.update(next.refusedCertificates)
        }
    }

    /// Makes the project of an id that the development server has not seen before.
    func makeProject(
        _ id: String, on loop: NodeLoop, _ done: @escaping @Sendable (NodeLoop, String?) -> Void
    ) {
        let map = map
        change(on: loop, for: nil, { draft in _ = try Administrator.ensure(id, map, draft: &draft) }) {
            loop, result in
            switch result {
            case .success: done(loop, nil)
            case .failure(let error): done(loop, "the project could not be made: \(error)")
            }
        }
    }

    /// Finds the project, or makes it. Numbers rise, and none is used twice.
    private static func ensure(
        _ id: String, _ map: NodeMap, draft: inout CatalogDraft
    ) throws -> (project: Project, isNew: Bool) {
        if let project = draft.contents.directory.byID[id] { return (project, false) }
        var last: UInt32 = 0
        if let stored = try draft.engine.get(.setting, key: Catalog.lastNumberKey) {
            last = Catalog.projectNumber(stored)
        }
        guard last + 1 < ProjectNumber.limit else { throw EngineError.refused("no project numbers are left") }
        let number = last + 1
        draft.writes.put(
            .setting, key: Catalog.lastNumberKey,
            value: [UInt8(number >> 16), UInt8(number >> 8 & 0xFF), UInt8(number & 0xFF)])
        let project = Project(id: id, number: ProjectNumber(number))
        if draft.engine is any ClusterEngine {
            let home = map.home(of: project.number)
            if let epoch = try draft.engine.partitions().first(where: { $0.id == home })?.epoch {
                Catalog.putBirth(project.number, epoch, to: &draft.writes)
                draft.contents.births[project.number] = epoch
            }
        }
        Catalog.put(project, [:], to: &draft.writes)
        draft.contents.directory.add(project)
        return (project, true)
    }

    func carryOut(
        _ request: AdminRequest, by requester: Requester, on loop: NodeLoop, _ answer: @escaping Answer
    ) {
        let work = Work(request, by: requester, now: Clock.now().wall, log: loop.shared.log)
        @Sendable func finish(_ loop: NodeLoop, _ result: Result<HTTPResponse, any Error>) {
            switch result {
            case .success(let response): answer(loop, response)
            case .failure(let refusal as CredentialRefusal): answer(loop, CredentialView.refusal(refusal))
            case .failure(let refusal as NodeShared.DrainRefusal): answer(loop, refusal.response)
            case .failure(let error): answer(loop, APIFailure.unavailable("\(error)"))
            }
        }
        switch request {
        case .projects: answer(loop, projects())
        case .cluster: answer(loop, loop.shared.clusterAnswer())
        case .drain(let node, let force): drain(node, force: force, on: loop, for: work, answer)
        case .uncordon(let node):
            guard loop.shared.isClustered else { return answer(loop, NodeShared.notClustered) }
            change(
                on: loop, for: work,
                { [known = loop.shared.nodeNames] draft in
                    try NodeShared.check(node, known: known, cordoned: draft.contents.cordoned)
                    Catalog.uncordon(node, from: &draft.writes)
                    draft.contents.cordoned.remove(node)
                    return APIAnswer.object([("node", .text(node))])
                }, finish)
        case .refuse(let certificate, let force):
            refuse(certificate, force: force, on: loop, for: work, finish)
        case .accept(let certificate): accept(certificate, on: loop, for: work, finish)
        case .createProject(let id, let tokenURI):
            let uri = tokenURI ?? defaultTokenURI
            create(id, uri, on: loop, for: work, finish: finish)
        case .deleteProject(let project):
            change(
                on: loop, for: work,
                { draft in
                    draft.remove(project)
                    return APIAnswer.object([])
                }, finish)
        case .audit(let limit): audit(limit, on: loop, finish)
        case .serverKeys(let wanted): serverKeys(wanted, on: loop, for: work, finish)
        case .credentials(let wanted): credentials(wanted, on: loop, for: work, finish)
        case .push(let wanted): push(wanted, on: loop, for: work, finish)
        case .setQuota(let project, let changes):
            change(
                on: loop, for: work,
                { draft in
                    try Administrator.check(project, draft)
                    var limits = draft.contents.limits[project.number] ?? [:]
                    for (name, value) in changes { limits[name] = value }
                    Catalog.put(project, limits, to: &draft.writes)
                    draft.contents.limits[project.number] = limits
                    return QuotaView.limits(QuotaLimits(named: limits), project)
                }, finish)
        }
    }

    /// Another operator may have deleted the project meanwhile.
    static func check(_ project: Project, _ draft: CatalogDraft) throws {
        guard draft.contents.directory.byNumber[project.number] != nil else {
            throw EngineError.refused("the project \(project.id) was deleted")
        }
    }

    /// Cordons the node, so that no supervisor brings it back, then tells the node to leave.
    private func drain(
        _ node: String, force: Bool, on loop: NodeLoop, for work: Work?, _ answer: @escaping Answer
    ) {
        let drain: NodeShared.Drain
        switch loop.shared.drain(of: node, force: force) {
        case .success(let found): drain = found
        case .failure(let refusal): return answer(loop, refusal.response)
        }
        change(
            on: loop, for: work,
            { draft in
                try drain.check(draft.contents.cordoned)
                Catalog.cordon(node, to: &draft.writes)
                draft.contents.cordoned.insert(node)
            },
            { loop, result in
                switch result {
                case .success:
                    loop.shared.cluster?.tell(.tellToLeave(drain.member.session))
                    answer(loop, APIAnswer.object([("node", .text(node)), ("state", .text("leaving"))]))
                case .failure(let refusal as NodeShared.DrainRefusal): answer(loop, refusal.response)
                case .failure(let error): answer(loop, APIFailure.unavailable("\(error)"))
                }
            })
    }

    private func create(
        _ id: String, _ tokenURI: String, on loop: NodeLoop, for work: Work?, finish: @escaping Finish
    ) {
        let (map, now) = (map, Clock.now().wall)
        withNewKey(on: loop, finish) { loop, key in
            self.change(
                on: loop, for: work,
                { draft in
                    let (project, isNew) = try Administrator.ensure(id, map, draft: &draft)
                    guard isNew || !draft.contents.directory.hasAccount(project.number) else {
                        return APIFailure.conflict("The project exists already.")
                    }
                    let credential = Credential(
                        kind: .serviceAccount, project: project.number, created: now)
                    let file = try Administrator.add(
                        key, credential, project: project, tokenURI: tokenURI, draft: &draft, now: now)
                    return APIAnswer.object([
                        ("project", .text(id)), ("projectNumber", .number(UInt64(project.number.rawValue))),
                        ("serviceAccount", .text(file.json)),
                    ])
                }, finish)
        }
    }

    private func projects() -> HTTPResponse {
        let all = current.directory.byID.values.sorted { $0.id < $1.id }
        return APIAnswer.object([
            (
                "projects",
                .list(
                    all.map {
                        .object([
                            ("project", .text($0.id)), ("projectNumber", .number(UInt64($0.number.rawValue))),
                        ])
                    })
            )
        ])
    }

    func quotas(of project: Project, left: [BucketLevel]) -> HTTPResponse {
        let limits = QuotaLimits(named: current.limits[project.number] ?? [:])
        return QuotaView.limits(limits, project, left: left)
    }
}

/// A project's quotas as the API shows them.
enum QuotaView {
    static func limits(
        _ limits: QuotaLimits, _ project: Project, left: [BucketLevel] = []
    ) -> HTTPResponse {
        var fields: [(name: String, value: APIAnswer.Value)] = [
            ("project", .text(project.id)),
            ("limits", .object(limits.named.map { ($0.name, .number($0.value)) })),
        ]
        if !left.isEmpty { fields.append(("left", .object(left.map { ($0.name, .number($0.tokens)) }))) }
        return APIAnswer.object(fields)
    }
}
