import FCMAPI
import HTTPMessages
import Journal
import Model
import NodeCore
import Ownership
import Quotas
import Routing
import SQLiteEngine
import Synchronization

/// Changes projects, keys and quotas: first in the engine, one after the other, then on every loop.
final class Administrator: Sendable {
    typealias Answer = @Sendable (NodeLoop, HTTPResponse) -> Void

    private let contents: Mutex<Catalog.Contents>
    private let engine: EngineThread
    private let map: NodeMap
    private let defaultTokenURI: String
    private let mailboxes: Mutex<[Mailbox]> = Mutex([])

    init(
        _ contents: Catalog.Contents, engine: EngineThread, map: NodeMap, defaultTokenURI: String
    ) {
        self.map = map
        self.contents = Mutex(contents)
        self.engine = engine
        self.defaultTokenURI = defaultTokenURI
    }

    func begin(_ mailboxes: [Mailbox]) { self.mailboxes.withLock { $0 = mailboxes } }

    var boxes: [Mailbox] { mailboxes.withLock { $0 } }

    var current: Catalog.Contents { contents.withLock { $0 } }

    /// Runs `change` on the engine's thread, where changes come one after the other; then tells all loops.
    private func change<Value: Sendable>(
        on loop: NodeLoop, _ change: @escaping @Sendable (any Engine, inout Catalog.Contents) throws -> Value,
        _ done: @escaping @Sendable (NodeLoop, Result<Value, any Error>) -> Void
    ) {
        let mailbox = loop.mailboxes[loop.number]
        engine.perform({ engine in
            if let engine = engine as? any ClusterEngine {
                return try engine.exclusively { try self.changeForAll(engine, change) }
            }
            var next = self.current
            let value = try change(engine, &next)
            let contents = next
            self.contents.withLock { $0 = contents }
            return value
        }) { result in
            let contents = self.current
            mailbox.run { $0.shared.cluster?.tell(.announce) }
            for other in self.mailboxes.withLock({ $0 }) {
                other.run { $0.adopt(contents) }
            }
            mailbox.run { done($0, result) }
        }
    }

    /// In a cluster others change the catalog too: it begins from what is there, and says that it changed.
    private func changeForAll<Value: Sendable>(
        _ engine: any Engine, _ change: (any Engine, inout Catalog.Contents) throws -> Value
    ) throws -> Value {
        var next = try Catalog.load(engine)
        let value = try change(engine, &next)
        try engine.put(
            .setting, key: Catalog.versionKey,
            value: Catalog.version(after: try engine.get(.setting, key: Catalog.versionKey)))
        let contents = next
        self.contents.withLock { $0 = contents }
        return value
    }

    /// Another node changed the catalog.
    func adopt(_ contents: Catalog.Contents) {
        self.contents.withLock { $0 = contents }
        for box in boxes { box.run { $0.adopt(contents) } }
    }

    /// The project of an id that the development server has not seen before.
    func makeProject(
        _ id: String, on loop: NodeLoop, _ done: @escaping @Sendable (NodeLoop, String?) -> Void
    ) {
        let map = map
        change(on: loop, { engine, contents in _ = try Administrator.ensure(id, map, engine, &contents) }) {
            loop, result in
            switch result {
            case .success: done(loop, nil)
            case .failure(let error): done(loop, "the project could not be made: \(error)")
            }
        }
    }

    /// The project, made where there is none. Numbers rise and are never used twice.
    private static func ensure(
        _ id: String, _ map: NodeMap, _ engine: any Engine, _ contents: inout Catalog.Contents
    ) throws -> (project: Project, isNew: Bool) {
        if let project = contents.directory.byID[id] { return (project, false) }
        var last: UInt32 = 0
        if let stored = try engine.get(.setting, key: "last-project-number") {
            last = stored.reduce(0) { $0 << 8 | UInt32($1) }
        }
        guard last + 1 < ProjectNumber.limit else { throw EngineError.refused("no project numbers are left") }
        let number = last + 1
        try engine.put(
            .setting, key: "last-project-number",
            value: [UInt8(number >> 16), UInt8(number >> 8 & 0xFF), UInt8(number & 0xFF)])
        let project = Project(id: id, number: ProjectNumber(number))
        if engine is any ClusterEngine {
            let home = map.home(of: project.number)
            if let epoch = try engine.partitions().first(where: { $0.id == home })?.epoch {
                try Catalog.putBirth(project.number, epoch, to: engine)
                contents.births[project.number] = epoch
            }
        }
        try Catalog.put(project, [:], to: engine)
        contents.directory.add(project)
        return (project, true)
    }

