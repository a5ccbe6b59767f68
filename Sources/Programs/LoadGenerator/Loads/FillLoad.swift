import Glibc
import Model

/// Fills a server with devices and subscriptions: topics whose sizes fall by Zipf's law, or all equal.
public struct FillLoad: Sendable {
    public var devices = 100_000
    public var topics = 1_000
    public var subscriptions = 1_000_000
    /// The exponent: topic k has a share in proportion to 1 / k^exponent; 0 makes all topics equal.
    public var exponent = 1.0
    public var seed: UInt64 = 1
    public var prefix = "fill-"
    /// Called after each stage.
    public var onStage: @Sendable (LoadReport) -> Void = { _ in }

    public init() {}

    public func run(_ target: Target) throws -> LoadReport {
        let poller = try Poller()
        let (registered, registering) = try Devices.register(devices, at: target, on: poller)
        onStage(registering)
        return try subscribe(registered, target, poller: poller)
    }

    func subscribe(_ registered: Devices, _ target: Target, poller: Poller) throws -> LoadReport {
        var report = try Subscriber.run(
            FillPlan(self), of: registered, at: target, on: poller, connections: 16, streams: 32)
        report.name = "fill"
        if let resident = target.process.residentBytes() {
            report.facts.append(("resident, MiB", Double(resident) / 1_048_576))
        }
        if let peak = target.process.peakResidentBytes() {
            report.facts.append(("resident at its highest, MiB", Double(peak) / 1_048_576))
        }
        onStage(report)
        return report
    }

    /// The number of devices in each topic, the largest first.
    func sizes() -> [Int] {
        var weights: [Double] = []
        weights.reserveCapacity(topics)
        for rank in 1...max(1, topics) { weights.append(pow(Double(rank), -exponent)) }
        let whole = weights.reduce(0, +)
        return weights.map { min(devices, max(1, Int((Double(subscriptions) * $0 / whole).rounded()))) }
    }
}

/// The batches of a fill. A seeded start and a step through all devices give each topic its devices, so that
/// no device comes twice in a topic and no list is kept.
struct FillPlan: Swift.Sequence, IteratorProtocol {
    private let devices: Int
    private let sizes: [Int]
    private let prefix: String
    private let steps: [Int]
    private var random: SeededGenerator
    private var topic = -1
    private var left = 0
    private var first = 0
    private var step = 1

    init(_ load: FillLoad) {
        devices = load.devices
        sizes = load.sizes()
        prefix = load.prefix
        random = SeededGenerator(seed: load.seed)
        var steps: [Int] = []
        for _ in 0..<64 {
            var step = Int.random(in: 1..<Swift.max(2, load.devices), using: &random)
            while FillPlan.gcd(step, load.devices) != 1 { step += 1 }
            steps.append(step % Swift.max(1, load.devices))
        }
        self.steps = steps
    }

    mutating func next() -> Batch? {
        if left == 0 {
            topic += 1
            guard topic < sizes.count else { return nil }
            left = sizes[topic]
            first = Int.random(in: 0..<devices, using: &random)
            step = steps[Int.random(in: 0..<steps.count, using: &random)]
        }
        let count = Swift.min(left, Batch.devicesMax)
        let batch = Batch(topic: "\(prefix)\(topic)", first: first, stride: step, count: count)
        first = (first + count * step) % devices
        left -= count
        return batch
    }

    private static func gcd(_ a: Int, _ b: Int) -> Int { b == 0 ? a : gcd(b, a % b) }
}

/// Sends to a condition over large topics, and the time until devices spread over all partitions have it.
///
/// The topics have equal sizes, and each draws its members by itself. The listening devices are subscribed to
/// the first two topics, for which the condition asks, and not to the last.
public struct ConditionLoad: Sendable {
    public var devices = 2_000_000
    public var membersEach = 1_000_000
    public var listeners = 256
    public var connections = 16
    public var seconds = 20.0
    public var onStage: @Sendable (LoadReport) -> Void = { _ in }

    public init() {}

    public func run(_ target: Target) throws -> LoadReport {
        let poller = try Poller()
        var fill = FillLoad()
        fill.devices = devices
        fill.topics = 5
        fill.subscriptions = 5 * membersEach
        fill.exponent = 0
        fill.prefix = "c\(MonotonicClock.now() / 1_000_000)x"
        fill.onStage = onStage
        let (registered, registering) = try Devices.register(devices, at: target, on: poller)
        onStage(registering)
        _ = try fill.subscribe(registered, target, poller: poller)
        let names = (0..<5).map { "\(fill.prefix)\($0)" }
        // The listeners are further devices, so that their subscriptions are known.
        let (ears, _) = try Devices.register(listeners, at: target, on: poller)
        let batches = (0..<2).map { Batch(topic: names[$0], first: 0, count: min(listeners, 1000)) }
        _ = try Subscriber.run(batches, of: ears, at: target, on: poller)
        let atoms = names.map { "'\($0)' in topics" }
        let condition = "\(atoms[0]) && (\(atoms[1]) || \(atoms[2]) || \(atoms[3])) && !(\(atoms[4]))"
        let publisher = try Publisher(poller, target, topics: names, condition: condition, padding: 0)
        var load = FanoutLoad()
        load.name = "condition"
        load.connections = connections
        load.streams = listeners
        load.seconds = seconds
        let ways = StreamFleet.Streams(
            path: { target.listenPath(ears.tokens[$0]) }, credential: { ears.credentials[$0] })
        return try FanoutRun(load, target, poller: poller, publisher: publisher).run(ways)
    }
}
