import ArgumentParser
import CommandOutput
import Foundation

struct Key: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "List, make, end and replace credentials.",
        subcommands: [
            List.self, Create.self, Expire.self, Revoke.self, Rotate.self, Server.self, Retire.self,
        ])

    struct List: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "List a project's credentials, or all. The time of the last use is a few minutes late.")
        @OptionGroup(title: "Server Options") var connection: ServerOptions
        @Argument(help: "The project's id.") var project: String?

        func run() throws {
            let query = project.map { "?project=\($0.segment)" } ?? ""
            let keys =
                try connection.call(.GET, "/admin/keys\(query)").object["keys"] as? [[String: Any]] ?? []
            if connection.json { return try Output.json(keys) }
            try Output.table(
                ["ID", "KIND", "PROJECT", "STATE", "CREATED", "EXPIRES", "LAST USED", "NAME"],
                keys.map { key in
                    func text(_ field: String) -> String { key[field] as? String ?? "-" }
                    func minute(_ field: String) -> String {
                        (key[field] as? String).map {
                            $0.prefix(16).replacingOccurrences(of: "T", with: " ")
                        } ?? "-"
                    }
                    let role = (key["role"] as? String).map { ":\($0)" } ?? ""
                    return [
                        text("id"), text("kind") + role, text("project"), text("state"), minute("createTime"),
                        minute("expireTime"), minute("lastUseTime"), text("name"),
                    ]
                })
        }
    }

    struct Create: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Make a credential; its secret is shown once.",
            discussion: """
                device: for apps to register with. bearer: for a backend, which sends it as it is. \
                service-account: one more file for a backend, as `project create` writes it. operator: \
                for commands over --server, in all projects.
                """)
        @OptionGroup(title: "Server Options") var connection: ServerOptions
        @OptionGroup var output: AccountOutput
        @Argument(help: "The project's id; leave it out for an operator's token.") var project: String?
        @Option(help: "device, bearer, service-account or operator.") var kind: String
        @Option(help: "The role of an operator's token: read, operate or admin.") var role: String?
        @Option(help: "The credential's name in lists.") var name: String?
        @Option(help: "When it ends: 90d, 12h, 30m, or a date (UTC).") var expires: When?

        func validate() throws {
            try output.check(isNeeded: kind == "service-account")
            guard (kind == "operator") == (project == nil) else {
                throw ValidationError(
                    project == nil
                        ? "Name the project by its id."
                        : "An operator's token is for all projects: leave out the project's id.")
            }
            guard (kind == "operator") == (role != nil) else {
                throw ValidationError("An operator's token needs --role, and other credentials have none.")
            }
        }

        func run() throws {
            var body = ["kind": kind]
            body["project"] = project
            body["role"] = role
            body["name"] = name
            body["tokenUri"] = output.tokenURI
            for (field, value) in expires?.fields ?? [:] { body[field] = value }
            let file = try output.open()
            let made = try connection.call(.POST, "/admin/keys", body: body).object
            try output.show(made, file, connection: connection)
        }
    }

    struct Expire: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Set when a credential ends, or that it never ends.")
        @OptionGroup(title: "Server Options") var connection: ServerOptions
        @Argument(help: "The credential's id, as `key list` shows it.") var id: String
        @Argument(help: "90d, 12h, 30m, a date (UTC), or never.") var when: When

        func run() throws {
            let key = try connection.call(.POST, "/admin/keys/\(id.segment)/expire", body: when.fields).object
            if connection.json { return try Output.json(key) }
            try Output.line("\(key["id"] ?? "") ends: \(key["expireTime"] as? String ?? "never")")
        }
    }

    struct Revoke: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "End a credential now, and the access tokens made with it.")
        @OptionGroup(title: "Server Options") var connection: ServerOptions
        @Argument(help: "The credential's id, as `key list` shows it.") var id: String
        @Flag(help: "Do not ask for confirmation.") var yes = false

        func run() throws {
            let keys = try connection.call(.GET, "/admin/keys").object["keys"] as? [[String: Any]] ?? []
            // If the credential does not exist, the server refuses without a question.
            if keys.contains(where: { $0["id"] as? String == id }) {
                try Consent.demand("End credential \(id) for good?", id, given: yes)
            }
            let key = try connection.call(.POST, "/admin/keys/\(id.segment)/revoke", body: [:]).object
            if connection.json { try Output.json(key) } else { try Output.line("\(key["id"] ?? "") revoked") }
        }
    }

    struct Rotate: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Replace a credential by a new one; the former one stays valid for a while.",
            discussion: """
                `signing` replaces the key that signs access tokens, `registration` the key under which \
                devices' ids are made. The server uses the new key after a minute, and what the former key \
                made stays valid.
                """)
        @OptionGroup(title: "Server Options") var connection: ServerOptions
        @OptionGroup var output: AccountOutput
        @Argument(help: "The credential's id, as `key list` shows it; or signing, or registration.")
        var id: String
        @Flag(help: "With `signing`: now, so that every access token ends.") var atOnce = false
        @Option(help: "How long the former credential stays valid: 7d, 12h, 30m.") var overlap: When?

        func validate() throws {
            if let overlap, overlap.seconds == nil {
                throw ValidationError("--overlap must be a length of time such as 12h, not a date.")
            }
            guard !atOnce || id == "signing" else {
                throw ValidationError("--at-once is for `signing` alone; `key revoke` ends a credential.")
            }
            guard !isServerKey || (overlap == nil && !output.isSaid) else {
                throw ValidationError(
                    "--overlap, --service-account, --token-uri and --force are for credentials, not for the"
                        + " server's own keys.")
            }
        }

        private var isServerKey: Bool { id == "signing" || id == "registration" }

        func run() throws {
            if isServerKey {
                let path = "/admin/serverKeys/\(id)/rotate"
                let body = atOnce ? ["atOnce": "true"] : [:]
                return try ServerKeys.show(try connection.call(.POST, path, body: body).object, connection)
            }
            var body: [String: String] = ["overlapSeconds": "\(overlap?.seconds ?? 86_400)"]
            body["tokenUri"] = output.tokenURI
            // Only the server knows the credential's kind: the secret of a service account is a file.
            let keys = try connection.call(.GET, "/admin/keys").object["keys"] as? [[String: Any]] ?? []
            // If the credential does not exist, the server refuses the rotation.
            if let former = keys.first(where: { id.hasPrefix($0["id"] as? String ?? "-") }) {
                try output.check(isNeeded: former["kind"] as? String == "service-account")
            }
            let file = try output.open()
            let made = try connection.call(.POST, "/admin/keys/\(id.segment)/rotate", body: body).object
            try output.show(made, file, connection: connection)
        }
    }
}

