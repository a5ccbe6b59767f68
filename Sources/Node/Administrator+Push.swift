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
        case .setAPNs(let project, let wanted):
            change(
                on: loop, for: work,
                { draft in try Administrator.set(wanted, of: project, draft: &draft) }, finish)
        case .setRelay(let project, let wanted):
            let now = Clock.now().wall
            change(
                on: loop, for: work,
                { draft in try Administrator.set(wanted, of: project, draft: &draft, now: now) }, finish)
        case .serve(let project, let origin):
            change(
                on: loop, for: work,
                { draft in try Administrator.serve(project, origin: origin, draft: &draft) }, finish)
        case .endService(let project):
            change(
                on: loop, for: work,
                { draft in try Administrator.endService(of: project, draft: &draft) }, finish)
        case .switchOff(let project, let kind):
            change(
                on: loop, for: work,
                { draft in try Administrator.switchOff(kind, of: project, draft: &draft) }, finish)
        case .removeKey(let project, let isSandbox, let bundleID):
            change(
                on: loop, for: work,
                { draft in
                    try Administrator.check(project, draft)
                    guard var settings = draft.contents.apns[project.number],
                        settings.remove(isSandbox: isSandbox, bundleID: bundleID)
                    else { return PushView.noKey(isSandbox: isSandbox, bundleID: bundleID) }
                    try draft.put(settings, of: project.number)
                    return PushView.apns(settings)
                }, finish)
        }
    }

    /// Reads the engine, so that a command sees the change that another node has made a moment ago.
    private func show(_ project: Project, on loop: NodeLoop, _ finish: @escaping Finish) {
        let mailbox = loop.mailboxes[loop.number]
        engine.perform({ engine in
            Administrator.status(of: project, try Catalog.load(engine, self.vault))
        }) { result in mailbox.run { finish($0, result) } }
    }

    private static func status(of project: Project, _ contents: Catalog.Contents) -> HTTPResponse {
        PushView.status(
            of: project, web: contents.directory.webPush[project.number],
            apns: contents.apns[project.number], relay: contents.relays[project.number],
            service: contents.directory.pushServices[project.number])
    }

    private static func serve(
        _ project: Project, origin: String?, draft: inout CatalogDraft
    ) throws -> HTTPResponse {
        try check(project, draft)
        let former = draft.contents.pushServices[project.number]
        guard let origin = origin ?? former?.origin else { return PushView.noOrigin }
        let next = PushServiceSettings(origin: origin)
        if next != former { try draft.put(next, of: project.number) }
        return PushView.service(PushServiceProject(next), of: project)
    }

    private static func endService(of project: Project, draft: inout CatalogDraft) throws -> HTTPResponse {
        try check(project, draft)
        guard var settings = draft.contents.pushServices[project.number] else { return PushView.neverServed }
        if settings.isOn {
            settings.isOn = false
            try draft.put(settings, of: project.number)
        }
        return PushView.service(PushServiceProject(settings), of: project)
    }

    /// Switches a service off, or all that the project has settings for (`nil`).
    static func switchOff(
        _ kind: Transport.Kind?, of project: Project, draft: inout CatalogDraft
    ) throws -> HTTPResponse {
        try check(project, draft)
        var hasSettings = false
        for kind in kind.map({ [$0] }) ?? Transport.Kind.allCases
        where try switchOff(kind, number: project.number, draft: &draft) {
            hasSettings = true
        }
        return hasSettings ? status(of: project, draft.contents) : PushView.neverOn(kind)
    }

    /// Returns whether the project has settings for the service.
    private static func switchOff(
        _ kind: Transport.Kind, number: ProjectNumber, draft: inout CatalogDraft
    ) throws -> Bool {
        switch kind {
        case .web:
            guard var settings = draft.contents.webPush[number] else { return false }
            if settings.isOn {
                settings.isOn = false
                try draft.put(settings, of: number)
            }
        case .apns:
            guard var settings = draft.contents.apns[number] else { return false }
            if settings.isOn {
                settings.isOn = false
                try draft.put(settings, of: number)
            }
        case .fcm:
            guard var settings = draft.contents.relays[number] else { return false }
            if settings.isOn {
                settings.isOn = false
                try draft.put(settings, of: number)
            }
        }
        return true
    }

    private static func set(
        _ wanted: APNsChange, of project: Project, draft: inout CatalogDraft
    ) throws -> HTTPResponse {
        try check(project, draft)
        let former = draft.contents.apns[project.number]
        var next = former ?? APNsSettings()
        if let key = wanted.key {
            try next.put(key)
        } else if next.keys.isEmpty {
            return PushView.noKey
        }
        if let tries = wanted.triesOtherEnvironment { next.triesOtherEnvironment = tries }
        next.isOn = true
        if next != former { try draft.put(next, of: project.number) }
        return PushView.apns(next)
    }

    private static func set(
        _ wanted: RelayChange, of project: Project, draft: inout CatalogDraft, now: WallTime
    ) throws -> HTTPResponse {
        try check(project, draft)
        let former = draft.contents.relays[project.number]
        var next: RelaySettings
        if let account = wanted.account {
            next = former ?? RelaySettings(account: account, created: now)
            next.account = account
            next.created = now
        } else if let former {
            next = former
        } else {
            return PushView.noAccount
        }
        next.isOn = true
        if let endpoint = wanted.endpoint { next.endpoint = endpoint }
        if let authority = wanted.authority { next.authority = authority.isEmpty ? nil : authority }
        if let refusal = RelayCheck.refusal(next) { return refusal }
        if next != former { try draft.put(next, of: project.number) }
        return PushView.relay(next)
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
