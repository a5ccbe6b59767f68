import ArgumentParser
import CommandOutput
import Foundation

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
            try connection.setPush("web", of: id, body) { $0["publicKey"] as? String ?? "" }
        }
    }

    struct APNs: ParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "apns",
            abstract: "Give an app's key for Apple's push service, or switch the service on again.",
            discussion: """
                A project has one key for each app (bundle id) and each of Apple's environments. A key for \
                the same app and environment replaces the former one. The server seals the key and never \
                shows it. Without any option the command switches the service on again.
                """)
        @OptionGroup(title: "Server Options") var connection: ServerOptions
        @Argument(help: "The project's id.") var id: String
        @Option(
            name: .customLong("key"),
            help: "The key's file as Apple gives it (AuthKey_….p8); others must not be able to read it.")
        var keyFile: String?
        @Option(help: "The key's id: 10 characters.") var keyId: String?
        @Option(help: "The team's id: 10 characters.") var teamId: String?
        @Option(help: "The app's bundle id.") var bundleId: String?
        @Flag(help: "The key is for Apple's sandbox: apps that Xcode installs.") var sandbox = false
        @Option(help: ArgumentHelp("A host in place of Apple's.", valueName: "host[:port]"))
        var host: String?
        @Option(
            name: .customLong("push-ca"),
            help: "That host's certificate authorities, PEM, at most 64 KiB; with --data also --ca.")
        var authorityFile: String?

        func run() throws {
            var connection = connection
            let unused = connection.takeUnusedAuthority()
            if unused != nil, authorityFile != nil {
                throw ValidationError("Give --push-ca or --ca, only one of them.")
            }
            var body: [String: Any] = [:]
            if let keyFile { body["key"] = try Settings.privateText(in: keyFile) }
            body["keyId"] = keyId
            body["teamId"] = teamId
            body["bundleId"] = bundleId
            if sandbox { body["sandbox"] = true }
            body["host"] = host
            if let file = authorityFile ?? unused { body["ca"] = try PushFiles.certificates(in: file) }
            try connection.setPush("apns", of: id, body) { _ in "apns on" }
        }
    }

    struct FCM: ParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "fcm",
            abstract: "Relay to a Firebase project of your own, or change how.",
            discussion: """
                Devices that registered a token of that Firebase project get their messages through FCM. The \
                server seals the service account's key and never shows it. What is not given stays as it is.
                """)
        @OptionGroup(title: "Server Options") var connection: ServerOptions
        @Argument(help: "The project's id.") var id: String
        @Option(
            name: .customLong("service-account"),
            help: "The service account's file (JSON); others must not be able to read it.")
        var accountFile: String?
        @Option(help: ArgumentHelp("A service in place of Google's FCM.", valueName: "url"))
        var endpoint: String?
        @Flag(help: "Use Google's FCM.") var noEndpoint = false
        @OptionGroup var authorities: AuthorityOptions

        func validate() throws {
            guard endpoint == nil || !noEndpoint else {
                throw ValidationError("Give --endpoint or --no-endpoint, not both.")
            }
        }

        func run() throws {
            var connection = connection
            var body: [String: Any] = [:]
            body["ca"] = try authorities.text(orIn: connection.takeUnusedAuthority())
            if let accountFile { body["serviceAccount"] = try Settings.privateText(in: accountFile) }
            body["endpoint"] = noEndpoint ? "" : endpoint
            try connection.setPush("fcm", of: id, body) { _ in "fcm on" }
        }
    }

    struct Serve: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Make the project a push service itself, for Firefox and UnifiedPush.",
            discussion: """
                Firefox, and the UnifiedPush distributor Sunup, connect to the printed address, and get the \
                messages that senders post to their subscriptions. Without --origin the command switches the \
                service on again.
                """)
        @OptionGroup(title: "Server Options") var connection: ServerOptions
        @Argument(help: "The project's id.") var id: String
        @Option(help: "https://HOST or https://HOST:PORT, where user agents and senders reach this server.")
        var origin: String?

        func run() throws {
            var body: [String: Any] = [:]
            body["origin"] = origin
            try connection.setPush("serve", of: id, body) { $0["userAgents"] as? String ?? "" }
        }
    }
}

extension ServerOptions {
    /// Changes a project's settings for a service. Prints the answer, or a line of it.
    fileprivate func setPush(
        _ service: String, of id: String, _ body: [String: Any], line: ([String: Any]) -> String
    ) throws {
        let answer = try call(.POST, "/admin/projects/\(id.segment)/push/\(service)", body: body).object
        try json ? Output.json(answer) : Output.line(line(answer))
    }
}

enum PushFiles {
    /// The text of a file with certificates.
    static func certificates(in path: String) throws -> String {
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
