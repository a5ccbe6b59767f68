/// Messages to topics, and their arrival on every stream that should get them.
///
/// In a closed loop `inFlight` messages are under way: the next one is sent when one is answered and has
/// reached all its streams. With `rate` messages are sent at that pace, whatever comes back. Message `n` goes
/// to topic `n % topics`. Each stream of the topic expects every number of its topic once and in order.
public struct FanoutLoad: Sendable {
    public var name = "fanout"
    public var connections = 100
    public var streams = 10_000
    public var topics = 1
    public var inFlight = 1
    /// Messages a second; nil for a closed loop.
    public var rate: Double?
    /// Bytes of filling in each message.
    public var padding = 0
    public var warmUpSeconds = 2.0
    public var seconds = 10.0

    public init() {}

    public func run(_ target: Target) throws -> LoadReport {
        guard streams % topics == 0, (1...FanoutRun.ring / 2).contains(inFlight) else {
            throw LoadError(
                "--streams must be a multiple of --topics, and --in-flight from 1 to \(FanoutRun.ring / 2)")
        }
        let poller = try Poller()
        let each = streams / topics
        // A new name for each run, because a topic keeps the devices of earlier runs.
        let prefix = "f\(MonotonicClock.now() / 1_000_000)x"
        let names = (0..<topics).map { "\(prefix)\($0)" }
        var ways = StreamFleet.Streams()
        switch target.kind {
        case .tidecast:
            let (devices, _) = try Devices.register(streams, at: target, on: poller)
            let size = Batch.devicesMax
            let batches = (0..<topics).lazy.flatMap { topic in
                stride(from: 0, to: each, by: size).lazy.map {
                    Batch(topic: names[topic], first: topic * each + $0, count: min(size, each - $0))
                }
            }
            let subscribed = try Subscriber.run(batches, of: devices, at: target, on: poller)
            guard subscribed.operations == streams else {
                throw LoadError("\(subscribed.operations) of \(streams) devices were subscribed")
            }
            ways.path = { target.listenPath(devices.tokens[$0]) }
            ways.credential = { devices.credentials[$0] }
        case .redis: ways.path = { names[$0 / each] }
        case .nchan, .nchanHTTP1: ways.path = { "/sub/\(names[$0 / each])" }
        case .plain: throw LoadError("this server has no streams")
        }
        let publisher = try Publisher(poller, target, topics: names, condition: nil, padding: padding)
        return try FanoutRun(self, target, poller: poller, publisher: publisher).run(ways)
    }
}

/// One run of a fan-out: the messages under way, and the deliveries that have come.
final class FanoutRun {
    static let ring = 8192
    private struct Flight {
        var number = -1
        var remaining = 0
        var isAnswered = false
        var began: UInt64 = 0
    }

    private let load: FanoutLoad
    private let target: Target
    private let poller: Poller
    private let publisher: Publisher
    private let fleet: StreamFleet
    private let each: Int
    private var flights = [Flight](repeating: Flight(), count: FanoutRun.ring)
    private var windows: [SequenceWindow]
    private var next = 0
    private var underWay = 0
    private var isOver = false
    private var isMeasured = false
    private var deliveries = 0
    private var duplicates = 0
    private var disordered = 0
    private var strange = 0
    private var refused = 0
    private var sent = 0
    private var toEach = Histogram()
    private var toLast = Histogram()
    private var toAnswer = Histogram()

    init(_ load: FanoutLoad, _ target: Target, poller: Poller, publisher: Publisher) {
        self.load = load
        self.target = target
        self.poller = poller
        self.publisher = publisher
        each = load.streams / load.topics
        fleet = StreamFleet(poller, target, streams: load.streams)
        windows = Array(repeating: SequenceWindow(from: 0), count: load.streams)
    }

    func run(_ ways: StreamFleet.Streams) throws -> LoadReport {
        fleet.onMessage = { [unowned self] in deliver($0, $1) }
        publisher.onAnswer = { [unowned self] in answer($0, isTaken: $1) }
        try fleet.open(0..<load.streams, over: load.connections, ways)
        poller.run(seconds: 1) { false }
        drive(load.warmUpSeconds)
        isMeasured = true
        sent = 0
        let bytesBefore = fleet.bytesRead
        let watch = Stopwatch(target.process)
        drive(load.seconds)
        isOver = true
        poller.run(seconds: 10) { underWay == 0 }
        var report = LoadReport(load.name, unit: "delivery")
        watch.read(into: &report)
        report.operations = deliveries
        report.statuses = publisher.statuses
        report.latencies = [
            ("send to delivery", toEach), ("send to last delivery", toLast), ("send to answer", toAnswer),
        ]
        var missing = 0
        for stream in windows.indices {
            let topic = stream / each
            missing += windows[stream].missing(below: (next - topic + load.topics - 1) / load.topics)
        }
        report.facts = [
            ("messages", Double(sent)), ("missing", Double(missing)), ("duplicates", Double(duplicates)),
            ("out of order", Double(disordered)), ("other events", Double(fleet.others + strange)),
            ("refused sends", Double(refused)), ("broken streams", Double(fleet.broken)),
            ("bytes a delivery", Double(fleet.bytesRead - bytesBefore) / Double(max(1, deliveries))),
        ]
        fleet.hangUp()
        publisher.hangUp()
        if deliveries == 0 { throw LoadError(publisher.firstRefusal ?? "nothing was delivered") }
        return report
    }

    private func drive(_ seconds: Double) {
        let began = MonotonicClock.now()
        let end = began + UInt64(seconds * 1e9)
        guard let rate = load.rate else {
            while underWay < load.inFlight { send() }
            poller.run(seconds: seconds) { false }
            return
        }
        var due = began
        while MonotonicClock.now() < end {
            while due <= MonotonicClock.now(), underWay < FanoutRun.ring / 2 {
                send()
                due += UInt64(1e9 / rate)
            }
            poller.turn(milliseconds: 1)
        }
    }

    private func send() {
        let index = next % FanoutRun.ring
        flights[index] = Flight(number: next, remaining: each, began: MonotonicClock.now())
        underWay += 1
        sent += 1
        next += 1
        publisher.publish(next - 1)
    }

    private func answer(_ number: Int, isTaken: Bool) {
        let index = number % FanoutRun.ring
        guard flights[index].number == number else { return }
        flights[index].isAnswered = true
        if isMeasured { toAnswer.record(poller.now - flights[index].began) }
        if !isTaken {
            refused += 1
            flights[index].remaining = 0
        }
        endIfDone(index)
    }

    private func deliver(_ stream: Int, _ number: Int) {
        guard number >= 0, number < next, number % load.topics == stream / each else {
            strange += 1
            return
        }
        switch windows[stream].note(number / load.topics) {
        case .duplicate:
            duplicates += 1
            return
        case .inOrder: break
        case .early, .late, .jump: disordered += 1
        }
        let index = number % FanoutRun.ring
        guard flights[index].number == number else { return }
        if isMeasured {
            deliveries += 1
            toEach.record(poller.now - flights[index].began)
        }
        flights[index].remaining -= 1
        endIfDone(index)
    }

    private func endIfDone(_ index: Int) {
        guard flights[index].remaining <= 0, flights[index].isAnswered else { return }
        if isMeasured, flights[index].remaining == 0 { toLast.record(poller.now - flights[index].began) }
        flights[index].number = -1
        underWay -= 1
        // After 1,000 refusals the loop sends no more, because it would only count refusals.
        if load.rate == nil, !isOver, refused < 1000 { send() }
    }
}