extension Key {
    struct Server: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Show which of the server's own keys are used, and since when.")
        @OptionGroup(title: "Server Options") var connection: ServerOptions

        func run() throws {
            try ServerKeys.show(try connection.call(.GET, "/admin/serverKeys").object, connection)
        }
    }

    struct Retire: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "End a registration key: the devices under it have to register again.")
        @OptionGroup(title: "Server Options") var connection: ServerOptions
        @Argument(help: "The key's number, as `key server` shows it.") var number: UInt8
        @Flag(help: "Do not ask for confirmation.") var yes = false

        func run() throws {
            let all = try connection.call(.GET, "/admin/serverKeys").object
            let keys = all["registration"] as? [[String: Any]] ?? []
            // If there is no such key, the server refuses without a question.
            if keys.contains(where: { $0["number"] as? Int == Int(number) }) {
                try Consent.demand(
                    "Unregister all devices of registration key \(number)?", "\(number)", given: yes)
            }
            let path = "/admin/serverKeys/registration/retire"
            try ServerKeys.show(
                try connection.call(.POST, path, body: ["number": "\(number)"]).object, connection)
        }
    }
}

private enum ServerKeys {
    static func show(_ answer: [String: Any], _ connection: ServerOptions) throws {
        if connection.json { return try Output.json(answer) }
        var rows: [[String]] = []
        for kind in ["signing", "registration"] {
            for key in answer[kind] as? [[String: Any]] ?? [] {
                rows.append([
                    kind, (key["number"] as? Int).map { "\($0)" } ?? "-", key["state"] as? String ?? "-",
                    key["useTime"] as? String ?? "-", key["expireTime"] as? String ?? "-",
                ])
            }
        }
        try Output.table(["USE", "NUMBER", "STATE", "FROM", "UNTIL"], rows)
    }
}

/// The place for the file of a service account, and how the command shows a new credential.
struct AccountOutput: ParsableArguments {
    @Option(help: "Where to write the service-account file (mode 0600); - is standard output.")
    var serviceAccount: String?
    @Option(name: .customLong("token-uri"), help: "The token URI in the file; by default this server's.")
    var tokenURI: String?
    @Flag(help: "Replace an existing service-account file.") var force = false

    var isSaid: Bool { serviceAccount != nil || tokenURI != nil || force }

    func check(isNeeded: Bool) throws {
        guard isNeeded != (serviceAccount != nil) else { return }
        throw ValidationError(
            isNeeded
                ? "A service account is a file: give --service-account FILE, or - for standard output."
                : "--service-account is only for credentials of the kind service-account.")
    }

    /// Must run first, so that no secret is created that cannot be kept.
    func open() throws -> SecretOutput? {
        try serviceAccount.map { try SecretOutput($0, replacing: force) }
    }

    func show(_ made: [String: Any], _ file: SecretOutput?, connection: ServerOptions) throws {
        var shown = made
        if let file {
            let done = "service account key \(made["id"] ?? "") made"
            guard try file.keep(made["serviceAccount"], done, ifLost: remedy(made)) else { return }
            shown["serviceAccount"] = serviceAccount
            if !connection.json { return try Output.line("\(done), in \(serviceAccount ?? "")") }
        }
        let lost = "the secret that was made is lost: \(remedy(made))"
        try Output.onlyCopy(lost) {
            if connection.json {
                try Output.json(shown)
            } else {
                try Output.line(made["key"] as? String ?? "")
            }
        }
    }

    private func remedy(_ made: [String: Any]) -> String {
        "`tidecast key revoke \(made["id"] ?? "")`, and make another"
    }
}

/// An end: a time from now, a date, or none.
enum When: ExpressibleByArgument {
    case after(seconds: Int)
    case at(seconds: Int)
    case never

    init?(argument: String) {
        if argument == "never" {
            self = .never
            return
        }
        let units = ["s": 1, "m": 60, "h": 3600, "d": 86_400]
        if let unit = argument.last.flatMap({ units[String($0)] }), let count = Int(argument.dropLast()) {
            guard count > 0, count <= 4_000_000 else { return nil }
            self = .after(seconds: count * unit)
            return
        }
        let text = argument.count == 10 ? argument + "T00:00:00Z" : argument
        guard let date = ISO8601DateFormatter().date(from: text) else { return nil }
        self = .at(seconds: Int(date.timeIntervalSince1970))
    }

    /// Seconds from now, if the argument gives them.
    var seconds: Int? { if case .after(let seconds) = self { seconds } else { nil } }

    /// The fields as the server takes them.
    var fields: [String: String] {
        switch self {
        case .after(let seconds): ["ttlSeconds": "\(seconds)"]
        case .at(let seconds): ["expireSeconds": "\(seconds)"]
        case .never: ["never": "true"]
        }
    }
}
