import ArgumentParser
import CommandOutput
import Foundation

extension Project {
    struct Push: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Set how a project reaches push services.",
            subcommands: [Web.self, Status.self, Off.self])
    }
}

extension Project.Push {
    struct Web: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Switch Web Push on, or change its settings; prints the key for pages.",
            discussion: """
                Makes a key at the first time. What is not given stays as it is. Subscriptions are bound to \
                the key for which a page made them, so that former keys go on after --new-key.
                """)
        @OptionGroup var connection: ServerOptions
        @Argument(help: "The project's id.") var id: String
        @Option(help: "Who answers for the messages: mailto:ADDRESS or https://…; needed the first time.")
        var subject: String?
        @Option(
            help: ArgumentHelp(
                "A push service besides the browsers' own; replaces the former list. Also *.HOST.",
                valueName: "host[:port]"))
        var allowHost: [String] = []
        @Flag(help: "List no further push services.") var noAllowHost = false
        @Option(
            name: .customLong("push-ca"),
            help: "The push services' certificate authorities, PEM, at most 64 KiB; with --data also --ca.")
        var authorityFile: String?
        @Flag(name: .customLong("no-push-ca"), help: "Use the system's certificate authorities.")
        var isWithoutAuthority = false
        @Flag(help: "Make another key for subscriptions from now on.") var newKey = false

        func validate() throws {
            guard allowHost.isEmpty || !noAllowHost else {
                throw ValidationError("--no-allow-host lists no push service: leave out --allow-host.")
            }
            guard authorityFile == nil || !isWithoutAuthority else {
                throw ValidationError("Give --push-ca or --no-push-ca, not both.")
            }
        }

        func run() throws {
            var connection = connection
            let unused = connection.takeUnusedAuthority()
            if unused != nil, authorityFile != nil || isWithoutAuthority {
                throw ValidationError("Give --push-ca, --no-push-ca or --ca, only one of them.")
            }
            var body: [String: Any] = [:]
            body["subject"] = subject
            if !allowHost.isEmpty || noAllowHost { body["allowHosts"] = allowHost }
            if let authorityFile = authorityFile ?? unused { body["ca"] = try Self.text(in: authorityFile) }
            if isWithoutAuthority { body["ca"] = "" }
            if newKey { body["newKey"] = true }
            let answer = try connection.call(
                .POST, "/admin/projects/\(id.segment)/push/web", body: body
            ).object
            if connection.json { return try Output.json(answer) }
            print(answer["publicKey"] as? String ?? "")
        }

        private static func text(in path: String) throws -> String {
            let file: FileHandle
            do { file = try FileHandle(forReadingFrom: URL(fileURLWithPath: path)) } catch {
                throw ClientError("\(path) cannot be read: \(error.localizedDescription)")
            }
            // One byte more than the server takes, so that the server says why a longer file is refused.
            let bytes = try file.read(upToCount: (64 << 10) + 1) ?? Data()
            guard let text = String(data: bytes, encoding: .utf8), !text.isEmpty else {
                throw ClientError("\(path) has no certificate in PEM")
            }
            return text
        }
    }

    struct Status: ParsableCommand {
        static let configuration = CommandConfiguration(abstract: "Show a project's push services.")
        @OptionGroup var connection: ServerOptions
        @Argument(help: "The project's id.") var id: String

        func run() throws {
            let answer = try connection.call(.GET, "/admin/projects/\(id.segment)/push").object
            if connection.json { return try Output.json(answer) }
            let web = answer["web"] as? [String: Any] ?? [:]
            var rows = [["web", web["state"] as? String ?? "none"]]
            if let subject = web["subject"] as? String { rows.append(["subject", subject]) }
            for host in web["allowHosts"] as? [String] ?? [] { rows.append(["further push service", host]) }
            if let authorities = web["authorities"] as? String {
                rows.append(["certificate authorities", authorities])
            }
            for (place, key) in (web["keys"] as? [[String: Any]] ?? []).enumerated() {
                let text = key["publicKey"] as? String ?? ""
                rows.append([place == 0 ? "public key" : "former public key", text])
            }
            Output.table(["SETTING", "VALUE"], rows)
        }
    }

    struct Off: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Switch a push service off; its keys and settings stay.")
        @OptionGroup var connection: ServerOptions
        @Argument(help: "The project's id.") var id: String
        @Argument(help: "The push service: web.") var service = "web"

        func validate() throws {
            guard service == "web" else {
                throw ValidationError("The push service must be web, not \(service).")
            }
        }

        func run() throws {
            let answer = try connection.call(.DELETE, "/admin/projects/\(id.segment)/push/web").object
            if connection.json { try Output.json(answer) } else { print("web off") }
        }
    }
}
