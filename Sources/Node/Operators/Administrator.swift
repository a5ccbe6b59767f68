import Catalog
import Credentials
import EngineDriver
import FCMAPI
import HTTPMessages
import Journal
import Logging
import Model
import NIOCore
import NodeCore
import PeerLink
import PushDesk
import Quotas
import Synchronization

/// Changes projects, keys and quotas: each change as a whole in the engine, and then on every loop.
final class Administrator: Sendable {
    typealias Answer = @Sendable (NodeLoop, HTTPResponse) -> Void

    private let contents: Mutex<Catalog.Contents>
    let engine: EngineThread
    private let map: NodeMap
    let defaultTokenURI: String
    let vault: Vault
    private let pushRoutes: Mutex<PushRouteBook>
    private let onPushRoutes = Mutex<(@Sendable ([ProjectNumber: PushRoutes]) -> Void)?>(nil)
    let refusedCertificates: RefusedCertificates
    private let mailboxes: Mutex<[Mailbox]> = Mutex([])
    private let certificates: Mutex<CertificateKeeper?> = Mutex(nil)
    private let log: Logger

    init(
        _ contents: Catalog.Contents, engine: EngineThread, map: NodeMap, defaultTokenURI: String,
        log: Logger
    ) {
        self.log = log
        self.map = map
        vault = contents.vault
        var book = PushRouteBook()
        book.update(web: contents.webPush, apns: contents.apns, relays: contents.relays)
        pushRoutes = Mutex(book)
        refusedCertificates = RefusedCertificates(contents.refusedCertificates)
        self.contents = Mutex(contents)
        self.engine = engine
        self.defaultTokenURI = defaultTokenURI
        tell(contents.damaged)
    }

    private func tell(_ damaged: [DamagedRow]) {
        for row in damaged {
            log.error(
                "a stored setting is damaged, and counts as none",
                metadata: ["table": "\(row.table.rawValue)", "row": "\(row.key)", "reason": "\(row.reason)"])
        }
    }

    /// The push services of all projects that have some.
    var pushServices: [ProjectNumber: PushServices] { pushRoutes.withLock(\.services) }

    /// Calls `body` with the routes of all projects to push services now, and with those that change, before
    /// any loop hears of the change.
    func tellPushRoutes(_ body: @escaping @Sendable ([ProjectNumber: PushRoutes]) -> Void) {
        contents.withLock { _ in
            onPushRoutes.withLock { $0 = body }
            body(pushRoutes.withLock(\.routes))
        }
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
            self.afterAllLoops(mailbox) { loop in
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

    /// Runs `body` on a loop after all loops have taken the newest catalog. A request that a client sends
    /// after the answer must not meet the old one on another loop.
    private func afterAllLoops(_ mailbox: Mailbox, _ body: @escaping Mailbox.Body) {
        let all = boxes
        let left = Atomic(all.count)
        for box in all {
            box.run { _ in
                if left.subtract(1, ordering: .acquiringAndReleasing).newValue == 0 { mailbox.run(body) }
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
            tell(next.damaged.filter { !contents.damaged.contains($0) })
            contents = next
            let (changed, services) = pushRoutes.withLock { book in
                let changed = book.update(web: next.webPush, apns: next.apns, relays: next.relays)
                let services = changed.keys.map { ($0, book.services(of: $0)) }
                return (changed, Dictionary(uniqueKeysWithValues: services))
            }
            if !changed.isEmpty { onPushRoutes.withLock { $0 }?(changed) }
            // Posted inside the lock, so that every loop hears the newest catalog last.
            for box in boxes {
                box.run { $0.apply(next) }
                if !services.isEmpty { box.post(.pushesChanged(services)) }
            }
            certificates.withLock { $0?.change(secret: next.signingKeys.newest) }
            refusedCertificates.update(next.refusedCertificates)
        }
    }

    /// Creates the project of an id that the development server has not seen before.
    func makeProject(
        _ id: String, on loop: NodeLoop, _ done: @escaping @Sendable (NodeLoop, String?) -> Void
    ) {
        let map = map
        change(on: loop, for: nil, { draft in _ = try draft.ensureProject(id, in: map) }) { loop, result in
            switch result {
            case .success: done(loop, nil)
            case .failure(let error): done(loop, "the project could not be made: \(error)")
            }
        }
    }

    func carryOut(
        _ request: AdminRequest, by requester: Requester, on loop: NodeLoop, _ answer: @escaping Answer
    ) {
        let work = Work(request, by: requester, now: Clock.now().wall, log: loop.shared.log)
        @Sendable func finish(_ loop: NodeLoop, _ result: Result<HTTPResponse, any Error>) {
            switch result {
            case .success(let response): answer(loop, response)
            case .failure(let refusal as ChangeRefusal): answer(loop, APIFailure.refused(refusal))
            case .failure(let error): answer(loop, APIFailure.unavailable("\(error)"))
            }
        }
        switch request {
        case .projects: answer(loop, projects())
        case .cluster: answer(loop, loop.shared.clusterAnswer())
        case .drain, .uncordon, .refuse, .accept: cluster(request, on: loop, for: work, finish)
        case .createProject(let id, let tokenURI):
            let (map, now, tokenURI) = (map, Clock.now().wall, tokenURI ?? defaultTokenURI)
            withNewKey(on: loop, finish) { loop, key in
                self.change(
                    on: loop, for: work,
                    { draft in
                        let file = try draft.createProject(id, key, tokenURI: tokenURI, in: map, now: now)
                        return APIAnswer.object([
                            ("project", .text(id)),
                            ("projectNumber", .number(UInt64(file.project.number.rawValue))),
                            ("serviceAccount", .text(file.json)),
                        ])
                    }, finish)
            }
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
                { QuotaView.limits(try $0.setQuotas(of: project, changes), project) }, finish)
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
