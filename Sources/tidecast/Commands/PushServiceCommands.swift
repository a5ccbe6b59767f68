import ArgumentParser
import CommandOutput
import Foundation

extension Project.Push {
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
        @Flag(
            inversion: .prefixedNo,
            help: "Try a token that Apple does not know in the other environment, where that has a key.")
        var tryOtherEnvironment: Bool?
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
            body["tryOtherEnvironment"] = tryOtherEnvironment
            body["host"] = host
            if let file = authorityFile ?? unused { body["ca"] = try PushFiles.certificates(in: file) }
            let answer = try connection.call(
                .POST, "/admin/projects/\(id.segment)/push/apns", body: body
            ).object
            if connection.json { return try Output.json(answer) }
            try Output.line("apns on")
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
            let answer = try connection.call(
                .POST, "/admin/projects/\(id.segment)/push/fcm", body: body
            ).object
            if connection.json { return try Output.json(answer) }
            try Output.line("fcm on")
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
            let answer = try connection.call(
                .POST, "/admin/projects/\(id.segment)/push/serve", body: body
            ).object
            if connection.json { return try Output.json(answer) }
            try Output.line(answer["userAgents"] as? String ?? "")
        }
    }

    struct Status: ParsableCommand {
        static let configuration = CommandConfiguration(abstract: "Show a project's push services.")
        @OptionGroup(title: "Server Options") var connection: ServerOptions
        @Argument(help: "The project's id.") var id: String

        func run() throws {
            let answer = try connection.call(.GET, "/admin/projects/\(id.segment)/push").object
            if connection.json { return try Output.json(answer) }
            func service(_ name: String) -> [String: Any] { answer[name] as? [String: Any] ?? [:] }
            try Output.table(
                ["SETTING", "VALUE"],
                Self.web(service("web")) + Self.apns(service("apns")) + Self.fcm(service("fcm"))
                    + Self.serve(service("serve")))
        }

        private static func serve(_ serve: [String: Any]) -> [[String]] {
            let names = [("origin", "origin"), ("userAgents", "user agents")]
            return [["serve", serve["state"] as? String ?? "none"]]
                + names.compactMap { name, shown in (serve[name] as? String).map { [shown, $0] } }
        }

        private static func web(_ web: [String: Any]) -> [[String]] {
            var rows = [["web", web["state"] as? String ?? "none"]]
            if let subject = web["subject"] as? String { rows.append(["subject", subject]) }
            for host in web["allowHosts"] as? [String] ?? [] { rows.append(["further push service", host]) }
            if let authorities = web["authorities"] as? String {
                rows.append(["certificate authorities", authorities])
            }
            for (index, key) in (web["keys"] as? [[String: Any]] ?? []).enumerated() {
                let text = key["publicKey"] as? String ?? ""
                rows.append([index == 0 ? "public key" : "former public key", text])
            }
            return rows
        }

        private static func apns(_ apns: [String: Any]) -> [[String]] {
            var rows = [["apns", apns["state"] as? String ?? "none"]]
            if let other = apns["otherEnvironment"] as? String { rows.append(["other environment", other]) }
            for key in apns["keys"] as? [[String: Any]] ?? [] {
                func text(_ name: String) -> String { key[name] as? String ?? "" }
                rows.append([
                    "\(text("bundleId")), \(text("environment"))",
                    "key \(text("keyId")) of team \(text("teamId")), \(text("host")), authorities:"
                        + " \(text("authorities"))",
                ])
            }
            return rows
        }

        private static func fcm(_ fcm: [String: Any]) -> [[String]] {
            let names = [
                ("projectId", "Firebase project"), ("clientEmail", "service account"), ("keyId", "key"),
                ("endpoint", "endpoint"), ("tokenUri", "access tokens from"),
                ("authorities", "certificate authorities"),
            ]
            return [["fcm", fcm["state"] as? String ?? "none"]]
                + names.compactMap { name, shown in (fcm[name] as? String).map { [shown, $0] } }
        }
    }

    struct Message: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Show how push services have answered to a message.",
            discussion: "The owners of partitions keep the answers to their newest messages, until they end.")
        @OptionGroup(title: "Server Options") var connection: ServerOptions
        @Argument(help: "The project's id.") var id: String
        @Argument(help: "The message's id, or its name as a send has answered it.") var message: String

        func run() throws {
            let last = message.split(separator: "/").last.map(String.init) ?? ""
            let answer = try connection.call(
                .GET, "/v1/projects/\(id.segment)/messages/\(last.segment)"
            ).object
            if connection.json { return try Output.json(answer) }
            let pushes = answer["pushes"] as? [[String: Any]] ?? []
            if pushes.isEmpty { return try Output.line("no push service has answered to \(last) lately") }
            try Output.table(
                ["SERVICE", "OUTCOME", "COUNT", "NEWEST", "REASON"],
                pushes.map { push in
                    ["kind", "outcome", "count", "time", "reason"].map { push[$0].map { "\($0)" } ?? "" }
                })
        }
    }

    struct Off: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Switch the push services web, apns and fcm off, or one; keys and settings stay.",
            discussion: "With --bundle-id the command removes the key for one app, and the service stays on.")
        @OptionGroup(title: "Server Options") var connection: ServerOptions
        @Argument(help: "The project's id.") var id: String
        @Argument(help: "The push service: web, apns or fcm; without it all three. serve: the project's own.")
        var service: String?
        @Option(help: "Remove the key for this app at Apple's push service.") var bundleId: String?
        @Flag(help: "That key is the one for Apple's sandbox.") var sandbox = false

        private static let services = ["web", "apns", "fcm"]

        func validate() throws {
            if let service, service != "serve", !Self.services.contains(service) {
                throw ValidationError("The push service must be web, apns, fcm or serve, not \(service).")
            }
            guard bundleId == nil || service == "apns" else {
                throw ValidationError("--bundle-id is for apns.")
            }
            guard !sandbox || bundleId != nil else {
                throw ValidationError("--sandbox goes with --bundle-id.")
            }
        }

        func run() throws {
            var path = "/admin/projects/\(id.segment)/push"
            if let service { path += "/\(service)" }
            if let bundleId { path += "/\(sandbox ? "sandbox" : "production")/\(bundleId.segment)" }
            let answer = try connection.call(.DELETE, path).object
            if connection.json { return try Output.json(answer) }
            if let bundleId { return try Output.line("the key for \(bundleId) is removed") }
            if service == "serve" { return try Output.line("serve off") }
            // A service that the project has no settings for is neither on nor off.
            for name in service.map({ [$0] }) ?? Self.services
            where (answer[name] as? [String: Any])?["state"] as? String == "off" {
                try Output.line("\(name) off")
            }
            if service == nil, (answer["serve"] as? [String: Any])?["state"] as? String == "on" {
                try Output.line("serve stays on: `tidecast project push off \(id) serve` switches it off")
            }
        }
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
