import ArgumentParser
import Foundation
import LoadGenerator

/// Loads that measure a server, and other products for comparison. `tools/bench` runs them all.
struct Bench: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Measure a running server.",
        subcommands: [
            Send.self, Fanout.self, Topics.self, Subscribe.self, Latency.self, Memory.self, Fill.self,
            Condition.self, Restart.self,
        ])
    @OptionGroup var options: BenchOptions
}

/// The measured server, and how its figures are shown.
struct BenchOptions: ParsableArguments {
    @Option(help: "The server, http://HOST:PORT, without TLS.") var server = "http://127.0.0.1:8787"
    @Option(help: "Where messages are published, if that is another port.") var publishServer: String?
    @Option(help: "tidecast, nchan, nchan-h1, redis, or plain for any other.") var kind = "tidecast"
    @Option(help: "The project.") var project = "bench"
    @Option(help: "The key that devices register with; the token where there is none.") var apiKey: String?
    @Option(help: "The backend's bearer token.") var token = "owner"
    @Option(help: "The processes whose CPU and memory count, separated by commas.") var pid: String?
    @Option(help: "Seconds to measure for.") var seconds: Double?
    @Flag(help: "Print JSON for programs.") var json = false

    func target() throws -> Target {
        raiseOpenFiles()
        guard let kind = Target.Kind(rawValue: kind) else {
            throw ValidationError("--kind is one of \(Target.Kind.allCases.map(\.rawValue))")
        }
        let words = pid?.split(separator: ",") ?? []
        let pids = words.compactMap { Int32($0) }
        guard pids.count == words.count else { throw ValidationError("--pid is a list of numbers") }
        return Target(
            kind: kind, address: try ServerAddress(server),
            publishAddress: try publishServer.map { try ServerAddress($0) }, project: project,
            deviceKey: apiKey, token: token, process: ServerProcess(pids: pids))
    }

    /// Reports the stages of long work to people, on standard error.
    var onStage: @Sendable (LoadReport) -> Void {
        { report in
            let text = "\(report.name): \(report.operations) in \(BenchOptions.text(report.seconds)) s\n"
            FileHandle.standardError.write(Data(text.utf8))
        }
    }

    func show(_ report: LoadReport) throws {
        if json { return try Output.json(BenchOptions.object(report)) }
        var rows: [[String]] = [
            ["operations", "\(report.operations) (\(report.unit)s)"],
            ["seconds", BenchOptions.text(report.seconds)],
            ["a second", BenchOptions.text(report.perSecond)],
        ]
        if let each = report.microsecondsEach {
            rows.append(["server CPU µs each", BenchOptions.text(each)])
        }
        let own = report.operations > 0 ? report.ownCPUSeconds * 1e6 / Double(report.operations) : 0
        rows.append(["own CPU µs each", BenchOptions.text(own)])
        for (name, histogram) in report.latencies where histogram.count > 0 {
            for (label, fraction) in BenchOptions.percentiles {
                rows.append([
                    "\(name), \(label), ms", BenchOptions.text(Double(histogram.percentile(fraction)) / 1e6),
                ])
            }
            rows.append(["\(name), max, ms", BenchOptions.text(Double(histogram.max) / 1e6)])
        }
        for status in report.statuses.keys.sorted() {
            rows.append(["status \(status)", "\(report.statuses[status] ?? 0)"])
        }
        rows += report.facts.map { [$0.name, BenchOptions.text($0.value)] }
        Output.table([report.name.uppercased(), ""], rows)
    }

    private static let percentiles = [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999)]

    private static func text(_ value: Double) -> String {
        value == value.rounded() ? String(format: "%.0f", value) : String(format: "%.3f", value)
    }

    private static func object(_ report: LoadReport) -> [String: Any] {
        var latencies: [String: Any] = [:]
        for (name, histogram) in report.latencies {
            var one: [String: Any] = ["max": Double(histogram.max) / 1e6, "mean": histogram.mean / 1e6]
            for (label, fraction) in percentiles { one[label] = Double(histogram.percentile(fraction)) / 1e6 }
            latencies[name] = one
        }
        let statuses = report.statuses.map { ("\($0.key)", $0.value) }
        var object: [String: Any] = [
            "name": report.name, "unit": report.unit, "operations": report.operations,
            "seconds": report.seconds, "perSecond": report.perSecond, "ownCPUSeconds": report.ownCPUSeconds,
            "latencyMilliseconds": latencies,
            "statuses": Dictionary(uniqueKeysWithValues: statuses),
            "facts": Dictionary(report.facts.map { ($0.name, $0.value) }) { $1 },
        ]
        object["cpuSeconds"] = report.cpuSeconds
        object["microsecondsEach"] = report.microsecondsEach
        return object
    }
}

extension Bench {
    struct Send: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Sends to a topic with one member, in a closed loop.")
        @OptionGroup var options: BenchOptions
        @Option(help: "Connections.") var connections = 16
        @Option(help: "Streams of each connection.") var streams = 100
        @Option(help: "Bytes of the body.") var bytes = 313
        @Option(help: "The path to POST to, for --kind plain.") var path = "/"

