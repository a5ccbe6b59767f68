import CEpoll
import Glibc

/// One request of `batchAdd`: a topic, and the devices `first`, `first + stride`, … (modulo all devices).
struct Batch {
    static let devicesMax = 1000
    var topic: String
    var first: Int
    var stride = 1
    var count: Int
}

/// Subscribes by `batchAdd` of at most 1,000 tokens each, with many requests under way.
final class Subscriber: RequestSource {
    private let head: RequestHead
    private let devices: Devices
    private var batches: any IteratorProtocol<Batch>
    private var sizes: [Int]
    /// Subscriptions that the server acknowledged, and subscriptions that it refused one by one.
    private(set) var made = 0
    private(set) var refused = 0
    private(set) var requests = 0
    private(set) var firstError: String?

    private init(_ target: Target, _ devices: Devices, batches: any IteratorProtocol<Batch>, slots: Int) {
        head = target.batchAddHead
        self.devices = devices
        self.batches = batches
        sizes = Array(repeating: 0, count: slots)
    }

    /// Runs to the end of the batches; the report's operations are acknowledged subscriptions.
    static func run(
        _ batches: some Sequence<Batch>, of devices: Devices, at target: Target, on poller: Poller,
        connections: Int = 16, streams: Int = 8
    ) throws -> LoadReport {
        let subscriber = Subscriber(
            target, devices, batches: batches.makeIterator(), slots: connections * streams)
        let pump = try RequestPump(
            poller, to: target.address, connections: connections, streams: streams, keepsBodies: true,
            source: subscriber)
        let watch = Stopwatch(target.process)
        pump.start()
        let isDone = poller.run(seconds: 3600) { pump.active == 0 }
        var report = LoadReport("subscribe", unit: "subscription")
        watch.read(into: &report)
        pump.hangUp()
        report.operations = subscriber.made
        report.statuses = pump.statuses
        report.latencies = [("answer to a batch", pump.latency)]
        report.facts = [
            ("requests", Double(subscriber.requests)), ("refused tokens", Double(subscriber.refused)),
        ]
        guard isDone, subscriber.made > 0 else {
            throw LoadError(pump.firstRefusal ?? subscriber.firstError ?? "no subscription was made")
        }
        return report
    }

    func next(_ index: Int) -> (head: RequestHead, body: [UInt8])? {
        guard let batch = batches.next() else { return nil }
        sizes[index] = batch.count
        requests += 1
        var body: [UInt8] = []
        body.reserveCapacity(64 + batch.count * 64)
        body.append(contentsOf: "{\"to\":\"/topics/\(batch.topic)\",\"registration_tokens\":[\"".utf8)
        var device = batch.first
        for index in 0..<batch.count {
            if index > 0 { body.append(contentsOf: [0x22, 0x2C, 0x22]) }
            devices.tokens.append(device, to: &body)
            device += batch.stride
            if device >= devices.tokens.count { device -= devices.tokens.count }
        }
        body.append(contentsOf: "\"]}".utf8)
        return (head, body)
    }

    func answered(_ index: Int, status: Int, body: [UInt8]) {
        guard status == 200 else { return }
        let errors = body.withUnsafeBytes { Subscriber.errors(in: $0) }
        if errors > 0, firstError == nil { firstError = String(decoding: body.prefix(300), as: UTF8.self) }
        made += sizes[index] - errors
        refused += errors
    }

    private static func errors(in bytes: UnsafeRawBufferPointer) -> Int {
        let mark: StaticString = "\"error\""
        guard let base = bytes.baseAddress else { return 0 }
        var count = 0
        var index = 0
        while let found = memmem(
            base + index, bytes.count - index, mark.utf8Start, mark.utf8CodeUnitCount)
        {
            count += 1
            index = UnsafeRawPointer(found) - base + mark.utf8CodeUnitCount
        }
        return count
    }
}

/// Measures subscribing: all devices to some topics, 1,000 devices of one topic in each batch.
public struct SubscribeLoad {
    public var devices = 100_000
    public var topics = 20
    public var connections = 16
    public var streams = 8

    public init() {}

    public func run(_ target: Target) throws -> LoadReport {
        if target.kind == .redis { return try RedisSets(self).run(target) }
        let poller = try Poller()
        let (registered, registering) = try Devices.register(devices, at: target, on: poller)
        let size = Batch.devicesMax
        // Devices of one request are far apart, as the tokens in a backend's own list are.
        let stride = SubscribeLoad.stride(devices)
        let batches = (0..<topics).lazy.flatMap { topic in
            Swift.stride(from: 0, to: devices, by: size).lazy.map { first in
                Batch(
                    topic: "subscribe-\(topic)", first: first * stride % devices, stride: stride,
                    count: min(size, devices - first))
            }
        }
        var report = try Subscriber.run(
            batches, of: registered, at: target, on: poller, connections: connections, streams: streams)
        report.facts.append(("registrations a second", registering.perSecond))
        if let each = registering.microsecondsEach { report.facts.append(("registration CPU µs", each)) }
        return report
    }

    /// A step that shares no factor with the count, so that the steps visit each device once.
    static func stride(_ count: Int) -> Int {
        var step = max(1, Int(Double(count) * 0.618))
        while gcd(step, count) != 1 { step += 1 }
        return step
    }

    private static func gcd(_ a: Int, _ b: Int) -> Int { b == 0 ? a : gcd(b, a % b) }
}

/// The same for redis: `SADD` of one member each, with 1,024 commands under way on each connection.
private final class RedisSets: RedisHandler {
    private static let window = 1024
    private let load: SubscribeLoad
    private var connections: [RedisConnection] = []
    private var next = 0
    private var done = 0
    private var errors = 0
    private var isLost = false

    init(_ load: SubscribeLoad) { self.load = load }

    private var total: Int { load.devices * load.topics }

    func run(_ target: Target) throws -> LoadReport {
        let poller = try Poller()
        for tag in 0..<load.connections {
            connections.append(try RedisConnection(poller, to: target.address, tag: tag, handler: self))
        }
        let watch = Stopwatch(target.process)
        for connection in connections {
            for _ in 0..<RedisSets.window { add(connection) }
        }
        let isDone = poller.run(seconds: 600) { done >= total || isLost }
        var report = LoadReport("subscribe", unit: "subscription")
        watch.read(into: &report)
        for connection in connections { connection.hangUp() }
        report.operations = done - errors
        report.facts = [("errors", Double(errors))]
        guard isDone, !isLost else { throw LoadError("redis answered only \(done) of \(total) commands") }
        return report
    }

    private func add(_ connection: RedisConnection) {
        guard next < total else { return }
        connection.command(["SADD", "topic-\(next / load.devices)", "device-\(next % load.devices)"])
        next += 1
    }

    func replied(_ tag: Int, payload: UnsafeRawBufferPointer?, isError: Bool, on connection: RedisConnection)
    {
        done += 1
        if isError { errors += 1 }
        add(connection)
    }

    func redisLost(_ tag: Int) { isLost = true }
}
