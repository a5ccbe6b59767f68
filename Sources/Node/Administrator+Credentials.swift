import Catalog
import Credentials
import FCMAPI
import HTTPMessages
import Journal
import Model
import NIOCore
import NIOPosix
import NodeCore

// Lists, makes and ends credentials. `CredentialBook` decides which changes of a credential are allowed.

extension Administrator {
    typealias Finish = @Sendable (NodeLoop, Result<HTTPResponse, any Error>) -> Void

    func credentials(
        _ wanted: CredentialRequest, on loop: NodeLoop, for work: Work?, _ finish: @escaping Finish
    ) {
        let now = Clock.now().wall
        switch wanted {
        case .list(let project): list(project, on: loop, now: now, finish)
        case .create(let new): create(new, on: loop, for: work, now: now, finish)
        case .revoke(let id):
            change(
                on: loop, for: work,
                { draft in
                    let name = try draft.contents.credentials.revoke(id, now: now)
                    draft.record(name)
                    draft.forget(
                        draft.contents.credentials.sweep(
                            draft.contents.credentials.all[name]?.project, now: now))
                    return Administrator.show(name, draft.contents, now: now)
                }, finish)
        case .expire(let id, let end):
            change(
                on: loop, for: work,
                { draft in
                    let name = try draft.contents.credentials.expire(id, at: end, now: now)
                    draft.record(name)
                    return Administrator.show(name, draft.contents, now: now)
                }, finish)
        case .rotate(let id, let overlap, let tokenURI):
            rotate(
                id, overlap, tokenURI: tokenURI ?? defaultTokenURI, on: loop, for: work, now: now,
                finish: finish)
        }
    }

    /// Reads the engine, because other gateways also write uses down and announce none of them.
    private func list(
        _ project: Project?, on loop: NodeLoop, now: WallTime, _ finish: @escaping Finish
    ) {
        let mailbox = loop.mailboxes[loop.number]
        engine.perform({ engine in
            let contents = try Catalog.load(engine, self.vault)
            let all = contents.credentials.list(project?.number)
            return APIAnswer.object([
                (
                    "keys",
                    .list(all.map { .object(Administrator.fields($0.name, contents, now: now)) })
                )
            ])
        }) { result in mailbox.run { finish($0, result) } }
    }

    private static func fields(
        _ name: String, _ contents: Catalog.Contents, now: WallTime
    ) -> [(name: String, value: APIAnswer.Value)] {
        guard let credential = contents.credentials.all[name] else { return [] }
        return CredentialView.fields(
            name, credential,
            project: credential.project.flatMap { contents.directory.byNumber[$0]?.id },
            used: contents.credentials.used[name], now: now)
    }

    /// The answer to a change, with the secret that is shown only once.
    private static func show(
        _ name: String, _ contents: Catalog.Contents, now: WallTime,
        secret: (field: String, text: String)? = nil
    ) -> HTTPResponse {
        var fields = fields(name, contents, now: now)
        if let secret { fields.append((secret.field, .text(secret.text))) }
        return APIAnswer.object(fields)
    }

    private func create(
        _ new: NewCredential, on loop: NodeLoop, for work: Work?, now: WallTime, _ finish: @escaping Finish
    ) {
        let credential = Credential(
            kind: new.kind, project: new.project?.number, label: new.label, role: new.role, created: now,
            expires: new.expires)
        guard new.kind == .serviceAccount, let project = new.project else {
            return change(
                on: loop, for: work,
                { draft in
                    if let project = new.project { try Administrator.check(project, draft) }
                    return try Administrator.add(credential, &draft, now: now)
                }, finish)
        }
        let tokenURI = new.tokenURI ?? defaultTokenURI
        withNewKey(on: loop, finish) { loop, key in
            self.change(
                on: loop, for: work,
                { draft in
                    try Administrator.check(project, draft)
                    let file = try Administrator.add(
                        key, credential, project: project, tokenURI: tokenURI, draft: &draft, now: now)
                    return Administrator.show(
                        file.keyID, draft.contents, now: now, secret: ("serviceAccount", file.json))
                }, finish)
        }
    }

