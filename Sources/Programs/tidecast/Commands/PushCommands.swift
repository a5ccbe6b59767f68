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
