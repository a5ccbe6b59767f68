import ArgumentParser
import CommandOutput
import Foundation

struct Project: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Make and change projects, their keys, quotas and push services.",
        subcommands: [Create.self, List.self, Delete.self, Quota.self, Key.self, Push.self])

    struct Create: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Make a project and a service-account file for its backend.")
        @OptionGroup(title: "Server Options") var connection: ServerOptions
        @Argument(help: "The project's id.") var id: String
        @Option(help: "Where to write the service-account file (mode 0600); - is standard output.")
        var serviceAccount: String
        @Option(name: .customLong("token-uri"), help: "The token URI in the file; by default this server's.")
        var tokenURI: String?
        @Flag(help: "Replace an existing service-account file.") var force = false

        func run() throws {
            // Must run first, so that no project is created whose key cannot be kept.
            let file = try SecretOutput(serviceAccount, replacing: force)
            var body = ["id": id]
            body["tokenUri"] = tokenURI
            let answer = try connection.call(.POST, "/admin/projects", body: body, mayMakeFolder: true).object
            let remedy = "make another with `tidecast key create \(id) --kind service-account`"
            guard try file.keep(answer["serviceAccount"], "project \(id) made", ifLost: remedy) else {
                return
            }
            if connection.json {
                return try Output.json([
                    "project": id, "projectNumber": answer["projectNumber"] ?? 0,
                    "serviceAccount": serviceAccount,
                ])
            }
            try Output.line("project \(id) made; service account in \(serviceAccount)")
        }
    }

    struct List: ParsableCommand {
        static let configuration = CommandConfiguration(abstract: "List the projects.")
        @OptionGroup(title: "Server Options") var connection: ServerOptions
        func run() throws {
            let projects =
                try connection.call(.GET, "/admin/projects").object["projects"] as? [[String: Any]] ?? []
            if connection.json { return try Output.json(projects) }
            try Output.table(
                ["PROJECT", "NUMBER"],
                projects.map { [$0["project"] as? String ?? "", "\($0["projectNumber"] ?? 0)"] })
        }
    }

    struct Delete: ParsableCommand {
        static let configuration = CommandConfiguration(abstract: "Delete a project, its keys and accounts.")
        @OptionGroup(title: "Server Options") var connection: ServerOptions
        @Argument(help: "The project's id.") var id: String
        @Flag(help: "Do not ask for confirmation.") var yes = false
        func run() throws {
            _ = try connection.call(.GET, "/admin/projects/\(id.segment)/quotas")
            try Consent.demand("Delete project \(id), its keys and accounts?", id, given: yes)
            _ = try connection.call(.DELETE, "/admin/projects/\(id.segment)")
            if connection.json {
                try Output.json(["project": id])
            } else {
                try Output.line("project \(id) deleted")
            }
        }
    }

    struct Quota: ParsableCommand {
        static let configuration = CommandConfiguration(abstract: "Show or set a project's quotas.")
        @OptionGroup(title: "Server Options") var connection: ServerOptions
        @Argument(help: "The project's id.") var id: String
        // A number that begins with a minus gets another error than a missing number.
        @Option(parsing: .unconditional, help: "Messages a minute; the burst is as large.")
        var sendsPerMinute: Int?
        @Option(
            parsing: .unconditional, help: "Subscriptions made or ended a second, counted in devices.")
        var subscriptionsPerSecond: Int?
        @Option(parsing: .unconditional, help: "Devices registered a second.")
        var registrationsPerSecond: Int?
        @Option(
            parsing: .unconditional,
            help: "Topic messages that are accepted and not yet handed to every partition.")
        var fanouts: Int?
        @Option(parsing: .unconditional, help: "Devices that the project may have.")
        var devices: Int?
        @Option(
            parsing: .unconditional,
            help: "Names of topics of the project in one event loop; long names count more than once.")
        var topics: Int?

        func validate() throws {
            for (name, value) in [
                ("sends-per-minute", sendsPerMinute), ("subscriptions-per-second", subscriptionsPerSecond),
                ("registrations-per-second", registrationsPerSecond), ("fanouts", fanouts),
                ("devices", devices), ("topics", topics),
            ] {
                guard value ?? 0 >= 0 else {
                    throw ValidationError("--\(name) must be at least 0, not \(value ?? 0).")
                }
            }
        }

        func run() throws {
            var changes: [String: Any] = [:]
            changes["devices"] = devices
            changes["topics"] = topics
            changes["sendsPerMinute"] = sendsPerMinute
            changes["subscriptionsPerSecond"] = subscriptionsPerSecond
            changes["registrationsPerSecond"] = registrationsPerSecond
            changes["fanouts"] = fanouts
            let path = "/admin/projects/\(id.segment)/quotas"
            let answer = try connection.call(
                changes.isEmpty ? .GET : .PATCH, path, body: changes.isEmpty ? nil : changes
            ).object
            if connection.json { return try Output.json(answer) }
            let limits = answer["limits"] as? [String: Any] ?? [:]
            try Output.table(["QUOTA", "LIMIT"], limits.keys.sorted().map { [$0, "\(limits[$0] ?? "")"] })
        }
    }

    struct Key: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Keys of a project.", subcommands: [Create.self])

        struct Create: ParsableCommand {
            static let configuration = CommandConfiguration(
                abstract:
                    "Make a key: for devices to register (device), or a backend's bearer token (bearer).")
            @OptionGroup(title: "Server Options") var connection: ServerOptions
            @Argument(help: "The project's id.") var id: String
            @Option(help: "device or bearer.") var kind: String

            func run() throws {
                let answer = try connection.call(
                    .POST, "/admin/projects/\(id.segment)/keys", body: ["kind": kind]
                )
                .object
                let lost =
                    "the key that was made is lost: `tidecast key revoke \(answer["id"] ?? "")`, and make another"
                try Output.onlyCopy(lost) {
                    if connection.json { return try Output.json(answer) }
                    try Output.line(answer["key"] as? String ?? "")
                }
            }
        }
    }
}
