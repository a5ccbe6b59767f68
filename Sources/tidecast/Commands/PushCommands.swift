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
            if let authorityFile = authorityFile ?? unused {
                body["ca"] = try PushFiles.certificates(in: authorityFile)
            }
            if isWithoutAuthority { body["ca"] = "" }
            if newKey { body["newKey"] = true }
            let answer = try connection.call(
                .POST, "/admin/projects/\(id.segment)/push/web", body: body
            ).object
            if connection.json { return try Output.json(answer) }
            print(answer["publicKey"] as? String ?? "")
        }
    }
}