        func run() throws {
            let target = try options.target()
            let isPlain = target.kind != .tidecast
            let topic = "send\(getpid())"
            var load = SendLoad(
                path: isPlain ? path : target.sendPath, body: Target.sendBody(topic: topic, count: bytes))
            load.connections = connections
            load.streams = streams
            load.seconds = options.seconds ?? load.seconds
            if !isPlain { try target.subscribeOne(to: topic) }
            try options.show(try load.run(target))
        }
    }

    struct Fanout: ParsableCommand {
        static let configuration = CommandConfiguration(abstract: "Messages to one topic with many streams.")
        @OptionGroup var options: BenchOptions
        @Option(help: "Connections.") var connections = 100
        @Option(help: "Streams of all connections together.") var streams = 10_000
        @Option(help: "Messages under way.") var inFlight = 1
        @Option(help: "Bytes of filling in each message.") var padding = 0

        func run() throws {
            var load = FanoutLoad()
            load.connections = connections
            load.streams = streams
            load.inFlight = inFlight
            load.padding = padding
            load.seconds = options.seconds ?? load.seconds
            try options.show(try load.run(try options.target()))
        }
    }

    struct Topics: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Messages to many topics with a few streams each.")
        @OptionGroup var options: BenchOptions
        @Option(help: "Connections.") var connections = 100
        @Option(help: "Topics.") var topics = 1000
        @Option(help: "Streams of each topic.") var streams = 10
        @Option(help: "Messages under way.") var inFlight = 256
        @Option(help: "Bytes of filling in each message.") var padding = 0

        func run() throws {
            var load = FanoutLoad()
            load.name = "topics"
            load.connections = connections
            load.topics = topics
            load.streams = topics * streams
            load.inFlight = inFlight
            load.padding = padding
            load.seconds = options.seconds ?? load.seconds
            try options.show(try load.run(try options.target()))
        }
    }

    struct Latency: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Messages at a steady pace, each to a topic with one stream: from send to stream.")
        @OptionGroup var options: BenchOptions
        @Option(help: "Connections of the streams.") var connections = 10
        @Option(help: "Streams, each with a topic of its own.") var streams = 100
        @Option(help: "Messages a second.") var rate = 100.0

        func run() throws {
            var load = FanoutLoad()
            load.name = "latency"
            load.connections = connections
            load.topics = streams
            load.streams = streams
            load.rate = rate
            load.seconds = options.seconds ?? 20
            try options.show(try load.run(try options.target()))
        }
    }

    struct Subscribe: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Subscribes devices to topics, 1,000 a request.")
        @OptionGroup var options: BenchOptions
        @Option(help: "Devices.") var devices = 100_000
        @Option(help: "Topics.") var topics = 20
        @Option(help: "Connections.") var connections = 16
        @Option(help: "Requests under way on each connection.") var streams = 8

        func run() throws {
            var load = SubscribeLoad()
            load.devices = devices
            load.topics = topics
            load.connections = connections
            load.streams = streams
            try options.show(try load.run(try options.target()))
        }
    }

    struct Memory: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Resident memory for each idle connection and stream.")
        @OptionGroup var options: BenchOptions
        @Option(help: "Connections.") var connections = 10_000
        @Option(help: "Streams of each connection.") var streams = 1

        func run() throws {
            var load = MemoryLoad()
            load.connections = connections
            load.streams = streams
            try options.show(try load.run(try options.target()))
        }
    }

    struct Fill: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Fill a server with devices and subscriptions.")
        @OptionGroup var options: BenchOptions
        @Option(help: "Devices.") var devices = 100_000
        @Option(help: "Topics.") var topics = 1000
        @Option(help: "Subscriptions.") var subscriptions = 1_000_000
        @Option(help: "How steeply topics' sizes fall: 1/rank^zipf; 0 makes them equal.") var zipf = 1.0
        @Option(help: "Chooses the members.") var seed: UInt64 = 1

        func run() throws {
            var load = FillLoad()
            load.devices = devices
            load.topics = topics
            load.subscriptions = subscriptions
            load.exponent = zipf
            load.seed = seed
            load.onStage = options.onStage
            try options.show(try load.run(try options.target()))
        }
    }

    struct Condition: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Messages to a condition over five large topics.")
        @OptionGroup var options: BenchOptions
        @Option(help: "Devices.") var devices = 2_000_000
        @Option(help: "Members of each topic.") var members = 1_000_000
        @Option(help: "Streams that listen.") var listeners = 256

        func run() throws {
            var load = ConditionLoad()
            load.devices = devices
            load.membersEach = members
            load.listeners = listeners
            load.seconds = options.seconds ?? load.seconds
            load.onStage = options.onStage
            try options.show(try load.run(try options.target()))
        }
    }

    struct Restart: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Start a server some times: from exec to ready. The command follows --.")
        @OptionGroup var options: BenchOptions
        @Option(help: "How often.") var times = 3
        @Flag(help: "End it by SIGKILL each time, not SIGTERM.") var crash = false
        @Argument(parsing: .postTerminator, help: "The server's command line.") var command: [String] = []

        func run() throws {
            guard !command.isEmpty else {
                throw ValidationError("-- and the server's command line are wanted.")
            }
            var load = RestartLoad(command: command, address: try ServerAddress(options.server))
            load.times = times
            load.isCrash = crash
            try options.show(try load.run())
        }
    }
}
