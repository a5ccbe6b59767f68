import ArgumentParser
import CommandOutput
import Foundation

/// `subscribe` and `unsubscribe` differ in one word of the path.
private func change(
    _ verb: String, _ topic: String, tokens: [String], project: String, connection: ServerOptions
) throws {
    var results: [[String: Any]] = []
    for start in stride(from: 0, to: tokens.count, by: 1000) {
        let batch = Array(tokens[start..<min(start + 1000, tokens.count)])
        let path = "/admin/projects/\(project.segment)/\(verb)"
        let answer = try connection.call(
            .POST, path, body: ["to": "/topics/\(topic)", "registration_tokens": batch]
        ).object
        results += answer["results"] as? [[String: Any]] ?? []
    }
    if connection.json { return try Output.json(["results": results]) }
    let refused = results.enumerated().filter { !$0.element.isEmpty }
    for (index, result) in refused {
        try Output.line("\(tokens[index]): \(sentence(result["error"] as? String))")
    }
    try Output.line("\(results.count - refused.count) of \(results.count) done")
    if !refused.isEmpty { throw ExitCode.failure }
}

/// The server's word for a token, of which an SDK knows three.
private func sentence(_ word: String?) -> String {
    switch word {
    case "INVALID_ARGUMENT": "no token of this project that this server made"
    case "NOT_FOUND": "the device is unregistered"
    case let word: word ?? "refused"
    }
}

struct Subscribe: ParsableCommand {
    static let configuration = CommandConfiguration(abstract: "Subscribe devices to a topic.")
    @OptionGroup(title: "Server Options") var connection: ServerOptions
    @Argument(help: "The topic's name.") var topic: String
    @Argument(help: "Tokens or FIDs.") var tokens: [String]
    @OptionGroup var project: ProjectOption
    func run() throws {
        try change("subscribe", topic, tokens: tokens, project: project.id, connection: connection)
    }
}

struct Unsubscribe: ParsableCommand {
    static let configuration = CommandConfiguration(abstract: "End subscriptions of devices to a topic.")
    @OptionGroup(title: "Server Options") var connection: ServerOptions
    @Argument(help: "The topic's name.") var topic: String
    @Argument(help: "Tokens or FIDs.") var tokens: [String]
    @OptionGroup var project: ProjectOption
    func run() throws {
        try change("unsubscribe", topic, tokens: tokens, project: project.id, connection: connection)
    }
}

struct Send: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Send a message to a topic, a condition or one device.")
    @OptionGroup(title: "Server Options") var connection: ServerOptions
    @OptionGroup var project: ProjectOption
    @Option(help: "Send to a topic.") var topic: String?
    @Option(help: "Send to a condition, such as \"'a' in topics && 'b' in topics\".") var condition: String?
    @Option(help: "Send to one device, by its token or FID.") var device: String?
    @Option(help: "An entry of the message's data, KEY=VALUE; may be repeated.") var field: [String] = []
    @Option(help: "The notification's title.") var title: String?
    @Option(help: "The notification's body.") var body: String?
    @Option(name: .customLong("ttl"), help: "Seconds to wait for absent devices.") var ttl: Int?
    @Option(help: "The message replaces waiting messages of the same key.") var collapseKey: String?
    @Flag(help: "Check everything, deliver nothing.") var validateOnly = false

    func validate() throws {
        guard [topic, condition, device].compactMap({ $0 }).count == 1 else {
            throw ValidationError("Name exactly one of --topic, --condition and --device.")
        }
        for entry in field where !entry.contains("=") {
            throw ValidationError("--field must be KEY=VALUE, not \(entry).")
        }
    }

    func run() throws {
        var message: [String: Any] = [:]
        if let topic { message["topic"] = topic }
        if let condition { message["condition"] = condition }
        if let device { message["token"] = device }
        var entries: [String: String] = [:]
        for entry in field {
            let parts = entry.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            entries[String(parts[0])] = String(parts[1])
        }
        if !entries.isEmpty { message["data"] = entries }
        var notification: [String: String] = [:]
        if let title { notification["title"] = title }
        if let body { notification["body"] = body }
        if !notification.isEmpty { message["notification"] = notification }
        var android: [String: String] = [:]
        if let ttl { android["ttl"] = "\(ttl)s" }
        if let collapseKey { android["collapse_key"] = collapseKey }
        if !android.isEmpty { message["android"] = android }
        var request: [String: Any] = ["message": message]
        if validateOnly { request["validate_only"] = true }
        let answer = try connection.call(
            .POST, "/v1/projects/\(project.id.segment)/messages:send", body: request
        )
        .object
        if connection.json {
            try Output.json(answer)
        } else {
            try Output.line(answer["name"] as? String ?? "")
        }
    }
}

struct Listen: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Listen as a device: print what comes, until Ctrl-C.")
    @OptionGroup(title: "Server Options") var connection: ServerOptions
    @Argument(help: "The device's FID or token.") var token: String
    @Option(help: .hidden)
    var credential: String?
    @Option(
        help: """
            A file whose first line is the device's credential, as registering showed it; or \
            TIDECAST_CREDENTIAL.
            """)
    var credentialFile: String?
    @OptionGroup var project: ProjectOption
    @Option(help: "The id of an event: resume after it, and acknowledge up to it.") var lastEventId: String?

    private static var ofEnvironment: String? {
        ProcessInfo.processInfo.environment["TIDECAST_CREDENTIAL"]
    }

    func validate() throws {
        guard credential == nil else {
            throw ValidationError(
                "--credential would show the credential to everybody on this machine, in the list of"
                    + " processes: give it by TIDECAST_CREDENTIAL or --credential-file.")
        }
        guard credentialFile != nil || Listen.ofEnvironment != nil else {
            throw ValidationError(
                "Give the device's credential, which registering showed: --credential-file or"
                    + " TIDECAST_CREDENTIAL.")
        }
    }

    private func shown() throws -> String {
        guard let credentialFile else { return Listen.ofEnvironment ?? "" }
        return Settings.line(try Settings.privateText(in: credentialFile))
    }

    func run() throws {
        let path = "/v1/projects/\(project.id.segment)/registrations/\(token.segment):listen"
        var headers = [
            ("authorization", "Bearer \(try shown())"), ("accept", "text/event-stream, application/json"),
        ]
        if let lastEventId { headers.append(("last-event-id", lastEventId)) }
        do {
            try connection.client().stream(path, headers: headers) { bytes in
                try Output.bytes(bytes)
            }
        } catch let error as ClientError
            where [401, 403].contains(error.status)
            || error.status == 400 && error.description.contains("at name")
        {
            // The server does not show a stranger what there is.
            throw ClientError(
                "the server knows no project \(project.id), or the token is no device's of the project,"
                    + " or the credential is not the device's: give the token and the credential that"
                    + " registering showed")
        }
        throw ClientError(
            "the server has ended the stream: listen again, and give the last event's id by --last-event-id")
    }
}
