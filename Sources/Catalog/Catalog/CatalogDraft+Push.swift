import Credentials
import Model

// Settings of projects for push services. Nothing is written if a change leaves the settings as they are.

extension CatalogDraft {
    /// `newKey`: the key of a project's first settings, or of a change that wants one.
    package mutating func setWebPush(
        _ wanted: WebPushChange, of project: Project, newKey: WebPushSettings.Key
    ) throws -> WebPushSettings {
        try check(project)
        let former = contents.webPush[project.number]
        var next: WebPushSettings
        if let former {
            next = former
            next.subject = wanted.subject ?? former.subject
            if wanted.wantsNewKey { try next.add(newKey) }
        } else {
            guard let subject = wanted.subject else {
                throw ChangeRefusal(
                    .wrong(field: "subject"),
                    "The subject is missing: mailto: or https:, for the people who run a push service.")
            }
            next = WebPushSettings(subject: subject, key: newKey)
        }
        next.isOn = true
        if let hosts = wanted.hosts { next.hosts = hosts }
        if let authority = wanted.authority { next.authority = authority.isEmpty ? nil : authority }
        if next != former { try put(next, of: project.number) }
        return next
    }

    /// Without a key the service is switched on again, with the keys that are there.
    package mutating func setAPNs(_ key: APNsSettings.Key?, of project: Project) throws -> APNsSettings {
        try check(project)
        let former = contents.apns[project.number]
        var next = former ?? APNsSettings()
        if let key { try next.put(key) }
        guard !next.keys.isEmpty else { throw CatalogDraft.noKey }
        next.isOn = true
        if next != former { try put(next, of: project.number) }
        return next
    }

    package mutating func removeAPNsKey(
        of bundleID: String, isSandbox: Bool, in project: Project
    ) throws -> APNsSettings {
        try check(project)
        guard var settings = contents.apns[project.number],
            settings.remove(isSandbox: isSandbox, bundleID: bundleID)
        else {
            throw ChangeRefusal(
                .unknown,
                "The project has no key for \(bundleID) in Apple's \(isSandbox ? "sandbox" : "production")"
                    + " environment.")
        }
        try put(settings, of: project.number)
        return settings
    }

    package mutating func setRelay(
        _ wanted: RelayChange, of project: Project, now: WallTime
    ) throws -> RelaySettings {
        try check(project)
        let former = contents.relays[project.number]
        guard let account = wanted.account ?? former?.account else { throw CatalogDraft.noAccount }
        var next = former ?? RelaySettings(account: account, created: now)
        next.account = account
        if wanted.account != nil { next.created = now }
        next.isOn = true
        if let endpoint = wanted.endpoint { next.endpoint = endpoint }
        if let authority = wanted.authority { next.authority = authority.isEmpty ? nil : authority }
        try next.check()
        if next != former { try put(next, of: project.number) }
        return next
    }

    /// Makes the project a push service for user agents; `origin`: `nil` leaves it as it is.
    package mutating func serve(_ project: Project, origin: String?) throws -> PushServiceSettings {
        try check(project)
        let former = contents.pushServices[project.number]
        guard let origin = origin ?? former?.origin else {
            throw ChangeRefusal(
                .wrong(field: "origin"),
                "The origin is missing: https://HOST, where user agents and senders reach this server.")
        }
        let next = PushServiceSettings(origin: origin)
        if next != former { try put(next, of: project.number) }
        return next
    }

    package mutating func endService(of project: Project) throws -> PushServiceSettings {
        try check(project)
        guard var settings = contents.pushServices[project.number] else {
            throw ChangeRefusal(.precondition, "The project has never been a push service.")
        }
        if settings.isOn {
            settings.isOn = false
            try put(settings, of: project.number)
        }
        return settings
    }

    /// Switches a service off, or all that the project has settings for (`nil`).
    package mutating func endPush(_ kind: Transport.Kind?, of project: Project) throws {
        try check(project)
        let number = project.number
        switch kind {
        case nil:
            let ended = try Transport.Kind.allCases.map { try end($0, of: number) }
            guard ended.contains(true) else {
                throw ChangeRefusal(.precondition, "The project has never had a push service.")
            }
            return
        case .web?:
            guard try end(.web, of: number) else {
                throw ChangeRefusal(.precondition, "The project has never had Web Push.")
            }
        case .apns?: if try !end(.apns, of: number) { throw CatalogDraft.noKey }
        case .fcm?: if try !end(.fcm, of: number) { throw CatalogDraft.noAccount }
        }
    }

    /// Returns whether the project has settings for the service.
    private mutating func end(_ kind: Transport.Kind, of number: ProjectNumber) throws -> Bool {
        switch kind {
        case .web: try end(contents.webPush[number], \.isOn) { try $0.put($1, of: number) }
        case .apns: try end(contents.apns[number], \.isOn) { try $0.put($1, of: number) }
        case .fcm: try end(contents.relays[number], \.isOn) { try $0.put($1, of: number) }
        }
    }

    private mutating func end<Settings>(
        _ settings: Settings?, _ isOn: WritableKeyPath<Settings, Bool>,
        put: (inout CatalogDraft, Settings) throws -> Void
    ) throws -> Bool {
        guard var settings else { return false }
        if settings[keyPath: isOn] {
            settings[keyPath: isOn] = false
            try put(&self, settings)
        }
        return true
    }

    private static let noKey = ChangeRefusal(
        .precondition,
        "The project has no key for Apple's push service: give a key with its ids and the app's bundle id.")
    private static let noAccount = ChangeRefusal(
        .precondition, "The project has no service account for FCM: give the account's file.")
}
