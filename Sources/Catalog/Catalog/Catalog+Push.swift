import Credentials
import Journal
import Model

// Each project's settings for one push service are one sealed setting, under the project's number. An earlier
// build passes over the settings that it does not know and leaves them as they are.

/// The push services that have settings, by the beginning of the setting's key.
private enum PushSetting: String, CaseIterable {
    case web = "web-push:"
    case apns = "apns-push:"
    case relay = "fcm-relay:"
    case service = "push-service:"

    init?(_ key: String) {
        guard let found = PushSetting.allCases.first(where: { key.hasPrefix($0.rawValue) }) else {
            return nil
        }
        self = found
    }

    func key(_ project: ProjectNumber) -> String { "\(rawValue)\(project.rawValue)" }

    func project(_ key: String) throws -> ProjectNumber {
        guard let number = UInt32(key.dropFirst(rawValue.count)), number < ProjectNumber.limit else {
            throw EngineError.corrupt("the setting \(key) is from a newer tidecast, or damaged")
        }
        return ProjectNumber(number)
    }
}

extension Catalog {
    static func isPush(_ key: String) -> Bool { PushSetting(key) != nil }
}

extension Catalog.Contents {
    /// Reads a project's settings for a push service, which are opened.
    mutating func readPush(_ entry: CatalogEntry) throws {
        guard let setting = PushSetting(entry.key) else { return }
        let project = try setting.project(entry.key)
        switch setting {
        case .web: webPush[project] = try WebPushSettings(decoding: entry.value)
        case .apns: apns[project] = try APNsSettings(decoding: entry.value)
        case .relay: relays[project] = try RelaySettings(decoding: entry.value)
        case .service: pushServices[project] = try PushServiceSettings(decoding: entry.value)
        }
    }

    mutating func mergePush() {
        directory.pushServices = pushServices.mapValues { PushServiceProject($0) }
        for (project, settings) in webPush { directory.webPush[project] = WebPushProject(settings) }
        directory.otherPush = Set(apns.keys).union(relays.keys)
    }
}

extension CatalogDraft {
    package mutating func put(_ settings: WebPushSettings, of project: ProjectNumber) throws {
        try write(.web, settings.encoded, of: project)
        contents.webPush[project] = settings
        contents.directory.webPush[project] = WebPushProject(settings)
    }

    package mutating func put(_ settings: APNsSettings, of project: ProjectNumber) throws {
        try write(.apns, settings.encoded, of: project)
        contents.apns[project] = settings
        contents.directory.otherPush.insert(project)
    }

    package mutating func put(_ settings: RelaySettings, of project: ProjectNumber) throws {
        try write(.relay, settings.encoded, of: project)
        contents.relays[project] = settings
        contents.directory.otherPush.insert(project)
    }

    package mutating func put(_ settings: PushServiceSettings, of project: ProjectNumber) throws {
        try write(.service, settings.encoded, of: project)
        contents.pushServices[project] = settings
        contents.directory.pushServices[project] = PushServiceProject(settings)
    }

    private mutating func write(_ setting: PushSetting, _ value: [UInt8], of project: ProjectNumber) throws {
        let key = setting.key(project)
        writes.put(.setting, key: key, value: try contents.vault.seal(value, .setting, row: key))
        contents.damaged.removeAll { $0.key == key }
    }

    mutating func removePush(_ project: ProjectNumber) {
        if contents.webPush.removeValue(forKey: project) != nil { remove(.web, of: project) }
        if contents.apns.removeValue(forKey: project) != nil { remove(.apns, of: project) }
        if contents.relays.removeValue(forKey: project) != nil { remove(.relay, of: project) }
        if contents.pushServices.removeValue(forKey: project) != nil { remove(.service, of: project) }
        for setting in PushSetting.allCases where contents.isDamaged(.setting, setting.key(project)) {
            remove(setting, of: project)
        }
    }

    private mutating func remove(_ setting: PushSetting, of project: ProjectNumber) {
        let key = setting.key(project)
        writes.remove(.setting, key: key)
        contents.damaged.removeAll { $0.key == key }
    }
}