    func carryOut(_ request: AdminRequest, on loop: NodeLoop, _ answer: @escaping Answer) {
        @Sendable func finish(_ loop: NodeLoop, _ result: Result<HTTPResponse, any Error>) {
            switch result {
            case .success(let response): answer(loop, response)
            case .failure(let error): answer(loop, APIFailure.unavailable("\(error)"))
            }
        }
        switch request {
        case .projects: answer(loop, projects())
        case .cluster: answer(loop, loop.shared.clusterAnswer())
        case .drain(let node, let force): drain(node, force: force, on: loop, answer)
        case .uncordon(let node):
            guard loop.shared.isClustered else { return answer(loop, NodeShared.alone) }
            change(
                on: loop,
                { engine, contents in
                    try Catalog.uncordon(node, from: engine)
                    contents.cordoned.remove(node)
                    return APIAnswer.object([("node", .text(node))])
                }, finish)
        case .createProject(let id, let tokenURI):
            let uri = tokenURI ?? defaultTokenURI
            let map = map
            change(on: loop, { try Administrator.create(id, uri, map, $0, &$1) }, finish)
        case .deleteProject(let project):
            change(
                on: loop,
                { engine, contents in
                    try Catalog.remove(project, contents.directory, from: engine)
                    contents.directory.remove(project)
                    contents.limits[project.number] = nil
                    return APIAnswer.object([])
                }, finish)
        case .createKey(let project, let kind):
            change(
                on: loop,
                { engine, contents in
                    let prefix = kind == .device ? "tck_" : "tcb_"
                    let key =
                        prefix + String(decoding: Base64URL.encode(try Catalog.random(24)), as: UTF8.self)
                    let hash = KeyHash.of(key.utf8)
                    try Catalog.put(keyHash: hash, kind, project, to: engine)
                    contents.directory.keys[hash] = (kind, project.number)
                    return APIAnswer.object([
                        ("project", .text(project.id)), ("kind", .text(kind.rawValue)), ("key", .text(key)),
                    ])
                }, finish)
        case .setQuota(let project, let changes):
            change(
                on: loop,
                { engine, contents in
                    var limits = contents.limits[project.number] ?? [:]
                    for (name, value) in changes { limits[name] = value }
                    try Catalog.put(project, limits, to: engine)
                    contents.limits[project.number] = limits
                    return QuotaView.limits(QuotaLimits(named: limits), project)
                }, finish)
        }
    }

    /// Cordons the node, so that whatever restarts it does not bring it back, then tells it to leave.
    private func drain(_ node: String, force: Bool, on loop: NodeLoop, _ answer: @escaping Answer) {
        let drain: NodeShared.Drain
        switch loop.shared.drain(of: node, force: force) {
        case .success(let found): drain = found
        case .failure(let refusal): return answer(loop, refusal.response)
        }
        change(
            on: loop,
            { engine, contents in
                try drain.check(contents.cordoned)
                try Catalog.cordon(node, to: engine)
                contents.cordoned.insert(node)
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

    private static func create(
        _ id: String, _ tokenURI: String, _ map: NodeMap, _ engine: any Engine,
        _ contents: inout Catalog.Contents
    ) throws -> HTTPResponse {
        let (project, isNew) = try ensure(id, map, engine, &contents)
        if !isNew, contents.directory.accounts.values.contains(where: { $0.project == project.number }) {
            return APIFailure.conflict("The project exists already.")
        }
        guard let file = ServiceAccountFile.make(project: project, tokenURI: tokenURI) else {
            throw EngineError.ioFailure("libcrypto made no key")
        }
        try Catalog.put(file, project, tokenURI, to: engine)
        contents.directory.accounts[file.keyID] = .init(
            project: project.number, email: file.email, publicKey: file.publicKey)
        contents.tokenURIs.insert(tokenURI)
        return APIAnswer.object([
            ("project", .text(id)), ("projectNumber", .number(UInt64(project.number.rawValue))),
            ("serviceAccount", .text(file.json)),
        ])
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
