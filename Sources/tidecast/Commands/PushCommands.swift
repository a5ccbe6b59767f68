import ArgumentParser
import CommandOutput
import Foundation

extension Project {
    struct Push: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Set how a project reaches push services.",
            subcommands: [
                Web.self, APNs.self, FCM.self, Serve.self, Status.self, Message.self, Off.self,
            ])
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
        @OptionGroup(title: "Server Options") var connection: ServerOptions
        @Argument(help: "The project's id.") var id: String
        @Option(help: "Who answers for the messages: mailto:ADDRESS or https://…; needed the first time.")
        var subject: String?
        @Option(
            help: ArgumentHelp(
                "A push service beside the browsers' own; replaces the former list. Also *.HOST.",
                valueName: "host[:port]"))
        var allowHost: [String] = []
        @Flag(help: "List no further push services.") var noAllowHost = false
        @OptionGroup var authorities: AuthorityOptions
        @Flag(help: "Make another key for subscriptions from now on.") var newKey = false

        func validate() throws {
            guard allowHost.isEmpty || !noAllowHost else {
                throw ValidationError("--no-allow-host lists no push service: leave out --allow-host.")
            }
        }

        func run() throws {
            var connection = connection
            var body: [String: Any] = [:]
            body["ca"] = try authorities.text(orIn: connection.takeUnusedAuthority())
            body["subject"] = subject
            if !allowHost.isEmpty || noAllowHost { body["allowHosts"] = allowHost }
            if newKey { body["newKey"] = true }
            let answer = try connection.call(
                .POST, "/admin/projects/\(id.segment)/push/web", body: body
            ).object
            if connection.json { return try Output.json(answer) }
            try Output.line(answer["publicKey"] as? String ?? "")
        }
    }
}
