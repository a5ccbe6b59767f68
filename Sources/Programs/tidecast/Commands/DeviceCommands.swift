import ArgumentParser
import CommandOutput
import Foundation

struct Device: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Register, list, look at and delete devices.",
        subcommands: [Register.self, List.self, Info.self, Delete.self])

    struct Register: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Register a device; shows its token and credential once.")
        @OptionGroup(title: "Server Options") var connection: ServerOptions
        @OptionGroup var project: ProjectOption

        func run() throws {
            let answer = try connection.call(
                .POST, "/v1/projects/\(project.id.segment)/registrations", body: [:]
            )
            .object
            let device = (answer["name"] as? String ?? "").split(separator: "/").last ?? ""
            let remedy = "`tidecast device delete \(device) --project \(project.id)`, and register another"
            try Output.onlyCopy("the credential of the device that was registered is lost: \(remedy)") {
                if connection.json { return try Output.json(answer) }
                for field in ["name", "token", "credential", "createTime"] {
                    try Output.line("\(field): \(answer[field] as? String ?? "")")
                }
            }
        }
    }

    struct List: ParsableCommand {
        static let configuration = CommandConfiguration(abstract: "List a project's devices.")
        @OptionGroup(title: "Server Options") var connection: ServerOptions
        @OptionGroup var project: ProjectOption

        func run() throws {
            let devices = try connection.pages(
                "/v1/projects/\(project.id.segment)/registrations", of: "registrations")
            if connection.json { return try Output.json(devices) }
            try Output.table(
                ["DEVICE", "LAST SEEN", "TOPICS", "WAITING"],
                devices.map { device in
                    [
                        (device["name"] as? String ?? "").split(separator: "/").last.map(String.init) ?? "",
                        device["lastSeenDate"] as? String ?? "", "\(device["topicCount"] ?? 0)",
                        "\(device["waitingCount"] ?? 0)",
                    ]
                })
        }
    }

    struct Info: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "List a device's topics, and since when it is subscribed to each.")
        @OptionGroup(title: "Server Options") var connection: ServerOptions
        @Argument(help: "The device's FID or token.") var token: String
        @OptionGroup var project: ProjectOption

        func run() throws {
            let path = "/v1/projects/\(project.id.segment)/registrations/\(token.segment)/topicSubscriptions"
            let topics = try connection.pages(path, of: "topicSubscriptions")
            if connection.json { return try Output.json(topics) }
            try Output.table(
                ["TOPIC", "SINCE"],
                // The server keeps the day.
                topics.map {
                    [
                        $0["topicName"] as? String ?? "",
                        String(($0["createTime"] as? String ?? "").prefix(10)),
                    ]
                })
        }
    }

    struct Delete: ParsableCommand {
        static let configuration = CommandConfiguration(abstract: "Unregister a device.")
        @OptionGroup(title: "Server Options") var connection: ServerOptions
        @Argument(help: "The device's FID or token.") var token: String
        @OptionGroup var project: ProjectOption

        @Flag(help: "Do not ask for confirmation.") var yes = false

        func run() throws {
            let path = "/v1/projects/\(project.id.segment)/registrations/\(token.segment)"
            _ = try connection.call(.GET, path)
            let name = String(token.prefix { $0 != ":" })
            try Consent.demand("Unregister device \(name) and end its subscriptions?", name, given: yes)
            _ = try connection.call(.DELETE, path)
            if connection.json { try Output.json([String: String]()) } else { try Output.line("deleted") }
        }
    }
}

struct Topic: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "List topics and count their members.", subcommands: [List.self, Info.self])

    struct List: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "List a project's topics with the number of their members.")
        @OptionGroup(title: "Server Options") var connection: ServerOptions
        @OptionGroup var project: ProjectOption

        func run() throws {
            let topics = try connection.pages("/v1/projects/\(project.id.segment)/topics", of: "topics")
            if connection.json { return try Output.json(topics) }
            try Output.table(
                ["TOPIC", "MEMBERS"],
                topics.map { [$0["topicName"] as? String ?? "", "\($0["memberCount"] ?? 0)"] })
        }
    }

    struct Info: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Count the devices that are subscribed, absent devices included.")
        @OptionGroup(title: "Server Options") var connection: ServerOptions
        @Argument(help: "The topic's name.") var topic: String
        @OptionGroup var project: ProjectOption

        func run() throws {
            let path = "/v1/projects/\(project.id.segment)/topics/\(topic.segment)"
            let answer = try connection.call(.GET, path).object
            if connection.json { return try Output.json(answer) }
            switch answer["memberCount"] as? Int ?? 0 {
            case 0: try Output.line("no device is subscribed to \(topic), so \(project.id) has no such topic")
            case 1: try Output.line("\(topic): 1 member")
            case let count: try Output.line("\(topic): \(count) members")
            }
        }
    }
}