    private func rotate(
        _ id: String, _ overlap: Int64, tokenURI: String, on loop: NodeLoop, for work: Work?,
        now: WallTime, finish: @escaping Finish
    ) {
        let known = (try? current.credentials.name(of: id)).flatMap { current.credentials.all[$0]?.kind }
        if let known, known != .serviceAccount {
            return change(
                on: loop, for: work,
                { draft in
                    let next = try Administrator.rotate(id, overlap, draft: &draft, now: now)
                    return try Administrator.add(next, &draft, now: now)
                }, finish)
        }
        // Where this node does not know the credential yet, its kind may turn out to need no such key.
        withNewKey(on: loop, finish) { loop, key in
            self.change(
                on: loop, for: work,
                { draft in
                    let next = try Administrator.rotate(id, overlap, draft: &draft, now: now)
                    guard next.kind == .serviceAccount,
                        let project = next.project.flatMap({ draft.contents.directory.byNumber[$0] })
                    else { return try Administrator.add(next, &draft, now: now) }
                    let file = try Administrator.add(
                        key, next, project: project, tokenURI: tokenURI, draft: &draft, now: now)
                    return Administrator.show(
                        file.keyID, draft.contents, now: now, secret: ("serviceAccount", file.json))
                }, finish)
        }
    }

    private static func rotate(
        _ id: String, _ overlap: Int64, draft: inout CatalogDraft, now: WallTime
    ) throws -> Credential {
        let (former, next) = try draft.contents.credentials.rotate(id, overlap: overlap, now: now)
        draft.record(former)
        return next
    }

    /// Makes a key of at least 24 random bytes behind a prefix that names its kind. The SDKs for iOS and
    /// Android refuse an app's key of another shape than an A and 38 characters of base64url.
    private static func add(
        _ credential: Credential, _ draft: inout CatalogDraft, now: WallTime
    ) throws -> HTTPResponse {
        let prefix =
            switch credential.kind {
            case .device: "Atck_"
            case .operatorToken: "tco_"
            case .bearer, .serviceAccount: "tcb_"
            }
        let random = Base64URL.encode(try Catalog.random(credential.kind == .device ? 26 : 24))
        let length = credential.kind == .device ? 39 - prefix.utf8.count : random.count
        let key = prefix + String(decoding: random.prefix(length), as: UTF8.self)
        try draft.add(key: key, credential, now: now)
        draft.detail = Credential.id(of: KeyHash.of(key.utf8))
        return show(KeyHash.of(key.utf8), draft.contents, now: now, secret: ("key", key))
    }

    static func add(
        _ key: ServiceAccountKey, _ credential: Credential, project: Project, tokenURI: String,
        draft: inout CatalogDraft, now: WallTime
    ) throws -> ServiceAccountFile {
        let file = ServiceAccountFile.make(
            project: project, tokenURI: tokenURI, key: key,
            keyID: try Catalog.random(ServiceAccountFile.keyIDCount))
        try draft.add(file, tokenURI, credential: credential, now: now)
        draft.detail = Credential.id(of: file.keyID)
        return file
    }

    /// Makes the key before the change, because a key takes longer than everything else; the change is then
    /// computed and written at once. Runs on a thread for which nothing waits: the engine's thread has the
    /// journal to write.
    func withNewKey(
        on loop: NodeLoop, _ finish: @escaping Finish,
        _ body: @escaping @Sendable (NodeLoop, ServiceAccountKey) -> Void
    ) {
        NIOThreadPool.singleton.runIfActive(eventLoop: loop.eventLoop) { ServiceAccountKey.make() }
            .whenComplete { made in
                switch made {
                case .success(let key?): body(loop, key)
                case .success(nil): finish(loop, .failure(EngineError.ioFailure("libcrypto made no key")))
                case .failure(let error): finish(loop, .failure(error))
                }
                loop.scheduleTurn()
            }
    }

    /// Stores the believed time for the next process.
    func note(witness time: WallTime) {
        engine.perform({ try ClockWitness.write(time, to: $0) }) { _ in }
    }

    /// Writes down the uses of credentials that a loop has seen. A write that fails is not tried again.
    func note(_ uses: [String: WallTime]) {
        guard !uses.isEmpty else { return }
        engine.perform({ try Catalog.putUses(uses, to: $0) }) { _ in }
    }
}
