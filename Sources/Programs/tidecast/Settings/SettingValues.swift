import ArgumentParser
import Configuration
import Foundation
import Node

/// The values of all settings: a flag goes before the environment, and the environment before the file.
struct SettingValues {
    /// By key.
    private var texts: [String: String] = [:]
    private var lists: [String: [String]] = [:]
    private var numbers: [String: Int] = [:]
    private var flags: Set<String> = []
    private let onCommandLine: Set<String>

    /// Throws `ValidationError`, which names the flag or the variable.
    init(_ server: Server, _ config: ConfigReader, environment: [String: String]) async throws {
        var given: [String: Any] = [:]
        for child in Mirror(reflecting: server).children {
            guard let name = child.label?.dropFirst() else { continue }
            given[String(name)] = (child.value as? any CommandLineValue)?.given
        }
        onCommandLine = Set(given.keys)
        for setting in Setting.all {
            do {
                try await read(setting, given: given[setting.key], config, environment: environment)
            } catch let error as ValidationError {
                throw error
            } catch {
                // The file's kinds were checked before.
                let given = environment[setting.variable] ?? ""
                throw ValidationError("\(setting.variable) must be \(setting.kind.words), not \"\(given)\".")
            }
        }
    }

    private mutating func read(
        _ setting: Setting, given: Any?, _ config: ConfigReader, environment: [String: String]
    ) async throws {
        let key = ConfigKey(setting.key)
        switch setting.kind {
        case .text:
            if let text = given as? String {
                texts[setting.key] = text
            } else {
                texts[setting.key] = try await config.fetchString(forKey: key)
            }
        case .list:
            if let list = given as? [String] {
                lists[setting.key] = list
            } else if setting.key == Setting.furtherEngine.key, let text = environment[setting.variable] {
                // A URL may contain commas.
                lists[setting.key] = text.split(separator: ";").map(String.init)
            } else {
                lists[setting.key] = try await config.fetchStringArray(forKey: key)
            }
        case .number(let range):
            var number = given as? Int
            if number == nil { number = try await config.fetchInt(forKey: key) }
            guard let number else { return }
            guard range.contains(number) else {
                throw ValidationError("\(setting.flag) must be \(Setting.text(range)), not \(number).")
            }
            numbers[setting.key] = number
        case .flag:
            if given != nil {
                flags.insert(setting.key)
            } else if try await config.fetchBool(forKey: key, default: false) {
                flags.insert(setting.key)
            }
        }
    }

    func text(_ setting: Setting) -> String? { texts[setting.key] }
    func list(_ setting: Setting) -> [String] { lists[setting.key] ?? [] }
    func number(_ setting: Setting) -> Int? { numbers[setting.key] }
    func isOn(_ setting: Setting) -> Bool { flags.contains(setting.key) }
    func isOnCommandLine(_ setting: Setting) -> Bool { onCommandLine.contains(setting.key) }
}

/// What the command line gives, or `nil`.
private protocol CommandLineValue { var given: Any? { get } }

extension Option: CommandLineValue {
    fileprivate var given: Any? {
        let value: Any = wrappedValue
        if let list = value as? [String] { return list.isEmpty ? nil : list }
        return value as? String ?? value as? Int
    }
}

extension Flag: CommandLineValue {
    fileprivate var given: Any? { wrappedValue as? Bool == true ? true : nil }
}

extension Setting.Kind {
    /// For example "a whole number".
    var words: String {
        switch self {
        case .text: "a text"
        case .list: "an array of texts"
        case .flag: "true or false"
        case .number: "a whole number"
        }
    }
}

extension NodeConfiguration {
    /// The hosts on which the server listens.
    var hosts: [String] { (listen + listenTLS).map(\.host) }

    /// Whether backends on other machines reach this server.
    var isReachedFromElsewhere: Bool {
        !isDev && cluster?.isGateway ?? true && !hosts.allSatisfy(Server.isLoopback)
    }
}
