import Catalog
import Credentials
import FCMAPI
import HTTPMessages
import Model
import PushMessages

// Push services of projects.

extension Administrator {
    func push(_ wanted: PushRequest, on loop: NodeLoop, for work: Work?, _ finish: @escaping Finish) {
        switch wanted {
        case .show(let project): show(project, on: loop, finish)
        case .setWeb(let project, let wanted):
            let now = Clock.now().wall
            change(
                on: loop, for: work,
                { draft in try Administrator.set(wanted, of: project, draft: &draft, now: now) }, finish)
        case .switchOffWeb(let project):
            change(
                on: loop, for: work,
                { draft in
                    try Administrator.check(project, draft)
                    guard var settings = draft.contents.webPush[project.number] else {
                        return PushView.neverOn
                    }
                    if settings.isOn {
                        settings.isOn = false
                        try draft.put(settings, of: project.number)
                    }
                    return PushView.status(project, draft.contents.directory.webPush[project.number])
                }, finish)
        }
    }

    /// Reads the engine, so that a command sees the change that another node has made a moment ago.
    private func show(_ project: Project, on loop: NodeLoop, _ finish: @escaping Finish) {
        let mailbox = loop.mailboxes[loop.number]
        engine.perform({ engine in
            let contents = try Catalog.load(engine, self.vault)
            return PushView.status(project, contents.directory.webPush[project.number])
        }) { result in mailbox.run { finish($0, result) } }
    }

    private static func set(
        _ wanted: WebPushChange, of project: Project, draft: inout CatalogDraft, now: WallTime
    ) throws -> HTTPResponse {
        try check(project, draft)
        let former = draft.contents.webPush[project.number]
        var next: WebPushSettings
        if let former {
            next = former
            next.subject = wanted.subject ?? former.subject
            if wanted.wantsNewKey { try next.add(try newKey(now)) }
        } else {
            guard let subject = wanted.subject else { return PushView.noSubject }
            next = WebPushSettings(subject: subject, key: try newKey(now))
        }
        next.isOn = true
        if let hosts = wanted.hosts { next.hosts = hosts }
        if let authority = wanted.authority { next.authority = authority.isEmpty ? nil : authority }
        if next != former { try draft.put(next, of: project.number) }
        return PushView.key(WebPushProject(next))
    }

    private static func newKey(_ now: WallTime) throws -> WebPushSettings.Key {
        let pair = try P256Key.generate()
        return WebPushSettings.Key(
            privateBytes: pair.privateBytes, publicBytes: pair.publicBytes, created: now)
    }
}
