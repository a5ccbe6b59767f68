import ArgumentParser
import Glibc
import LoadGenerator

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
