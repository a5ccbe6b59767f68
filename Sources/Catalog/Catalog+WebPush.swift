import Credentials
import FCMAPI
import Journal
import Model

// Each project's settings for Web Push are one sealed setting, under the project's number. A former build
// passes over the setting and leaves it as it is.

extension Catalog {
    private static let webPushPrefix = "web-push:"

    static func isWebPush(_ key: String) -> Bool { key.hasPrefix(webPushPrefix) }

    fileprivate static func webPushKey(_ project: ProjectNumber) -> String {
        "\(webPushPrefix)\(project.rawValue)"
    }

    fileprivate static func webPushProject(_ key: String) throws -> ProjectNumber {
        guard let number = UInt32(key.dropFirst(webPushPrefix.count)), number < ProjectNumber.limit else {
            throw EngineError.refused("the setting \(key) is from a newer tidecast, or damaged")
        }
        return ProjectNumber(number)
    }
}

extension Catalog.Contents {
    /// Whether the opened entry was a project's settings for Web Push.
    mutating func readWebPush(_ entry: CatalogEntry) throws -> Bool {
        guard Catalog.isWebPush(entry.key) else { return false }
        webPush[try Catalog.webPushProject(entry.key)] = try WebPushSettings(decoding: entry.value)
        return true
    }

    /// Leaves out the settings of projects that a former build has deleted. No later project gets a number
    /// again.
    mutating func mergeWebPush() {
        webPush = webPush.filter { directory.byNumber[$0.key] != nil }
        for (project, settings) in webPush { directory.webPush[project] = WebPushProject(settings) }
    }
}

extension CatalogDraft {
    package mutating func put(_ settings: WebPushSettings, of project: ProjectNumber) throws {
        let key = Catalog.webPushKey(project)
        writes.put(.setting, key: key, value: try contents.vault.seal(settings.encoded, .setting, row: key))
        contents.webPush[project] = settings
        contents.directory.webPush[project] = WebPushProject(settings)
    }

    mutating func removeWebPush(_ project: ProjectNumber) {
        guard contents.webPush[project] != nil else { return }
        writes.remove(.setting, key: Catalog.webPushKey(project))
        contents.webPush[project] = nil
    }
}
