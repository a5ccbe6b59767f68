import Catalog
import Credentials
import FCMAPI
import HTTPMessages
import Journal
import Model
import NIOCore
import NIOPosix
import NodeCore

// Lists, creates and ends credentials. `CredentialBook` decides which changes of a credential are allowed.

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
                { Administrator.show(try $0.revokeCredential(id, now: now), $0.contents, now: now) }, finish)
        case .expire(let id, let end):
            change(
                on: loop, for: work,
                {
                    Administrator.show(
                        try $0.expireCredential(id, at: end, now: now), $0.contents, now: now)
                }, finish)
        case .rotate(let id, let overlap, let tokenURI):
            let tokenURI = tokenURI ?? defaultTokenURI
            let known = (try? current.credentials.name(of: id)).flatMap { current.credentials.all[$0]?.kind }
            // If this node does not know the credential yet, it may turn out to need such a key.
            withNewKey(if: known ?? .serviceAccount == .serviceAccount, on: loop, finish) { loop, key in
                self.change(
                    on: loop, for: work,
                    { draft in
                        let made = try draft.rotateCredential(
                            id, overlap: overlap, key, tokenURI: tokenURI, now: now)
                        return Administrator.show(made, draft.contents, now: now)
                    }, finish)
            }
        }
    }

    private func create(
        _ new: NewCredential, on loop: NodeLoop, for work: Work?, now: WallTime, _ finish: @escaping Finish
    ) {
        let credential = Credential(
            kind: new.kind, project: new.project?.number, label: new.label, role: new.role, created: now,
            expires: new.expires)
        let tokenURI = new.tokenURI ?? defaultTokenURI
        withNewKey(if: new.kind == .serviceAccount, on: loop, finish) { loop, key in
            self.change(
                on: loop, for: work,
                { draft in
                    let made = try draft.create(
                        credential, of: new.project, key, tokenURI: tokenURI, now: now)
                    return Administrator.show(made, draft.contents, now: now)
                }, finish)
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

    private static func show(
        _ name: String, _ contents: Catalog.Contents, now: WallTime
    ) -> HTTPResponse {
        APIAnswer.object(fields(name, contents, now: now))
    }

    /// The answer to a change, with the secret that is shown only once.
    private static func show(
        _ made: CatalogDraft.Made, _ contents: Catalog.Contents, now: WallTime
    ) -> HTTPResponse {
        let secret: (name: String, value: APIAnswer.Value) =
            switch made {
            case .key(_, let text): ("key", .text(text))
            case .account(let file): ("serviceAccount", .text(file.json))
            }
        return APIAnswer.object(fields(made.name, contents, now: now) + [secret])
    }

    private func withNewKey(
        if isNeeded: Bool, on loop: NodeLoop, _ finish: @escaping Finish,
        _ body: @escaping @Sendable (NodeLoop, ServiceAccountKey?) -> Void
    ) {
        if isNeeded { withNewKey(on: loop, finish) { body($0, $1) } } else { body(loop, nil) }
    }

    /// Creates the key before the change, because a key takes longer than everything else; the change is then
    /// computed and written immediately. Runs on a thread for which nothing waits: the engine's thread has
    /// the journal to write.
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
